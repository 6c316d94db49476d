"""`where`: records chosen by what else is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator

from synthleak.core.errors import PoolError
from synthleak.core.predicate import parse_predicate
from synthleak.core.validation import nearest
from synthleak.corpus.corpus import Record
from synthleak.pools.selection import Filter, Ground, rules


def _readable(text: str) -> str:
    parse_predicate(text)
    return text


@rules.register("where", version=1)
class Where(Filter):
    """Records whose other columns satisfy a predicate, such as: site == 'B' and age >= 80."""

    where: Annotated[str, AfterValidator(_readable)]

    def matches(self, ground: Ground) -> Sequence[int]:
        """Return the records that satisfy the predicate; `id` and `group` may be asked for too."""
        predicate = parse_predicate(self.where)
        rows = [_row(record) for record in ground.corpus.records]
        known = list(dict.fromkeys(key for row in rows for key in row))
        for name in predicate.names:
            if name not in known:
                raise PoolError(
                    f"where = {self.where!r} asks for {name!r}, which no record has",
                    remedy=nearest(name, known),
                )
        positions = [position for position, row in enumerate(rows) if predicate(row)]
        if not positions:
            values = "; ".join(_values(name, rows) for name in predicate.names)
            raise PoolError(f"no record satisfies where = {self.where!r}", remedy=values)
        return positions


def _row(record: Record) -> dict[str, Any]:
    return {"id": record.id, "group": record.group, **record.meta}


def _values(name: str, rows: Sequence[dict[str, Any]], most: int = 8) -> str:
    """Say what a column holds, briefly: a range, or its values if they are few.

    >>> _values("age", [{"age": 31}, {"age": 80}]), _values("site", [{"site": "B"}, {}])
    ('age is from 31 to 80', "site is one of 'B'")
    """
    values = {v for row in rows if isinstance(v := row.get(name), str | int | float)}
    if values and all(isinstance(value, int | float) for value in values):
        return f"{name} is from {min(values):g} to {max(values):g}"
    if 0 < len(values) <= most:
        return f"{name} is one of {', '.join(sorted(map(repr, values)))}"
    return f"{name} has {len(values)} different values"
