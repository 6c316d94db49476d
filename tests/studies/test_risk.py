"""Risk of records regressed on attributes: what is fitted, and what is stored."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from support.scripts import PAPER, script


def test_a_coefficient_is_what_an_attribute_adds_to_the_others() -> None:
    rng = np.random.default_rng(3)
    length = rng.normal(size=2000)
    echo = length + rng.normal(size=2000)
    risk = -length + 0.2 * rng.normal(size=2000)
    coefficients, errors, r2 = script("risk").fitted(
        np.exp(risk), np.column_stack([length, echo, rng.normal(size=2000)])
    )
    assert coefficients == pytest.approx([-0.98, 0, 0], abs=0.03)
    assert abs(coefficients[1]) < 4 * errors[1] and r2 > 0.9


def test_the_stored_page_shows_the_stored_rows() -> None:
    risk = script("risk")
    with (PAPER / "results/risk.csv").open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    numbers = ("epsilon", "r2", "coefficient", "low", "high", "p_value", "p_holm")
    rows = [risk.Row(**{k: float(v) if k in numbers else v for k, v in r.items()}) for r in read]
    page = "\n".join(risk.page(rows)) + "\n"
    assert page == (PAPER / "results/risk.md").read_text(encoding="utf-8")
    findings = (PAPER / "findings.md").read_text(encoding="utf-8")
    for line in page.splitlines()[2:]:
        _, entries = line.split("| AUC |") if "| AUC |" in line else ("", "")
        assert entries in findings
