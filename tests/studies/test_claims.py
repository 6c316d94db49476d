"""The table of claims is what stored tables give, and findings.md shows it."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from support.scripts import PAPER, script
from synthleak.metrics.membership import Assignment, ranks_of, round_measurements


def test_findings_show_what_stored_tables_give(tmp_path: Path) -> None:
    script("claims").main(["--to", str(tmp_path)])
    for name in ("claims.csv", "claims.md"):
        made = (tmp_path / name).read_text(encoding="utf-8")
        assert made == (PAPER / "results" / name).read_text(encoding="utf-8")
    assert made in (PAPER / "findings.md").read_text(encoding="utf-8")


def test_every_claim_has_a_section_and_a_verdict() -> None:
    text = (PAPER / "findings.md").read_text(encoding="utf-8")
    with (PAPER / "results/claims.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for number, title in enumerate(script("claims").CLAIMS, start=1):
        assert f"\n## {number}. {title}\n" in text
        of_claim = [row for row in rows if row["claim"] == str(number)]
        assert of_claim and all(all(row.values()) for row in of_claim)


def test_auc_by_round_is_that_of_the_tables() -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(0, 9, (12, 5, 7)).astype(float)
    members = np.array([3, 12, 31])
    others = rng.choice(np.setdiff1d(np.arange(60), members), (6, 9))
    assignment = Assignment(members, others)
    measured = round_measurements(values, assignment)
    aucs = script("chance").by_round(ranks_of(values.reshape(60, 7)), assignment)
    assert aucs.mean(axis=1) == pytest.approx(measured.auc)
    spread = 1.96 * aucs.std(axis=1, ddof=1) / 6**0.5
    assert spread == pytest.approx(measured.auc_spread)


def test_gap_is_that_of_the_printed_table() -> None:
    """Selected less controls, chosen over all draws together, with errors of rounds and draws."""
    chance = script("chance")
    rng = np.random.default_rng(5)
    tosses = [
        chance.Toss(rng.uniform(0.4, 0.6, 8), rng.uniform(0.004, 0.008, 8), {}, 0.5, 0.5, 0.4)
        for _ in range(4)
    ]
    group = np.arange(2, 7)
    ((gap, spread),) = chance.gaps(tosses[:1], [[toss] for toss in tosses[1:]], group)
    aucs = np.array([toss.auc[group] for toss in tosses])
    best = int(aucs[1:].mean(axis=0).argmax())
    assert gap == pytest.approx(aucs[0].max() - aucs[1:, best].mean())
    own = tosses[0].error[group][aucs[0].argmax()]
    errors = np.array([toss.error[group][best] for toss in tosses[1:]])
    other = ((50 * errors**2).mean() + aucs[1:, best].var()) / 150
    assert spread == pytest.approx(1.96 * (own**2 + other) ** 0.5)


@pytest.mark.parametrize("folder", ["tables", "tables-cohort", "second/tables"])
def test_the_stored_document_has_every_stored_table(folder: str) -> None:
    stored = PAPER / "results" / folder
    names = {path.stem for path in stored.glob("*.csv")}
    text = (stored / "tables.tex").read_text(encoding="utf-8")
    assert {name for name in names if f"\\input{{{name}}}" in text} == names
