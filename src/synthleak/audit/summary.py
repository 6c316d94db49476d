"""An audit in short, without a text of a record: a row per cell, the files that CI systems show
(JUnit, Markdown, SARIF), and the block of a dataset card (Hugging Face, or Croissant RAI)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthleak.analyses.cells import CellRow
from synthleak.audit.facts import remarks_on
from synthleak.audit.folder import REPORT
from synthleak.audit.gate import clauses, failing
from synthleak.audit.result import Audit
from synthleak.audit.sarif import sarif
from synthleak.core.cell import CANNOT_SAY, WORDS, counted, format_epsilon, is_of
from synthleak.core.errors import UserError
from synthleak.core.predicate import Predicate
from synthleak.report.results import CellResult
from synthleak.report.verdict import sentence
from synthleak.report.writing import filled, markdown_table, plain

FORMATS = {".xml": "JUnit", ".md": "Markdown", ".sarif": "SARIF"}
CARDS = {".md": "Hugging Face", ".json": "Croissant RAI"}
CAVEATS = 2
"""Of a card: the most important ones come first."""
_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def cell_overview(results: Sequence[CellResult]) -> list[dict[str, Any]]:
    """Return a row per cell for a narrow table; columns that no cell fills are left out.

    The AUC is that of an attacker who fixed the method in advance (docs/method.md §8).
    """
    rows = [_overview_row(one) for one in results]
    return [
        {key: value for key, value in row.items() if any(other[key] is not None for other in rows)}
        for row in rows
    ]


def _overview_row(one: CellResult) -> dict[str, Any]:
    named, rate = one.measurements.named, one.measurements.crossfit_tpr
    fitted, row = one.deployable, one.rows[0]
    shown = named is None and one.few is None
    disclosed = one.disclosures and f"{one.disclosures.disclosed:,} ({one.disclosures.by_chance:,})"
    return {
        "pool": one.cell.pool,
        "generator": one.cell.generator,
        "ε": format_epsilon(one.cell.epsilon, infinity="–" if one.given else "∞"),
        "verdict": WORDS[one.verdict.worst].removesuffix(" at this power"),
        "named": None if named is None else f"{named:,} of {len(one.measurements.records):,}",
        "recognised of 100": round(100 * rate.value) if shown and rate is not None else None,
        "copied": None if one.copies is None else one.copies.copied[0],
        "disclosed (by chance)": disclosed,
        "AUC": None if fitted is None else fitted.value,
        "chance limit": None if fitted is None else fitted.null,
        "p": one.judged.p_holm,
        "releases": f"{row.instances} of {one.planned}" if row.looks > 1 else None,
    }


def check_format(path: Path, option: str, formats: Mapping[str, str]) -> None:
    """Refuse a file of an unknown format before any work starts."""
    if path.suffix.lower() not in formats:
        known = ", ".join(f"{ending} ({what})" for ending, what in formats.items())
        raise UserError(f"unknown format: {path.name!r}", option, f"end the name in {known}")


def summary_file(path: Path, audit: Audit, gate: Predicate | None) -> bytes:
    form = path.suffix.lower()
    if form == ".sarif":
        return sarif(audit).encode()
    return (junit if form == ".xml" else markdown)(audit, gate).encode()


@dataclass(frozen=True)
class _Case:
    """A cell as a test: `failed` says why it fails, `skipped` why it says nothing."""

    name: str
    details: str
    failed: str | None
    skipped: str | None


def _cases(audit: Audit, gate: Predicate | None) -> list[_Case]:
    """A cell fails where the condition of the gate holds; without a gate, where it leaks."""
    held = failing(gate, audit.cells) if gate is not None else []
    return [_case(one, gate, held) for one in audit.results.cells]


def _case(one: CellResult, gate: Predicate | None, held: Sequence[CellRow]) -> _Case:
    rows = [row for row in held if is_of(row, one.cell)]
    failed = skipped = None
    if gate is not None:
        why = dict.fromkeys(clauses(gate, row) for row in rows)
        scenarios = ", ".join(row.scenario for row in rows)
        failed = f"--fail-if holds in {scenarios}: {'; '.join(why)}" if rows else None
    elif one.verdict.leaks or one.verdict.contradiction is not None:
        failed = str(one.verdict)
    elif one.verdict.kind == CANNOT_SAY:
        skipped = str(one.verdict)
    return _Case(one.name, sentence(one), failed, skipped)


def junit(audit: Audit, gate: Predicate | None = None) -> str:
    """Return JUnit XML: a test case per cell.

    With a gate, a case fails where its condition holds; otherwise where a leak was found or a claim
    is broken. "Cannot say" is a skipped case.
    """
    cases, corpus = _cases(audit, gate), audit.setup.corpus.name
    text = filled("junit.xml", cases=cases, corpus=corpus, headline=audit.headline).decode()
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text) + "\n"


def markdown(audit: Audit, gate: Predicate | None = None) -> str:
    """Return Markdown: the headline, what the gate says, a row per cell, the remarks."""
    return filled(
        "summary.md",
        corpus=audit.setup.corpus.name,
        headline=audit.headline,
        cases=_cases(audit, gate),
        gate=gate,
        table=markdown_table(cell_overview(audit.results.cells)),
        remarks=remarks_on(audit.setup),
        page=audit.folder.root / REPORT,
    ).decode()


def card(audit: Audit, form: str) -> bytes:
    """Return the block of a dataset card.

    Args:
        audit: a finished audit.
        form: `.md`, to stand at the top of a card at Hugging Face; or `.json`, whose fields go into
            the Croissant metadata of a dataset.

    Returns:
        Text that names no record and holds none.
    """
    return (_croissant(audit) if form.lower() == ".json" else _markdown(audit)).encode()


def _said(audit: Audit) -> tuple[str, list[str]]:
    about = audit.folder.provenance()
    made = f" on {about.made[:10]}" if about.made else ""
    check = audit.results.check
    asked = (
        f"{counted(check['members'], 'member')} and {counted(check['holdout'], 'held-out record')}"
        if check
        else counted(len(audit.setup.corpus), "private record")
    )
    how = f"Audited with synthleak {about.version}{made}: {asked}."
    return how, [one.text for one in remarks_on(audit.setup)[:CAVEATS]]


def _markdown(audit: Audit) -> str:
    how, caveats = _said(audit)
    tags = "---\ntags:\n- synthetic\n- privacy-audit\n---"
    table = markdown_table(cell_overview(audit.results.cells))
    said = "\n".join(f"- {plain(text)}" for text in (how, *caveats))
    parts = [tags, "## Privacy audit", plain(audit.headline), said, table]
    return "\n\n".join(parts) + "\n"


def _croissant(audit: Audit) -> str:
    how, caveats = _said(audit)
    content = {
        "@context": {
            "rai": "http://mlcommons.org/croissant/RAI/",
            "dct": "http://purl.org/dc/terms/",
        },
        "dct:conformsTo": "http://mlcommons.org/croissant/RAI/1.0",
        "rai:personalSensitiveInformation": [audit.headline, how],
        "rai:dataLimitations": caveats,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
