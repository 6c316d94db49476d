"""All figures of an audit: those of each cell, and those of the study as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from synthleak.analyses.analysis import analyses, join_studies
from synthleak.core.cell import Cell, format_epsilon, is_of
from synthleak.core.errors import UserError
from synthleak.core.validation import nearest
from synthleak.report.figures.cells import (
    budgets_figure,
    control_gap_figure,
    merged_figure,
    prior_attacks_figure,
    prior_figure,
    proxies_figure,
    removal_figure,
    roc_figures,
    scaling_figures,
    scenarios_figure,
    sizes_figure,
)
from synthleak.report.figures.figure import VEGA_LITE, Figure, Theme
from synthleak.report.figures.overview import overview_figure
from synthleak.report.figures.records import (
    attributes_figure,
    generators_figure,
    panels_figure,
    representative,
    vulnerability_figure,
)
from synthleak.report.results import Results


def cell_figures(results: Results, cell: Cell) -> list[Figure]:
    """Return the figures of one cell, in the order in which a reader wants them."""
    study, curves = results.study, results.curves[cell]
    rows = [row for row in study.cells if is_of(row, cell)]
    proxies = [row for row in study.proxies if is_of(row, cell)]
    statistics = next(one.measurements.statistics for one in results.cells if one.cell == cell)
    figures = [
        *roc_figures(cell, curves, rows),
        scenarios_figure(cell, rows),
        proxies_figure(cell, proxies, statistics),
        prior_figure(cell, rows, [row for row in study.prior if is_of(row, cell)]),
        vulnerability_figure(cell, curves.vulnerability, results.ids(cell.pool)),
    ]
    name = results.name_of(cell)
    return [replace(f, title=f.title.replace(cell.name, name)) for f in figures if f is not None]


def study_figures(tables: Mapping[str, Sequence[Any]], audits: Sequence[Results]) -> list[Figure]:
    """Return the figures of all cells together that have data.

    Args:
        tables: The tables of these audits, joined, by name.
        audits: Where V of single records is looked up.
    """
    home = {cell: results for results in audits for cell in results.curves}
    chosen = representative(tables.get("vulnerability", ()))
    cells = [Cell.of(row) for row in chosen]

    def rows(name: str) -> Sequence[Any]:
        return tables.get(name, ())

    figures = [
        budgets_figure(rows("cells")),
        sizes_figure(rows("sizes")),
        control_gap_figure(rows("control_gap")),
        removal_figure(rows("dp_removal")),
        merged_figure([*rows("merged"), *rows("adjudication")]),
        panels_figure(
            chosen,
            [home[cell].curves[cell].vulnerability for cell in cells],
            [home[cell].ids(cell.pool) for cell in cells],
        ),
        attributes_figure(rows("attributes_combined")),
        generators_figure(
            rows("consistency"), [cell for one in audits for cell in one.study.cell_data]
        ),
        *scaling_figures(rows("scenario_scaling"), rows("cells")),
        prior_attacks_figure(rows("comparison"), rows("prior_attacks")),
    ]
    return [figure for figure in figures if figure is not None]


Format = Literal["svg", "png", "pdf", "json"]
SHARPNESS = 2.0


def all_figures(audits: Sequence[Results], only: Sequence[str] = ()) -> dict[str, Figure]:
    """Return the figures of some audits by file name: those of every cell, then of the study.

    Several audits are joined into one study. `only` names figures, as `roc` or `attributes`.
    """
    by_file: dict[str, Figure] = {}
    for results in audits:
        for cell in results.curves:
            for figure in cell_figures(results, cell):
                where = [cell.pool, cell.generator, f"eps-{format_epsilon(cell.epsilon)}"]
                if len(audits) > 1:
                    where.insert(0, cell.corpus)
                by_file[_file_name([*where, figure.name], by_file)] = figure
    overview = overview_figure(audits)  # a page says the same in its own words
    for figure in (
        *([] if overview is None else [overview]),
        *study_figures(_tables(audits), audits),
    ):
        by_file[_file_name([figure.name], by_file)] = figure
    names = list(dict.fromkeys(figure.name for figure in by_file.values()))
    for name in only:
        if name not in names:
            raise UserError(f"these audits have no figure {name!r}", "--only", nearest(name, names))
    return {key: figure for key, figure in by_file.items() if not only or figure.name in only}


def _tables(audits: Sequence[Results]) -> dict[str, Sequence[Any]]:
    """Return the tables of some audits joined, by name; analyses look at all of them together."""
    study = join_studies([(results.folder, results.study) for results in audits])
    tables = {entry.name: entry.plugin.rows(study) for entry in analyses if not entry.plugin.opt_in}
    settled = [row for results in audits for row in results.adjudicated]
    return {
        "cells": study.cells,
        "sizes": [row for results in audits for one in results.cells for row in one.sizes],
        "comparison": study.comparison,
        "adjudication": settled,
        **tables,
    }


def _file_name(parts: Sequence[str], taken: dict[str, Figure]) -> str:
    """Join parts to a name that any disk takes, and that no other figure has."""
    stem = "-".join(re.sub(r"[^\w.]+", "_", part.replace("∞", "inf")) for part in parts)
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}-{number}"
    return name


def draw(figure: Figure, form: Format, theme: Theme = "light", width: int = 760) -> bytes:
    """Draw a figure."""
    spec = figure.for_file(theme, width)
    if form == "json":
        return (json.dumps(spec, indent=1, ensure_ascii=False) + "\n").encode()
    import vl_convert

    if form == "svg":
        return str(vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)).encode()
    if form == "png":
        return bytes(vl_convert.vegalite_to_png(spec, vl_version=VEGA_LITE, scale=SHARPNESS))
    return bytes(vl_convert.vegalite_to_pdf(spec, vl_version=VEGA_LITE))
