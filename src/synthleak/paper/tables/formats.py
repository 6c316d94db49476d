"""Paper tables as LaTeX, Markdown and CSV.

LaTeX: a file per table, a preamble, and a document of all. Only packages of a small LaTeX are used
(`texlive-latex-base` and `-recommended`): no multirow, no makecell, no threeparttable. A name that
spans rows is set in the middle one of them. Whatever a name holds, it is set and never executed.
Markdown: with the little HTML that every renderer supports. CSV: the same rows and columns, with
the numbers behind each entry in full.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from synthleak.paper.tables.layout import (
    Block,
    Entry,
    Part,
    Piece,
    Row,
    Table,
    Value,
    Words,
    words,
)
from synthleak.report.tables import guarded

_MATH = {
    **dict(zip("±·×≤≥≈∞", ("pm", "cdot", "times", "le", "ge", "approx", "infty"), strict=True)),
    **dict(zip("∪†√*", ("cup", "dagger", "surd", "ast"), strict=True)),
    **dict(zip("Δδερσ", ("Delta", "delta", "varepsilon", "rho", "sigma"), strict=True)),
}
_SYMBOLS = {
    **{character: rf"\{character}" for character in "{}$&%#_"},
    **{character: f"${character}$" for character in "<>|"},
    **{character: f"{{{character}}}" for character in "-[]"},
    **{character: rf"$\{name}$" for character, name in _MATH.items()},
    **dict(zip('’‘“”"', ("'", "`", "``", "''", "''"), strict=True)),
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{MINUS SIGN}": "$-$",
    "\N{NO-BREAK SPACE}": "~",
    "\N{THIN SPACE}": r"\,",
}
_LATIN = range(0xC0, 0x180)
"""Letters that every LaTeX sets from UTF-8, but for those below."""
_UNSET = set("ÐÞðþĦħĸŊŋŦŧŉſ×÷ĿŀĐđĄąĘęĮįŲų")


def latex_text(text: str) -> str:
    r"""Write any text so that LaTeX sets it and executes nothing of it.

    A letter that a small LaTeX has no glyph for is named by its code.

    >>> latex_text("a_b & 50% {x} ~^\\")
    'a\\_b \\& 50\\% \\{x\\} \\textasciitilde{}\\textasciicircum{}\\textbackslash{}'
    >>> latex_text("é 你")
    'é {[}U+4F60{]}'
    """
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character in _SYMBOLS:
        return _SYMBOLS[character]
    if character.isspace():
        return " "
    if " " <= character <= "~" or (ord(character) in _LATIN and character not in _UNSET):
        return character
    return f"{{[}}U+{ord(character):04X}{{]}}"


def latex_words(text: Words) -> str:
    return "".join(_latex_piece(piece) for piece in text)


def _latex_piece(piece: Piece) -> str:
    text = latex_text(piece.text)
    for yes, command in (
        (piece.underlined, r"\underline"),
        (piece.italic, r"\textit"),
        (piece.bold, r"\textbf"),
        (piece.colour, rf"\textcolor{{{piece.colour}}}"),
        (piece.form == "sup", r"\textsuperscript"),
        (piece.form == "sub", r"\textsubscript"),
    ):
        if yes:
            text = f"{command}{{{text}}}"
    return rf"{{\scriptsize{{}}{text}}}" if piece.form == "small" else text


PREAMBLE = Path(__file__).with_name("preamble.tex")
"""Packages, colours and commands of the tables."""

DOCUMENT = r"""\documentclass[10pt]{article}
\usepackage[a4paper,margin=18mm]{geometry}
\input{preamble}
\begin{document}
%s
\end{document}
"""


def latex_cell(item: Entry) -> str:
    lines = [latex_words(line) for line in item.lines]
    style = (r"\bfseries\boldmath " if item.bold else "") + (r"\color{gray}" if item.faint else "")
    if len(lines) > 1:
        stacked = r" \\ ".join(style + line for line in lines)
        body = rf"\slcell{{{stacked}}}"
    else:
        body = f"{{{style}{lines[0]}}}" if style else lines[0]
    if item.shade is not None:
        colour, strength = item.shade
        body = rf"\cellcolor{{{colour}!{strength}}}{body}"
    return body


def _latex_grid(part: Part) -> str:
    stubs, columns = len(part.stubs), part.columns
    width = stubs + len(columns)
    lines = [
        rf"\begin{{tabular}}{{@{{}}{'l' * stubs}{''.join(c.align for c in columns)}@{{}}}}",
        r"\toprule",
        *_latex_heads(part),
        r"\midrule",
    ]
    for place, block in enumerate(part.blocks):
        if place:
            lines.append(r"\midrule")
        if block.title:
            title = latex_text(block.title)
            lines.append(rf"\multicolumn{{{width}}}{{@{{}}l}}{{\itshape {title}}} \\")
        lines += _latex_rows(block, part, width)
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _latex_heads(part: Part) -> list[str]:
    lines = []
    first = len(part.stubs) + 1
    if any(column.group for column in part.columns):
        cells, rules, place = [""] * len(part.stubs), [], first
        for group, run in groupby(part.columns, key=lambda column: column.group):
            size = len(list(run))
            cells.append(rf"\multicolumn{{{size}}}{{c}}{{{_head_text(group)}}}")
            if group:
                rules.append(rf"\cmidrule(lr){{{place}-{place + size - 1}}}")
            place += size
        lines += [" & ".join(cells) + r" \\", "".join(rules)]
    stubs = ["" if part.turned else latex_text(name) for name in part.stubs]
    heads = [*stubs, *(_head_text(column.head, column.upright) for column in part.columns)]
    return [*lines, " & ".join(heads) + r" \\"]


def _head_text(text: str, upright: bool = False) -> str:
    bold = rf"\textbf{{\boldmath {latex_text(text)}}}" if text else ""
    return rf"\slhead{{{bold}}}" if upright else bold


def _latex_rows(block: Block, part: Part, width: int) -> list[str]:
    """Write the rows of a block; equal first names that follow each other are set once."""
    lines: list[str] = []
    for _, run in groupby(block.rows, key=lambda row: row.stubs[:1]):
        rows = list(run)
        spans = len(part.stubs) > 1
        if lines and spans:
            lines.append(rf"\cmidrule({'l' if part.turned else 'lr'}){{2-{width}}}")
        for place, row in enumerate(rows):
            names = [latex_text(name) for name in row.stubs]
            if spans:
                names[:1] = [_spanning(names[0], place, rows, part)]
            lines.append(" & ".join([*names, *map(latex_cell, row.entries)]) + r" \\")
    return lines


def _spanning(name: str, place: int, rows: Sequence[Row], part: Part) -> str:
    """Set a name in the middle of its rows, lowered by half a row where they are even."""
    if place != (len(rows) - 1) // 2:
        return ""
    if len(rows) == 1:
        return name
    drop = "0pt" if len(rows) % 2 else r"-0.5\normalbaselineskip"
    upright = part.turned and len(rows) > 2 and len(rows[0].stubs[0]) <= 3 * len(rows)
    return rf"\{'slturn' if upright else 'slside'}{{{drop}}}{{{name}}}"


def latex_table(item: Table) -> str:
    if item.arrangement == "apart":
        return "\n".join(
            _float(item, [part], f"{item.name}-{number}", part.caption)
            for number, part in enumerate(item.parts, start=1)
        )
    return _float(item, item.parts, item.name, ())


def _float(item: Table, parts: Sequence[Part], label: str, more: Words) -> str:
    caption = " ".join(map(latex_words, filter(None, (item.caption, more))))
    lines = [
        r"\begin{table}[!htbp]",
        rf"\centering\{item.size}\setlength{{\tabcolsep}}{{3pt}}\renewcommand{{\arraystretch}}{{1.15}}",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{''.join(c if c.isalnum() and c.isascii() else '-' for c in label)}}}",
    ]
    if item.arrangement == "beside" and len(parts) > 1:
        lines += _beside(parts)
    else:
        for place, part in enumerate(parts):
            if place:
                lines.append(r"\par\medskip")
            if part.caption and not more:
                lines.append(rf"{{\itshape {latex_words(part.caption)}}}\par\smallskip")
            lines.append(f"\\slfit{{%\n{_latex_grid(part)}}}")
    lines += [rf"\slnote{{{latex_words(note)}}}" for note in item.notes]
    return "\n".join([*lines, r"\end{table}", ""])


def _beside(parts: Sequence[Part]) -> list[str]:
    """Write parts side by side, at most three in a line."""
    share = 0.48 if len(parts) == 2 else 0.32
    lines = []
    for place, part in enumerate(parts):
        if place:
            lines.append(r"\hfill" if place % 3 else r"\par\medskip")
        lines += [
            rf"\begin{{subtable}}[t]{{{share}\textwidth}}\centering",
            rf"\caption{{{latex_words(part.caption)}}}",
            f"\\slfit{{%\n{_latex_grid(part)}}}",
            r"\end{subtable}",
        ]
    return lines


def latex_document(names: Sequence[str]) -> str:
    return DOCUMENT % "\n".join(rf"\input{{{name}}}\clearpage" for name in names)


_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown_text(text: str) -> str:
    r"""Write any text so that Markdown shows it as it is.

    >>> markdown_text("a_b | <b>")
    'a\\_b \\| \\<b\\>'
    """
    return _SPECIAL.sub(r"\\\1", text.replace("\n", " ").replace("\r", " "))


def markdown_words(text: Words) -> str:
    """Write a run of pieces; colours are left to the letters that carry them."""
    return "".join(_markdown_piece(piece) for piece in text)


def _markdown_piece(piece: Piece) -> str:
    text = markdown_text(piece.text)
    for yes, mark in (
        (piece.underlined, "u"),
        (piece.form == "sup", "sup"),
        (piece.form == "sub", "sub"),
        (piece.form == "small", "small"),
        (piece.italic, "i"),
    ):
        if yes:
            text = f"<{mark}>{text}</{mark}>"
    return f"<b>{text}</b>" if piece.bold and piece.form == "plain" else text


def markdown_cell(item: Entry) -> str:
    """Write one entry: bold where it is shaded or bold, in italics where chance would reach it."""
    text = "<br>".join(markdown_words(line) for line in item.lines)
    if item.faint:
        text = f"<i>{text}</i>"
    return f"<b>{text}</b>" if item.bold or item.shade is not None else text


def _markdown_grid(part: Part) -> str:
    """Write one part as a table of pipes; groups are named in every head."""
    heads = map(markdown_text, (*part.stubs, *(column.name for column in part.columns)))
    aligned = ({"l": ":---", "c": ":---:", "r": "---:"}[column.align] for column in part.columns)
    lines = [[*heads], ["---"] * len(part.stubs) + [*aligned]]
    for block in part.blocks:
        if block.title:
            lines.append([f"<i>{markdown_text(block.title)}</i>", *[""] * (len(lines[0]) - 1)])
        for row in block.rows:
            lines.append([*map(markdown_text, row.stubs), *map(markdown_cell, row.entries)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def markdown_table(item: Table) -> str:
    title = markdown_text(item.name.replace("_", " "))
    lines = [f"## {title}", "", markdown_words(item.caption), ""]
    for part in item.parts:
        if part.caption:
            lines += [markdown_words(part.caption), ""]
        lines += [_markdown_grid(part), ""]
    for note in (*item.notes, *_without_colours(item)):
        lines += [markdown_words(note), ""]
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


def csv_table(item: Table) -> str:
    """Write one table. A column of entries becomes a column for each number that they hold."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    heads = _csv_heads(item)
    writer.writerow(heads)
    for part, block, row in item.rows:
        cells = {"part": part.name, "block": block.title}
        cells |= dict(zip(part.stubs, map(guarded, row.stubs), strict=True))
        for column, entry in zip(part.columns, row.entries, strict=True):
            cells |= {
                f"{column.name} {key}".strip(): _csv_value(value)
                for key, value in entry.values.items()
            }
        writer.writerow(cells.get(head, "") for head in heads)
    return buffer.getvalue()


def _csv_heads(item: Table) -> list[str]:
    """Name every column once, in the order of the table: parts may have different ones."""
    heads = ["part"] if len(item.parts) > 1 else []
    if any(block.title for part in item.parts for block in part.blocks):
        heads.append("block")
    heads += [name for part in item.parts for name in part.stubs]
    heads += [
        f"{column.name} {key}".strip()
        for part in item.parts
        for place, column in enumerate(part.columns)
        for block in part.blocks
        for row in block.rows
        for key in row.entries[place].values
    ]
    return list(dict.fromkeys(heads))


def _csv_value(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "inf" if math.isinf(value) else repr(value)
    return guarded(value) if isinstance(value, str) else str(value)
