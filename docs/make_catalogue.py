"""Write docs/catalogue.md: all that stands on the shelves, from the registries themselves."""

from __future__ import annotations

from pathlib import Path

from synthleak.cli.listing import REGISTRIES, rows_of


def catalogue() -> str:
    """Return the page."""
    parts = ["# Catalogue\n\nWritten by `make docs` from the registries.\n"]
    for shelf in REGISTRIES:
        rows = rows_of(shelf)
        head = list(rows[0])
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        lines += ["| " + " | ".join(_cell(row[key]) for key in head) + " |" for row in rows]
        parts.append(f"## {shelf.capitalize()}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _cell(value: object) -> str:
    return str(value).replace("|", "\\|")


if __name__ == "__main__":
    target = Path(__file__).parent / "catalogue.md"
    target.write_text(catalogue(), encoding="utf-8")
    print(f"wrote {target.name}")
