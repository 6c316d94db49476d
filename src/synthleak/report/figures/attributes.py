"""Attributes of records against their vulnerability, as heat maps (docs/method.md §10)."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.attributes_combined import CombinedRow
from synthleak.analyses.chosen import SPLIT
from synthleak.core.verdict import LEVEL
from synthleak.report.figures import figure as fig
from synthleak.report.figures.figure import Figure, Rows, Spec

WHOLE = "all"
STEPS = [-0.3, -0.1, 0.1, 0.3]
SHADES = ["$minus2", "$minus1", "$zero", "$plus1", "$plus2"]


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
    return Figure(
        name="attributes",
        title="Do attributes of a record predict its vulnerability? Spearman's ρ with V",
        alt=(
            f"Heat maps of Spearman's ρ between {len(attributes)} attributes and vulnerability by"
            f" corpus, in {len(heads)} groups of pools. Only the column “all” is tested;"
            f" {len(boxed)} of its entries pass Holm's correction over {len(attributes)} attributes"
            + "".join(f"; {row['g']}: {row['a']} {row['r']:+.2f}" for row in boxed)
            + "."
        ),
        spec={
            "usermeta": fig.panels(len(heads), least=230, gutter=22, margin=110),
            "data": fig.values(data),
            "facet": fig.nominal(field="g", sort=heads),
            "columns": len(heads),
            "spec": {
                "height": {"step": 30},
                "layer": _heat([name.replace("_", " ") for name in attributes], corpora),
            },
        },
    )


def _mark(row: CombinedRow) -> int:
    """Return 2 for Holm-significant, 1 for nominally so, 0 else; single corpora are not tested."""
    if row.corpus != WHOLE:
        return 0
    if row.p_holm is not None and row.p_holm <= LEVEL:
        return 2
    return int(row.p_value is not None and row.p_value <= LEVEL)


def _heat(attributes: list[str], corpora: list[str]) -> list[Spec]:
    place: Spec = {
        "x": fig.nominal(
            field="c",
            sort=corpora,
            axis={"orient": "bottom", "labelAngle": 0, "domain": False, "ticks": False},
        ),
        "y": fig.nominal(field="a", sort=attributes, axis={"domain": False, "ticks": False}),
    }
    tooltip = fig.tooltips(
        a="attribute", c="corpus", r="ρ", n="records", p="p (nominal)", h="p (Holm)"
    )
    return [
        {
            "mark": {"type": "rect", "stroke": "$paper", "strokeWidth": 2},
            "encoding": place
            | {
                "color": fig.quantitative(
                    "ρ", field="r", scale={"type": "threshold", "domain": STEPS, "range": SHADES}
                ),
                "tooltip": tooltip,
            },
        },
        {
            "transform": [{"filter": "datum.b == 2"}],
            "mark": {"type": "rect", "filled": False, "stroke": "$ink", "strokeWidth": 2.5},
            "encoding": place,
        },
        *(
            {
                "transform": [{"filter": f"datum.b {test}"}],
                "mark": {"type": "text", "fontWeight": weight, "fontSize": 12},
                "encoding": place
                | {"text": {"field": "r", "type": "quantitative", "format": "+.2f"}},
            }
            for test, weight in (("== 0", "normal"), ("> 0", "bold"))
        ),
    ]
