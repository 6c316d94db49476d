"""Members by rank: groups are counted, not records, and texts compared with others as long."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.core.cell import NAMED
from synthleak.core.seeds import stream
from synthleak.metrics.exposure import length_strata, member_p_values, naming_signals
from synthleak.metrics.member_comparison import split_folds
from synthleak.metrics.null import false_discovery_rates


def drawn(sizes: list[int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the group of each record, and who is a member: half of the groups, the first too."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    inside = stream("drawn", seed).permutation(np.arange(len(sizes)) % 2 == 0)
    inside[0] = True
    return group, inside[group]


@pytest.mark.parametrize("seed", range(3))
def test_one_person_with_many_records_alike_is_not_named(seed: int) -> None:
    group, member = drawn([200] + [1] * 800, seed)
    rng = stream("alike", seed)
    values = rng.normal(size=(len(group), 1))
    values[group == 0] = 5 + 0.1 * values[group == 0]  # as the release happens to be written
    targets, _, p, q = member_p_values(values, member, rng, group)
    assert len(targets) == member.sum() and not (q <= NAMED).any()
    by_record = member_p_values(values, member, stream("alike", seed))  # as if drawn one by one
    assert (by_record[3] <= NAMED).sum() >= 200
    assert p.min() >= 1 / (1 + (~member).sum())


def test_p_values_follow_their_definition() -> None:
    """The k-th record of a group meets the k-th of held-out groups, and is no better than k − 1."""
    group, member = drawn([7, 1, 4, 4, 2, 9, 3, 3, 1, 5] * 4, 5)
    values = stream("oracle").normal(size=(len(group), 1)).round(1)  # ties
    targets, share, p, q = member_p_values(values, member, stream("halves"), group)
    half = split_folds(len(group), 2, stream("halves"), 1, group)[:, 0, 0] > 0
    score, expected = values[:, 0], {}
    for name in np.unique(group[member]).tolist():
        own = sorted(np.flatnonzero((group == name) & member), key=lambda t: -score[t])
        held = ~member & (half == half[own[0]])
        others = {
            other: np.sort(score[held & (group == other)])[::-1] for other in set(group[held])
        }
        worst = 0.0
        for k, target in enumerate(own):
            as_high = sum(len(o) > k and o[k] >= score[target] for o in others.values())
            worst = expected[target] = max(worst, (1 + as_high) / (1 + len(others)))
        below, equal = score[held] < score[own[0]], score[held] == score[own[0]]
        place = targets.tolist().index(own[0])
        assert share[place] == pytest.approx((below.sum() + equal.sum() / 2) / held.sum())
    assert p.tolist() == pytest.approx([expected[target] for target in targets.tolist()])
    first: dict[int, int] = {}
    for place, target in sorted(enumerate(targets.tolist()), key=lambda one: -score[one[1]]):
        first.setdefault(int(group[target]), place)
    tops = list(first.values())
    assert q[tops] == pytest.approx(false_discovery_rates(p[tops]))
    assert (np.diff(q) >= 0).all()


def test_without_groups_every_record_counts() -> None:
    rng = stream("alone")
    member, values = rng.permutation(np.arange(300) % 2 == 0), rng.normal(size=(300, 2))
    targets, share, p, q = member_p_values(values, member, stream("draw"))
    signals = naming_signals(values, member, stream("draw"))
    half = split_folds(300, 2, stream("draw"), 1)[:, 0, 0] > 0
    for target, one in zip(targets.tolist(), p.tolist(), strict=True):
        others = values[~member & (half == half[target]), signals[target]]
        as_high = int((others >= values[target, signals[target]]).sum())
        assert one == pytest.approx((1 + as_high) / (1 + len(others)))
    assert q == pytest.approx(false_discovery_rates(p))
    assert 0.3 < share.mean() < 0.7


def leaking(seed: int, share: float = 0.1) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, members, lengths and leaking members: short texts score high anyway."""
    rng = stream("lengths", seed)
    member = rng.permutation(np.arange(1000) % 2 == 0)
    words = rng.permutation(np.arange(1000) % 100 + 3)
    score = 0.1 * rng.random(1000)
    common = (words < 20) & (rng.random(1000) < 0.3)
    score[common] = 0.8 + 0.2 * rng.random(int(common.sum()))
    long = np.flatnonzero(member & (words > 30))
    leak = rng.permutation(long)[: int(share * member.sum())]
    score[leak] = 0.5 + 0.2 * rng.random(len(leak))
    return score[:, None], member, words, leak


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_short_texts_that_recur_do_not_hide_long_ones(share: float) -> None:
    values, member, words, leak = leaking(1, share)
    targets, _, _, q = member_p_values(values, member, stream("draw"), words=words)
    named = set(targets[q <= NAMED].tolist())
    assert len(named & set(leak.tolist())) >= 0.9 * len(leak)
    assert len(named - set(leak.tolist())) <= 0.15 * len(named)
    if share == 0.1:
        assert not (member_p_values(values, member, stream("draw"))[3] <= NAMED).any()


def test_false_names_stay_rare_where_lengths_matter() -> None:
    shares = []
    for seed in range(60):
        values, member, words, leak = leaking(seed)
        targets, _, _, q = member_p_values(values, member, stream("n", seed), words=words)
        named = targets[q <= NAMED]
        shares.append(np.isin(named, leak, invert=True).sum() / max(len(named), 1))
    assert np.mean(shares) <= NAMED


def test_few_held_out_records_are_one_stratum() -> None:
    words = np.arange(400)
    counts = np.bincount(length_strata(words, np.arange(400) % 4 == 0))
    assert counts.tolist() == [200, 200]  # 100 are counted: two strata of 50
    assert not length_strata(words, np.arange(400) % 5 == 0).any()
    assert not length_strata(np.full(400, 7), words >= 0).any()


def test_equal_scores_in_every_stratum_name_nobody() -> None:
    member, words = np.arange(800) % 2 == 0, np.repeat([3, 10, 30, 90], 200)
    _, share, p, _ = member_p_values(np.zeros((800, 3)), member, stream("equal"), words=words)
    assert set(share) == {0.5} and set(p) == {1.0}
