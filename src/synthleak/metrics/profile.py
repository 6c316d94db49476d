"""The profile of a cell: V(x), how much higher a record scores where it took part.

It holds V under every signal, its two bands, and draws for differences: the heavy part of the
analyses, made once per cell and kept in the store beside its measurements (docs/method.md §10.1).
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.member_comparison import MemberComparison, normal_scores
from synthleak.metrics.membership import Assignment, Ranks, choose, coins_of
from synthleak.metrics.scored_cell import ScoredCell, comparison_of
from synthleak.metrics.types import Bools, Ints, Rng
from synthleak.metrics.verdict_statistics import tenth

Entries = Bools
"""`[set, target]`: which entries of the score table count."""


@dataclass(frozen=True)
class Sides:
    """Where a record took part, and where it did not, as `[set, target]`."""

    joined: Entries
    absent: Entries


def sides_of(assignment: Assignment, sets: int, targets: int, *, within_records: bool) -> Sides:
    """Return IN and OUT of one assignment: what the verdict's coins say, nothing else."""
    joined = coins_of(assignment, sets, targets)
    if within_records:
        return Sides(joined, ~joined)
    nobody = ~joined.any(axis=1, keepdims=True)
    return Sides(joined, np.repeat(nobody, targets, axis=1))


def vulnerability(scores: Floats, sides: Sides) -> Floats:
    """Return V as `[signal, target]` from `scores[set, target, signal]`.

    A record that never took part, or always did, does not qualify: its V is NaN.

    >>> scores = np.array([[[1.0], [0.0]], [[0.25], [2.0]]])
    >>> vulnerability(scores, Sides(np.eye(2, dtype=bool), ~np.eye(2, dtype=bool))).tolist()
    [[0.75, 2.0]]
    """
    return _mean_over(scores, sides.joined) - _mean_over(scores, sides.absent)


def paper_vulnerability(values: Floats, assignment: Assignment) -> Floats:
    """Return the paper's V as `[signal, target]` from calibrated `values[set, target, signal]`.

    One release on either side is enough.
    """
    sets, targets, _ = values.shape
    spread = values.std(axis=(0, 1))
    centred = values - values.mean(axis=(0, 1))
    z = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    rounds = np.bincount(assignment.others.ravel(), minlength=sets * targets).reshape(sets, targets)
    return _mean_over(z, coins_of(assignment, sets, targets)) - _mean_over(z, rounds)


def _mean_over(scores: Floats, weights: Entries | Ints) -> Floats:
    count = weights.sum(axis=0).astype(np.float64)
    total = np.einsum("stk,st->kt", scores, weights, optimize=True)
    return np.asarray(np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0))


def redrawn(scores: Floats, sides: Sequence[Sides]) -> Floats:
    """Return V as `[assignment, target]` of one signal's `scores[set, target]`."""
    means = []
    for which in ("joined", "absent"):
        entries = np.stack([getattr(side, which) for side in sides])
        count = entries.sum(axis=1).astype(np.float64)
        total = np.einsum("dst,st->dt", entries, scores, optimize=True)
        means.append(np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0))
    return np.asarray(means[0] - means[1])


@dataclass(frozen=True)
class Shape:
    """How vulnerability is spread over the records of a cell.

    `s10` is the share of all positive V that the top tenth holds; NaN where no V is above 0.
    """

    qualifying: int
    mean: float
    positive: float
    s10: float
    absolute: float


SHAPE = ("positive", "s10", "absolute")
"""The measurements of a shape that are shown with bands."""


def shape_of(v: Floats) -> Shape:
    """Return the shape of one cell's V, over the records that qualify.

    >>> shape_of(np.array([2.0, 1.0, np.nan, -1.0]))
    Shape(qualifying=3, mean=0.6666666666666666, positive=0.6666666666666666, \
s10=0.6666666666666666, absolute=1.3333333333333333)
    """
    known = v[np.isfinite(v)]
    if not len(known):
        return Shape(0, np.nan, np.nan, np.nan, np.nan)
    held = np.sort(np.maximum(known, 0.0))[::-1]
    whole = float(held.sum())
    return Shape(
        qualifying=len(known),
        mean=float(known.mean()),
        positive=float((known > 0).mean()),
        s10=float(held[: tenth(len(known))].sum()) / whole if whole > 0 else np.nan,
        absolute=float(np.abs(known).mean()),
    )


HALVES = 100
FEWEST = 4
"""Records that a rank correlation needs at least."""
TINY = 1e-9
"""Rounding of a correlation."""


