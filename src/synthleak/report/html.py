"""`report.html`: one self-contained page with tables, verdict line and method."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

import synthleak
from synthleak.calibration.scenarios import KNOWLEDGE
from synthleak.report.verdict import headline

if TYPE_CHECKING:
    from synthleak.audit import Audit


def render(audit: Audit) -> bytes:
    """Return the page. It shows ids and figures, never the text of a record."""
    environment = Environment(
        loader=PackageLoader("synthleak.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["budget"] = _budget
    environment.filters["figure"] = lambda value: "–" if value is None else f"{value:.3f}"
    environment.filters["chance"] = _chance
    page = environment.get_template("report.html").render(**_content(audit))
    return page.encode()


def _budget(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:.3g}"


def _chance(p: float | None) -> str:
    return "–" if p is None else f"{p:.4f}" if p < 0.01 else f"{p:.2f}"


def _content(audit: Audit) -> dict[str, Any]:
    bench = audit.bench
    table: dict[tuple[str, str, float], dict[str, Any]] = {}
    for row in audit.cells:
        table.setdefault((row.pool, row.generator, row.epsilon), {})[row.scenario] = row
    return {
        "version": synthleak.__version__,
        "headline": headline(audit),
        "corpus": bench.corpus,
        "pools": bench.pools,
        "plans": bench.plans,
        "publics": bench.publics,
        "bench": bench,
        "game": bench.spec.game,
        "table": table,
        "judged": [
            (cell, figures, audit.verdicts[cell]) for cell, figures in audit.figures.items()
        ],
        "redraws": f"{next(iter(audit.figures.values())).redraws:,}",
        "claims": [(cell, audit.claim(cell)) for cell in bench.cells],
        "comparison": audit.comparison,
        "degenerate": [
            (cell, counts)
            for cell in bench.cells
            if any((counts := audit.degenerate(cell)).values())
        ],
        "knowledge": KNOWLEDGE,
        "same_encoder": bench.plugins.encoder == bench.plugins.pool_encoder,
        "encoder": bench.plugins.encoder.kind,
        "proxies": [proxy for member in bench.plugins.families for proxy in member.proxies],
    }
