"""Runs that are kept in a repository: small, without texts, and good for tables and report."""

from __future__ import annotations

import lzma
import shutil
import tarfile
from pathlib import Path

import pytest

from support.command_line import synthleak
from support.scripts import SMALL_STUDY, script
from synthleak import open_run, run
from synthleak.analyses import analyses
from synthleak.analyses.consistency import signals_read
from synthleak.audit.finished import open_finished, status, write_report
from synthleak.core.errors import Damaged
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
        if path.name != "summary.json":  # which says when it was written, and what scores are for
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
    assert {"pool", "plan", "release"} <= kinds
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
    with tarfile.open(tmp_path / "canaries.tar.xz") as file:
        assert not [name for name in file.getnames() if name.endswith(".npy")]  # all their ranks
    texts = [record.text for record in open_run(made).setup.corpus.written]
    assert len(texts) == 8 and not any(text.encode() in data for text in texts)
    do("--specs", tmp_path, "restore", tmp_path / "canaries.tar.xz", "--run", again)
    assert open_finished(again).cells == open_finished(made).cells


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where runs of two generators lie, and the specs of both."""
    folder = tmp_path_factory.mktemp("two")
    longer = SMALL_STUDY.replace("instances = 6", "instances = 16")
    longer = longer.replace('["bigram_logprob"]', '["bigram_logprob", "cos"]')
    for kind in ("ngram", "echo"):
        spec = folder / f"{kind}.toml"
        spec.write_text(longer.replace('"ngram"', f'"{kind}"').replace("[inf, 2]", "[inf]"))
        run(spec, folder / kind, runtime=Runtime(workers=1))
    synthleak("analyse", folder / "ngram", "--only", "meta", cwd=folder)
    return folder


def restored(folder: Path, kept: Path, *kinds: str) -> list[Path]:
    for kind in kinds:
        archive, again = kept / f"{kind}.tar.xz", kept / "again" / kind
        do("--specs", folder, "restore", archive, "--run", again)
    return [kept / "again" / kind for kind in kinds]


def test_all_tables_of_joined_runs_are_made_again_from_their_archives(
    two: Path, tmp_path: Path
) -> None:
    kinds = ("ngram", "echo")
    first = synthleak("tables", *(two / kind for kind in kinds), cwd=two)
    assert "## cross generator" in first.stdout and "## meta" in first.stdout
    do("--specs", two, "keep", *(two / kind for kind in kinds), "--to", tmp_path)
    folders = restored(two, tmp_path, *kinds)
    second = synthleak("tables", *folders, cwd=tmp_path)
    assert (second.returncode, second.stdout) == (0, first.stdout)
    drawn = synthleak("figures", *folders, "--only", "budgets", cwd=tmp_path)
    assert drawn.returncode == 0 and (folders[0] / "figures/budgets.svg").is_file()


def test_ranks_that_were_left_out_are_never_read(two: Path, tmp_path: Path) -> None:
    """An archive has the ranks of few proxies. An analysis of all of them says what it needs."""
    do("--specs", two, "keep", two / "echo", "--to", tmp_path)
    (echo,) = restored(two, tmp_path, "echo")
    study = open_finished(echo).study
    cell = study.cell_data[0]
    kept = signals_read(study)[cell.cell]
    assert 1 <= len(kept) <= len(cell.scenarios) < len(cell.signals)
    assert (cell.scores(kept) == open_finished(two / "echo").study.cell_data[0].scores(kept)).all()
    with pytest.raises(Damaged):
        cell.scores()
    said = analyses.get("proxy_correlations").plugin.outcome_if_kept(study).unavailable
    assert said is not None and "needs evidence/" in said and "run the audit again" in said


def test_runs_that_hold_the_same_cell_are_kept_apart(
    two: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are no single study; runs of `lone` and of `cohort` are such."""
    other = tmp_path / "ngram+b"
    shutil.copytree(two / "ngram", other)
    with pytest.raises(SystemExit) as ended:
        do("--specs", two, "keep", two / "ngram", other, "--to", tmp_path / "kept")
    assert ended.value.code == 2 and "is also in" in capsys.readouterr().err
    assert not (tmp_path / "kept").exists()


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
