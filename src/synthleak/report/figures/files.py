"""Figures as files: SVG, PNG, PDF or the Vega-Lite specification itself."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, Literal

from synthleak.analyses.analysis import analyses, join_studies
from synthleak.core.cell import format_epsilon
from synthleak.core.errors import UserError
from synthleak.core.validation import nearest
from synthleak.report.figures.all_figures import cell_figures, drawn_by, study_figures
from synthleak.report.figures.figure import VEGA_LITE, Figure, Theme
from synthleak.report.results import Results

Format = Literal["svg", "png", "pdf", "json"]
SHARPNESS = 2.0


def all_figures(audits: Sequence[Results], only: Sequence[str] = ()) -> dict[str, Figure]:
    """Return the figures of some audits by file name: those of every cell, then of the study.

    Several audits are joined into one study. `only` names figures, as `roc` or `attributes`.
    """
    found: dict[str, Figure] = {}
    for results in audits:
        for cell in results.curves:
            for figure in cell_figures(results, cell):
                where = [cell.pool, cell.generator, f"eps-{format_epsilon(cell.epsilon)}"]
                if len(audits) > 1:
                    where.insert(0, cell.corpus)
                found[_file_name([*where, figure.name], found)] = figure
    for figure in study_figures(_tables(audits), drawn_by(*audits)):
        found[_file_name([figure.name], found)] = figure
    names = list(dict.fromkeys(figure.name for figure in found.values()))
    for name in only:
        if name not in names:
            raise UserError(f"these audits have no figure {name!r}", "--only", nearest(name, names))
    return {key: figure for key, figure in found.items() if not only or figure.name in only}


def _tables(audits: Sequence[Results]) -> dict[str, Sequence[Any]]:
    """Return the tables of some audits joined, by name; analyses look at all of them together."""
    study = join_studies([(results.folder, results.study) for results in audits])
    found = {entry.name: entry.plugin.rows(study) for entry in analyses if not entry.plugin.opt_in}
    settled = [row for results in audits for row in results.adjudicated]
    return {"cells": study.cells, "comparison": study.comparison, "adjudication": settled, **found}


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
