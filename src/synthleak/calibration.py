"""From evidence to scores: what each attacker makes of what it sees (docs/method.md §7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.family import Proxy
from synthleak.evidence.observation import Floats
from synthleak.evidence.table import Evidence
from synthleak.plan.plan import Baseline

TINY = 1e-6
BITS = 40
"""Binary digits of a score that count: a little over 12 decimal ones."""

KNOWLEDGE = {
    "S1": "the release alone",
    "S2": "the release, and raw records of the same kind",
    "S3": "the release, and releases of the same generator from other records",
}


@dataclass(frozen=True)
class Scores:
    """`values[set, target, proxy]` of one scenario: higher means more like a member."""

    scenario: str
    values: Floats
    proxies: tuple[Proxy, ...]


def calibrate(evidence: Evidence, baselines: Sequence[Baseline]) -> list[Scores]:
    """Score every target on every set, for every scenario.

    Equal texts must get equal scores, whatever block or kernel computed their evidence: evidence is
    rounded first, and everything after is computed value by value in the same order for all.
    """
    values = rounded(evidence.values)
    difference = np.array([proxy.scale != "ratio" for proxy in evidence.proxies])
    tables = []
    for baseline in baselines:
        scores = _against(values, difference, baseline)
        for columns, scored in evidence.counted if baseline.uses.any() else ():
            scores[:, :, columns] = rounded(scored(baseline.uses))
        tables.append(Scores(baseline.scenario, scores, evidence.proxies))
    return tables


def rounded(values: Floats) -> Floats:
    """Round to 12 significant digits (40 binary ones), so that rounding errors cannot break a tie.

    >>> first, second = rounded(np.array([0.9999999999999998, 0.9999999999999999]))
    >>> bool(first == second)
    True
    """
    mantissa, exponent = np.frexp(values)
    whole: Floats = np.ldexp(np.rint(mantissa * 2.0**BITS), exponent - BITS)
    return whole


def _against(values: Floats, difference: NDArray[np.bool_], baseline: Baseline) -> Floats:
    if not baseline.uses.any():
        return values
    expected = expectation(values, baseline)
    # A ratio of nothing to nothing is nothing: 0 / (0 + TINY) = 0.
    return rounded(np.where(difference, values - expected, values / (expected + TINY)))


def expectation(values: Floats, baseline: Baseline) -> Floats:
    """Return the mean over the sets that calibrate, never over the set that is being scored."""
    uses = baseline.uses.T[:, :, None].astype(np.float64)
    total = (values * uses).sum(axis=0)
    count = uses.sum(axis=0)
    expected: Floats = (total - values * uses) / np.maximum(count - uses, 1.0)
    return expected
