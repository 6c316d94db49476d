"""Write docs/catalogue.md from the registries, and the report's glossary from docs/glossary.md."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from synthleak.cli.about import REGISTRIES, rows_of

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


def catalogue() -> str:
    """Return docs/catalogue.md."""
    parts = ["# Catalogue\n\nWritten by `make docs` from the registries.\n"]
    for registry in REGISTRIES:
        rows = rows_of(registry)
        head = list(rows[0])
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        lines += ["| " + " | ".join(_cell(row[key]) for key in head) + " |" for row in rows]
        parts.append(f"## {registry.capitalize()}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|")


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
    for target, content in ((DOCS / "catalogue.md", catalogue()), (GLOSSARY, glossary())):
        target.write_text(content, encoding="utf-8")
        print(f"wrote {target.name}")
