"""The embedding proxies of docs/method.md §6, vector by vector; densities and distances by
libraries."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
from scipy.spatial.distance import mahalanobis
from scipy.stats import multivariate_normal
from sklearn.covariance import LedoitWolf
from sklearn.neighbors import LocalOutlierFactor

Vector = Any


def cos(a: Vector, b: Vector) -> float:
    size = np.linalg.norm(a) * np.linalg.norm(b)
    return float(a @ b / size) if size else 0.0


def distance(a: Vector, b: Vector) -> float:
    return float(np.sqrt(((a - b) ** 2).sum()))


def largest(values: Sequence[float], k: int = 10) -> list[float]:
    return sorted(values, reverse=True)[:k]


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def without_duplicates(texts: Sequence[Vector]) -> list[Vector]:
    kept: list[Vector] = []
    for vector in texts:
        if all(np.abs(vector - other).max() > 1e-6 for other in kept):
            kept.append(vector)
    return kept


def radius_of(texts: Sequence[Vector], far: Any) -> float:
    """The median distance to the nearest other vector."""
    kept = without_duplicates(texts)
    nearest = [min(far(a, b) for j, b in enumerate(kept) if j != i) for i, a in enumerate(kept)]
    return median(nearest)


def csls(x: Vector, texts: Sequence[Vector]) -> list[float]:
    around_x = mean(largest([cos(x, c) for c in texts]))
    values = []
    for i, c in enumerate(texts):
        around_c = mean(largest([cos(c, other) for j, other in enumerate(texts) if j != i]))
        values.append((2 * cos(x, c) - around_x - around_c + 4) / 8)
    return values


def embedding(x: Vector, texts: Sequence[Vector]) -> dict[str, float]:
    """Every embedding proxy of one target on one observation, but the isolation forest."""
    whole = np.array(texts)
    cosines = [cos(x, c) for c in texts]
    dots = [float(x @ c) for c in texts]
    distances = [distance(x, c) for c in texts]
    closeness = [1 / (1 + d) for d in distances]
    near = radius_of(texts, lambda a, b: 1 - cos(a, b))
    close = radius_of(texts, distance)
    fitted = LedoitWolf().fit(whole)
    inverse = np.linalg.inv(fitted.covariance_)
    corrected = csls(x, texts)
    detector = LocalOutlierFactor(n_neighbors=min(20, len(texts) - 1), novelty=True).fit(whole)
    return {
        "cos_max": (1 + max(cosines)) / 2,
        "cos_topk": (1 + mean(largest(cosines))) / 2,
        "cos_radius": mean([1 - value <= near + 1e-9 for value in cosines]),
        "dot_max": max(dots),
        "dot_topk": mean(largest(dots)),
        "euclid_nn": max(closeness),
        "euclid_topk": mean(largest(closeness)),
        "euclid_radius": mean([d <= close + 1e-9 for d in distances]),
        "mahalanobis_centroid": 1 / (1 + mahalanobis(x, fitted.location_, inverse)),
        "mahalanobis_nn": 1 / (1 + min(mahalanobis(x, c, inverse) for c in texts)),
        "csls_max": max(corrected),
        "csls_topk": mean(largest(corrected)),
        "gaussian_loglik": float(
            multivariate_normal(fitted.location_, fitted.covariance_).logpdf(x)
        ),
        "lof": min(1 / -float(detector.score_samples(x[None])[0]), 10.0),
    }
