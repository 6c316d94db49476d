"""The figure of the frontier: what is drawn of rows of several corpora, budgets and sizes."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from support.scripts import BENCHMARKS, script
from synthleak.report.figures.all_figures import draw


def test_every_corpus_pool_budget_and_size_is_drawn() -> None:
    frontier = script("frontier", BENCHMARKS)
    stored = json.loads((BENCHMARKS / "results/frontier-2026-11-18.json").read_text("utf-8"))
    rows = [frontier.read_row(row) for row in stored["rows"] if row["attacker"] in ("all", "model")]
    rows += [replace(row, epsilon=math.inf, auc=0.9, found=True) for row in rows]
    rows += [replace(row, corpus="dmsafn", auc=0.49) for row in rows]
    figure = frontier.drawing(rows)
    panels = [f"{c}, {p}" for c in ("goemotions", "dmsafn") for p in frontier.POOLS.values()]
    assert figure.spec["facet"]["sort"] == panels
    assert figure.spec["spec"]["encoding"]["x"]["scale"]["domain"] == ["∞", "4"]
    data = figure.spec["data"]["values"]
    assert len(data) == len(rows) == 48
    series = figure.spec["spec"]["encoding"]["xOffset"]["scale"]["domain"]
    assert series == ["500 texts", "2,000 texts", "8,000 texts", "the model itself"]
    assert {row["series"] for row in data} == set(series)
    assert min(row["gain"] for row in data) == 0 and max(row["gain"] for row in data) == 0.4
    assert all(text in draw(figure, "svg").decode() for text in (*panels, *series))
