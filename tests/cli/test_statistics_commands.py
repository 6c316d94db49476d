"""plan power, run --fail-if and a cohort on the command line."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from support.command_line import assert_one_line_mistake, synthleak
from support.specs import tiny_spec
from synthleak.core.spec import dump_toml


@pytest.fixture(scope="module")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished cohort of an echo, with its spec."""
    folder = tmp_path_factory.mktemp("cohort")
    spec = tiny_spec(
        corpus={"reader": "demo", "size": 200},
        pool=[{"name": "random", "rule": "random", "size": 8, "draws": 1}],
        game={"design": "cohort", "instances": 12, "records": 40},
        generator=[{"kind": "echo", "p": 1.0}],
        evidence={"families": ["char_overlap"]},
    )
    (folder / "audit.toml").write_text(dump_toml(spec), encoding="utf-8")
    done = synthleak("run", "audit.toml", "--out", "run", "--workers", 1, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "leak found" in done.stdout
    assert "of 8 private records tested, 8 can be recognised as having been used" in done.stdout
    return folder


def test_cohort_writes_records_and_chance_limits(cohort: Path) -> None:
    with (cohort / "run/results/records.csv").open(encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    assert len(records) == 8 and {float(row["auc"]) for row in records} == {1.0}
    with (cohort / "run/results/cells.csv").open(encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    assert [row["scenario"] for row in cells] == ["S1", "S2", "S3"]
    for row in cells:
        assert (row["design"], row["verdict"], row["epsilon_claim"]) == (
            "cohort",
            "leak found",
            "inf",
        )
        assert float(row["crossfit_auc"]) == 1.0 > float(row["null_crossfit95"])
        assert float(row["epsilon_lower"]) > 0.5
    page = (cohort / "run/report.html").read_text(encoding="utf-8")
    assert "not the paper's game" in page or "not the paper&#39;s game" in page
    assert (
        "leak found" in page and "safe" not in page.partition("<body>")[2].partition("<script")[0]
    )


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("p_holm < 0.01 and crossfit_tpr > 0.1", 1),
        ("p_holm >= 0.01 or crossfit_tpr < 0.1", 0),
        ("p_holn < 0.01", 2),
    ],
)
def test_gate_exits_1_if_its_condition_holds(cohort: Path, condition: str, code: int) -> None:
    done = synthleak("run", "audit.toml", "--out", "run", "-q", "--fail-if", condition, cwd=cohort)
    assert done.returncode == code
    assert done.stdout == ""
    if code == 1:
        (first, *_) = done.stderr.splitlines()
        start, _, why = first.partition(", S1: ")
        assert start == "synthleak: --fail-if holds in echo without privacy, pool random"
        assert re.fullmatch(r"p_holm = [\d.e-]+ < 0.01; crossfit_tpr = [\d.]+ > 0.1: fails", why)
    if code == 2:
        assert_one_line_mistake(done, "--fail-if: ", "'p_holm'")


def test_plan_power_finds_planted_leaks(cohort: Path) -> None:
    done = synthleak("plan", "power", "audit.toml", "--auc", "0.8", "--json", cwd=cohort)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["design"] == "cohort" and row["signals"] == 12
    assert 0.5 < row["chance limit"] < row["smallest AUC"] < 1
    assert 0.6 < row["planted and found"] <= 1
    assert 0 < row["smallest share copied"] <= 1
    assert row["largest ε"] > 0
    assert row["instances for 0.8"] >= 4
    table = synthleak("plan", "power", "audit.toml", cwd=cohort)
    assert "smallest AUC" in table.stdout and "Nothing was generated" in table.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--auc", "0.4"), "--auc: auc = 0.4; "),
        (("--power", "1"), "--power: power = 1; "),
    ],
)
def test_power_refuses_impossible_values(
    cohort: Path, words: tuple[str, ...], expected: str
) -> None:
    done = synthleak("plan", "power", "audit.toml", *words, cwd=cohort)
    assert_one_line_mistake(done, expected)
