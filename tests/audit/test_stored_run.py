"""A run folder of an earlier version: it opens, and nothing in its store is made again.

`tests/stored` holds run folders as earlier versions left them (docs/results.md). Columns may be
added, and empty ones filled: results are then written again, and every column in which a stored run
has a value must stay as it is.
Statistics of the verdict may be added too: measurements are then made again, and estimates must
stay. If these tests fail otherwise, a key has changed or the version of something was raised. A
changed key is a mistake: every stored run would be made again. A raised version is meant: name it
in the changelog, and replace the stored run by one of the last version before, made from the
spec.toml in it:

    synthleak run spec.toml --out run && tar -C run -cJf tests/stored/run-VERSION.tar.xz .
"""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import synthleak
from synthleak.audit.finished import open_finished, status
from synthleak.audit.verify import verify
from synthleak.cli.main import cli
from synthleak.core.errors import StoreError
from synthleak.metrics.verdict_statistics import STATISTICS_VERSION

STORED = sorted((Path(__file__).parents[1] / "stored").glob("run-*.tar.xz"))
STORED_STATISTICS = 1
"""The `STATISTICS_VERSION` of the stored runs."""
Column = tuple[str, ...]


@pytest.fixture(scope="module", params=STORED, ids=lambda path: path.name)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored") / "run"
    with tarfile.open(request.param) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def run_again(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("again") / "run"
    shutil.copytree(stored, folder)
    assert run(folder).exit_code == 0
    return folder


def run(folder: Path) -> Result:
    words = ["run", str(folder / "spec.toml"), "--out", str(folder), "--workers", "1"]
    return CliRunner().invoke(cli, words)


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def columns_of(path: Path) -> dict[str, Column]:
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    return {name: tuple(row[place] for row in rows) for place, name in enumerate(header)}


def are_estimates(table: str, column: str) -> bool:
    """Whether no redraw enters a column: these change with the statistics of the verdict."""
    return table == "proxies.csv" and not column.endswith("_ceiling")


def test_there_is_a_run_of_an_earlier_version() -> None:
    assert [path.name for path in STORED] == ["run-0.1.0.tar.xz"]


def test_a_stored_run_keeps_every_column_it_has(stored: Path, run_again: Path) -> None:
    tables = sorted((stored / "results").glob("*.csv"))
    assert {"cells.csv", "proxies.csv", "records.csv"} <= {path.name for path in tables}
    for path in tables:
        before, after = columns_of(path), columns_of(run_again / "results" / path.name)
        assert [name for name in after if name in before] == list(before)
        for name, values in before.items():
            kept = STATISTICS_VERSION == STORED_STATISTICS or are_estimates(path.name, name)
            if kept and any(values):
                assert after[name] == values, f"{path.name}, {name}"


def test_a_stored_run_keeps_what_was_made(stored: Path, run_again: Path) -> None:
    before, after = contents(stored / "store"), contents(run_again / "store")
    assert before.items() <= after.items()
    new_kinds = {name.partition("/")[0] for name in after.keys() - before.keys()}
    raised = STATISTICS_VERSION != STORED_STATISTICS
    # Copies and disclosures are figures that 0.1.0 did not make.
    assert new_kinds <= ({"figures", "prior-figures", "curves"} if raised else {"figures"})


def test_a_stored_run_opens_with_what_it_found(stored: Path, run_again: Path) -> None:
    assert status(run_again).finished
    audit = open_finished(run_again)
    summary = json.loads((stored / "results/summary.json").read_text(encoding="utf-8"))
    found = json.loads((run_again / "results/summary.json").read_text(encoding="utf-8"))
    figures = re.compile(r"p = [^)]*\)|AUC [0-9.]+")  # words may change
    for old, new in zip(summary["cells"], found["cells"], strict=True):
        assert figures.findall(old["verdict"]) == figures.findall(new["verdict"])
    assert audit.leak_found and len(audit.named) == 6
    assert verify(run_again).verified


def test_a_stored_run_leaves_nothing_to_do(run_again: Path) -> None:
    before = contents(run_again)
    done = run(run_again)
    assert done.exit_code == 0
    assert f"nothing to do: {run_again} is up to date (2 cells)" in done.stderr
    assert contents(run_again) == before
    assert verify(run_again).verified


def test_a_sign_off_names_both_versions(
    run_again: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synthleak, "__version__", "9.9.9")
    page = open_finished(run_again).sign_off(tmp_path / "a.md").read_text(encoding="utf-8")
    made = run_again / "manifest.json"
    by = json.loads(made.read_text(encoding="utf-8"))["synthleak"]
    assert f"made by synthleak {by} (this page by {synthleak.__version__})" in page
    assert hashlib.sha256(made.read_bytes()).hexdigest() in page


def test_a_run_of_a_later_version_is_refused(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthleak, "__version__", "0.0.9")
    with pytest.raises(StoreError, match="install that version or a later one"):
        open_finished(stored)
