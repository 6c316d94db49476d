"""The verdict in words: what a reader may conclude, and what not (docs/method.md §8)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from synthleak.analyses.cells import power_of
from synthleak.analyses.prior import is_of
from synthleak.core.verdict import BROKEN, CANNOT_SAY, FOUND, NONE_FOUND, decided_by, in_words
from synthleak.metrics.statistics.table import BY_NAME

if TYPE_CHECKING:
    from synthleak.analyses.cells import Cell
    from synthleak.audit.result import Audit


def sentence(audit: Audit, cell: Cell) -> str:
    """Say in one sentence what was found in a cell, what decided it, and what an attacker gains."""
    figures, said = audit.figures[cell], audit.verdicts[cell]
    powers = [power_of(figures, row, len(audit.figures)) for row in figures.rows]
    known = [power for power in powers if power is not None]
    fitted = figures.crossfit
    return in_words(
        said.words,
        decided=decided(audit, cell),
        counted=audit.preconditions is None and audit.setup.spec.game.adjacency == "add",
        auc=fitted.value if fitted else None,
        low=fitted.low if fitted else None,
        high=fitted.high if fitted else None,
        ceiling=fitted.null if fitted else None,
        power=max(known) if len(known) == len(powers) else None,
    )


def decided(audit: Audit, cell: Cell) -> str | None:
    """Name the signal and the statistic that decided the verdict on a cell; None if nothing did."""
    row = next(row for row in audit.cells if is_of(row, cell))
    if row.deciding_value is None:
        return None
    return decided_by(
        BY_NAME[row.deciding_statistic].title,
        row.deciding_proxy,
        row.deciding_scenario,
        row.deciding_value,
        row.deciding_ceiling,
    )


def headline(audit: Audit) -> str:
    """Say what the audit found: how many cells, the strongest of them, and what does not follow."""
    said = {cell: verdict.words for cell, verdict in audit.verdicts.items()}
    found = [cell for cell, words in said.items() if _ends(words, FOUND)]
    none = [cell for cell, words in said.items() if words.endswith(NONE_FOUND)]
    broken = [cell for cell, words in said.items() if words.startswith(BROKEN.upper())]
    unsaid = [cell for cell, words in said.items() if CANNOT_SAY in words]
    parts = []
    if broken:
        parts.append(f"CLAIM BROKEN in {_cells(len(broken))}: {_named(broken)}.")
    if found:
        top = max(found, key=lambda cell: _deployable(audit, cell))
        parts.append(
            f"Leak found in {len(found)} of {_cells(len(said))}, most in {_named([top])}:"
            f" {sentence(audit, top).partition(': ')[2]}."
        )
    if none:
        top = max(none, key=lambda cell: _deployable(audit, cell))
        missed = sentence(audit, top).partition(": ")[2]
        parts.append(
            f"None found at this power in {len(none)} of {_cells(len(said))}; in {_named([top])}"
            f" {missed}. Nothing found is no proof that nothing leaks."
        )
    if unsaid:
        parts.append(
            f"Nothing can be said of {_cells(len(unsaid))}: {said[unsaid[0]].partition(': ')[2]}."
        )
    if (
        audit.preconditions is not None
        and audit.preconditions.declared == "unstated"
        and not unsaid
    ):
        parts.append(
            "This holds if members and holdout are a uniform random split, made before the release:"
            " nobody has declared that."
        )
    return " ".join(parts)


def _ends(words: str, end: str) -> bool:
    return words.endswith(end) and not words.endswith(NONE_FOUND)


def _deployable(audit: Audit, cell: Cell) -> float:
    fitted = audit.figures[cell].crossfit
    return -math.inf if fitted is None else fitted.value


def _cells(count: int) -> str:
    return f"{count} cell{'s' * (count != 1)}"


def _named(cells: list[Cell]) -> str:
    def name(cell: Cell) -> str:
        budget = "without privacy" if math.isinf(cell.epsilon) else f"at ε = {cell.epsilon:g}"
        return f"{cell.generator} {budget}, pool {cell.pool}"

    return "; ".join(name(cell) for cell in cells)
