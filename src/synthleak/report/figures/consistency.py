"""V of the same records under two generators, as scatter plots (docs/method.md §10)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthleak.analyses.cell_data import CellData
from synthleak.analyses.consistency import ConsistencyRow
from synthleak.evidence.observation import Floats
from synthleak.metrics.statistics.table import tenth
from synthleak.report.figures import figure as fig
from synthleak.report.figures.figure import Figure, Rows, Spec

MOST = 12
"""How many pairs are drawn; the table has them all."""


def generators_figure(
    rows: Sequence[ConsistencyRow], cell_data: Sequence[CellData]
) -> Figure | None:
    """Show V of the same records under two generators, by the first one's proxy, pair by pair."""
    data: Rows = []
    heads: dict[str, str] = {}
    for row in rows:
        if row.across != "generators" or row.rho is None or len(heads) == MOST:
            continue
        one, ids = _pooled(row, row.one, cell_data)
        other, _ = _pooled(row, row.other, cell_data)
        if one is None or other is None:
            continue
        code = str(len(heads))
        heads[code] = _head(row)
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
    return Figure(
        name="generators",
        title="Are the same records hit under another generator? V under each, by one proxy",
        alt="V of the same records under two generators: "
        + "; ".join(heads.values()).replace("\n", ", ")
        + ".",
        spec={
            "usermeta": fig.panels(len(heads), least=260, gutter=52, margin=0),
            "data": fig.values(data),
            "facet": fig.nominal(
                field="p", sort=list(heads), header=fig.headed(heads) | {"labelFontSize": 11}
            ),
            "columns": len(heads),
            "resolve": {"axis": {"x": "independent", "y": "independent"}},
            "spec": {"height": 220, "layer": _layers()},
        },
    )


def _head(row: ConsistencyRow) -> str:
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
    found: list[Floats] = []
    ids: Sequence[str] = ()
    for cell in cell_data:
        here = (cell.cell.corpus, cell.cell.pool, cell.cell.generator)
        place = cell.place(row.scenario, row.proxy)
        if here == (row.corpus, row.pool, generator) and place is not None:
            found.append(cell.profile.v[place])
            ids = cell.pool.records
    return (np.mean(found, axis=0) if found else None), ids


def _layers() -> list[Spec]:
    kinds = ["its top tenth", "others"]
    kind: Spec = fig.nominal("under the first", field="d")
    x: Spec = fig.quantitative("V under the first generator", field="x", axis={"tickCount": 5})
    y: Spec = fig.quantitative("V under the second", field="y", axis={"tickCount": 5})
    return [
        {
            "mark": {"type": "point", "filled": True, "size": 36, "opacity": 0.9},
            "encoding": {
                "x": x,
                "y": y,
                "color": kind | {"scale": {"domain": kinds, "range": ["$second", "$first"]}},
                "shape": kind | {"scale": {"domain": kinds, "range": ["diamond", "circle"]}},
                "tooltip": fig.tooltips(i="record", x="V under the first", y="V under the second"),
            },
        }
    ]
