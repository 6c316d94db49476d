"""How an audit shows itself in a notebook: the verdict, who is hit, a small map, the cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from synthleak.analyses.cells import RecordRow
from synthleak.analyses.copies import CopyRow
from synthleak.report.results import CellResult
from synthleak.report.verdict import model_line
from synthleak.report.writing import filled

FIRST = 10
"""Named records and copies that are listed; `results/` holds them all."""


def notebook(
    headline: str,
    results: Sequence[CellResult],
    *,
    named: Sequence[RecordRow],
    copies: Sequence[CopyRow],
    remarks: Sequence[Any],
    **facts: Any,
) -> str:
    """Return a piece of HTML for a notebook's output cell: ids and figures, everything escaped."""
    return filled(
        "notebook.html",
        headline=headline,
        corpus=results[0].cell.corpus,
        **facts,
        models=[(one.name, said) for one in results if (said := model_line(one))],
        maps=_maps(results),
        rows=[row for one in results for row in one.rows],
        named=sorted(named, key=lambda row: (row.q_value, row.p_value))[:FIRST],
        all_named=len(named),
        copies=copies[:FIRST],
        all_copies=len(copies),
        remarks=remarks,
    ).decode()


def _maps(results: Sequence[CellResult]) -> list[dict[str, Any]]:
    """Return pools × ε for every generator: the deployable figure and whether it was found."""
    maps = []
    for generator in dict.fromkeys(one.cell.generator for one in results):
        cells = {
            (one.cell.pool, one.cell.epsilon): one
            for one in results
            if one.cell.generator == generator
        }
        budgets = sorted({epsilon for _, epsilon in cells}, reverse=True)
        maps.append(
            {
                "generator": generator,
                "budgets": budgets,
                "rows": [
                    (pool, [_square(cells.get((pool, epsilon))) for epsilon in budgets])
                    for pool in dict.fromkeys(pool for pool, _ in cells)
                ],
            }
        )
    return maps


def _square(result: CellResult | None) -> dict[str, Any] | None:
    if result is None:
        return None
    fitted = result.deployable
    return {
        "auc": None if fitted is None else fitted.value,
        "ceiling": None if fitted is None else fitted.null,
        "found": result.verdict.leaks,
        "words": str(result.verdict),
    }
