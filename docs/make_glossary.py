"""Write the report's glossary from docs/glossary.md."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent
GLOSSARY = DOCS.parent / "src/synthleak/report/templates/glossary.html"
TERMS = (
    "adjacency",
    "attacker (S1, S2, S3)",
    "AUC",
    "cell",
    "chance limit (ceiling)",
    "claim",
    "control pool",
    "cross-fitted figure (deployable figure)",
    "epsilon and delta (ε, δ)",
    "grade (strong leak, trace)",
    "Holm adjustment",
    "leak",
    "member",
    "p-value",
    "pool",
    "power",
    "prior attack",
    "private set (D)",
    "proxy",
    "redraw",
    "release",
    "S10 (top-tenth share)",
    "TPR at 5% FPR",
    "view",
    "vulnerability, V(x)",
)
"""The entries of the glossary that a reader of the report needs."""


def glossary() -> str:
    """Return the report's glossary: the entries of docs/glossary.md, without their links."""
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    entries = dict(part.split("\n", 1) for part in text.split("\n### ")[1:])
    lines = [f"<dt>{escape(term)}</dt><dd>{_html(entries[term])}</dd>" for term in TERMS]
    return "\n".join(['<dl class="facts">', *lines, "</dl>"]) + "\n"


def _html(markdown: str) -> str:
    text = re.sub(r"\[§[^\]]*\]\([^)]*\)", "", " ".join(markdown.split()))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", escape(text, quote=False)).strip()
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
    return re.sub(r"\*([^*]*)\*", r"<em>\1</em>", text)


if __name__ == "__main__":
    GLOSSARY.write_text(glossary(), encoding="utf-8")
