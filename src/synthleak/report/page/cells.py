"""A section per cell: attackers side by side, every proxy, prior attacks, the claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthleak.metrics.statistics.table import Statistic, by_column
from synthleak.report.page.material import Material
from synthleak.report.page.names import Said
from synthleak.report.page.sheets import Column, sheet, telling


def _statistic_columns(column: str, shown: Sequence[Statistic]) -> tuple[Column, Column]:
    """Return the column of a statistic, and of its chance limit."""
    heading = " or ".join(item.heading for item in shown)
    return (
        Column(column, heading, "figure", "; or ".join(item.title for item in shown)),
        Column(f"{column}_ceiling", f"{heading}: chance limit", "figure"),
    )


def proxy_columns(statistics: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns of the table of proxies, with those of the named statistics."""
    shown = by_column(statistics)
    return (
        Column("scenario", "Attacker"),
        Column("proxy", "Proxy"),
        Column("view", "View"),
        Column("auc", "AUC", "figure"),
        Column("auc_ceiling", "Chance limit", "figure", "for the whole search over signals"),
        Column("tpr_at_fpr05", "TPR at 5% FPR", "figure"),
        *(column for name in shown for column in _statistic_columns(name, shown[name])),
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
    rows = material.rows("proxies")
    return sheet("proxies", rows, telling(rows, proxy_columns(material.statistics)))