def reliability(table: Floats, sides: Sides, rng: Rng) -> Floats:
    """Return how far V would agree with itself in another audit, per signal (docs/method.md §10.1).

    It is undefined, and NaN, where the correlation of halves is -1.
    """
    sets, _, signals = table.shape
    correlations = []
    for _ in range(HALVES if sets >= FEWEST else 0):
        first = np.zeros((sets, 1), dtype=np.bool_)
        first[rng.permutation(sets)[: sets // 2]] = True
        halves = [
            vulnerability(table, Sides(sides.joined & half, sides.absent & half))
            for half in (first, ~first)
        ]
        known = np.isfinite(halves[0][0]) & np.isfinite(halves[1][0])
        if known.sum() >= FEWEST:
            correlations.append(rank_correlation(halves[0][:, known], halves[1][:, known]))
    if not correlations:
        return np.full(signals, np.nan)
    together = np.nan_to_num(np.array(correlations)).mean(axis=0)
    stretched = np.full(signals, np.nan)
    np.divide(2 * together, 1 + together, out=stretched, where=1 + together > TINY)
    return stretched


def rank_correlation(one: Floats, other: Floats) -> Floats:
    """Return Spearman's ρ along the last axis; NaN where one side is all tied.

    >>> rank_correlation(np.array([1.0, 2.0, 9.0]), np.array([1.0, 3.0, 2.0])).tolist()
    0.5
    """
    from scipy.stats import rankdata

    sides = []
    for values in (one, other):
        ranks = rankdata(values, axis=-1)
        sides.append(ranks - ranks.mean(axis=-1, keepdims=True))
    top = np.asarray((sides[0] * sides[1]).sum(axis=-1))
    scale = np.sqrt((sides[0] ** 2).sum(axis=-1) * (sides[1] ** 2).sum(axis=-1))
    return np.asarray(
        np.divide(top, scale, out=np.full_like(top, np.nan), where=np.asarray(scale > 0))
    )


PROFILE_VERSION = 3
REDRAWS = 400
DRAWS = 100
JOINED_EACH = 2
"""Releases with each record, on average, that a null of even leaks needs."""
TRAINING_SHARE = 0.8
"""Of the instances, how many the conservative rule may choose a proxy by (docs/method.md §10)."""


@dataclass(frozen=True)
class Profile:
    """What a cell says of its records. Signals are in the order of the cell's measurements.

    `v[signal, target]` (NaN where a record does not qualify) and `v_paper`, the paper's
    variant; `joined` and `absent` count the releases behind V per target. `split_auc[signal]` is
    the level on the 80% of instances that the conservative rule may choose by. `best` is the best
    signal of the whole cell. `no_leak` and `even_leak` hold the shape of V in redraws, as
    `[redraw, (positive, s10, absolute)]`; the second is empty where too few members tell.
    `reliability[signal]` is NaN where a record has too few releases to halve.
    `resampled[group, draw]` is the deployable AUC in bootstrap draws, one group per scenario and
    the whole cell last: cells of one plan share their draws of instances, so differences between
    them are paired draw by draw.
    """

    v: Floats
    v_paper: Floats
    joined: Ints
    absent: Ints
    split_auc: Floats
    best: int
    no_leak: Floats
    even_leak: Floats
    reliability: Floats
    resampled: Floats

    def to_bytes(self) -> bytes:
        buffer = io.BytesIO()
        np.savez(buffer, **{field.name: getattr(self, field.name) for field in fields(self)})
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Profile:
        with np.load(io.BytesIO(data), allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        return cls(**{**arrays, "best": int(arrays["best"])})


def pack_ranks(ranks: Ranks) -> bytes:
    """Write doubled mid-ranks `[signal, entry]` for the store, as small as they allow."""
    doubled = ranks.low.astype(np.uint32) + ranks.high.astype(np.uint32)
    small = np.uint16 if doubled.max(initial=0) < 2**16 else np.uint32
    buffer = io.BytesIO()
    np.save(buffer, doubled.astype(small))
    return buffer.getvalue()


def only_signals(data: bytes, places: Sequence[int]) -> bytes:
    """Return ranks written by `pack_ranks` with those of other signals left out, as zeros."""
    doubled = np.load(io.BytesIO(data), allow_pickle=False)
    kept = np.zeros_like(doubled)
    kept[list(places)] = doubled[list(places)]
    buffer = io.BytesIO()
    np.save(buffer, kept)
    return buffer.getvalue()


def unpack_scores(data: bytes, targets: int, places: Sequence[int]) -> Floats:
    """Return the normal scores `[set, target, place]` of ranks written by `pack_ranks`.

    Signals that were left out cannot be asked for: their scores would be minus infinity.
    """
    doubled = np.load(io.BytesIO(data), allow_pickle=False)[list(places)].astype(np.float64)
    if not doubled.all():  # no rank is 0: `high` counts the score itself
        raise ValueError("the ranks of some signals were left out")
    return _in_table(doubled, targets)


def _in_table(doubled: Floats, targets: int) -> Floats:
    scores = normal_scores(doubled / 2, doubled / 2)
    return np.ascontiguousarray(scores.reshape(len(scores), -1, targets).transpose(1, 2, 0))


def profile(
    cell: ScoredCell, *, redraws: int = REDRAWS, draws: int = DRAWS
) -> tuple[Profile, Ranks]:
    """Return the profile of a cell, and the ranks of its scores.

    The cell's `name` holds seed, corpus and pool, never generator or budget: all cells of a plan
    share their redraws and their bootstrap draws.
    """
    comparison, observed, groups = cell.comparison, cell.observed, cell.groups
    drawn = cell.redraws("redraws", redraws)
    ranks = comparison.ranks
    table = _in_table((ranks.low + ranks.high).astype(np.float64), cell.targets)
    sides, *others = (
        sides_of(item, cell.sets, cell.targets, within_records=cell.within_records)
        for item in (observed, *drawn)
    )
    v = vulnerability(table, sides)
    best = int(_chosen(comparison, [observed])[0])
    resampled = comparison.resampled(observed, groups, cell.stream("instances"), draws)
    halves = reliability(table, sides, cell.stream("halves")) if cell.within_records else None
    result = Profile(
        v=v,
        v_paper=paper_vulnerability(cell.values, observed),
        joined=sides.joined.sum(axis=0),
        absent=sides.absent.sum(axis=0),
        split_auc=_split_level(cell),
        best=best,
        no_leak=_no_leak(table, others, _chosen(comparison, drawn)),
        even_leak=even_leak(table[:, :, best], sides, cell.stream("even"), redraws),
        reliability=np.full(len(v), np.nan) if halves is None else halves,
        resampled=np.zeros((len(groups), 0)) if resampled is None else resampled,
    )
    return result, ranks


def _chosen(comparison: MemberComparison, assignments: Sequence[Assignment]) -> Ints:
    """Return the best signal of all in every assignment, as the tables choose it."""
    level = comparison.statistics(assignments).auc
    return choose(comparison.ranks, assignments, level, np.arange(level.shape[1])).signal


def _no_leak(table: Floats, sides: Sequence[Sides], chosen: Ints) -> Floats:
    """Return the shapes of V in redraws, each by the signal that it would have chosen."""
    shapes = np.empty((len(sides), 3))
    for signal in np.unique(chosen):
        here = np.flatnonzero(chosen == signal)
        shapes[here] = _shapes(redrawn(table[:, :, signal], [sides[i] for i in here.tolist()]))
    return shapes


def even_leak(scores: Floats, observed: Sides, rng: Rng, draws: int) -> Floats:
    """Return the shapes of V if every record leaked alike; none where too few members tell.

    Whether a release shows a member is luck, and differs from release to release. So what members
    gain changes places over all members, whichever record they are of. A member's gain is its score
    less that of releases without it, each of which serves one member only: then gains of a record
    err independently. A copy has the largest score whatever the record scored before, so its gain
    depends on the record. Hence scores change places in a second way, and the larger S10 of both
    counts. With fewer than two members for each record V would hardly change.
    """
    joined = [np.flatnonzero(column) for column in observed.joined.T]
    absent = [rng.permutation(np.flatnonzero(column)) for column in observed.absent.T]
    known = [x for x in range(len(joined)) if len(joined[x]) and len(absent[x])]
    sizes = np.array([len(joined[x]) for x in known], dtype=np.int64)
    if not known or sizes.sum() < JOINED_EACH * len(known):
        return np.empty((0, 3))
    record = np.repeat(np.arange(len(known)), sizes)
    inside = np.concatenate([scores[joined[x], x] for x in known])
    outside = np.concatenate(
        [
            [scores[part, x].mean() for part in np.array_split(absent[x], size)]
            if size <= len(absent[x])
            else scores[np.resize(absent[x], size), x]
            for x, size in zip(known, sizes.tolist(), strict=True)
        ]
    )
    shapes = []
    for _ in range(draws):
        order = rng.permutation(len(record))
        both = (inside[order] - outside[order], inside[order] - outside)
        ways = _shapes(np.stack([np.bincount(record, gain) / sizes for gain in both]))
        shapes.append(ways[np.nan_to_num(ways[:, 1], nan=-1.0).argmax()])
    return np.array(shapes)


def _shapes(v: Floats) -> Floats:
    """Return positive share, S10 and mean |V| of each row."""
    return np.array([astuple(shape_of(row))[2:] for row in v])


def _split_level(cell: ScoredCell) -> Floats:
    """Return every signal's level on 80% of the instances, as many of either kind as can be."""
    rng, joined = cell.stream("split"), cell.coins.any(axis=1) | cell.within_records
    kept = [
        rng.permutation(kind)[: max(1, round(TRAINING_SHARE * len(kind)))]
        for kind in (np.flatnonzero(joined), np.flatnonzero(~joined))
    ]
    keep = np.sort(np.concatenate(kept))
    comparison = comparison_of(cell.design, cell.plan, cell.values[keep])
    return np.asarray(comparison.statistics([cell.observed.on_sets(keep, cell.targets)]).auc[0])
