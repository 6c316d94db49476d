"""`labels`: records chosen by the labels that they carry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from synthleak.core.errors import PoolError
from synthleak.core.validation import listed, nearest
from synthleak.corpus.corpus import Corpus, Record
from synthleak.pools.selection import Filter, Ground, rules

MOST = 12
"""Labels that an error lists: a corpus may have thousands."""
Names = Annotated[tuple[str, ...], BeforeValidator(listed)]


@rules.register("labels", version=1)
class LabelRule(Filter):
    """Records with at least one label of `any`, every label of `all` and no label of `none`."""

    any: Names = Field(default=(), description="at least one of these")
    all: Names = Field(default=(), description="every one of these")
    none: Names = Field(default=(), description="not one of these")

    @model_validator(mode="after")
    def _asks_something(self) -> LabelRule:
        if not (self.any or self.all or self.none):
            raise ValueError("set any, all or none to a list of labels")
        return self

    def matches(self, ground: Ground) -> Sequence[int]:
        known = ground.corpus.label_names
        for label in (*self.any, *self.all, *self.none):
            if label not in known:
                raise PoolError(
                    f"no record carries the label {label!r}",
                    remedy=nearest(label, known, most=MOST),
                )
        positions = [p for p, record in enumerate(ground.corpus.records) if self._fits(record)]
        if not positions:
            asked = [
                f"{name} = {list(value)}"
                for name, value in (("any", self.any), ("all", self.all), ("none", self.none))
                if value
            ]
            raise PoolError(
                f"no record satisfies {', '.join(asked)}", remedy=_combinations(ground.corpus)
            )
        return positions

    def _fits(self, record: Record) -> bool:
        carried = set(record.labels)
        return (
            (not self.any or not carried.isdisjoint(self.any))
            and carried.issuperset(self.all)
            and carried.isdisjoint(self.none)
        )


def _combinations(corpus: Corpus) -> str:
    common = [" + ".join(labels) or "none" for labels, _ in corpus.combinations.most_common(3)]
    return f"the most frequent combinations are {', '.join(common)}; see `synthleak corpus`"
