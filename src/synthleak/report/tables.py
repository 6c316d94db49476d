"""The results contract: `results/` as CSV, Parquet and JSON (docs/results.md).

Columns are only ever added. ε without privacy is written `inf`.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from pydantic import TypeAdapter

from synthleak.analyses.analysis import Outcome, analyses
from synthleak.core.registry import calling
from synthleak.report.results import CellResult, Results
from synthleak.report.verdict import headline, model_line, sentence

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RESULTS_VERSION = 4
"""Raise it with every new table, and when a column changes its meaning; new columns are noticed."""
R = TypeVar("R")


def result_files(results: Results) -> dict[str, bytes]:
    """Return the files of `results/` by name."""
    files = {"summary.json": (json.dumps(summary(results), indent=1) + "\n").encode()}
    for name, (kind, rows) in results.tables.items():
        files |= _table_files(name, kind, rows)
    return files


def _table_files(
    name: str, kind: type[DataclassInstance], rows: Sequence[DataclassInstance]
) -> dict[str, bytes]:
    with calling("analysis", name, kind):
        return {f"{name}.csv": to_csv(kind, rows), f"{name}.parquet": to_parquet(kind, rows)}


def outcome_files(outcomes: Sequence[Outcome]) -> dict[str, bytes]:
    """Return the tables of some analyses as files, and `analyses.json` with what each needs."""
    files = {"analyses.json": (json.dumps(_analyses(outcomes), indent=1) + "\n").encode()}
    for outcome in outcomes:
        if outcome.rows:
            files |= _table_files(outcome.name, analyses.get(outcome.name).plugin.row, outcome.rows)
    return files


def _analyses(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return how many rows every analysis gave, and what it needs."""
    return {o.name: {"rows": len(o.rows), "lacks": o.unavailable} for o in outcomes}


def to_csv(kind: type[DataclassInstance], rows: Sequence[DataclassInstance]) -> bytes:
    """Write rows as CSV, numbers in full, so that CSV and Parquet hold the same."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(field.name for field in fields(kind))
    writer.writerows([csv_cell(value) for value in asdict(row).values()] for row in rows)
    return buffer.getvalue().encode()


def to_parquet(kind: type[DataclassInstance], rows: Sequence[DataclassInstance]) -> bytes:
    """Write rows as Parquet."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist([asdict(row) for row in rows], schema=_schema(kind))
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    return buffer.getvalue()


def read_parquet(kind: type[R], path: Path | BinaryIO) -> list[R]:
    """Read rows written by `to_parquet`; values of other types raise a ValueError."""
    import pyarrow.parquet

    rows: list[R] = TypeAdapter(list[kind]).validate_python(  # type: ignore[valid-type]
        pyarrow.parquet.read_table(path).to_pylist()
    )
    return rows


def has_columns(kind: type[DataclassInstance], path: Path | BinaryIO) -> bool:
    """Say whether a Parquet file holds the columns of `kind`: one of another version may not."""
    import pyarrow.parquet

    try:
        return bool(pyarrow.parquet.read_schema(path).equals(_schema(kind)))
    except pyarrow.ArrowException:
        return False


def _schema(kind: type[DataclassInstance]) -> Any:
    """Return names and types of the columns."""
    import pyarrow

    types = {"str": pyarrow.string(), "float": pyarrow.float64(), "int": pyarrow.int64()}
    return pyarrow.schema(
        [(f.name, types[_type_name(f.type).removesuffix(" | None")]) for f in fields(kind)]
    )


def _type_name(kind: Any) -> str:
    """Name a field's type, whether its module keeps annotations as words or as types."""
    return kind.__name__ if isinstance(kind, type) else str(kind)


def csv_cell(value: str | float | bool | None) -> str:
    """Write a value for a CSV file, a number in full."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "inf" if math.isinf(value) else repr(value)
    return guarded(value) if isinstance(value, str) else str(value)


_FORMULA, _BLANK = {"=", "+", "-", "@"}, {"\t", "\r", "\n"}


def guarded(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would run as a formula.

    Ids and labels come from files; Parquet holds them as they are.

    >>> guarded("=HYPERLINK(1)"), guarded("p-7")
    ("'=HYPERLINK(1)", 'p-7')
    """
    first = text.lstrip()[:1]
    return f"'{text}" if first in _FORMULA or text[:1] in _BLANK else text


def declared_of(results: Results) -> str | None:
    """Return what was declared of the split of a check; None for a game."""
    return results.check["declared"] if results.check else None


def summary(results: Results) -> dict[str, Any]:
    """Return the audit in one JSON object: what was audited, what was promised, what was found."""
    return {
        "headline": headline(results.cells, declared_of(results)),
        "corpus": results.corpus,
        "pools": results.pools,
        "game": results.game.model_dump(),
        **({"check": results.check} if results.check else {}),
        "analyses": _analyses(results.outcomes),
        "cells": [_cell_summary(result) for result in results.cells],
    }


def _cell_summary(result: CellResult) -> dict[str, Any]:
    cell, measured = result.cell, result.measurements
    return {
        "pool": cell.pool,
        "generator": cell.generator,
        "epsilon": "inf" if math.isinf(cell.epsilon) else cell.epsilon,
        "claim": result.claim.to_json(),
        "verdict": sentence(result),
        "p_cell": measured.p,
        "p_holm": result.judged.p_holm,
        "redraws": measured.redraws,
        "crossfit": measured.crossfit and asdict(measured.crossfit),
        "crossfit_tpr": measured.crossfit_tpr and asdict(measured.crossfit_tpr),
        "records_low": measured.records_low,
        "records_high": measured.records_high,
        "gdp_mu_estimate": measured.mu,
        "epsilon_bound": measured.epsilon and asdict(measured.epsilon),
        **({"model": model_line(result)} if result.ladder else {}),
        **result.degenerate,
    }
