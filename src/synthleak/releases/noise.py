"""How much noise gives a privacy budget: found by search with an accountant (docs/method.md §5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from synthleak.core.errors import GeneratorError

_sigmas: dict[tuple[float, float, int, float], float] = {}


def gaussian_sigma(epsilon: float, delta: float, count: int = 1, rate: float = 1.0) -> float:
    """Return the noise that gives (ε, δ) for `count` unit-sensitivity Gaussian sums.

    It takes seconds, so it is found once a process; `known_sigmas` are handed to workers.
    """
    asked = (epsilon, delta, count, rate)
    if asked not in _sigmas:
        _sigmas[asked] = _gaussian_sigma(*asked)
    return _sigmas[asked]


def known_sigmas() -> dict[tuple[float, float, int, float], float]:
    """Return what `gaussian_sigma` found in this process so far."""
    return dict(_sigmas)


def learn_sigmas(known: Mapping[tuple[float, float, int, float], float]) -> None:
    """Let `gaussian_sigma` return what another process of this run found."""
    _sigmas.update(known)


def _gaussian_sigma(epsilon: float, delta: float, count: int, rate: float) -> float:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    def events(sigma: float) -> Any:
        return dp_accounting.SelfComposedDpEvent(event_of(sigma, rate), count)

    try:
        return float(dp_accounting.calibrate_dp_mechanism(PLDAccountant, events, epsilon, delta))
    except (ValueError, RuntimeError, MemoryError) as error:
        raise GeneratorError(
            f"no noise gives ε = {epsilon:g} at δ = {delta:g} ({type(error).__name__})",
            remedy="use a larger ε or δ",
        ) from None


@lru_cache(maxsize=256)
def remaining_sigma(epsilon: float, delta: float, spent: float, count: int) -> float:
    """Return the noise of `count` unit sums that follow one of noise `spent`, all within (ε, δ)."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    def events(sigma: float) -> Any:
        rest = dp_accounting.SelfComposedDpEvent(event_of(sigma, 1.0), count)
        return dp_accounting.ComposedDpEvent([event_of(spent, 1.0), rest])

    try:
        # Gaussians compose by their squares: the accountant is asked near the answer only.
        near = math.sqrt(count / (gaussian_mu(epsilon, delta) ** 2 - spent**-2))
        bracket = dp_accounting.ExplicitBracketInterval(0.97 * near, 1.03 * near)
        return float(
            dp_accounting.calibrate_dp_mechanism(PLDAccountant, events, epsilon, delta, bracket)
        )
    except (ValueError, RuntimeError, MemoryError, ZeroDivisionError) as error:
        raise GeneratorError(
            f"nothing is left of ε = {epsilon:g} at δ = {delta:g} ({type(error).__name__})",
            remedy="use a larger ε or δ",
        ) from None


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return δ(ε) of a Gaussian mechanism with means μ apart: Balle and Wang 2018, theorem 8.

    >>> round(gaussian_delta(1.0, 0.0), 4), round(gaussian_delta(1.0, 1.0), 4)
    (0.3829, 0.1269)
    """
    from scipy.special import log_ndtr, ndtr

    rest = math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu)))
    return max(0.0, float(ndtr(mu / 2 - epsilon / mu)) - rest)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return μ of the Gaussian mechanism that is exactly (ε, δ)."""
    from scipy.optimize import brentq

    return float(brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 1e-13, 100 + 2 * epsilon))


def event_of(sigma: float, rate: float, group: int = 1) -> Any:
    """Return a noised sum that `group` records enter or leave together, for the accountant.

    Where records are sampled, each is drawn by itself, so that a step holds a binomial number of
    the group: a mixture of Gaussians (Ganesh 2024, arXiv 2401.10294).
    """
    import dp_accounting

    if group == 1 or rate >= 1:
        plain = dp_accounting.GaussianDpEvent(sigma / group)
        return plain if rate >= 1 else dp_accounting.PoissonSampledDpEvent(rate, plain)
    from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
    from scipy.stats import binom

    counts = range(group + 1)
    return MixtureOfGaussiansDpEvent(
        sigma, [float(count) for count in counts], binom.pmf(counts, group, rate).tolist()
    )
