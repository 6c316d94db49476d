"""A gate for pipelines: does any row of `cells.csv` satisfy a condition?

The condition is a predicate (`core/predicate.py`): names are columns, or `leak_found` and
`claim_broken`; nothing is evaluated as Python, and a missing cell satisfies no comparison. See
docs/ci.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from synthleak.analyses.cells import CellRow
from synthleak.core.cell import LEVEL
from synthleak.core.errors import UserError
from synthleak.core.predicate import Operand, Predicate, parse_predicate
from synthleak.core.validation import nearest

NUMBER, TEXT, MARK = "a number", "a text", "true or false"
LEAK, BROKEN = "leak_found", "claim_broken"
RECOMMENDED = "p_holm <= 0.01 or claim_broken or copied_p <= 0.01 or disclosed_p <= 0.01"
"""What docs/ci.md recommends: a gate runs on every release, and each part may stop 1 in 100 for
nothing. The verdict's own level would stop 5."""
VERDICTS = frozenset({LEAK, "p_holm", "p_cell", "p_value"})
"""What asks whether there is a leak: a gate on it fails where nothing can be said."""


def parse_gate(text: str) -> Predicate:
    """Read a condition on columns of `cells.csv`; a mistake is named before any work is done.

    >>> parse_gate("p_holm < 0.01 and crossfit_tpr > 0.1").names
    ('p_holm', 'crossfit_tpr')
    """
    try:
        gate = parse_predicate(text)
    except ValueError as error:
        raise UserError(f"{text!r}: {error}", "--fail-if", "write column < number") from None
    columns = [*CellRow.__dataclass_fields__, LEAK, BROKEN]
    for name in gate.names:
        if name not in columns:
            raise UserError(
                f"cells.csv has no column {name!r}", "--fail-if", nearest(name, columns)
            )
    if not gate.names:
        raise UserError(f"{text!r} names no column", "--fail-if", "write column < number")
    for left, right in gate.comparisons:
        _check_types(left, right)
    return gate


def _check_types(left: Operand, right: Operand | None) -> None:
    """Refuse what would compare a number with a text: such a gate would never close.

    Neither would one that asks for the words of a verdict and misses those of a broken claim.
    """
    if "verdict" in (left.name, right.name if right else None):
        raise UserError(
            "the verdict is a sentence to be read", "--fail-if", f"write {LEAK} or {BROKEN}"
        )
    if right is None:
        if _kind(left) == NUMBER:
            raise UserError(
                f"{left.name} is a number", "--fail-if", f"compare it: {left.name} < number"
            )
        return
    sides = (left, right)
    if any(side.name is None and side.value is None for side in sides):
        return  # asks whether a cell is missing
    if _kind(left) != _kind(right):
        raise UserError(
            " and ".join(f"{side.name or repr(side.value)} is {_kind(side)}" for side in sides),
            "--fail-if",
            "compare numbers with numbers, without quotes, and texts with 'texts'",
        )


def _kind(side: Operand) -> str:
    if side.name is None:
        return {str: TEXT, bool: MARK}.get(type(side.value), NUMBER)
    if side.name in (LEAK, BROKEN):
        return MARK
    written = str(CellRow.__dataclass_fields__[side.name].type)
    return TEXT if "str" in written else NUMBER


def _values(row: CellRow) -> dict[str, Any]:
    """Return what a condition may name of a row.

    No leak found is None, not false, where nothing can be said: without a test, and with too few
    trials for any outcome to be significant.
    """
    leaks = None
    if row.p_holm is not None and not row.cannot_say:
        leaks = row.p_holm <= LEVEL
    broken = None if row.claim_p_holm is None else row.claim_p_holm <= LEVEL
    if row.epsilon_claim is None or math.isinf(row.epsilon_claim):
        broken = False  # nothing is promised
    return {**asdict(row), LEAK: leaks, BROKEN: broken}


def failing(gate: Predicate, rows: Sequence[CellRow]) -> list[CellRow]:
    return [row for row in rows if gate(_values(row))]


def clauses(gate: Predicate, row: CellRow) -> str:
    """Return by which clauses a row satisfies the condition, with their values.

    >>> gate = parse_gate("leak_found or copied_p <= 0.05")
    >>> gate.test({"leak_found": None, "copied_p": 0.003})
    ['copied_p = 0.003 <= 0.05']
    """
    return "; ".join(gate.test(_values(row)))


def undecided(gate: Predicate, rows: Sequence[CellRow]) -> list[CellRow]:
    """Return the rows of which nothing can be said, where the condition asks for a verdict."""
    if VERDICTS.isdisjoint(gate.names):
        return []
    return [row for row in rows if _values(row)[LEAK] is None and not gate(_values(row))]


def missing(gate: Predicate, rows: Sequence[CellRow]) -> dict[str, int]:
    """Count the rows that have no value in a column of the condition, column by column."""
    known = [_values(row) for row in rows]
    values = {name: [row[name] for row in known] for name in gate.names}
    counts = {
        name: sum(
            value is None or (isinstance(value, float) and math.isnan(value)) for value in column
        )
        for name, column in values.items()
    }
    return {name: count for name, count in counts.items() if count}
