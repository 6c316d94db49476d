"""`rare`: records whose labels are seldom seen together, or that carry many."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, model_validator

from synthleak.pools.pool import Filter, Ground, rules


@rules.register("rare", version=1)
class Rare(Filter):
    """Label combination seen at most `max_frequency` times, or at least `min_labels` labels."""

    max_frequency: int | None = Field(default=None, ge=1)
    min_labels: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _asks_something(self) -> Rare:
        if self.max_frequency is None and self.min_labels is None:
            raise ValueError("set max_frequency, min_labels or both")
        return self

    def matches(self, ground: Ground) -> Sequence[int]:
        """Select by label statistics alone: no encoder is involved."""
        counts = ground.corpus.combinations
        return [
            position
            for position, record in enumerate(ground.corpus.records)
            if (self.max_frequency is not None and counts[record.labels] <= self.max_frequency)
            or (self.min_labels is not None and len(record.labels) >= self.min_labels)
        ]
