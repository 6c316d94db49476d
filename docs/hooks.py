"""What mkdocs does not know: pages outside docs/, pages made from the code, and links to both.

The same Markdown is read in the repository and on the site. Its links are those of the repository.
Here they are led to pages of the site; a link to a file without a page becomes the file's name.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(DOCS), str(ROOT / "src")]

import reference  # noqa: E402 - it lies beside this file

RENAMED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
OUTSIDE = ("studies/*/README.md", "studies/paper/findings.md", *RENAMED)


def notebook(path: Path) -> str:
    """Return a notebook as Markdown: its text, its code, and what it printed."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            shown = output.get("text") or output.get("data", {}).get("text/plain", [])
            parts.append(f"```text\n{''.join(shown)}\n```" if shown else "")
    return "\n\n".join(parts)


NOTEBOOKS = {f"notebooks/{path.stem}.md": path for path in (DOCS / "notebooks").glob("*.ipynb")}
MADE = {
    "cli.md": reference.command_line,
    "spec.md": reference.spec,
    "catalogue.md": reference.catalogue,
    **{page: partial(notebook, path) for page, path in NOTEBOOKS.items()},
}
LINK = re.compile(
    r"(?<!!)\[(?P<text>(?:[^\]\\]|\\.)*)\]\((?P<path>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)"
)
FENCE = re.compile(r"^(```|~~~).*?^\1$", re.MULTILINE | re.DOTALL)

logger = logging.getLogger("mkdocs.hooks.synthleak")


def site_pages() -> dict[str, str]:
    """Return the page of the site for every Markdown file of the repository that has one."""
    outside = [path for pattern in OUTSIDE for path in ROOT.glob(pattern)]
    pages = {
        str(path.relative_to(ROOT)): str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")
    }
    for path in outside:
        name = str(path.relative_to(ROOT))
        pages[name] = RENAMED.get(name, name)
    return pages


PAGES = site_pages()
SOURCES = {page: source for source, page in PAGES.items()}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that lie outside docs/ and those that are made from the code."""
    for source, page in PAGES.items():
        if not source.startswith("docs/"):
            files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for page, make in MADE.items():
        files.append(File.generated(config, page, content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead the links of the repository to pages of the site."""
    here = page.file.src_uri
    if here not in SOURCES:
        return markdown
    folder = Path(SOURCES[here]).parent

    def led(match: re.Match[str]) -> str:
        text, path, anchor = match["text"], match["path"], match["anchor"] or ""
        target = os.path.normpath(folder / path)
        if path in MADE and str(folder) == "docs":
            return match[0]
        if target in PAGES:
            return f"[{text}]({os.path.relpath(PAGES[target], Path(here).parent)}{anchor})"
        if (ROOT / target).exists() and not target.startswith("docs/"):
            return text if text.strip("`") in (path, target) else f"{text} (`{target}`)"
        return match[0]

    parts, start = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(led, markdown[start : fence.start()]), fence[0]]
        start = fence.end()
    return "".join([*parts, LINK.sub(led, markdown[start:])])
