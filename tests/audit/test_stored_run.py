"""A run folder of an earlier version: it opens, and there is nothing to do.

`tests/stored` holds run folders as earlier versions left them (docs/results.md). If these tests
fail, a key has changed or the version of something was raised. A changed key is a mistake: every
stored run would be made again. A raised version is meant: name it in the changelog, and replace
the stored run by one of the last version before, made from the spec.toml in it:

    synthleak run spec.toml --out run && tar -C run -cJf tests/stored/run-VERSION.tar.xz .
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

import synthleak
from synthleak.audit.finished import open_finished, status
from synthleak.audit.verify import verify
from synthleak.cli.main import cli
from synthleak.core.errors import StoreError

STORED = sorted((Path(__file__).parents[1] / "stored").glob("run-*.tar.xz"))


@pytest.fixture(scope="module", params=STORED, ids=lambda path: path.name)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored") / "run"
    with tarfile.open(request.param) as archive:
        archive.extractall(folder, filter="data")
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_there_is_a_run_of_an_earlier_version() -> None:
    assert [path.name for path in STORED] == ["run-0.1.0.tar.xz"]


def test_a_stored_run_opens_with_what_it_found(stored: Path) -> None:
    assert status(stored).finished
    audit = open_finished(stored)
    summary = json.loads((stored / "results/summary.json").read_text(encoding="utf-8"))
    assert audit.headline.startswith(summary["headline"].partition(". ")[0])  # words may change
    assert audit.leak_found and len(audit.named) == 6
    assert verify(stored).verified


def test_a_stored_run_leaves_nothing_to_do(stored: Path) -> None:
    before = contents(stored)
    words = ["run", str(stored / "spec.toml"), "--out", str(stored), "--workers", "1"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0
    assert f"nothing to do: {stored} is up to date (2 cells)" in done.stderr
    assert contents(stored) == before
    assert verify(stored).verified


def test_a_sign_off_names_both_versions(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthleak, "__version__", "9.9.9")
    page = open_finished(stored).sign_off(tmp_path / "a.md").read_text(encoding="utf-8")
    made = stored / "manifest.json"
    by = json.loads(made.read_text(encoding="utf-8"))["synthleak"]
    assert f"made by synthleak {by} (this page by {synthleak.__version__})" in page
    assert hashlib.sha256(made.read_bytes()).hexdigest() in page


def test_a_run_of_a_later_version_is_refused(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthleak, "__version__", "0.0.9")
    with pytest.raises(StoreError, match="install that version or a later one"):
        open_finished(stored)
