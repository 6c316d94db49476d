"""Runs that are kept in a repository: small, without texts, and good for tables and report."""

from __future__ import annotations

import lzma
import tarfile
from pathlib import Path

import pytest

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
