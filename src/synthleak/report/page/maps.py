"""The leakage map: pools by ε for every generator and attacker, by evidence above the chance limit.

A square is coloured by how far the deployable AUC lies above its chance limit, and only where the
adjusted p of the cell says that a leak was found; the raw AUC never colours anything
(docs/method.md §8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from synthleak.core.cell import Cell
from synthleak.report.page.material import Material
from synthleak.report.page.names import Said
from synthleak.report.page.numbers import Numbers, tagged

ALL = "any"
STEPS = (0.05, 0.15)
"""Where the colours change, in AUC above the chance limit."""
LEGEND = (
    ("0", "within chance, or no leak found in the cell"),
    ("near", "above its own chance limit, but not once all cells are taken into account"),
    ("1", "leak found, up to 0.05 above the chance limit"),
    ("2", "leak found, 0.05 to 0.15 beyond"),
    ("3", "leak found, more than 0.15 beyond"),
    ("unknown", "cannot say"),
)


@dataclass(frozen=True)
class Square:
    """One square: its cell, its level, and where its estimate stands."""

    said: Said
    level: str
    beyond: Markup | str
    figures: dict[str, Any]


@dataclass(frozen=True)
class Panel:
    """One attacker on one generator: a square for every pool and ε, None where not audited."""

    generator: str
    scenario: str
    budgets: list[float]
    rows: list[tuple[str, list[Square | None]]]


def maps(material: Material, numbers: Numbers, said: Sequence[Said]) -> list[Panel]:
    """Return the panels: every generator, any attacker first and then each alone."""
    by_cell = {one.cell: one for one in said}
    places, corpus = material.places("cells"), material.cells[0].corpus
    pools = list(dict.fromkeys(cell.pool for cell in material.cells))
    panels = []
    for generator in dict.fromkeys(cell.generator for cell in material.cells):
        budgets = sorted(
            {c.epsilon for c in material.cells if c.generator == generator}, reverse=True
        )
        for scenario in (ALL, *material.scenarios):
            rows = [
                (
                    pool,
                    [
                        _square(
                            material,
                            numbers,
                            by_cell,
                            places,
                            Cell(corpus, pool, generator, b),
                            scenario,
                        )
                        for b in budgets
                    ],
                )
                for pool in pools
            ]
            panels.append(Panel(generator, scenario, budgets, rows))
    return panels


def _square(
    material: Material,
    numbers: Numbers,
    by_cell: dict[Cell, Said],
    places: dict[Cell, list[int]],
    cell: Cell,
    scenario: str,
) -> Square | None:
    if cell not in by_cell:
        return None
    said = by_cell[cell]
    if scenario == ALL:
        sources = _of_cell(said.place)
    else:
        rows = material.rows("cells")
        place = next((p for p in places[cell] if rows[p].scenario == scenario), None)
        if place is None:
            return None
        sources = _of_row(place)
    value, ceiling = numbers.value(sources["auc"]), numbers.value(sources["ceiling"])
    beyond = None if value is None or ceiling is None else value - ceiling
    figures = {
        name: numbers.at(source, "chance" if name.startswith("p") else "figure")
        for name, source in sources.items()
    }
    difference = f"{sources['auc']} - {sources['ceiling']}"
    shown = "" if beyond is None else tagged(beyond, difference, "beyond")
    return Square(said, level(said, beyond), shown, figures)


def level(said: Said, beyond: float | None) -> str:
    """Return the colour of a square: evidence counts only where the cell's verdict is a leak."""
    if said.kind == "cannot" or beyond is None:
        return "unknown"
    if beyond <= 0:
        return "0"
    if not said.leaks:
        return "near"
    return str(1 + sum(beyond > step for step in STEPS))


def _of_cell(place: int) -> dict[str, str]:
    """Return where the figures of the attacker who chooses among all stand."""
    path = f"summary/cells/{place}"
    return {
        "auc": f"{path}/crossfit/value",
        "low": f"{path}/crossfit/low",
        "high": f"{path}/crossfit/high",
        "ceiling": f"{path}/crossfit/null",
        "tpr": f"{path}/crossfit_tpr/value",
        "tpr_ceiling": f"{path}/crossfit_tpr/null",
        "p": f"{path}/p_cell",
        "p_holm": f"{path}/p_holm",
    }


def _of_row(place: int) -> dict[str, str]:
    """Return where the figures of one attacker stand."""
    columns = {
        "auc": "crossfit_auc",
        "low": "crossfit_low",
        "high": "crossfit_high",
        "ceiling": "null_crossfit95",
        "tpr": "crossfit_tpr",
        "tpr_ceiling": "null_crossfit_tpr95",
        "p": "p_value",
        "p_holm": "p_holm",
    }
    return {name: f"cells/{place}/{column}" for name, column in columns.items()}
