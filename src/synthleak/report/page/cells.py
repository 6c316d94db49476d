"""A section per cell: attackers side by side, every proxy, prior attacks, the claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthleak.report.page.material import Material
from synthleak.report.page.names import Said
from synthleak.report.page.sheets import Column, sheet

PROXY_COLUMNS = (
    Column("scenario", "Attacker"),
    Column("proxy", "Proxy"),
    Column("view", "View"),
    Column("auc", "AUC", "figure"),
    Column("auc_ceiling", "Chance limit", "figure", "for the whole search over signals"),
    Column("tpr_at_fpr05", "TPR at 5% FPR", "figure"),
    Column(
        "tail", "Tail", "figure", "mean TPR up to 5% FPR; in a cohort mean AUC of the top tenth"
    ),
    Column("tail_ceiling", "Tail: chance limit", "figure"),
    Column("tail1", "Tail 1%", "figure", "mean TPR up to 1% FPR"),
    Column("tail1_ceiling", "Tail 1%: chance limit", "figure"),
    Column("tail02", "Tail 0.2%", "figure", "mean TPR up to 0.2% FPR, 500 non-members or more"),
    Column("tail02_ceiling", "Tail 0.2%: chance limit", "figure"),
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
