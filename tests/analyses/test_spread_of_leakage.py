"""Vulnerability, scenario scaling, proxies, overlap, prior attacks: counted by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from support.oracles import analyses as oracle
from support.oracles.planted import Ground, Planted, controlled, nothing, raised
from synthleak.analyses import Study, Unavailable
from synthleak.analyses.analysis import NO_CELL, POOLS, Analyse
from synthleak.analyses.overviews import (
    EQUIVALENT,
    linked,
    pool_overlap,
    prior_attacks,
    proxy_correlations,
    proxy_groups,
    scenario_scaling,
    views,
)
from synthleak.analyses.prior import ComparisonRow
from synthleak.analyses.vulnerability import (
    TOO_FEW,
    record_rows,
    vulnerability,
    vulnerability_summary,
)

GROUND = Ground(instances=24, records=16)


@pytest.fixture(scope="module")
def study() -> Study:
    made = controlled(GROUND, raised(2.0, range(6)), raised(0.5))
    made.add("odd", raised(0.5, range(6)), epsilon=1.0)
    return made.study()


def test_row_describes_v_under_the_best_proxy(study: Study) -> None:
    for row, cell in zip(vulnerability(study), study.cell_data, strict=True):
        best = max(
            (proxy for proxy in study.proxies if proxy.pool == row.pool),
            key=lambda proxy: (proxy.epsilon == row.epsilon, proxy.auc, proxy.tpr_at_fpr05),
        )
        assert (row.scenario, row.proxy) == (best.scenario, best.proxy)
        v = cell.profile.v[cell.place(row.scenario, row.proxy)]
        assert row.s10 == pytest.approx(oracle.top_share(v.tolist()))
        assert row.positive_share == pytest.approx(float(np.mean(v > 0)))
        assert row.mean_abs_v == pytest.approx(float(np.mean(np.abs(v))))
        paper = cell.profile.v_paper[cell.place(row.scenario, row.proxy)]
        assert row.paper_s10 == pytest.approx(oracle.top_share(paper.tolist()))
        assert row.paper_positive_share == pytest.approx(float(np.mean(paper > 0)))
        assert row.paper_mean_abs_v == pytest.approx(float(np.mean(np.abs(paper))))
        low, high = np.quantile(cell.profile.even_leak[:, 1], [0.025, 0.975])
        assert (row.even_s10_low, row.even_s10_high) == pytest.approx((low, high))
        below = sum(cell.profile.no_leak[:, 1] >= row.s10 - 1e-9)
        assert row.s10_p_null == pytest.approx((1 + below) / 100)


def test_concentrated_leak_is_told_from_even_leak(
    study: Study,
) -> None:
    found = {(row.pool, row.epsilon): row.concentrated for row in vulnerability(study)}
    assert found["odd", math.inf] == "yes"
    assert [found[f"random{draw}", math.inf] for draw in range(3)].count("no") >= 2


def test_records_are_ranked_and_the_top_tenth_is_marked(study: Study) -> None:
    rows = record_rows(study.cell_data[0])
    assert [row.record for row in rows] == [f"r{place}" for place in range(16)]
    ordered = sorted(rows, key=lambda row: -(row.v or 0.0))
    assert [row.v_rank for row in ordered] == list(range(1, 17))
    assert [row.record for row in ordered if row.top_tenth] == [r.record for r in ordered[:2]]
    assert all(row.joined + row.absent == 24 for row in rows)
    compared = {row.target: row for row in study.cell_data[0].measurements.records}
    assert [row.q_value for row in rows] == [compared[place].q for place in range(16)]


def test_lone_records_have_v_but_no_p() -> None:
    cell_data, _ = Ground(design="lone", instances=20, records=12).cell("odd", raised(1.0))
    rows = record_rows(cell_data)
    assert any(row.v is not None for row in rows)
    for row in rows:
        assert row.auc is row.p_value is row.q_value is None
        assert (row.v is None) == (row.joined == 0) == (row.v_rank is None)


def test_spread_summary_separates_private_cells(study: Study) -> None:
    rows = {row.privacy: row for row in vulnerability_summary(study) if row.pools == "all"}
    shares = [(row.epsilon, row.s10 or 0.0) for row in vulnerability(study)]
    every = [share for _, share in shares]
    assert (rows["none"].cells, rows["dp"].cells, rows["all"].cells) == (4, 1, 5)
    assert rows["none"].s10_median == pytest.approx(median(s for e, s in shares if math.isinf(e)))
    assert rows["all"].s10_low == pytest.approx(min(every))
    assert rows["all"].s10_high == pytest.approx(max(every))


def test_steps_between_scenarios_are_differences_of_best_and_median(study: Study) -> None:
    rows = {
        (row.step, row.view, row.proxy): row
        for row in scenario_scaling(study)
        if row.pools == "all"
    }
    changes = []
    for cell in study.cell_data:
        own = [
            row
            for row in study.proxies
            if (row.pool, row.epsilon) == (cell.cell.pool, cell.epsilon) and row.view == "lexical"
        ]
        by = {s: [row.auc for row in own if row.scenario == s] for s in ("S1", "S2")}
        changes.append(median(by["S2"]) - median(by["S1"]))
    row = rows["S1 to S2", "lexical", "median"]
    assert row.cells == 5
    assert row.change == pytest.approx(np.mean(changes))
    assert row.high == pytest.approx(np.mean(changes) + 1.96 * np.std(changes, ddof=1) / 5**0.5)
    assert ("S1 to S2", "any", "crossfit") in rows


def of_pools(study: Study, pools: str) -> Study:
    """The study with the cells of selected pools alone, or of controls alone."""
    wanted = {"selected": {"odd"}, "controls": {f"random{draw}" for draw in range(3)}}[pools]

    def some(rows: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(row for row in rows if row.pool in wanted)

    return Study(
        cells=some(study.cells),
        proxies=some(study.proxies),
        comparison=some(study.comparison),
        cell_data=tuple(cell for cell in study.cell_data if cell.cell.pool in wanted),
    )


@pytest.mark.parametrize("pools", ["selected", "controls"])
@pytest.mark.parametrize("call", [vulnerability_summary, scenario_scaling, views, prior_attacks])
def test_aggregates_are_given_for_selected_pools_and_controls(
    study: Study, call: Analyse, pools: str
) -> None:
    """Rows of a group are those of a study that has no other cells."""
    compared = [
        replace(
            comparison(0.5 + place / 50, 0.55, 0.53),
            corpus="demo",
            pool=cell.cell.pool,
            epsilon=cell.epsilon,
        )
        for place, cell in enumerate(study.cell_data)
    ]
    union = replace(study.cells[0], pool="both", view="lexical")
    facts = replace(study.pools[0], name="both", rule="union")
    whole = replace(
        study,
        cells=(*study.cells, union),
        comparison=tuple(compared),
        pools=(*study.pools, facts),
    )
    rows = call(whole)
    assert {row.pools for row in rows} == {"selected", "controls", "all"}
    alone = call(of_pools(whole, pools))
    assert {row.pools for row in alone} == {"all"}
    assert [replace(row, pools="all") for row in rows if row.pools == pools] == alone
    unknown = call(replace(whole, pools=()))
    assert [row for row in rows if row.pools == "all"] == unknown
    if call is views:
        counted = {p: sum(row.cells for row in rows if row.pools == p) for p in POOLS}
        assert counted["all"] == counted["selected"] + counted["controls"] + 1


def test_proxies_are_correlated_over_all_scores_of_a_cell(study: Study) -> None:
    rows = {(row.scenario, row.one, row.other): row for row in proxy_correlations(study)}
    assert len(rows) == 2 * 3
    row = rows["S2", "containment_max", "cos_max"]
    expected = [
        spearmanr(cell.scores()[:, :, 3].ravel(), cell.scores()[:, :, 5].ravel())[0]
        for cell in study.cell_data
    ]
    assert row.rho == pytest.approx(np.mean(expected), abs=1e-9)
    assert (row.low, row.high) == pytest.approx((min(expected), max(expected)), abs=1e-9)
    assert row.views == "across"


def test_equivalent_proxies_form_a_group() -> None:
    cell_data, _ = GROUND.cell("odd", nothing)
    twin = cell_data.scores().copy()
    twin[:, :, 1] = twin[:, :, 0]
    study = Study(
        (), (), cell_data=(replace(cell_data, load_scores=lambda places: twin[:, :, places]),)
    )
    groups = {(row.scenario, row.proxy): row for row in proxy_groups(study)}
    assert groups["S1", "containment_max"].group == groups["S1", "jaccard_max"].group
    assert groups["S1", "containment_max"].size == 2
    assert groups["S1", "cos_max"].size == 1
    wins = proxy_groups(Planted(GROUND).add("odd").study())
    assert sum(row.wins for row in wins if row.scenario == "S1") == 1


def test_links_hold_groups_together_over_several_steps() -> None:
    rho = np.eye(4)
    rho[0, 3] = rho[3, 0] = rho[3, 2] = rho[2, 3] = EQUIVALENT
    assert linked(rho >= EQUIVALENT) == [0, 1, 0, 0]


def test_overlap_counts_shared_records() -> None:
    made = Planted(GROUND).add("odd").add("rare", start=12).add("apart", start=100)
    rows = {(row.pool, row.other): row for row in pool_overlap(made.study())}
    assert rows["odd", "rare"].shared == 4
    assert rows["odd", "rare"].share_of_smaller == 0.25
    assert rows["odd", "apart"].shared == 0


def comparison(ours: float, canary: float | None, domias: float | None) -> ComparisonRow:
    known = [value for value in (canary, domias) if value is not None]
    blank = dict.fromkeys(ComparisonRow.__dataclass_fields__)
    return ComparisonRow(
        **{  # type: ignore[arg-type]
            **blank,
            "generator": "g",
            "ours_auc": ours,
            "ours_p": 0.01,
            "canary_auc": canary,
            "canary_p": 0.5,
            "domias_auc": domias,
            "domias_p": 0.04,
            "delta": ours - max(known),
        }
    )


def test_wins_are_counted_against_each_prior_attack() -> None:
    rows = (comparison(0.7, 0.6, 0.7), comparison(0.6, 0.65, None), comparison(0.9, 0.5, 0.5))
    boards = {row.rival: row for row in prior_attacks(Study((), (), comparison=rows))}
    better = boards["better"]
    assert (better.cells, better.wins, better.ties, better.losses) == (3, 1, 1, 1)
    assert better.largest_loss == pytest.approx(-0.05)
    assert better.mean_delta == pytest.approx((0 - 0.05 + 0.4) / 3)
    assert (boards["canary"].wins, boards["canary"].losses) == (2, 1)
    assert (boards["domias"].cells, boards["domias"].ties) == (2, 1)
    assert (better.ours_found, better.rival_found) == (3, 3)
    assert boards["canary"].rival_found == 0


def test_unavailable_analyses_name_what_is_missing() -> None:
    one = Planted(Ground(instances=24, records=16, scenarios=("S1",))).add("odd").study()
    few = Planted(Ground(design="lone", instances=4, records=3)).add("odd").study()
    empty = Study((), ())
    for call, which, said in (
        (vulnerability, empty, NO_CELL),
        (vulnerability, few, TOO_FEW),
        (vulnerability_summary, few, TOO_FEW),
        (scenario_scaling, one, "two scenarios"),
        (pool_overlap, one, "two pools"),
        (prior_attacks, one, "prior"),
        (proxy_correlations, empty, NO_CELL),
        (proxy_groups, empty, NO_CELL),
    ):
        with pytest.raises(Unavailable, match=said):
            call(which)
