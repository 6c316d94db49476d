"""A study in slices: releases made in one folder, statistics in another."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from support.scripts import SMALL_STUDY, script
from synthleak import run
from synthleak.core.runtime import Runtime


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spec") / "small.toml"
    path.write_text(SMALL_STUDY, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def archives(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the archives of all cells."""
    return made_elsewhere(spec, tmp_path_factory.mktemp("archives"))


@pytest.fixture(scope="module")
def home(spec: Path, archives: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run folder that took all cells and finished."""
    folder = tmp_path_factory.mktemp("finished") / "home"
    do("take", spec, "--run", folder, *archives)
    do("finish", spec, "--run", folder, "--workers", 1)
    return folder


def do(*words: object) -> None:
    script("slice").main([str(word) for word in words])


def made_elsewhere(spec: Path, folder: Path, *cells: str) -> list[Path]:
    """Make some cells as a second machine would, and return the archives."""
    do("prepare", spec, "--run", folder / "home", "--to", folder / "prepared")
    do(
        *("make", spec, "--run", folder / "away", "--prepared", folder / "prepared"),
        *("--pack", folder / "out", *cells),
    )
    return sorted((folder / "out").glob("*.releases.tar"))


def test_slices_give_the_results_of_a_whole_run(spec: Path, home: Path, tmp_path: Path) -> None:
    run(spec, tmp_path / "whole", runtime=Runtime(workers=1))
    for name in ("cells.csv", "proxies.csv", "records.csv"):
        whole, sliced = (folder / "results" / name for folder in (tmp_path / "whole", home))
        assert sliced.read_bytes() == whole.read_bytes()


def test_finish_takes_the_cells_that_were_made(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archives = made_elsewhere(spec, tmp_path, "--pools", "outlier", "--epsilon", "inf")
    do("take", spec, "--run", tmp_path / "home", *archives)
    with pytest.raises(SystemExit) as stopped:
        do("finish", spec, "--run", tmp_path / "home")
    assert stopped.value.code == 2
    assert "3 of the chosen cells are not made, e.g. outlier ngram 2" in capsys.readouterr().err
    chosen = ("--pools", "outlier", "--epsilon", "inf", "--workers", 1)
    do("finish", spec, "--run", tmp_path / "home", *chosen)
    rows = (tmp_path / "home" / "results" / "cells.csv").read_text().splitlines()[1:]
    assert {tuple(row.split(",")[1:4]) for row in rows} == {("outlier", "ngram", "inf")}


def test_a_pool_cannot_be_left_out_above_another(
    spec: Path, archives: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    do("take", spec, "--run", tmp_path / "home", *archives)
    with pytest.raises(SystemExit):
        do("finish", spec, "--run", tmp_path / "home", "--pools", "rand0")
    assert "from below only" in capsys.readouterr().err


def test_statistics_are_remade_without_texts(spec: Path, home: Path, tmp_path: Path) -> None:
    do("pack", spec, "--run", home, "--to", tmp_path / "packed")
    do("take", spec, "--run", tmp_path / "again", *(tmp_path / "packed").iterdir())
    do("finish", spec, "--run", tmp_path / "again", "--workers", 1)
    assert not (tmp_path / "again" / "store" / "text").exists()
    for file in (home / "results").iterdir():
        assert (tmp_path / "again" / "results" / file.name).read_bytes() == file.read_bytes()


def test_make_skips_what_was_made_before(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ("--pools", "outlier", "--epsilon", "inf")
    do("take", spec, "--run", tmp_path / "home", *made_elsewhere(spec, tmp_path, *chosen))
    shutil.rmtree(tmp_path / "away")
    capsys.readouterr()
    made_elsewhere(spec, tmp_path)
    said = capsys.readouterr().out
    assert "outlier ngram inf:" not in said and "outlier ngram 2:" in said


def test_make_begins_nothing_that_does_not_fit(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_elsewhere(spec, tmp_path, "--minutes", "1", "--expect", "6000")
    assert "stopped before outlier ngram inf" in capsys.readouterr().out
    assert not list((tmp_path / "out").iterdir())


def test_make_refuses_other_keys_than_prepared(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    do("prepare", spec, "--run", tmp_path / "home", "--to", tmp_path / "prepared")
    path = tmp_path / "prepared" / "keys.json"
    keys = json.loads(path.read_text())
    keys["cells"]["rand0 ngram 2"] = "another"
    path.write_text(json.dumps(keys))
    with pytest.raises(SystemExit):
        do("make", spec, "--run", tmp_path / "away", "--prepared", tmp_path / "prepared")
    assert "rand0 ngram 2 have other keys here" in capsys.readouterr().err
    assert not (tmp_path / "away" / "store" / "text").exists()


def test_take_refuses_a_damaged_archive(
    spec: Path, archives: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "damaged.releases.tar"
    archive.write_bytes(archives[0].read_bytes()[:9000])
    with pytest.raises(SystemExit):
        do("take", spec, "--run", tmp_path / "home", archive)
    assert "the archive cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "home" / "store" / "text").exists()


def test_take_leaves_releases_of_other_specs_out(
    spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archives = made_elsewhere(spec, tmp_path, "--pools", "outlier")
    other = tmp_path / "other.toml"
    other.write_text(SMALL_STUDY.replace("seed = 3", "seed = 4"), encoding="utf-8")
    capsys.readouterr()
    do("take", other, "--run", tmp_path / "elsewhere", *archives)
    assert "0 new, 0 kept, 40 left out" in capsys.readouterr().out
    assert not (tmp_path / "elsewhere" / "store" / "release").exists()


def test_volumes_stay_small(
    spec: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(script("slice"), "VOLUME", 20_000)
    archives = made_elsewhere(spec, tmp_path)
    assert len(archives) > 1
    do("take", spec, "--run", tmp_path / "home", *archives)
    assert capsys.readouterr().out.count("10 of 10") == 4
