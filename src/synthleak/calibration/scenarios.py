"""From evidence to scores: what each attacker makes of what it sees (METHOD §7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.evidence.family import Proxy
from synthleak.evidence.observation import Floats
from synthleak.evidence.table import Evidence
from synthleak.plan.plan import Baseline

TINY = 1e-6

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
    """Score every target on every set, for every scenario."""
    return [
        Scores(baseline.scenario, _against(evidence, baseline), evidence.proxies)
        for baseline in baselines
    ]


def _against(evidence: Evidence, baseline: Baseline) -> Floats:
    if not baseline.uses.any():
        return evidence.values
    expected = expectation(evidence.values, baseline)
    difference = np.array([proxy.scale != "ratio" for proxy in evidence.proxies])
    # A ratio of nothing to nothing is nothing: 0 / (0 + TINY) = 0.
    return np.where(difference, evidence.values - expected, evidence.values / (expected + TINY))


def expectation(values: Floats, baseline: Baseline) -> Floats:
    """Return the mean over the sets that calibrate, never over the set that is being scored."""
    uses = baseline.uses.T[:, :, None].astype(np.float64)
    total = (values * uses).sum(axis=0)
    count = uses.sum(axis=0)
    expected: Floats = (total - values * uses) / np.maximum(count - uses, 1.0)
    return expected
