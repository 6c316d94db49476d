"""Members by rank: groups are counted, not records, and texts compared with others as long."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.core.cell import NAMED
from synthleak.core.seeds import stream
from synthleak.metrics.exposure import _parts, length_strata, member_p_values, naming_signals
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
    targets, share, p, q = member_p_values(values, member, stream("parts"), group)
    score, expected, held = values[:, 0], {}, ~member
    for name in np.unique(group[member]).tolist():
        own = sorted(np.flatnonzero((group == name) & member), key=lambda t: -score[t])
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


def parts_of(member: np.ndarray, seed: str) -> list[np.ndarray]:
    """Return the members that are scored together, part by part."""
    targets = np.flatnonzero(member)
    inside = split_folds(len(targets), 5, stream(seed), 1)[:, 0]
    return [targets[part > 0] for part in inside.T]


def scores_by_definition(values: np.ndarray, member: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Score all records as those of one part are, by loops (docs/method.md §11)."""
    compared = [t for t in range(len(member)) if not member[t] or t in part]
    scaled, excess = np.empty_like(values), []
    for signal in range(values.shape[1]):
        known = values[compared, signal]
        centre, top = np.quantile(known, [0.5, 0.9])
        scaled[:, signal] = (values[:, signal] - centre) / (top - centre)
        reached = [
            np.mean(known >= values[t, signal])
            for t in range(len(member))
            if member[t] and t not in part
        ]
        excess.append(np.mean([max(0, 1 - one / 0.05) for one in reached]) - 0.025)
    strongest = sorted(range(values.shape[1]), key=lambda signal: -excess[signal])[:5]
    return sum(max(excess[signal], 0) * scaled[:, signal] for signal in strongest)


def test_without_groups_every_record_counts() -> None:
    rng = stream("alone")
    member, values = rng.permutation(np.arange(300) % 2 == 0), rng.normal(size=(300, 8))
    values[member & (np.arange(300) % 10 == 0), :3] += 4
    targets, share, p, q = member_p_values(values, member, stream("draw"))
    expected, above = np.ones(300), np.ones(300)
    for part in parts_of(member, "draw"):
        score = scores_by_definition(values, member, part)
        for target in part:
            as_high = int((score[~member] >= score[target]).sum())
            expected[target] = (1 + as_high) / (1 + (~member).sum())
            above[target] = (score[~member] < score[target]).mean()
    assert p == pytest.approx(expected[targets])
    assert share == pytest.approx(above[targets])
    assert q == pytest.approx(false_discovery_rates(p))
    assert set(naming_signals(values, member, stream("draw")).tolist()) <= {0, 1, 2}


def test_who_was_held_out_does_not_enter_the_choice() -> None:
    """If a member and a held-out record change sides, the scores of the member's part stay."""
    rng = stream("sides")
    member, values = rng.permutation(np.arange(200) % 2 == 0), rng.normal(size=(200, 6))
    words = rng.integers(3, 60, size=200)
    before = list(_parts(values, member, stream("draw"), None, words))
    for tested, strongest, score in before:
        one, other = np.flatnonzero(tested)[0], np.flatnonzero(~member)[0]
        order = np.arange(200)
        order[[one, other]] = order[[other, one]]
        after = list(_parts(values[order], member, stream("draw"), None, words[order]))
        (same,) = (item for item in after if (item[0] == tested).all())
        assert same[1] == strongest and same[2] == pytest.approx(score[order])


@pytest.mark.parametrize(("members", "held_out"), [(1, 3), (3, 1), (2, 200)])
def test_few_members_are_counted_too(members: int, held_out: int) -> None:
    member = np.arange(members + held_out) < members
    values = stream("few").normal(size=(len(member), 7))
    targets, _, p, q = member_p_values(values, member, stream("draw"))
    assert len(targets) == members and p.min() >= 1 / (1 + held_out) and (q >= p).all()


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


def test_few_records_are_one_stratum() -> None:
    words = np.arange(800)
    counts = np.bincount(length_strata(words, np.arange(800) % 4 == 0))
    assert counts.tolist() == [400, 400]  # 200 are counted: two strata of 100
    assert not length_strata(words, np.arange(800) % 5 == 0).any()
    assert not length_strata(np.full(800, 7), words >= 0).any()


def test_equal_scores_in_every_stratum_name_nobody() -> None:
    member, words = np.arange(800) % 2 == 0, np.repeat([3, 10, 30, 90], 200)
    _, share, p, _ = member_p_values(np.zeros((800, 3)), member, stream("equal"), words=words)
    assert set(share) == {0.5} and set(p) == {1.0}
