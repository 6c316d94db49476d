"""What a privacy claim allows an attacker, as a whole trade-off curve (docs/method.md §8.9).

Every point (ε, δ) of a claim limits the rates of a test that tells members from others: TPR ≤ e^ε
FPR + δ and 1 − FPR ≤ e^ε (1 − TPR) + δ. The tightest of all points is the claim's curve.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from synthleak.core.spec_sections import Adjacency
from synthleak.evidence.observation import Floats
from synthleak.releases.claim import Claim
from synthleak.releases.noise import gaussian_delta, gaussian_mu

POINTS = 96
LARGEST = 50.0
"""The largest ε of a point, and of a bound: beyond it nothing is allowed that is not possible."""
_CELLS = 4096


@dataclass(frozen=True)
class TradeOff:
    """A curve given by points (ε, δ): fewer points allow more, so that a test stays valid."""

    points: tuple[tuple[float, float], ...]

    @cached_property
    def _lines(self) -> Floats:
        """`[line, (slope, at 0)]` of the TPR: two lines for each point."""
        epsilon, delta = np.array(self.points, dtype=np.float64).T
        slope = np.exp(np.stack([epsilon, -epsilon]))
        at_zero = np.stack([delta, 1 - (1 - delta) * slope[1]])
        return np.stack([slope.ravel(), at_zero.ravel()], axis=1)

    def tpr(self, fpr: Floats) -> Floats:
        """Return the largest TPR allowed at each FPR.

        >>> TradeOff(((math.log(3), 0.1),)).tpr(np.array([0.0, 0.05, 1.0])).round(4).tolist()
        [0.1, 0.25, 1.0]
        """
        slope, at_zero = self._lines.T[:, :, None]
        tightest: Floats = (slope * fpr + at_zero).min(axis=0)
        return np.clip(tightest, 0.0, 1.0)

    @cached_property
    def _steepest(self) -> tuple[list[float], list[float]]:
        """The line that needs the largest FPR in each cell of √TPR, as slope and value at 0."""
        slope, at_zero = self._lines.T
        tpr = ((np.arange(_CELLS + 1) + 0.5) / _CELLS) ** 2
        best = ((tpr[:, None] - at_zero) / slope).argmax(axis=1)
        return (1 / slope[best]).tolist(), (-at_zero[best] / slope[best]).tolist()

    def fpr(self, tpr: float) -> float:
        """Return the smallest FPR at which this TPR is allowed, or a little less.

        >>> round(TradeOff(((math.log(3), 0.1),)).fpr(0.25), 6)
        0.05
        """
        if len(self.points) == 1:
            epsilon, delta = self.points[0]
            growth = math.exp(epsilon)
            return max(0.0, (tpr - delta) / growth, 1 - delta - (1 - tpr) * growth)
        slopes, at_zero = self._steepest
        cell = int(math.sqrt(min(tpr, 1.0)) * _CELLS)
        return max(0.0, slopes[cell] * tpr + at_zero[cell])


def point_curve(epsilon: float, delta: float) -> TradeOff:
    """Return what the single point (ε, δ) allows."""
    return TradeOff(((epsilon, delta),))


def gaussian_curve(mu: float) -> TradeOff:
    """Return what a Gaussian mechanism with means μ apart allows.

    >>> round(float(gaussian_curve(1.0).tpr(np.array([0.5]))[0]), 3)
    0.841
    """
    epsilons = np.linspace(0.0, min(LARGEST, mu * (mu / 2 + 5)), POINTS)
    return TradeOff(tuple((e, gaussian_delta(mu, e)) for e in epsilons.tolist()))


@dataclass(frozen=True)
class Promise:
    """A claim as it is tested: its curve, and the δ at which one ε stands for it.

    `curve` is None where nothing is promised; `gaussian` says that a claim of another ε would be
    that of a Gaussian mechanism, and not a single point.
    """

    delta: float
    curve: TradeOff | None = None
    gaussian: bool = False

    @property
    def aim(self) -> TradeOff:
        """The curve that choices are made against; that of ε = 1 if nothing is promised."""
        return self.curve or point_curve(1.0, self.delta)

    def alike(self, epsilon: float) -> TradeOff:
        """Return the curve of a claim of the same kind, with this ε at the same δ."""
        if self.gaussian and self.delta > 0:
            return gaussian_curve(gaussian_mu(epsilon, self.delta))
        return point_curve(epsilon, self.delta)


def promise_of(claim: Claim, adjacency: Adjacency, nominal: int) -> Promise:
    """Return a claim as it is tested; without one, a bound on ε is measured at δ = 1/N².

    A claim that is one stated point has the δ of that point, as it is for this adjacency.
    """
    if not claim.promises:
        return Promise(1 / nominal**2)
    delta = claim.point(adjacency)[1] if claim.stated else claim.delta
    return Promise(delta, curve_of(claim, adjacency), not claim.stated)


def curve_of(claim: Claim, adjacency: Adjacency) -> TradeOff:
    """Return the curve of a claim: a stated point alone, else many points of its δ(ε)."""
    if claim.stated:
        epsilon, delta = claim.point(adjacency)
        return point_curve(min(epsilon, LARGEST), delta if epsilon <= LARGEST else 1.0)
    top = min(LARGEST, max(claim.epsilon_at(min(claim.delta, 1e-6), adjacency), 1e-3))
    epsilons = np.linspace(0.0, top, POINTS).tolist()
    return TradeOff(tuple((e, min(1.0, claim.delta_at(e, adjacency))) for e in epsilons))


def claim_roc(claim: Claim, adjacency: Adjacency, fpr: Floats) -> Floats:
    """Return the trade-off curve of a claim as TPR at FPR; without a claim all is allowed."""
    return curve_of(claim, adjacency).tpr(fpr) if claim.promises else np.ones_like(fpr)
