"""Cells that were made twice: what moved, and how far V(x) agrees."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from support.scripts import SMALL_STUDY, script
from synthleak import run
from synthleak.core.runtime import Runtime


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run."""
    folder = tmp_path_factory.mktemp("first")
    (folder / "small.toml").write_text(SMALL_STUDY, encoding="utf-8")
    run(folder / "small.toml", folder / "small", runtime=Runtime(workers=1))
    return folder / "small"


def twice(*words: object) -> None:
    script("slice")  # which it imports
    script("twice").main([str(word) for word in words])


def test_a_copy_is_the_same_in_every_column(first: Path, tmp_path: Path) -> None:
    shutil.copytree(first, tmp_path / "small")
    twice(first, "--again", tmp_path / "small", "--to", tmp_path / "out/twice.csv")
    with (tmp_path / "out/twice.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 3 and {row["run"] for row in rows} == {"small"}
    for row in rows:
        assert row["auc"] == row["auc_again"] and row["p_cell"] == row["p_cell_again"]
        assert row["verdict"] == row["verdict_again"]
        assert row["same_releases"] == row["releases"] == "10"
    assert {row["rho"] for row in rows if row["rho"]} <= {"1.0", "0.9999999999999999"}


def test_only_cells_of_both_makings_are_compared(first: Path, tmp_path: Path) -> None:
    again = tmp_path / "small"
    shutil.copytree(first, again)
    words = ("finish", first.parent / "small.toml", "--run", again, "--epsilon", 2, "--workers", 1)
    script("slice").main([str(word) for word in words])
    twice(first, "--again", again, "--to", tmp_path / "twice.csv")
    with (tmp_path / "twice.csv").open(encoding="utf-8", newline="") as file:
        assert {row["epsilon"] for row in csv.DictReader(file)} == {"2.0"}


def test_other_pools_are_refused(
    first: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "small.toml"
    spec.write_text(SMALL_STUDY.replace("seed = 3", "seed = 4"), encoding="utf-8")
    run(spec, tmp_path / "small", runtime=Runtime(workers=1))
    for again, why in ((tmp_path / "small", "pools differ"), (tmp_path / "x", "no run of that")):
        with pytest.raises(SystemExit) as ended:
            twice(first, "--again", again, "--to", tmp_path / "twice.csv")
        assert ended.value.code == 2 and why in capsys.readouterr().err
    assert not (tmp_path / "twice.csv").exists()


def test_correlation_is_of_the_records_that_both_know() -> None:
    correlation = script("twice").correlation
    one = np.array([0.1, np.nan, 0.3, 0.2, 0.9])
    two = np.array([5.0, 1.0, 7.0, 6.0, np.nan])
    assert correlation(one, two) == pytest.approx(1)
    assert correlation(one, -two) == pytest.approx(-1)
    assert correlation(one, np.full(5, np.nan)) is None
