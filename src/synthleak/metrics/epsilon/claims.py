"""The privacy claim: the δ at which it is compared, and the ROC it allows (docs/method.md §8)."""

from __future__ import annotations

import math

import numpy as np

from synthleak.core.spec_sections import Adjacency
from synthleak.evidence.observation import Floats
from synthleak.metrics.epsilon.one_run import audit_delta
from synthleak.releases.claim import Claim

POINTS = 48


def comparison_delta(claim: Claim, adjacency: Adjacency, nominal: int, coins: int | None) -> float:
    """Return the δ at which a bound on ε and the claim are compared.

    The claim's own δ; where many coins are counted together (`coins` of them) the smaller δ_a,
    unless the claim is a single stated point, which says nothing elsewhere. A release that claims
    nothing is measured at δ = 1/N².
    """
    if claim.stated:
        return claim.point(adjacency)[1]
    delta = claim.delta if claim.promises else 1 / nominal**2
    return delta if coins is None else audit_delta(delta, coins)


def allowed_tpr(fpr: Floats, epsilon: float, delta: float) -> Floats:
    """Return the largest TPR that (ε, δ) allows at each FPR.

    >>> allowed_tpr(np.array([0.0, 0.05, 1.0]), math.log(3), 0.1).round(4).tolist()
    [0.1, 0.25, 1.0]
    """
    if math.isinf(epsilon):
        return np.ones_like(fpr)
    growth = math.exp(min(epsilon, 700.0))
    bound: Floats = np.minimum(growth * fpr + delta, 1 - (1 - delta - fpr) / growth)
    return np.clip(bound, 0.0, 1.0)


def claim_roc(claim: Claim, adjacency: Adjacency, fpr: Floats) -> Floats:
    """Return the trade-off curve of a claim: the tightest of all its points δ(ε), as TPR at FPR.

    A claim that is one stated point has that point alone; one that promises nothing allows all.
    """
    if not claim.promises:
        return np.ones_like(fpr)
    if claim.stated:
        delta = comparison_delta(claim, adjacency, 1, None)
        return allowed_tpr(fpr, claim.epsilon_at(delta, adjacency), delta)
    top = claim.epsilon_at(min(claim.delta, 1e-6), adjacency)
    curves = [
        allowed_tpr(fpr, epsilon, claim.delta_at(epsilon, adjacency))
        for epsilon in np.linspace(0.0, max(top, 1e-3), POINTS).tolist()
    ]
    tightest: Floats = np.min(curves, axis=0)
    return tightest
