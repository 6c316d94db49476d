"""Paper tables as Markdown, with the little HTML that every renderer supports."""

from __future__ import annotations

import re
from collections.abc import Sequence

from synthleak.paper.tables.layout import Entry, Part, Piece, Row, Table, Words, words

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
    text = escape(piece.text)
    for yes, mark in (
        (piece.underlined, "u"),
        (piece.form == "sup", "sup"),
        (piece.form == "sub", "sub"),
        (piece.form == "small", "small"),
        (piece.typewriter, "code"),
        (piece.italic, "i"),
    ):
        if yes:
            text = f"<{mark}>{text}</{mark}>"
    return f"<b>{text}</b>" if piece.bold and piece.form == "plain" else text


def cell(item: Entry) -> str:
    """Write one entry: bold where it is shaded or bold, in italics where chance would reach it."""
    text = "<br>".join(inline(line) for line in item.lines)
    if item.faint:
        text = f"<i>{text}</i>"
    return f"<b>{text}</b>" if item.bold or item.shade is not None else text


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


def table(item: Table) -> str:
    """Write one table with its caption above and its notes below."""
    lines = [f"## {escape(item.name.replace('_', ' '))}", "", inline(item.caption), ""]
    for part in item.parts:
        if part.caption:
            lines += [inline(part.caption), ""]
        lines += [grid(part), ""]
    for note in (*item.notes, *_without_colours(item)):
        lines += [inline(note), ""]
    return "\n".join(lines)


def _without_colours(item: Table) -> list[Words]:
    """Say how this format writes shading and grey, where a table has them."""
    entries = [entry for _, _, row in item.rows for entry in row.entries]
    notes = []
    if any(entry.shade is not None for entry in entries):
        notes.append("what is shaded is bold")
    if any(entry.faint for entry in entries):
        notes.append("what is grey is in italics")
    return [words(f"Without colours, {' and '.join(notes)} here.")] if notes else []
