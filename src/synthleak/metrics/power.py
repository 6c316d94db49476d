"""Power: the smallest leak that would be found four times in five (METHOD §8).

A signal is found alone when its AUC passes its ceiling m + q·s. With a standard error s, an AUC of
m + q·s + 0.84·s passes it with probability 0.8. Planting a shift of that size into the members of
redraws confirms it. Before there is any data, exchangeable scores stand in for the evidence: drawn
apart for every target, or alike for all targets of a release. Evidence lies between the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.compare import comparison_of
from synthleak.metrics.comparison import Comparison
from synthleak.metrics.dealt import Dealt, redeal
from synthleak.metrics.nulls import LEVEL, max_test, upper_point
from synthleak.plan.plan import Design, Plan
from synthleak.seeds import stream
from synthleak.spec import GameSection

POWER = 0.8
REDRAWS = 600
PLANTED = 200
CALIBRATING = 50
LARGEST_PLAYED = 400


def smallest_found(
    centre: float, scale: float, null: Floats, level: float = LEVEL, power: float = POWER
) -> float | None:
    """Return the smallest AUC found with this probability; None where nothing could be.

    >>> round(smallest_found(0.5, 0.05, np.linspace(0, 3, 999)), 3)
    0.685
    """
    from scipy.stats import norm

    critical = upper_point(null, level)
    found = centre + (critical + float(norm.ppf(power))) * scale
    return found if math.isfinite(found) and found <= 1.0 and scale > 0 else None


def shift_for(auc: float) -> float:
    """Return the shift of normal scores that gives this AUC.

    >>> round(shift_for(0.76025), 3)
    1.0
    """
    from scipy.stats import norm

    return math.sqrt(2) * float(norm.ppf(auc))


def planted_share(
    comparison: Comparison, hands: Sequence[Dealt], signal: int, auc: float, ceiling: float
) -> float:
    """Return how often a planted leak of this AUC passes the ceiling of its signal."""
    some = hands[:CALIBRATING]
    low, high = 0.0, 2 * shift_for(auc) + 1
    for _ in range(12):
        middle = (low + high) / 2
        reached = comparison.planted(some, signal, middle).mean() >= auc
        low, high = (low, middle) if reached else (middle, high)
    return float((comparison.planted(hands, signal, high) > ceiling).mean())


@dataclass(frozen=True)
class Foresight:
    """What a design would find, known before anything is spent.

    `ceiling` is what the best of all signals stays below by chance, `auc` the smallest one found
    with the wished-for power, `confirmed` the share of planted leaks of that size that were found
    (None if none were planted).
    """

    instances: int
    signals: int
    alike: bool
    ceiling: float
    auc: float | None
    confirmed: float | None


def foresee(
    design: Design,
    plan: Plan,
    game: GameSection,
    *,
    signals: int,
    alike: bool,
    seed: int,
    level: float = LEVEL,
    power: float = POWER,
    confirm: bool = True,
) -> Foresight:
    """Play the design's own sampler on scores that know nothing, and on planted leaks."""
    rng = stream(seed, "power", plan.pool, game.instances, signals, str(alike))
    plan = replace(plan, trials=design.redraw(plan, game, rng))
    targets = len(plan.targets)
    scores = rng.normal(size=(game.instances, 1 if alike else targets, signals))
    values = np.ascontiguousarray(np.broadcast_to(scores, (game.instances, targets, signals)))
    comparison = comparison_of(design, plan, values)
    hands = redeal(design, plan, game, rng, max(REDRAWS, math.ceil(4 / level)))
    pair = comparison.pair(hands)
    test = max_test(np.concatenate([pair.level, pair.tail], axis=1))
    if test is None or test.floor > level:
        return Foresight(game.instances, signals, alike, 1.0, None, None)
    centre, scale = float(pair.level.mean()), float(pair.level.std(axis=0).mean())
    critical = upper_point(test.null, level)
    ceiling = centre + critical * scale
    auc = smallest_found(centre, scale, test.null, level, power)
    confirmed = (
        planted_share(comparison, hands[:PLANTED], 0, auc, float(test.ceilings(level)[0]))
        if auc is not None and confirm
        else None
    )
    return Foresight(game.instances, signals, alike, min(ceiling, 1.0), auc, confirmed)


def instances_needed(foreseen: Callable[[int], Foresight], auc: float, start: int) -> int | None:
    """Return about how many instances find this AUC; None if the design could never.

    What is found beyond chance shrinks with the square root of the instances; `foreseen(n)` plays
    a design of n to correct for the rest, as long as n is not too large to play.
    """
    if auc <= 0.5:
        return None
    instances = start
    for _ in range(4):
        found = foreseen(min(instances, LARGEST_PLAYED)).auc
        if found is None:
            instances *= 4
            if instances > 16 * LARGEST_PLAYED:
                return None
            continue
        needed = min(instances, LARGEST_PLAYED) * ((found - 0.5) / (auc - 0.5)) ** 2
        needed = max(4, 2 * math.ceil(needed / 2))
        if needed == instances or min(needed, instances) >= LARGEST_PLAYED:
            return int(needed)
        instances = int(needed)
    return instances
