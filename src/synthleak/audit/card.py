"""The block of a dataset card that tells what an audit found: Hugging Face, or Croissant RAI."""

from __future__ import annotations

import json
from pathlib import Path

from synthleak.audit.remarks import remarks_on
from synthleak.audit.result import Audit
from synthleak.audit.summary import cell_overview
from synthleak.core.cell import counted
from synthleak.core.errors import UserError
from synthleak.report.writing import markdown_table, plain

FORMATS = (".md", ".json")
CAVEATS = 2


def check_card_format(path: Path) -> None:
    """Refuse a card of an unknown format before any work starts."""
    if path.suffix.lower() not in FORMATS:
        raise UserError(
            f"unknown format: {path.name!r}",
            "--card",
            "end the name in .md (Hugging Face) or .json (Croissant RAI)",
        )


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
