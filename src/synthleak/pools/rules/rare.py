"""`rare`: records whose labels are seldom seen together, or that carry many."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from pydantic import Field, model_validator

from synthleak.pools.selection import Filter, Ground, mean_ranks, rules


@rules.register("rare", version=2)
class Rare(Filter):
    """Label combination seen at most `max_frequency` times, or at least `min_labels` labels.

    With `size` the rarest are kept: the lowest frequency, or the most labels; where both are set,
    by the mean of the two ranks.
    """

    max_frequency: int | None = Field(default=None, ge=1)
    min_labels: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _asks_something(self) -> Rare:
        if self.max_frequency is None and self.min_labels is None:
            raise ValueError("set max_frequency, min_labels or both")
        return self

    def matches(self, ground: Ground) -> Mapping[int, float]:
        """Select by label statistics alone: no encoder is involved."""
        counts, records = ground.corpus.combinations, ground.corpus.records
        frequency = np.array([counts[record.labels] for record in records])
        labels = np.array([len(record.labels) for record in records])
        chosen = np.zeros(len(records), dtype=np.bool_)
        measures = []
        if self.max_frequency is not None:
            chosen |= frequency <= self.max_frequency
            measures.append(-frequency)
        if self.min_labels is not None:
            chosen |= labels >= self.min_labels
            measures.append(labels)
        rarity = mean_ranks(*measures)
        return {int(position): float(rarity[position]) for position in np.flatnonzero(chosen)}
