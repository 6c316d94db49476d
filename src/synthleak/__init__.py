"""synthleak audits synthetic text: does a release still tell whose record went in?

>>> import synthleak
>>> audit = synthleak.run("audit.toml", "runs/audit")  # doctest: +SKIP
>>> audit.cells  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synthleak.analyses.cells import CellRow, ProxyRow, RecordRow
    from synthleak.audit.result import Audit, compare, open_run
    from synthleak.audit.run import analyse, run
    from synthleak.checks.check import check
    from synthleak.core.cell import Cell
    from synthleak.core.errors import SynthleakError, UserError
    from synthleak.core.runtime import Runtime
    from synthleak.core.spec import Spec, load_spec, parse_spec
    from synthleak.corpus.corpus import Corpus, Record
    from synthleak.explain.explanation import explain
    from synthleak.metrics.estimate import Estimate
    from synthleak.releases.claim import Claim

__version__ = "0.1.0.dev0"

_HOME = {
    "Audit": "synthleak.audit.result",
    "Cell": "synthleak.core.cell",
    "CellRow": "synthleak.analyses.cells",
    "Claim": "synthleak.releases.claim",
    "Corpus": "synthleak.corpus.corpus",
    "Estimate": "synthleak.metrics.estimate",
    "ProxyRow": "synthleak.analyses.cells",
    "Record": "synthleak.corpus.corpus",
    "RecordRow": "synthleak.analyses.cells",
    "Runtime": "synthleak.core.runtime",
    "Spec": "synthleak.core.spec",
    "SynthleakError": "synthleak.core.errors",
    "UserError": "synthleak.core.errors",
    "analyse": "synthleak.audit.run",
    "check": "synthleak.checks.check",
    "compare": "synthleak.audit.result",
    "explain": "synthleak.explain.explanation",
    "load_spec": "synthleak.core.spec",
    "open_run": "synthleak.audit.result",
    "parse_spec": "synthleak.core.spec",
    "run": "synthleak.audit.run",
}

__all__ = [
    "Audit",
    "Cell",
    "CellRow",
    "Claim",
    "Corpus",
    "Estimate",
    "ProxyRow",
    "Record",
    "RecordRow",
    "Runtime",
    "Spec",
    "SynthleakError",
    "UserError",
    "analyse",
    "check",
    "compare",
    "explain",
    "load_spec",
    "open_run",
    "parse_spec",
    "run",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that importing synthleak costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'synthleak' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
