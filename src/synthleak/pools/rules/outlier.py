"""`outlier`: records that lie far from the rest in the encoder's space."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import Field

from synthleak.encoders.encoder import at_unit_length
from synthleak.pools.selection import Filter, Ground, mean_ranks, rules


@rules.register("outlier", version=2)
class Outlier(Filter):
    """Farther from the centroid than the p-th percentile, or flagged by LOF where asked.

    With `size` the most extreme are kept: by distance, or where LOF is asked by the mean of the
    ranks by distance and by LOF among all records. (Ranks among the found alone would favour what
    LOF flags close to the centroid.)
    """

    percentile: float = Field(default=99.0, ge=0, lt=100)
    lof: int | None = Field(default=None, ge=1, description="LOF neighbours; none: distance only")
    unit: bool = Field(
        default=True, description="scale vectors to length 1 first: compare directions only"
    )

    @property
    def uses_vectors(self) -> bool:
        return True

    def matches(self, ground: Ground) -> Mapping[int, float]:
        """Union the distance rule with scikit-learn's own LOF flag (docs/method.md §3).

        Vectors are scaled to length 1 first: some encoders give longer vectors to shorter texts,
        and their outliers would be the short texts.
        """
        vectors = ground.vectors().astype(np.float64)
        if self.unit:
            vectors = at_unit_length(vectors)
        distance = np.linalg.norm(vectors - vectors.mean(axis=0), axis=1)
        chosen = distance > np.percentile(distance, self.percentile)
        measures = [distance]
        if self.lof is not None:
            from sklearn.neighbors import LocalOutlierFactor

            factor = LocalOutlierFactor(n_neighbors=min(self.lof, len(vectors) - 1))
            chosen |= factor.fit_predict(vectors) == -1
            measures.append(-factor.negative_outlier_factor_)
        extremity = mean_ranks(*measures)
        return {int(position): float(extremity[position]) for position in np.flatnonzero(chosen)}
