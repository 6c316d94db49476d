"""One release and many records: the running sums give what the table of all pairs gives."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.core.seeds import stream
from synthleak.metrics.exposure import member_p_values
from synthleak.metrics.member_comparison import (
    PoolComparison,
    SortedPoolComparison,
    crossfit,
    fold_aucs,
    folded,
    signal_folds,
    split_folds,
    wins_of,
)
from synthleak.metrics.membership import Assignment, ranks_of

GROUPS = [np.arange(3), np.arange(3, 6), np.arange(6)]


def material(records: int = 160, seed: int = 1) -> tuple[np.ndarray, Assignment]:
    rng = stream("large pool", seed)
    member = rng.permutation(np.arange(records) % 5 < 2)
    values = rng.normal(size=(1, records, 6)) + 0.6 * member[None, :, None]
    values[..., 1] = np.round(values[..., 1])  # ties
    values[..., 4] = values[..., 3]  # a signal twice
    return values, Assignment(np.flatnonzero(member), np.flatnonzero(~member)[None])


def test_fold_figures_are_those_of_all_pairs() -> None:
    values, assignment = material()
    small, rng = PoolComparison(values), stream("folds")
    inside = tuple(
        split_folds(n, 5, rng, 3) for n in (len(assignment.members), assignment.others.shape[1])
    )
    wins = wins_of(small.ranks, assignment, 160)
    weight = tuple(rng.integers(0, 3, size=len(side)).astype(float) for side in inside)
    for weights in (None, weight):
        rest, held = fold_aucs(wins, inside, weights)
        for place, signal in enumerate(wins.signals.tolist()):
            drawn = None if weights is None else tuple(weight[None] for weight in weights)
            found = signal_folds(small.ranks, signal, folded(assignment, 160, inside, drawn))
            assert np.allclose(found.rest[0], rest[place].ravel(), atol=1e-6)
            assert np.allclose(found.held[0], held[place].ravel(), atol=1e-6)


def test_records_on_neither_side_do_not_count() -> None:
    values, whole = material()
    kept = np.setdiff1d(np.arange(160), [*whole.members[::7], *whole.others[0][::5]])
    member = np.isin(kept, whole.members)
    alone = Assignment(np.flatnonzero(member), np.flatnonzero(~member)[None])
    among = Assignment(kept[alone.members], kept[alone.others])
    inside = tuple(split_folds(int(n), 5, stream("f"), 2) for n in (member.sum(), (~member).sum()))
    for signal in range(6):
        few, all_ = (
            signal_folds(ranks_of(table), signal, folded(assignment, len(table), inside))
            for table, assignment in ((values[0, kept], alone), (values[0], among))
        )
        for name in ("rest", "held", "rate"):
            assert np.array_equal(getattr(few, name), getattr(all_, name))


def test_deployable_auc_equals_that_of_all_pairs() -> None:
    values, assignment = material()
    large, small = SortedPoolComparison(values), PoolComparison(values)
    found = large.deployable([assignment], GROUPS, stream("deploy"))
    inside = small.folds(assignment, stream("deploy"), large.repeats)
    expected = crossfit(small.ranks, assignment, 160, GROUPS, inside)
    assert found is not None and expected is not None
    assert np.allclose(found.auc[:, 0], expected.auc, atol=1e-9)
    assert np.allclose(found.tpr[:, 0], expected.tpr, atol=1e-9)


def test_standard_errors_agree_with_those_of_all_pairs() -> None:
    values, assignment = material(300)
    large, small = SortedPoolComparison(values), PoolComparison(values)
    errors = [item.standard_error(assignment, 0, stream("error")) for item in (large, small)]
    assert errors[0] == pytest.approx(errors[1], rel=0.15)
    spreads = [item.spreads(assignment, GROUPS, stream("spreads")) for item in (large, small)]
    assert np.allclose(spreads[0].pool, spreads[1].pool, rtol=0.4)
    assert np.allclose(spreads[0].records, spreads[1].records, rtol=0.4)
    assert large.resampled(assignment, GROUPS, stream("r"), 7).shape == (3, 7)


@pytest.mark.parametrize("kind", [SortedPoolComparison, PoolComparison])
def test_groups_share_folds_and_draws(kind: type[PoolComparison]) -> None:
    values, assignment = material()
    group = np.empty(160, dtype=np.int64)
    for side in (assignment.members, assignment.others[0]):
        group[side] = side.min() + 1000 * (np.arange(len(side)) // 8)  # eight records a person
    pool = kind(values, group)
    inside = pool.folds(assignment, stream("groups"), 3)
    assert inside is not None
    drawn = pool.drawn(assignment, 20, stream("draws"))
    for side, where, weight in zip(
        (assignment.members, assignment.others[0]), inside, drawn, strict=True
    ):
        for name in np.unique(group[side]):
            own = group[side] == name
            assert np.ptp(where[own], axis=0).max() == 0
            assert np.ptp(weight[:, own], axis=1).max() == 0
    assert pool.sides(assignment) == (8, 12)  # 64 members and 96 others, 8 a person
    # Records of a person that score alike say no more than one record would.
    alike = values.copy()
    for name in np.unique(group):
        own = np.flatnonzero(group == name)
        alike[0, own] = alike[0, own[0]]
    alone, together = kind(alike), kind(alike, group)
    errors = [item.standard_error(assignment, 0, stream("error")) for item in (alone, together)]
    assert errors[1] > 2 * errors[0]


def test_a_large_group_counts_for_less_than_its_records() -> None:
    """Members: 30 records of one person and 10 of one record; others: 40 of one record."""
    group = np.concatenate([np.zeros(30, dtype=np.int64), np.arange(1, 51)])
    assignment = Assignment(np.arange(40), np.arange(40, 80)[None])
    sides = PoolComparison(np.zeros((1, 80, 1)), group).sides(assignment)
    assert sides == pytest.approx((40**2 / (30**2 + 10), 40))
    assert PoolComparison(np.zeros((1, 80, 1))).sides(assignment) == (40, 40)


def test_members_are_named_by_signals_that_other_groups_chose() -> None:
    """Two halves of whole groups: a person's records never choose what they are measured by."""
    member, group = np.arange(80) % 16 < 8, np.arange(80) // 8
    values = np.zeros((80, 2))
    values[group == 2, 1] = 1.0  # one person alone stands out, in the second signal
    for seed in range(10):
        _, share, _, _ = member_p_values(values, member, stream(seed), group)
        assert set(share.tolist()) == {0.5}
        _, share, _, _ = member_p_values(values, member, stream(seed))
        assert 1.0 in share.tolist()


