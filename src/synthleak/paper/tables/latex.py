r"""Paper tables as LaTeX with booktabs: a file per table, a preamble, and a document of all.

Only packages of a small LaTeX are used (`texlive-latex-base` and `-recommended`): no multirow, no
makecell, no threeparttable. A name that spans rows is set in the middle one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from synthleak.paper.tables.latex_text import escape, inline
from synthleak.paper.tables.layout import Block, Column, Entry, Part, Row, Table, Words

PREAMBLE = r"""% Packages, colours and commands of the tables beside this file.
\usepackage{amsmath,amssymb,bm,booktabs,graphicx,caption,subcaption}
\usepackage[table]{xcolor}
\definecolor{lexcol}{HTML}{1F5FA9}
\definecolor{embcol}{HTML}{A8431F}
\definecolor{best}{HTML}{2A78D6}
\definecolor{topheavy}{HTML}{A8431F}
% Shrinks a grid to the width that there is, and leaves a narrow one alone.
\newsavebox{\sltable}
\newcommand{\slfit}[1]{\sbox{\sltable}{#1}%
  \ifdim\wd\sltable>\linewidth\resizebox{\linewidth}{!}{\usebox{\sltable}}%
  \else\usebox{\sltable}\fi}
% Several lines in one cell.
\newcommand{\slcell}[1]{\begin{tabular}[c]{@{}c@{}}#1\end{tabular}}
% A name beside several rows: upright or not, and lowered by half a row where they are even.
\newcommand{\slside}[2]{\smash{\raisebox{#1}{#2}}}
\newcommand{\slturn}[2]{\smash{\raisebox{#1}{\rotatebox[origin=c]{90}{\scriptsize #2}}}}
\newcommand{\slhead}[1]{\rotatebox[origin=l]{90}{#1}}
\newcommand{\slnote}[1]{\par\smallskip\parbox{\linewidth}{\scriptsize\raggedright #1}}
"""

DOCUMENT = r"""\documentclass[10pt]{article}
\usepackage[a4paper,margin=18mm]{geometry}
\input{preamble}
\begin{document}
%s
\end{document}
"""


def cell(item: Entry) -> str:
    """Write one entry: shaded, bold or faint as it asks."""
    lines = [inline(line) for line in item.lines]
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


def grid(part: Part) -> str:
    """Write one part as a tabular."""
    stubs, columns = len(part.stubs), part.columns
    width = stubs + len(columns)
    lines = [
        rf"\begin{{tabular}}{{@{{}}{'l' * stubs}{''.join(c.align for c in columns)}@{{}}}}",
        r"\toprule",
        *_heads(part),
        r"\midrule",
    ]
    for place, block in enumerate(part.blocks):
        if place:
            lines.append(r"\midrule")
        if block.title:
            lines.append(rf"\multicolumn{{{width}}}{{@{{}}l}}{{\itshape {escape(block.title)}}} \\")
        lines += _rows(block, part, width)
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _heads(part: Part) -> list[str]:
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
    stubs = ["" if part.turned else escape(name) for name in part.stubs]
    heads = [*stubs, *(_column_head(column) for column in part.columns)]
    return [*lines, " & ".join(heads) + r" \\"]


def _head_text(text: str) -> str:
    return rf"\textbf{{\boldmath {escape(text)}}}" if text else ""


def _column_head(column: Column) -> str:
    text = _head_text(column.head)
    return rf"\slhead{{{text}}}" if column.upright else text


def _rows(block: Block, part: Part, width: int) -> list[str]:
    """Write the rows of a block; equal first names that follow each other are set once."""
    lines: list[str] = []
    for _, run in groupby(block.rows, key=lambda row: row.stubs[:1]):
        rows = list(run)
        spans = part.stubs and len(part.stubs) > 1
        if lines and spans:
            lines.append(rf"\cmidrule({'l' if part.turned else 'lr'}){{2-{width}}}")
        for place, row in enumerate(rows):
            names = [escape(name) for name in row.stubs]
            if spans:
                names[:1] = [_spanning(names[0], place, rows, part)]
            lines.append(" & ".join([*names, *(cell(item) for item in row.entries)]) + r" \\")
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


def table(item: Table) -> str:
    """Write one table with its captions and notes."""
    if item.arrangement == "apart":
        return "\n".join(
            _float(item, [part], f"{item.name}-{number}", part.caption)
            for number, part in enumerate(item.parts, start=1)
        )
    return _float(item, item.parts, item.name, ())


def _float(item: Table, parts: Sequence[Part], label: str, more: Words) -> str:
    caption = inline(item.caption) + (f" {inline(more)}" if more else "")
    lines = [
        r"\begin{table}[!htbp]",
        rf"\centering\{item.size}\setlength{{\tabcolsep}}{{3pt}}\renewcommand{{\arraystretch}}{{1.15}}",
        rf"\caption{{{caption}}}",
        rf"\label{{tab:{_label(label)}}}",
    ]
    if item.arrangement == "beside" and len(parts) > 1:
        lines += _beside(parts)
    else:
        for place, part in enumerate(parts):
            if place:
                lines.append(r"\par\medskip")
            if part.caption and not more:
                lines.append(rf"{{\itshape {inline(part.caption)}}}\par\smallskip")
            lines.append(f"\\slfit{{%\n{grid(part)}}}")
    lines += [rf"\slnote{{{inline(note)}}}" for note in item.notes]
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
            rf"\caption{{{inline(part.caption)}}}",
            f"\\slfit{{%\n{grid(part)}}}",
            r"\end{subtable}",
        ]
    return lines


def _label(name: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "-" for c in name)


def document(names: Sequence[str]) -> str:
    """Write the document that holds all tables, so that it compiles as it is."""
    return DOCUMENT % "\n".join(rf"\input{{{name}}}\clearpage" for name in names)
