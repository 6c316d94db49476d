"""A gate for pipelines: does any row of `cells.csv` satisfy a condition?

The condition is a predicate (`predicate.py`): names are columns, nothing is evaluated as Python,
and a missing cell satisfies no comparison. See docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from synthleak.analyses.cells import CellRow
from synthleak.core.errors import UserError
from synthleak.core.predicate import Predicate, parse_predicate
from synthleak.core.validation import nearest


def parse_gate(text: str) -> Predicate:
    """Read a condition on columns of `cells.csv`; a mistake is named before any work is done.

    >>> parse_gate("p_holm < 0.01 and crossfit_tpr > 0.1").names
    ('p_holm', 'crossfit_tpr')
    """
    try:
        gate = parse_predicate(text)
    except ValueError as error:
        raise UserError(f"{text!r}: {error}", "--fail-if", "write column < number") from None
    columns = list(CellRow.__dataclass_fields__)
    for name in gate.names:
        if name not in columns:
            raise UserError(
                f"cells.csv has no column {name!r}", "--fail-if", nearest(name, columns)
            )
    if not gate.names:
        raise UserError(f"{text!r} names no column", "--fail-if", "write column < number")
    return gate


def failing(gate: Predicate, rows: Sequence[CellRow]) -> list[CellRow]:
    """Return the rows that satisfy the condition."""
    return [row for row in rows if gate(asdict(row))]