def test_few_records_cannot_be_folded() -> None:
    assignment = Assignment(np.array([0]), np.array([[1, 2]]))
    comparison = SortedPoolComparison(np.zeros((1, 3, 2)))
    assert comparison.deployable([assignment], [np.arange(2)], stream("x")) is None


def test_members_that_outscore_the_holdout_come_first() -> None:
    rng = stream("exposure")
    member = np.arange(400) % 2 == 0
    values = rng.normal(size=(400, 3))
    leaked = np.flatnonzero(member)[:20]
    values[leaked, 2] += 10
    targets, share, p, _ = member_p_values(values, member, rng)
    assert set(targets.tolist()) == set(np.flatnonzero(member).tolist())
    assert set(targets[:20].tolist()) == set(leaked.tolist())
    assert (share[:20] == 1).all() and p[:20].max() <= 1 / 90
    assert (np.diff(p) >= 0).all()


def test_p_values_of_members_are_valid_where_nothing_leaks() -> None:
    low = []
    for draw in range(60):
        rng = stream("exposure null", draw)
        member = rng.permutation(np.arange(200) % 2 == 0)
        _, _, p, _ = member_p_values(rng.normal(size=(200, 8)), member, rng)
        low.append((p <= 0.05).mean())
    assert np.mean(low) <= 0.06
