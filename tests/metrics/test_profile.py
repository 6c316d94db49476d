"""V(x), its shape, its bands and its reliability against slow oracles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, rankdata, spearmanr

from support.oracles import analyses as oracle
from support.oracles.planted import Ground, nothing, raised
from synthleak.core.seeds import stream
from synthleak.evidence import Floats
from synthleak.metrics.membership import assignment_of, ranks_of
from synthleak.metrics.null import p_value
from synthleak.metrics.profile import (
    HALVES,
    Profile,
    Sides,
    even_leak,
    only_signals,
    pack_ranks,
    paper_vulnerability,
    profile,
    rank_correlation,
    redrawn,
    reliability,
    shape_of,
    sides_of,
    unpack_scores,
    vulnerability,
)
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.metrics.types import Rng

SMALL = Ground(design="lone", instances=12, records=8, scenarios=("S1",))


def by_hand(design: str) -> tuple[list[set[int]], list[set[int]]]:
    """Read IN and OUT of every record from the trials of a plan, one by one."""
    plan = Ground(design=design, instances=12, records=8).plan("odd")
    trials = list(zip(plan.trials.set, plan.trials.target, plan.trials.member, strict=True))
    joined = [{int(s) for s, x, b in trials if b and x == record} for record in range(8)]
    if design == "cohort":
        return joined, [set(range(12)) - inside for inside in joined]
    nobody = set(range(12)) - {int(s) for s, _, b in trials if b}
    return joined, [nobody] * 8


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_v_is_the_difference_of_means_of_normal_scores(design: str) -> None:
    cell_data, scores = Ground(design=design, instances=12, records=8).cell("odd", raised(1.0))
    for column, (table, proxy) in enumerate((t, p) for t in scores for p in range(3)):
        z = oracle.normal_scores(table.values[:12, :, proxy])
        expected = oracle.vulnerability(z, *by_hand(design))
        assert cell_data.profile.v[column] == pytest.approx(expected, abs=1e-9, nan_ok=True)
        assert cell_data.scores()[:, :, column] == pytest.approx(z, abs=1e-9)
    joined, absent = by_hand(design)
    assert cell_data.profile.joined.tolist() == [len(inside) for inside in joined]
    assert cell_data.profile.absent.tolist() == [len(outside) for outside in absent]


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_the_papers_v_uses_z_scores_and_weighs_rounds(design: str) -> None:
    cell_data, scores = Ground(design=design, instances=12, records=8).cell("odd", raised(1.0))
    drawn = cell_data.plan.trials
    trials = [
        (int(s), int(x), bool(b))
        for s, x, b in zip(drawn.set, drawn.target, drawn.member, strict=True)
    ]
    if design == "lone":  # a record is a candidate of one release in several rounds
        assert len([t for t in trials if not t[2]]) > len({t for t in trials if not t[2]})
    for column, (table, proxy) in enumerate((t, p) for t in scores for p in range(3)):
        expected = oracle.paper_vulnerability(table.values[:12, :, proxy], trials)
        found = cell_data.profile.v_paper[column]
        assert found == pytest.approx(expected, abs=1e-9, nan_ok=True)
        assert np.isfinite(found).sum() >= 4


def test_paper_v_of_equal_scores_is_zero() -> None:
    plan = SMALL.plan("odd")
    values = np.full((12, 8, 1), 0.1)
    v = paper_vulnerability(values, assignment_of(plan.trials, 8))
    assert np.nanmax(np.abs(v)) == pytest.approx(0)


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=40))
def test_the_shape_of_any_v_is_the_oracles(values: list[float]) -> None:
    v = np.array(values)
    shape = shape_of(v)
    assert shape.positive == pytest.approx(np.mean([value > 0 for value in values]))
    if sum(max(value, 0.0) for value in values) > 0:
        assert shape.s10 == pytest.approx(oracle.top_share(values))
        assert 0 < shape.s10 <= 1 + 1e-9
    else:
        assert np.isnan(shape.s10)


def test_a_cell_without_any_qualifying_record_has_no_shape() -> None:
    shape = shape_of(np.full(3, np.nan))
    assert shape.qualifying == 0
    assert np.isnan([shape.mean, shape.positive, shape.s10, shape.absolute]).all()


def test_reliability_agrees_with_halves_taken_one_by_one() -> None:
    rng = stream(4)
    coins = rng.random((12, 7)) < 0.5
    table = rng.normal(size=(12, 7, 2)) + coins[:, :, None] * rng.normal(size=7)[:, None]
    order = stream(5)
    halvings = [order.permutation(12)[:6].tolist() for _ in range(HALVES)]
    expected = [oracle.reliability(table[:, :, k], coins, halvings) for k in range(2)]
    found = reliability(table, Sides(coins, ~coins), stream(5))
    assert found == pytest.approx(expected, abs=1e-9)


def test_reliability_is_undefined_where_halves_are_opposite() -> None:
    joined = np.array([[1], [0], [1], [0]], dtype=bool) * np.ones((4, 4), dtype=bool)
    # V is 0 over all releases, so that of one half is the opposite of the other's.
    table = np.array([[1.0], [0.0], [-1.0], [0.0]]) * np.arange(1, 5)
    with np.errstate(all="raise"):
        found = reliability(table[:, :, None], Sides(joined, ~joined), stream(1))
    assert np.isnan(found).all()


def test_reliability_tells_leak_from_noise() -> None:
    amounts = np.linspace(0, 3, 20)
    steep, _ = Ground().cell("odd", lambda sets, targets: amounts[targets])
    flat, _ = Ground().cell("odd", nothing)
    assert steep.profile.reliability.min() > 0.8
    assert abs(flat.profile.reliability.mean()) < 0.5
    alone, _ = SMALL.cell("odd")
    assert np.isnan(alone.profile.reliability).all()


def test_redrawn_v_is_v_of_each_assignment() -> None:
    rng = stream(6)
    table = rng.normal(size=(10, 5, 3))
    sides = [Sides(coins, ~coins) for coins in rng.random((4, 10, 5)) < 0.5]
    together = redrawn(table[:, :, 1], sides)
    for row, side in zip(together, sides, strict=True):
        assert row == pytest.approx(vulnerability(table, side)[1], nan_ok=True)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=4, max_size=20))
def test_rank_correlation_is_spearmans_with_ties(pairs: list[tuple[int, int]]) -> None:
    one, other = np.array(pairs, dtype=float).T
    if len(set(one)) < 2 or len(set(other)) < 2:
        assert np.isnan(rank_correlation(one, other))
    else:
        assert rank_correlation(one, other) == pytest.approx(spearmanr(one, other)[0])


def test_bands_tell_even_from_concentrated_leak() -> None:
    for design in ("lone", "cohort"):
        ground = Ground(
            design=design,
            instances=240 if design == "lone" else 40,
            records=24 if design == "lone" else 60,
            scenarios=("S1",),
        )
        for leak, inside in ((raised(2.0), True), (raised(4.0, range(3)), False)):
            cell_data, _ = ground.cell("odd", leak)
            made = cell_data.profile
            s10 = shape_of(made.v[made.best]).s10
            high = np.quantile(made.even_leak[:, 1], 0.975)
            assert (s10 <= high) == inside, (design, s10, high)


def lone_scores(rng: Rng, records: int, sets: int, leaking: int) -> tuple[Floats, Sides]:
    """Score records that differ; a leaking member has the largest score in half of its releases."""
    target, inside = rng.permutation(np.arange(sets) % records), rng.permutation(sets) % 2 == 0
    joined = np.zeros((sets, records), dtype=np.bool_)
    joined[np.flatnonzero(inside), target[inside]] = True
    raw = rng.normal(size=(sets, records)) + rng.normal(size=records)
    copied = joined & (np.arange(records) < leaking) & (rng.random((sets, records)) < 0.5)
    scores = norm.ppf((rankdata(np.where(copied, 9.0, raw)) - 0.5) / raw.size)
    absent = np.repeat(~inside[:, None], records, axis=1)
    return scores.reshape(raw.shape), Sides(joined, absent)


def concentrated(leaking: int, records: int, sets: int, audits: int) -> int:
    """Count the audits whose S10 is above that of an even leak."""
    found = 0
    for audit in range(audits):
        rng = stream("concentrated", leaking, audit)
        scores, sides = lone_scores(rng, records, sets, leaking)
        null = even_leak(scores, sides, rng, 99)
        s10 = shape_of(redrawn(scores, [sides])[0]).s10
        found += p_value(s10, null[:, 1]) <= 0.05
    return found


def test_an_even_leak_of_single_targets_is_not_concentrated() -> None:
    """Whether a release shows its member is luck: 5% may be called concentrated."""
    assert concentrated(leaking=20, records=20, sets=200, audits=60) <= 8  # once in 200
    assert concentrated(leaking=2, records=20, sets=400, audits=10) >= 8


def test_too_few_releases_with_each_record_say_nothing() -> None:
    rng = stream("few")
    assert not len(even_leak(*lone_scores(rng, 60, 100, 60), rng, 99))


def test_null_band_redraws_choose_again() -> None:
    """With nothing to find, the observed shape is one more draw from its own band."""
    places = []
    for noise in range(20):
        cell_data, _ = Ground(instances=12, records=10, scenarios=("S1",), redraws=19).cell(
            "odd", noise=noise
        )
        made = cell_data.profile
        absolute = shape_of(made.v[made.best]).absolute
        places.append(int((made.no_leak[:, 2] >= absolute).sum()))
    # Uniform on 0…19: the mean lies within four standard errors of 9.5.
    assert abs(np.mean(places) - 9.5) < 4 * 5.77 / 20**0.5


def test_profile_survives_the_store() -> None:
    cell_data, _ = SMALL.cell("odd", raised(1.0))
    again = Profile.from_bytes(cell_data.profile.to_bytes())
    for name in Profile.__dataclass_fields__:
        assert np.array_equal(
            getattr(again, name), getattr(cell_data.profile, name), equal_nan=True
        ), name


def test_cells_of_one_plan_share_their_bootstrap_draws() -> None:
    """The same scores in two cells give the same draws, whatever generator and budget."""
    ground = Ground(design="lone", instances=20, records=8)
    one, scores = ground.cell("odd", raised(1.0), generator="a")
    other, more = ground.cell("odd", raised(1.0), generator="b")
    assert not np.array_equal(scores[0].values, more[0].values)
    name = (1, "profile", "demo", "odd")
    again, _ = profile(ScoredCell(scores, other.design, other.plan, other.game, name), draws=60)
    assert np.array_equal(again.resampled, one.profile.resampled)


def test_bootstrap_spread_matches_repeated_audits() -> None:
    """A bootstrap is worth something if its standard error is that of playing again."""
    ground = Ground(design="lone", instances=40, records=12, scenarios=("S1",), redraws=5)
    figures, errors = [], []
    for seed in range(25):
        again = Ground(**{**ground.__dict__, "seed": seed})
        cell_data, _ = again.cell("odd", raised(1.0), noise=seed)
        assert cell_data.measurements.crossfit is not None
        figures.append(cell_data.measurements.crossfit.value)
        errors.append(cell_data.profile.resampled[-1].std())
    assert 0.6 < np.mean(errors) / np.std(figures) < 1.6


def test_lone_sides_exclude_joined_releases() -> None:
    plan = SMALL.plan("odd")
    sides = sides_of(assignment_of(plan.trials, 8), 12, 8, within_records=False)
    assert (sides.joined.sum(axis=1) <= 1).all()
    assert not sides.absent[sides.joined.any(axis=1)].any()


@pytest.mark.parametrize("sets", [3, 12_000])  # ranks of 2 bytes, and of 4
def test_ranks_of_some_signals_are_kept_as_they_were(sets: int) -> None:
    values = stream("ranks").normal(size=(sets * 4, 3)).round(1)
    packed = pack_ranks(ranks_of(values))
    some = only_signals(packed, [2, 0])
    for places in ([0, 2], [2]):
        assert (unpack_scores(some, 4, places) == unpack_scores(packed, 4, places)).all()
    for places in ([1], [0, 1, 2]):
        with pytest.raises(ValueError, match="left out"):
            unpack_scores(some, 4, places)
    with pytest.raises(ValueError, match="left out"):
        unpack_scores(only_signals(packed, []), 4, [0])
