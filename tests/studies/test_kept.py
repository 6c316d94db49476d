"""Runs that are kept in a repository: small, without texts, and good for tables and report."""

from __future__ import annotations

import lzma
import tarfile
from pathlib import Path

import pytest

from support.command_line import synthleak
from support.scripts import SMALL_STUDY, script
from synthleak import open_run, run
from synthleak.audit.run import write_report
from synthleak.audit.status import open_finished, status
from synthleak.core.runtime import Runtime


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("specs")
    (folder / "small.toml").write_text(SMALL_STUDY, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def small(specs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run."""
    folder = tmp_path_factory.mktemp("runs") / "small"
    run(specs / "small.toml", folder, runtime=Runtime(workers=1))
    return folder


@pytest.fixture(scope="module")
def archive(specs: Path, small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kept")
    do("--specs", specs, "keep", small, "--to", folder)
    return folder / "small.tar.xz"


def do(*words: object) -> None:
    script("slice")  # which it imports
    script("kept").main([str(word) for word in words])


def test_tables_and_report_are_made_again_from_an_archive(
    specs: Path, small: Path, archive: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again"
    do("--specs", specs, "restore", archive, "--run", again)
    assert not (again / "store/evidence").exists() and not (again / "store/text").exists()
    for path in (small / "results").iterdir():
        assert (again / "results" / path.name).read_bytes() == path.read_bytes()
    assert status(again).finished
    first, second = (open_finished(folder).cells for folder in (small, again))
    assert first == second
    write_report(again)
    assert open_run(again).leak_found == open_run(small).leak_found


def test_an_archive_holds_no_text(small: Path, archive: Path) -> None:
    data = lzma.decompress(archive.read_bytes())
    texts = [record.text for record in open_run(small).setup.corpus.records]
    assert len(texts) > 100 and not any(text.encode() in data for text in texts)
    with tarfile.open(archive) as file:
        kinds = {name.split("/")[1] for name in file.getnames() if name.startswith("store/")}
    assert {"pool", "plan", "release", "figures"} <= kinds
    assert not kinds & {"text", "evidence", "vectors"}


def test_a_kept_run_may_hold_some_cells_of_its_spec(specs: Path, tmp_path: Path) -> None:
    made, again = tmp_path / "small+eps2", tmp_path / "again"
    words = ("finish", specs / "small.toml", "--run", made, "--epsilon", 2, "--workers", 1)
    run(specs / "small.toml", made, runtime=Runtime(workers=1))
    script("slice").main([str(word) for word in words])
    do("--specs", specs, "keep", made, "--to", tmp_path)
    do("--specs", specs, "restore", tmp_path / "small+eps2.tar.xz", "--run", again)
    assert {row.epsilon for row in open_finished(again).cells} == {2.0}
    assert {row["run"] for row in script("results").rows_of(made, "cells")} == {"small"}


def test_canaries_are_kept_without_their_words(tmp_path: Path) -> None:
    spec, made, again = (tmp_path / name for name in ("canaries.toml", "canaries", "again"))
    rest = SMALL_STUDY.partition("[game]")
    pool = '[[pool]]\nname = "canary"\nrule = "canary"\nsize = 8\n'
    spec.write_text(rest[0].partition("[[pool]]")[0] + pool + rest[1] + rest[2], encoding="utf-8")
    run(spec, made, runtime=Runtime(workers=1))
    do("--specs", tmp_path, "keep", made, "--to", tmp_path)
    data = lzma.decompress((tmp_path / "canaries.tar.xz").read_bytes())
    texts = [record.text for record in open_run(made).setup.corpus.written]
    assert len(texts) == 8 and not any(text.encode() in data for text in texts)
    do("--specs", tmp_path, "restore", tmp_path / "canaries.tar.xz", "--run", again)
    assert open_finished(again).cells == open_finished(made).cells


def test_tables_and_figures_join_kept_runs(tmp_path: Path) -> None:
    longer = SMALL_STUDY.replace("instances = 6", "instances = 16")
    for kind in ("ngram", "echo"):
        spec = tmp_path / f"{kind}.toml"
        spec.write_text(longer.replace('"ngram"', f'"{kind}"').replace("[inf, 2]", "[inf]"))
        run(spec, tmp_path / kind, runtime=Runtime(workers=1))
    do("--specs", tmp_path, "keep", tmp_path / "ngram", "--to", tmp_path)
    do("--specs", tmp_path, "restore", tmp_path / "ngram.tar.xz", "--run", tmp_path / "again")
    folders = [tmp_path / "again", tmp_path / "echo"]
    shown = synthleak("tables", *folders, cwd=tmp_path)
    assert shown.returncode == 0 and "## main" in shown.stdout
    said = [line for line in shown.stderr.splitlines() if line.startswith("cross_generator")]
    assert len(said) == 1 and "needs evidence/" in said[0] and "run the audit again" in said[0]
    drawn = synthleak("figures", *folders, "--only", "budgets", cwd=tmp_path)
    assert drawn.returncode == 0 and (folders[0] / "figures/budgets.svg").is_file()


def test_an_archive_of_another_corpus_is_refused(
    specs: Path, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "small.toml"
    other.write_text(SMALL_STUDY.replace("size = 160", "size = 170"), encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        do("--specs", tmp_path, "restore", archive, "--run", tmp_path / "again")
    assert ended.value.code == 2 and not (tmp_path / "again").exists()
    assert "made from another corpus" in capsys.readouterr().err


def test_what_is_no_archive_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.tar.xz"
    path.write_bytes(b"x")
    with pytest.raises(SystemExit) as ended:
        do("restore", path, "--run", tmp_path / "again")
    assert ended.value.code == 2 and "cannot be read" in capsys.readouterr().err


def test_an_unfinished_run_is_not_kept(
    specs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("prepare", specs / "small.toml", "--run", tmp_path / "small", "--to", tmp_path / "to")
    script("slice").main([str(word) for word in words])
    with pytest.raises(SystemExit) as ended:
        do("--specs", specs, "keep", tmp_path / "small", "--to", tmp_path / "kept")
    assert ended.value.code == 2 and "not finished" in capsys.readouterr().err
