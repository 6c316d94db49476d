"""Calibration against a slow, obvious loop."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.calibration import TINY, calibrate
from synthleak.evidence import Proxy
from synthleak.evidence.table import Evidence
from synthleak.plan import Baseline

PROXIES = tuple(
    Proxy(scale, "f", "lexical", scale, "")  # type: ignore[arg-type]
    for scale in ("ratio", "log", "difference")
)


def slow(values: np.ndarray, uses: np.ndarray) -> np.ndarray:
    out = np.empty_like(values)
    for s, t, p in np.ndindex(values.shape):
        others = [values[j, t, p] for j in range(len(values)) if uses[t, j] and j != s]
        if not others:
            out[s, t, p] = values[s, t, p]
            continue
        mean = sum(others) / len(others)
        ratio = PROXIES[p].scale == "ratio"
        out[s, t, p] = values[s, t, p] / (mean + TINY) if ratio else values[s, t, p] - mean
    return out


@pytest.mark.parametrize("seed", range(3))
def test_scores_equal_the_obvious_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.random((7, 4, 3))
    uses = rng.random((4, 7)) < 0.6
    uses[:, :2] = True
    (scores,) = calibrate(Evidence(values, PROXIES), [Baseline("S2", uses)])
    assert np.allclose(scores.values, slow(values, uses))


def test_release_only_leaves_evidence_as_it_is() -> None:
    values = np.random.default_rng(0).random((3, 2, 3))
    (scores,) = calibrate(Evidence(values, PROXIES), [Baseline("S1", np.zeros((2, 3), bool))])
    assert np.allclose(scores.values, values, rtol=1e-12)


@pytest.mark.parametrize("scenario", ["S1", "S2", "S3"])
def test_rounding_errors_break_no_tie(scenario: str) -> None:
    """Equal texts differ in the last digits by block and kernel; their scores must not."""
    rng = np.random.default_rng(1)
    values = np.repeat(rng.random((9, 1, 3)) * [1.0, 1e3, 1e-3], 40, axis=1)
    noisy = values * (1 + rng.uniform(-4e-16, 4e-16, size=values.shape))
    assert (noisy != values).any()
    uses = np.zeros((40, 9), bool)
    uses[:, {"S1": [], "S2": [7, 8], "S3": [0, 1, 2, 3]}[scenario]] = True
    (scores,) = calibrate(Evidence(noisy, PROXIES), [Baseline(scenario, uses)])
    assert np.ptp(scores.values, axis=1).max() == 0


def test_nothing_over_nothing_is_nothing() -> None:
    values = np.zeros((3, 1, 3))
    (scores,) = calibrate(Evidence(values, PROXIES), [Baseline("S2", np.ones((1, 3), bool))])
    assert np.array_equal(scores.values, values)


def test_a_set_never_calibrates_itself() -> None:
    values = np.ones((3, 1, 3))
    values[0] = 100.0
    (scores,) = calibrate(Evidence(values, PROXIES), [Baseline("S3", np.ones((1, 3), bool))])
    assert scores.values[0, 0, 0] == pytest.approx(100.0, rel=1e-5)
    assert scores.values[0, 0, 1] == pytest.approx(99.0)
