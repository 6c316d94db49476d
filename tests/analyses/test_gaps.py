"""Control gap and DP removal: planted differences are found, and nothing where there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from support.oracles.planted import Ground, Planted, controlled, nothing, raised
from synthleak.analyses import Unavailable
from synthleak.analyses.gaps import (
    Difference,
    combine,
    control_gap,
    controls_of,
    dp_removal,
    holm_levels,
)
from synthleak.metrics.null import holm

GROUND = Ground(instances=30, records=16)
LONE = Ground(design="lone", instances=60, records=16)


@pytest.mark.parametrize("ground", [GROUND, LONE], ids=["cohort", "lone"])
def test_only_a_pool_that_leaks_more_is_flagged(ground: Ground) -> None:
    for strong, flagged in ((3.0, "yes"), (0.7, "no")):
        rows = control_gap(controlled(ground, raised(strong), raised(0.7)).study())
        whole = next(row for row in rows if row.scenario == "all")
        assert whole.flagged == flagged, whole
        assert whole.controls == 3
        assert [row.flagged for row in rows if row.scenario != "all"] == ["", ""]


def test_gap_is_pool_minus_mean_of_controls() -> None:
    study = controlled(LONE, raised(2.0), raised(0.5)).study()
    odd, *controls = study.cell_data
    row = next(row for row in control_gap(study) if row.scenario == "S2")
    place = odd.scenarios.index("S2")
    expected = odd.measurements.rows[place].crossfit.value - np.mean(  # type: ignore[union-attr]
        [control.measurements.rows[place].crossfit.value for control in controls]  # type: ignore[union-attr]
    )
    assert row.crossfit_gap == pytest.approx(expected)
    drawn = odd.profile.resampled[place] - np.mean(
        [control.profile.resampled[place] for control in controls], axis=0
    )
    assert row.high == pytest.approx(expected + 1.959964 * drawn.std(ddof=1), abs=1e-6)


def test_paper_gap_uses_best_proxy_over_control_draws() -> None:
    study = controlled(LONE, raised(2.0), raised(0.5)).study()
    row = next(row for row in control_gap(study) if row.scenario == "S1")
    by_pool = {
        pool: [r for r in study.proxies if (r.pool, r.scenario) == (pool, "S1")]
        for pool in ("odd", "random0", "random1", "random2")
    }
    means = [np.mean([by_pool[f"random{d}"][k].auc for d in range(3)]) for k in range(3)]
    best = int(np.argmax(means))
    assert row.control_auc == pytest.approx(means[best])
    assert row.auc == pytest.approx(max(r.auc for r in by_pool["odd"]))
    own = max(by_pool["odd"], key=lambda r: r.auc).auc_spread / 1.96
    rounds = LONE.game.rounds
    draws = [by_pool[f"random{d}"][best] for d in range(3)]
    variance = np.mean([(r.auc_spread / 1.96) ** 2 * rounds for r in draws])
    variance += np.var([r.auc for r in draws])
    error = np.sqrt(variance / (3 * rounds))
    assert row.gap_spread == pytest.approx(1.96 * np.sqrt(own**2 + error**2))


def test_one_round_has_no_paper_interval() -> None:
    rows = control_gap(controlled(GROUND, nothing, nothing).study())
    assert all(row.gap_spread is None and row.crossfit_gap is not None for row in rows)


def test_matched_disjoint_controls_come_first() -> None:
    made = controlled(GROUND, nothing, nothing).add("odd2", start=200)
    made.add("random9", rule="random", start=5)
    study = made.study()
    names = [control.cell.pool for control in controls_of(study, study.cell_data[0])]
    assert names == ["random0", "random1", "random2"]
    matched = replace(
        study,
        cell_data=tuple(
            replace(p, pool=replace(p.pool, match="odd2")) if p.pool.name == "random1" else p
            for p in study.cell_data
        ),
    )
    odd2 = next(cell for cell in matched.cell_data if cell.pool.name == "odd2")
    assert [control.cell.pool for control in controls_of(matched, odd2)] == ["random1"]


def test_dp_removes_the_planted_difference() -> None:
    made = controlled(GROUND, raised(2.0), raised(2.0))
    for pool, leak in (("odd", nothing), *((f"random{d}", raised(1.5)) for d in range(3))):
        start = 0 if pool == "odd" else 16 * (int(pool[-1]) + 1)
        rule = "outlier" if pool == "odd" else "random"
        made.add(pool, leak, rule=rule, start=start, epsilon=1.0)
    study = made.study()
    rows = {(row.pool, row.scenario): row for row in dp_removal(study)}
    row = rows["odd", "all"]
    bare, private = study.cell_data[0], study.cell_data[4]
    assert row.removed == pytest.approx(
        bare.measurements.crossfit.value - private.measurements.crossfit.value  # type: ignore[union-attr]
    )
    assert row.low is not None and row.low > 0
    assert row.p_holm is not None and row.p_holm < 0.05
    drawn = bare.profile.resampled[-1] - private.profile.resampled[-1]
    assert row.removed_high == pytest.approx(row.removed + 1.959964 * drawn.std(ddof=1), abs=1e-6)
    assert rows["random0", "all"].difference is None
    assert row.best_difference == pytest.approx(row.best_removed - row.best_control_removed)  # type: ignore[operator]


def test_removal_interval_holds_zero_for_equal_leaks() -> None:
    made = Planted(GROUND).add("odd", raised(1.0)).add("odd", raised(1.0), epsilon=4.0, noise=1)
    row = next(row for row in dp_removal(made.study()) if row.scenario == "all")
    assert row.removed_low is not None and row.removed_high is not None
    assert row.removed_low < 0 < row.removed_high
    assert row.controls == 0


def test_unavailable_gaps_name_what_is_missing() -> None:
    alone = Planted(GROUND).add("odd").study()
    with pytest.raises(Unavailable, match='the rule "random"'):
        control_gap(alone)
    with pytest.raises(Unavailable, match="other than random or union"):
        control_gap(Planted(GROUND).add("random0", rule="random").study())
    elsewhere = Planted(GROUND).add("odd").add("r", rule="random", start=50, generator="h").study()
    with pytest.raises(Unavailable, match="same corpus, generator and budget"):
        control_gap(elsewhere)
    with pytest.raises(Unavailable, match="ε = ∞"):
        dp_removal(alone)


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=12))
def test_holm_interval_excludes_zero_where_holm_rejects(
    p_values: list[float],
) -> None:
    from scipy.stats import norm

    for p, (adjusted, level) in zip(p_values, holm_levels(p_values), strict=True):
        assert adjusted in holm(p_values)
        gap = Difference(float(norm.isf(p / 2)), 1.0)
        assert level is not None and adjusted is not None
        if abs(adjusted - 0.05) > 1e-6 and abs(p - level) > 1e-9:
            assert (gap.interval(level)[0] > 0) == (adjusted <= 0.05)


def test_a_difference_without_spread_is_certain_or_nothing() -> None:
    assert Difference(0.0, 0.0).p == 1.0
    assert Difference(0.1, 0.0).p == 0.0
    assert Difference(0.1, 0.1).p == pytest.approx(0.3173, abs=1e-4)


def test_without_folds_there_is_no_difference() -> None:
    made = Planted(Ground(design="lone", instances=2, records=6, scenarios=("S1",))).add("odd")
    assert combine([(1.0, made.study().cell_data[0])], "all") is None


def test_generator_without_leak_is_rarely_flagged() -> None:
    """Selected and random pools alike: 25 games, 5% false alarms, by the 99.9% point."""
    ground = Ground(design="lone", instances=20, records=8, scenarios=("S1",), redraws=19)
    flags = 0
    for noise in range(25):
        made = controlled(replace(ground, seed=noise), nothing, nothing)
        flags += next(r for r in control_gap(made.study()) if r.scenario == "all").flagged == "yes"
    assert flags <= binom.ppf(0.999, 25, 0.05)
