"""Single records: sorted V(x) with both bands, by attribute, by generator (docs/method.md §10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from synthleak.analyses.analysis import CellData
from synthleak.analyses.attributes import CombinedRow
from synthleak.analyses.consistency import ConsistencyRow
from synthleak.analyses.vulnerability import SPLIT, VulnerabilityRow
from synthleak.core.cell import LEVEL, Cell, format_epsilon
from synthleak.evidence.observation import Floats
from synthleak.metrics.curves import SortedV
from synthleak.metrics.verdict_statistics import tenth
from synthleak.report.figures import figure as fig
from synthleak.report.figures.figure import Figure, Rows

MOST = 160
"""How many records a figure shows one by one; of more, evenly chosen ones."""
PANELS = 4
"""How many cells stand for a study."""


def vulnerability_figure(cell: Cell, v: SortedV, ids: Sequence[str]) -> Figure | None:
    """Show V of every record of a cell, from the largest down; None where no record qualifies."""
    if not v.v:
        return None
    return fig.figure(
        "vulnerability",
        _rows("", v, ids),
        fig.drawn("vulnerability", 240),
        cell=cell,
        records=len(v.v),
        top=tenth(len(v.v)),
        above=sum(value > high for value, high in zip(v.v, v.null_high, strict=False)),
        uneven=sum(value > high for value, high in zip(v.v, v.even_high, strict=False)),
    )


def representative(rows: Sequence[VulnerabilityRow]) -> list[VulnerabilityRow]:
    """Choose cells that stand for a study: evenly spaced from the smallest S10 to the largest."""
    known = sorted((row for row in rows if row.s10 is not None), key=lambda row: row.s10 or 0.0)
    places = [round(k * (len(known) - 1) / (PANELS - 1)) for k in range(PANELS)]
    return [known[place] for place in dict.fromkeys(places)] if known else []


def panels_figure(
    rows: Sequence[VulnerabilityRow], v: Sequence[SortedV], ids: Sequence[Sequence[str]]
) -> Figure | None:
    """Show sorted V of a few cells side by side, each with its share of the top tenth."""
    codes = [str(place) for place in range(len(rows))]
    several = len({row.corpus for row in rows}) > 1
    heads = {
        code: f"{_cell(row, several)}\n{_share(row)}" for code, row in zip(codes, rows, strict=True)
    }
    if len(rows) < 2:
        return None
    return fig.figure(
        "vulnerability_panels",
        [
            row
            for code, one, names in zip(codes, v, ids, strict=True)
            for row in _rows(code, one, names)
        ],
        fig.drawn("vulnerability", 200),
        heads=heads,
        cells=len(rows),
        shares="; ".join(heads.values()).replace("\n", ": "),
    )


def _cell(row: VulnerabilityRow, several_corpora: bool) -> str:
    corpus = f"{row.corpus}, " if several_corpora else ""
    return f"{corpus}{row.generator}, ε = {format_epsilon(row.epsilon)}, pool {row.pool}"


def _share(row: VulnerabilityRow) -> str:
    even = (
        "" if row.even_s10_high is None else f" (a leak spread evenly: to {row.even_s10_high:.0%})"
    )
    return f"S10 {row.s10:.0%}{even}"


def _rows(code: str, v: SortedV, ids: Sequence[str]) -> Rows:
    count, top = len(v.v), tenth(len(v.v))
    step = max(1, -(-count // MOST))
    shown: Rows = []
    for place in range(0, count, step if count > MOST else 1):
        row: dict[str, Any] = {
            "c": code,
            "r": place + 1,
            "v": fig.short(v.v[place]),
            "i": ids[v.target[place]],
            "d": "top tenth" if place < top else "others",
        }
        if v.null_low:
            row |= {"n": fig.short(v.null_low[place], 3), "m": fig.short(v.null_high[place], 3)}
            row |= {"e": fig.short(v.even_low[place], 3), "g": fig.short(v.even_high[place], 3)}
        shown.append(row)
    return shown


WHOLE = "all"


def attributes_figure(rows: Sequence[CombinedRow]) -> Figure | None:
    """Show Spearman's ρ of every attribute with V, by generator and kind of pool.

    Columns of single corpora carry no test; `all` does: bold is nominal, a box is Holm.
    """
    shown = [row for row in rows if row.selection == SPLIT and row.rho is not None]
    if not shown:
        return None
    corpora = [*dict.fromkeys(row.corpus for row in shown if row.corpus != WHOLE), WHOLE]
    attributes = list(dict.fromkeys(row.attribute for row in shown))
    data: Rows = [
        {
            "g": f"{row.generator}, {row.block} pools",
            "a": row.attribute.replace("_", " "),
            "c": row.corpus,
            "r": fig.short(row.rho, 3),
            "p": fig.short(row.p_value, 3),
            "h": fig.short(row.p_holm, 3),
            "n": row.records,
            "b": _mark(row),
        }
        for row in shown
    ]
    heads = list(dict.fromkeys(str(row["g"]) for row in data))
    boxed = [row for row in data if row["b"] == 2]
    names = [name.replace("_", " ") for name in attributes]
    return fig.figure(
        "attributes",
        data,
        fig.drawn("attributes", names, corpora),
        heads=heads,
        attributes=len(attributes),
        groups=len(heads),
        boxed=len(boxed),
        said="".join(f"; {row['g']}: {row['a']} {row['r']:+.2f}" for row in boxed),
    )


def _mark(row: CombinedRow) -> int:
    """Return 2 for Holm-significant, 1 for nominally so, 0 else; single corpora are not tested."""
    if row.corpus != WHOLE:
        return 0
    if row.p_holm is not None and row.p_holm <= LEVEL:
        return 2
    return int(row.p_value is not None and row.p_value <= LEVEL)


MOST_PAIRS = 12
"""How many pairs are drawn; the table has them all."""


def generators_figure(
    rows: Sequence[ConsistencyRow], cell_data: Sequence[CellData]
) -> Figure | None:
    """Show V of the same records under two generators, by the first one's proxy, pair by pair."""
    data: Rows = []
    heads: dict[str, str] = {}
    for row in rows:
        if row.across != "generators" or row.rho is None or len(heads) == MOST_PAIRS:
            continue
        one, ids = _pooled(row, row.one, cell_data)
        other, _ = _pooled(row, row.other, cell_data)
        if one is None or other is None:
            continue
        code = str(len(heads))
        heads[code] = _pair_head(row)
        known = np.isfinite(one) & np.isfinite(other)
        top = set(np.argsort(-np.where(known, one, -np.inf))[: tenth(int(known.sum()))].tolist())
        data += [
            {
                "p": code,
                "x": fig.short(float(one[place])),
                "y": fig.short(float(other[place])),
                "i": ids[place],
                "d": "its top tenth" if place in top else "others",
            }
            for place in np.flatnonzero(known).tolist()
        ]
    if not data:
        return None
    said = "; ".join(heads.values()).replace("\n", ", ")
    return fig.figure("generators", data, fig.drawn("generators"), heads=heads, said=said)


def _pair_head(row: ConsistencyRow) -> str:
    chance = (
        ""
        if row.null_low is None or row.null_high is None
        else f" (chance {row.null_low:+.2f} to {row.null_high:+.2f})"
    )
    return f"{row.pool}: ρ {row.rho:+.2f}{chance}\n{row.one} across, {row.other} up"


def _pooled(
    row: ConsistencyRow, generator: str, cell_data: Sequence[CellData]
) -> tuple[Floats | None, Sequence[str]]:
    """Return V of a generator pooled over its budgets: all share a plan, so V is their mean."""
    by_budget: list[Floats] = []
    ids: Sequence[str] = ()
    for cell in cell_data:
        here = (cell.cell.corpus, cell.cell.pool, cell.cell.generator)
        place = cell.place(row.scenario, row.proxy)
        if here == (row.corpus, row.pool, generator) and place is not None:
            by_budget.append(cell.profile.v[place])
            ids = cell.pool.records
    return (np.mean(by_budget, axis=0) if by_budget else None), ids
