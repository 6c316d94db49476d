"""synthleak audits synthetic text: does it reveal whose records it was made from?

Three calls, each returns an `Audit`:

    run(spec, out)                    audit a generator: make releases, attack them, report
    check(members, holdout, release)  audit a release that you already have
    open_run(out)                     open the audit of a run folder again

>>> import synthleak
>>> audit = synthleak.check("train.jsonl", "held.jsonl", "synthetic.jsonl")  # doctest: +SKIP
>>> audit.headline, audit.leak_found, audit.named, audit.copies  # doctest: +SKIP
>>> audit.to_pandas("cells"), audit.write_report("report.html")  # doctest: +SKIP

Before them: `split` parts records at random, `canaries` writes canaries to train with, `commit`
fixes the question of an audit. After them: `explain` shows why a record was recognised, `compare`
puts audits side by side, `analyse` joins audits into one study, `verify` checks a finished one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from synthleak.analyses.cells import CellRow as CellRow
    from synthleak.analyses.cells import ProxyRow as ProxyRow
    from synthleak.analyses.cells import RecordRow as RecordRow
    from synthleak.audit.commitment import commit as commit
    from synthleak.audit.finished import analyse as analyse
    from synthleak.audit.finished import compare as compare
    from synthleak.audit.result import Audit as Audit
    from synthleak.audit.result import open_run as open_run
    from synthleak.audit.run import run as run
    from synthleak.audit.verify import verify as verify
    from synthleak.checks.check import check as check
    from synthleak.core.cell import Cell as Cell
    from synthleak.core.errors import SynthleakError as SynthleakError
    from synthleak.core.errors import UserError as UserError
    from synthleak.core.runtime import Runtime as Runtime
    from synthleak.core.spec import Spec as Spec
    from synthleak.core.spec import load_spec as load_spec
    from synthleak.core.spec import parse_spec as parse_spec
    from synthleak.corpus.corpus import Corpus as Corpus
    from synthleak.corpus.corpus import Record as Record
    from synthleak.explanations import explain as explain
    from synthleak.metrics.measurements import Estimate as Estimate
    from synthleak.preflight.split import canaries as canaries
    from synthleak.preflight.split import split as split
    from synthleak.releases.claim import Claim as Claim

__version__ = "0.1.0"

_NAMES = {
    "analyses.cells": "CellRow ProxyRow RecordRow",
    "audit.commitment": "commit",
    "audit.finished": "analyse compare",
    "audit.result": "Audit open_run",
    "audit.run": "run",
    "audit.verify": "verify",
    "checks.check": "check",
    "core.cell": "Cell",
    "core.errors": "SynthleakError UserError",
    "core.runtime": "Runtime",
    "core.spec": "Spec load_spec parse_spec",
    "corpus.corpus": "Corpus Record",
    "explanations": "explain",
    "metrics.measurements": "Estimate",
    "preflight.split": "canaries split",
    "releases.claim": "Claim",
}
_HOME = {name: f"synthleak.{at}" for at, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_HOME)  # noqa: PLE0605 - for type checkers, the names are imported above


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that importing synthleak costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'synthleak' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
