"""`outlier`: records that lie far from the rest in the encoder's space."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import Field

from synthleak.pools.pool import Filter, Ground, rules


@rules.register("outlier", version=1)
class Outlier(Filter):
    """Farther from the centroid than the p-th percentile, or flagged by LOF where asked."""

    percentile: float = Field(default=99.0, ge=0, lt=100)
    lof: int | None = Field(default=None, ge=1, description="LOF neighbours; none: distance only")
    unit: bool = Field(
        default=False, description="compare directions only, whatever the length of a vector"
    )

    @property
    def uses_vectors(self) -> bool:
        """Distances come from the pool encoder."""
        return True

    def matches(self, ground: Ground) -> Sequence[int]:
        """Union the distance rule with scikit-learn's own LOF flag (METHOD §3)."""
        vectors = ground.vectors().astype(np.float64)
        if self.unit:
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
            vectors = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
        distance = np.linalg.norm(vectors - vectors.mean(axis=0), axis=1)
        chosen = distance > np.percentile(distance, self.percentile)
        if self.lof is not None:
            from sklearn.neighbors import LocalOutlierFactor

            neighbours = min(self.lof, len(vectors) - 1)
            chosen |= LocalOutlierFactor(n_neighbors=neighbours).fit_predict(vectors) == -1
        found: list[int] = np.flatnonzero(chosen).tolist()
        return found
