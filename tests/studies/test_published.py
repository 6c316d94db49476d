"""The paper's figures, as extracted: complete, well-formed and consistent with each other."""

from __future__ import annotations

import csv
import math
from collections import Counter

import pytest

from support.scripts import PAPER, script

CELLS = {
    "tab:datasets": 10 * 4,
    "tab:subgroups": 4 + 3 + 4,
    "tab:main_dpgen": 4 * 3 * 5 * 2,
    "tab:main_augpe": 4 * 3 * 5 * 2,
    "tab:main_epsvec": 4 * 3 * 5 * 2,
    "tab:main_rare": 3 * 3 * 6 * 2,
    "tab:overall_main_dptransformers": 4 * 3 * 5 * 2,
    "tab:overall_main_EPSVec": 4 * 3 * 5 * 2,
    "tab:overall_main_augpe": 4 * 3 * 5 * 2,
    "tab:overall_main_rare": 2 * 3 * 3 * 3 * 2,
    "tab:baselines-main": (12 + 6) * 2 * 7,
    "tab:baselines-outlier-rest": 12 * 3 * 7,
    "tab:baselines-rare-e4": 6 * 7,
    "tab:control-dpgen-or": 2 * 6 * 10,
    "tab:union-scoreboard": 4 * 3,
    "tab:meta-outlier": 4 * 3 * 5 * 3,
    "tab:meta-outlier-epsvec": 4 * 3 * 5 * 3,
    "tab:meta-outlier-augpe": 4 * 3 * 5 * 3,
    "tab:meta-rare": 2 * 3 * 3 * 3 * 3,
    "tab:v-distribution-appendix": 12 * (1 + 5 * 2),
    "tab:attributes": 5 * 8 + 5 * 8 + 5 * 4,
    "tab:selection-robustness": 2 * (4 * 7 + 3),
    "tab:combined-by-rule": 2 * 5 * 4 * 2,
    "tab:cross-generator": 16 + 16 + 4 + 2,
}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    with (PAPER / "published.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_cell_of_every_table_is_there_once(rows: list[dict[str, str]]) -> None:
    counts = Counter(row["table"] for row in rows)
    assert {table: count for table, count in counts.items() if table != "text"} == CELLS
    names = ("table", "corpus", "pool", "generator", "epsilon", "scenario", "item", "column")
    assert max(Counter(tuple(row[name] for name in names) for row in rows).values()) == 1


def test_values_are_numbers_inside_their_intervals(rows: list[dict[str, str]]) -> None:
    for row in rows:
        value = float(row["value"])
        assert math.isfinite(value) and row["printed"]
        if row["column"] in ("auc", "tpr", "s10", "positive_share"):
            assert 0 <= value <= 1
        if row["low"]:
            assert float(row["low"]) - 0.006 <= value <= float(row["high"]) + 0.006


def test_a_shaded_cell_is_read_like_any_other() -> None:
    tables = script("paper_tables")
    cell = (
        r"\cellcolor{best!18}\makecell{\small \bfseries 0.60\textsuperscript{\textcolor{embcol}"
        r"{\textbf{E}}} (0.59--0.61) \\ \scriptsize \bfseries 11.2\%}"
    )
    auc, tpr = tables.with_interval(tables.Figure("t"), cell)
    assert (auc.value, auc.low, auc.high, auc.variant) == (0.60, 0.59, 0.61, "E")
    assert tpr.value == 0.112


def test_contradictions_are_noted_on_both_sides(rows: list[dict[str, str]]) -> None:
    figure = script("paper_tables").Figure
    one = figure("tab:main_dpgen", "dmsafn", "outlier", "dpsgd", "4", "S1", column="auc")
    other = figure("tab:control-dpgen-or", "dmsafn", "outlier", "dpsgd", "4", "S1", column="auc")
    compared = script("published").compared
    agreeing = compared([_of(one, 0.60, ".60"), _of(other, 0.604, "0.604 ±9")])
    assert [figure.note for figure in agreeing] == ["", ""]
    differing = compared([_of(one, 0.60, ".60"), _of(other, 0.614, "0.614 ±9")])
    assert [figure.note for figure in differing] == [
        "tab:control-dpgen-or prints 0.614 ±9",
        "tab:main_dpgen prints .60",
    ]
    assert sum(row["note"].startswith("the tables give") for row in rows) == 16


def _of(figure: object, value: float, printed: str) -> object:
    from dataclasses import replace

    return replace(figure, value=value, printed=printed)  # type: ignore[type-var]


def test_the_page_of_tables_names_a_counterpart_of_every_table() -> None:
    text = (PAPER.parents[1] / "docs" / "tables.md").read_text(encoding="utf-8")
    (listed,) = [part for part in text.split("\n\n") if part.startswith("| name |")]
    named = {word.strip(" |,") for word in listed.split() if word.startswith("tab:")}
    assert named == {*CELLS, "tab:proxy_families"}
