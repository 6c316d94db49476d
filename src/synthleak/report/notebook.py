"""How an audit shows itself in a notebook: the verdict, a small map, the cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synthleak.report.environment import environment
from synthleak.report.verdict import headline

if TYPE_CHECKING:
    from synthleak.audit.result import Audit


def notebook(audit: Audit) -> str:
    """Return a piece of HTML for a notebook's output cell: ids and figures, everything escaped."""
    return (
        environment()
        .get_template("notebook.html")
        .render(
            headline=headline(audit),
            corpus=audit.setup.corpus.name,
            records=len(audit.setup.corpus),
            folder=str(audit.folder.root),
            maps=_maps(audit),
            rows=audit.cells,
        )
    )


def _maps(audit: Audit) -> list[dict[str, Any]]:
    """Return pools × ε for every generator: the deployable figure and whether it was found."""
    maps = []
    for section, _ in audit.setup.plugins.generators:
        cells = {(c.pool, c.epsilon): c for c in audit.figures if c.generator == section.name}
        budgets = sorted({epsilon for _, epsilon in cells}, reverse=True)
        pools = list(dict.fromkeys(pool for pool, _ in cells))
        maps.append(
            {
                "generator": section.name,
                "budgets": budgets,
                "rows": [
                    (pool, [_square(audit, cells.get((pool, epsilon))) for epsilon in budgets])
                    for pool in pools
                ],
            }
        )
    return maps


def _square(audit: Audit, cell: Any) -> dict[str, Any] | None:
    if cell is None:
        return None
    fitted = audit.figures[cell].crossfit
    words = audit.verdicts[cell].words
    return {
        "auc": None if fitted is None else fitted.value,
        "ceiling": None if fitted is None else fitted.null,
        "found": words.endswith("leak found"),
        "words": words,
    }
