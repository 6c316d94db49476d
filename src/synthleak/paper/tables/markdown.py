"""Printed tables as Markdown: pipes, and the little HTML that every renderer knows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from synthleak.paper.tables.layout import Entry, Part, Piece, Printed, Row, Words, words

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def escape(text: str) -> str:
    r"""Write any text so that Markdown shows it as it is.

    >>> escape("a_b | <b>")
    'a\\_b \\| \\<b\\>'
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split(" ")).replace("\n", " ").replace("\r", " "))


def inline(text: Words) -> str:
    """Write a run of pieces; colours are left to the letters that carry them."""
    return "".join(_piece(piece) for piece in text)


def _piece(piece: Piece) -> str:
    made = escape(piece.text)
    for yes, mark in (
        (piece.underlined, "u"),
        (piece.form == "sup", "sup"),
        (piece.form == "sub", "sub"),
        (piece.form == "small", "small"),
        (piece.typewriter, "code"),
        (piece.italic, "i"),
    ):
        if yes:
            made = f"<{mark}>{made}</{mark}>"
    return f"<b>{made}</b>" if piece.bold and piece.form == "plain" else made


def cell(item: Entry) -> str:
    """Write one entry: bold where it is shaded or bold, in italics where chance would reach it."""
    made = "<br>".join(inline(line) for line in item.lines)
    if item.faint:
        made = f"<i>{made}</i>"
    return f"<b>{made}</b>" if item.bold or item.shade is not None else made


def grid(part: Part) -> str:
    """Write one part as a table of pipes; groups are named in every head."""
    heads = [
        *(escape(name) for name in part.stubs),
        *(escape(column.name) for column in part.columns),
    ]
    rules = ["---"] * len(part.stubs) + [
        {"l": ":---", "c": ":---:", "r": "---:"}[c.align] for c in part.columns
    ]
    lines = [_line(heads), _line(rules)]
    for block in part.blocks:
        if block.title:
            lines.append(_line([f"<i>{escape(block.title)}</i>", *[""] * (len(heads) - 1)]))
        lines += [_row(row) for row in block.rows]
    return "\n".join(lines)


def _row(row: Row) -> str:
    return _line([*(escape(name) for name in row.stubs), *(cell(item) for item in row.entries)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def table(item: Printed) -> str:
    """Write one table with its caption above and its notes below."""
    lines = [f"## {escape(item.name.replace('_', ' '))}", "", inline(item.caption), ""]
    for part in item.parts:
        if part.caption:
            lines += [inline(part.caption), ""]
        lines += [grid(part), ""]
    for note in (*item.notes, *_without_colours(item)):
        lines += [inline(note), ""]
    return "\n".join(lines)


def _without_colours(item: Printed) -> list[Words]:
    """Say how this format writes shading and grey, where a table has them."""
    entries = [
        made
        for part in item.parts
        for block in part.blocks
        for row in block.rows
        for made in row.entries
    ]
    said = []
    if any(made.shade is not None for made in entries):
        said.append("what is shaded is bold")
    if any(made.faint for made in entries):
        said.append("what is grey is in italics")
    return [words(f"Without colours, {' and '.join(said)} here.")] if said else []
