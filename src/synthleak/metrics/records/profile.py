"""The profile of a cell: V(x) under every signal, its two bands, and draws for differences.

This is the heavy part of the analyses (docs/method.md §8, §10), made once per cell beside its
figures and
kept in the store; what is then asked of records, pools, budgets and generators is read from it.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields

import numpy as np
from numpy.typing import NDArray

from synthleak.calibration import Scores
from synthleak.core.seeds import Part, stream
from synthleak.core.spec import GameSection
from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment, assignment_of, redraw_assignments
from synthleak.metrics.comparison.base import Comparison, normal_scores
from synthleak.metrics.comparison.of_plan import comparison_of
from synthleak.metrics.measure import groups_of
from synthleak.metrics.ranks import Ranks
from synthleak.metrics.records.vulnerability import (
    Sides,
    paper_vulnerability,
    redrawn,
    reliability,
    shape_of,
    sides_of,
    vulnerability,
)
from synthleak.metrics.selection import choose
from synthleak.plan.plan import Design, Plan, Trials

PROFILE_VERSION = 2
REDRAWS = 400
DRAWS = 100
TRAINING_SHARE = 0.8
"""Of the instances, how many the conservative rule may choose a proxy by (docs/method.md §10)."""


@dataclass(frozen=True)
class Profile:
    """What a cell says of its records. Columns are signals in the order of the cell's figures.

    `v[signal, target]` (NaN where a record does not qualify) and `v_paper`, the paper's
    variant; `joined` and `absent` count the releases behind V per target. `split_auc[signal]` is
    the level on the 80% of instances that the conservative rule may choose by. `best` is the best
    signal of the whole cell. `no_leak` and `even_leak` hold the shape of V in redraws, as
    `[redraw, (positive, s10, absolute)]`. `reliability[signal]` is NaN where a record has too few
    releases to halve. `resampled[group, draw]` is the deployable AUC in bootstrap draws, one group
    per scenario and the whole cell last: cells of one plan share their draws of instances, so
    differences between them are paired draw by draw.
    """

    v: Floats
    v_paper: Floats
    joined: NDArray[np.int64]
    absent: NDArray[np.int64]
    split_auc: Floats
    best: int
    no_leak: Floats
    even_leak: Floats
    reliability: Floats
    resampled: Floats

    def to_bytes(self) -> bytes:
        """Write the profile for the store."""
        buffer = io.BytesIO()
        np.savez(buffer, **{field.name: getattr(self, field.name) for field in fields(self)})
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Profile:
        """Read a profile from the store."""
        with np.load(io.BytesIO(data), allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        return cls(**{**arrays, "best": int(arrays["best"])})


def pack_ranks(ranks: Ranks) -> bytes:
    """Write doubled mid-ranks `[signal, cell]` for the store, as small as they allow."""
    doubled = ranks.low.astype(np.uint32) + ranks.high.astype(np.uint32)
    small = np.uint16 if doubled.max(initial=0) < 2**16 else np.uint32
    buffer = io.BytesIO()
    np.save(buffer, doubled.astype(small))
    return buffer.getvalue()


def unpack_scores(data: bytes, targets: int) -> Floats:
    """Return the normal scores `[set, target, signal]` of ranks written by `pack_ranks`."""
    doubled = np.load(io.BytesIO(data), allow_pickle=False).astype(np.float64)
    return _in_table(doubled, targets)


def _in_table(doubled: Floats, targets: int) -> Floats:
    scores = normal_scores(doubled / 2, doubled / 2)
    return np.ascontiguousarray(scores.reshape(len(scores), -1, targets).transpose(1, 2, 0))


def profile(
    scores: Sequence[Scores],
    design: Design,
    plan: Plan,
    game: GameSection,
    name: Sequence[Part],
    *,
    redraws: int = REDRAWS,
    draws: int = DRAWS,
) -> tuple[Profile, Ranks]:
    """Return the profile of a cell, and the ranks of its scores.

    `name` names the streams by seed, corpus and pool, never by generator or budget: all cells of a
    plan are dealt the same redraws and the same bootstrap draws.
    """
    sets, targets = int(plan.trials.set.max()) + 1, len(plan.targets)
    values = np.concatenate([table.values[:sets] for table in scores], axis=2)
    comparison = comparison_of(design, plan, values)
    within = design.within_records(plan)
    observed = assignment_of(plan.trials, targets)
    drawn = redraw_assignments(design, plan, game, stream(*name, "redraws"), redraws)
    ranks = comparison.ranks
    table = _in_table((ranks.low + ranks.high).astype(np.float64), targets)
    sides = sides_of(observed, sets, targets, within_records=within)
    v = vulnerability(table, sides)
    best = int(_chosen(comparison, [observed])[0])
    others = [sides_of(assignment, sets, targets, within_records=within) for assignment in drawn]
    groups = groups_of(scores)
    resampled = comparison.resampled(observed, groups, stream(*name, "instances"), draws)
    halves = reliability(table, sides, stream(*name, "halves")) if within else None
    made = Profile(
        v=v,
        v_paper=paper_vulnerability(values, observed),
        joined=sides.joined.sum(axis=0),
        absent=sides.absent.sum(axis=0),
        split_auc=_split_level(values, design, plan, stream(*name, "split")),
        best=best,
        no_leak=_no_leak(table, others, _chosen(comparison, drawn)),
        even_leak=_even_leak(table[:, :, best], sides, others),
        reliability=np.full(len(v), np.nan) if halves is None else halves,
        resampled=np.zeros((len(groups), 0)) if resampled is None else resampled,
    )
    return made, ranks


def _chosen(comparison: Comparison, assignments: Sequence[Assignment]) -> NDArray[np.int64]:
    """Return the best signal of all in every dealing, as the tables choose it."""
    level = comparison.statistics(assignments).auc
    return choose(comparison.ranks, assignments, level, np.arange(level.shape[1])).signal


def _no_leak(table: Floats, sides: Sequence[Sides], chosen: NDArray[np.int64]) -> Floats:
    """Return the shapes of V in redraws, each by the signal that it would have chosen."""
    shapes = np.empty((len(sides), 3))
    for signal in np.unique(chosen):
        here = np.flatnonzero(chosen == signal)
        shapes[here] = _shapes(redrawn(table[:, :, signal], [sides[i] for i in here.tolist()]))
    return shapes


def _even_leak(scores: Floats, observed: Sides, sides: Sequence[Sides]) -> Floats:
    """Return the shapes of V if every record leaked alike.

    The mean vulnerability is taken out of the members' scores, coins are tossed again, and it is
    given to the new members: what is left is chance around an even leak.
    """
    v = redrawn(scores, [observed])[0]
    even = float(np.nanmean(v)) if np.isfinite(v).any() else 0.0
    return _shapes(redrawn(scores - even * observed.joined, sides) + even)


def _shapes(v: Floats) -> Floats:
    """Return positive share, S10 and mean |V| of each row."""
    return np.array([astuple(shape_of(row))[2:] for row in v])


def _split_level(values: Floats, design: Design, plan: Plan, rng: np.random.Generator) -> Floats:
    """Return every signal's level on 80% of the instances, as many of either kind as can be."""
    trials, targets = plan.trials, values.shape[1]
    joined = np.bincount(trials.set[trials.member], minlength=len(values)) > 0
    if design.within_records(plan):
        joined[:] = True
    kept = [
        rng.permutation(kind)[: max(1, round(TRAINING_SHARE * len(kind)))]
        for kind in (np.flatnonzero(joined), np.flatnonzero(~joined))
    ]
    keep = np.sort(np.concatenate(kept))
    here = np.isin(trials.set, keep)
    some = Trials(
        set=np.searchsorted(keep, trials.set[here]),
        target=trials.target[here],
        member=trials.member[here],
        round=trials.round[here],
        weight=trials.weight[here],
    )
    comparison = comparison_of(design, plan, values[keep])
    level: Floats = comparison.statistics([assignment_of(some, targets)]).auc[0]
    return level
