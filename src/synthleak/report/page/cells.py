"""A section per cell: attackers side by side, every proxy, prior attacks, the claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthleak.metrics.statistics.table import AUC, BY_NAME
from synthleak.report.page.material import Material
from synthleak.report.page.names import Said
from synthleak.report.page.sheets import Column, sheet

TAILS = dict.fromkeys(item.column for item in BY_NAME.values() if item.name != AUC.name)
"""The columns of the statistics beside the AUC."""


def _tail(column: str) -> tuple[Column, Column]:
    """Return a statistic beside the AUC, and its chance limit."""
    titles = [item.title for item in BY_NAME.values() if item.column == column]
    limit = ""
    if len(titles) == 1:
        limit = titles[0].removeprefix("mean TPR up to").removesuffix(" FPR")
    note = "; or ".join(titles)
    return (
        Column(column, f"Tail{limit}", "figure", note),
        Column(f"{column}_ceiling", f"Tail{limit}: chance limit", "figure"),
    )


PROXY_COLUMNS = (
    Column("scenario", "Attacker"),
    Column("proxy", "Proxy"),
    Column("view", "View"),
    Column("auc", "AUC", "figure"),
    Column("auc_ceiling", "Chance limit", "figure", "for the whole search over signals"),
    Column("tpr_at_fpr05", "TPR at 5% FPR", "figure"),
    *(column for name in TAILS for column in _tail(name)),
    Column("auc_spread", "±", "figure", "negative-sampling spread only"),
)


@dataclass(frozen=True)
class CellSection:
    """One cell: where its rows stand in the tables."""

    said: Said
    rows: Mapping[str, int]
    proxies: tuple[int, int]
    comparison: int | None
    figures: Sequence[int]


def sections(
    material: Material, said: Sequence[Said], figures: Mapping[int, Sequence[int]]
) -> list[CellSection]:
    """Return the section of every cell; `figures` are the places of its figures."""
    cells, proxies = material.places("cells"), material.places("proxies")
    comparison = material.places("comparison")
    made = []
    for one in said:
        listed = proxies.get(one.cell, [])
        made.append(
            CellSection(
                said=one,
                rows={material.rows("cells")[p].scenario: p for p in cells[one.cell]},
                proxies=(listed[0], listed[-1] + 1) if listed else (0, 0),
                comparison=comparison[one.cell][0] if one.cell in comparison else None,
                figures=figures.get(one.place, ()),
            )
        )
    return made


def proxy_sheet(material: Material) -> dict[str, Any]:
    """Return the table of all proxies, for the page to draw cell by cell."""
    return sheet("proxies", material.rows("proxies"), PROXY_COLUMNS)
