"""Curves of a whole cell: bands by redraws that choose again, V as the tables have it."""

from __future__ import annotations

import numpy as np
import pytest

from support.oracles.curves import area, height, roc_points
from synthleak import Audit
from synthleak.calibration import Scores
from synthleak.core.artefact import as_json
from synthleak.core.cell import Cell, is_of
from synthleak.core.seeds import stream
from synthleak.metrics.curves import BAND, GRID, Curves, trace
from synthleak.metrics.epsilon import claim_roc
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.plan import Trials, designs
from synthleak.plan.plan import EVERY_ROUND


def chosen(table: Scores, trials: Trials) -> int:
    """The best proxy by AUC, ties by TPR at 5% FPR, then catalogue order, counted one by one."""
    values = table.values[trials.set, trials.target]
    always = trials.round == EVERY_ROUND
    figures = []
    for k in range(values.shape[1]):
        rates = []
        for number in range(trials.rounds):
            now = always | (trials.round == number)
            others = sorted(values[now & ~trials.member, k], reverse=True)
            threshold = others[int(0.05 * len(others))]
            rates.append(np.mean(values[now & trials.member, k] > threshold))
        points = roc_points(values[trials.member, k].tolist(), values[~trials.member, k].tolist())
        figures.append((round(area(points), 9), round(float(np.mean(rates)), 9), -k))
    return -max(figures)[2]


def test_band_comes_from_redraws_with_own_choice(audit: Audit) -> None:
    cell = audit.setup.cells[0]
    plan, game = audit.setup.plans[cell.pool], audit.setup.spec.game
    design = designs.get(plan.design).plugin
    scores = audit.scores(cell)
    claim = audit.claim(cell)
    made = trace(ScoredCell(scores, design, plan, game, ("name",)), claim, redraws=39)
    rng = stream("name", "curves")
    dealings = [design.redraw(plan, game, rng) for _ in range(39)]
    for table, curve in zip(scores, made.roc, strict=True):
        heights = []
        for trials in dealings:
            values = table.values[trials.set, trials.target, chosen(table, trials)]
            points = roc_points(values[trials.member].tolist(), values[~trials.member].tolist())
            heights.append([height(points, at) for at in GRID.tolist()])
        low, high = np.quantile(heights, BAND, axis=0)
        assert curve.low == pytest.approx(low.tolist(), abs=2e-5)
        assert curve.high == pytest.approx(high.tolist(), abs=2e-5)
    dump, load = as_json(Curves)
    assert load(dump(made)) == made


def test_the_line_is_that_of_the_best_proxy(audit: Audit) -> None:
    for cell in audit.setup.cells:
        rows = {row.scenario: row for row in audit.cells if is_of(row, cell)}
        tables = {table.scenario: table for table in audit.scores(cell)}
        names = [proxy.name for table in tables.values() for proxy in table.proxies]
        for curve in audit.results.curves[cell].roc:
            assert names[curve.signal] == rows[curve.scenario].proxy
            drawn = list(zip(curve.fpr, curve.tpr, strict=True))
            assert area(drawn) == pytest.approx(rows[curve.scenario].auc, abs=0.01)


def test_sorted_v_is_that_of_the_tables(audit: Audit) -> None:
    for cell in audit.setup.cells:
        v = audit.results.curves[cell].vulnerability
        known = [row for row in audit.records if is_of(row, cell) and row.v is not None]
        by_rank = sorted(known, key=lambda row: row.v_rank or 0)
        assert [row.v for row in by_rank] == pytest.approx(list(v.v), abs=1e-5)
        assert [row.record for row in by_rank] == [ids(audit, cell)[t] for t in v.target]
        assert list(v.null_high) == sorted(v.null_high, reverse=True)
        assert all(low <= high for low, high in zip(v.even_low, v.even_high, strict=True))


def test_the_claim_is_drawn_where_there_is_one(audit: Audit) -> None:
    for cell in audit.setup.cells:
        made, claim = audit.results.curves[cell], audit.claim(cell)
        assert bool(made.allowed_fpr) == claim.promises
        if claim.promises:
            rates = np.array(made.allowed_fpr)
            most = claim_roc(claim, audit.setup.plans[cell.pool].adjacency, rates)
            assert np.allclose(made.allowed_tpr, most, atol=1e-3)
            assert (most >= rates - 1e-9).all()


def ids(audit: Audit, cell: Cell) -> list[str]:
    return [audit.setup.corpus.records[t].id for t in audit.setup.plans[cell.pool].targets]
