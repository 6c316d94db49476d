"""The results contract: `results/` as CSV, Parquet and JSON (docs/results.md).

Columns are only ever added. ε without privacy is written `inf`.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from synthleak.analyses.analysis import Outcome, analyses
from synthleak.analyses.cells import CellRow, ProxyRow, RecordRow
from synthleak.analyses.copies import CopyRow
from synthleak.analyses.prior import ComparisonRow, PriorRow
from synthleak.analyses.utility import UtilityRow
from synthleak.report.verdict import headline, sentence

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from synthleak.audit.result import Audit

RESULTS_VERSION = 2
R = TypeVar("R")
Table = tuple[type["DataclassInstance"], Sequence["DataclassInstance"]]


def result_tables(audit: Audit) -> dict[str, Table]:
    """Return the tables of `results/` by name: the type of their rows, and the rows.

    Records only where the design compares them, prior attacks only where the spec names some.
    """
    tables: dict[str, Table] = {
        "cells": (CellRow, audit.cells),
        "proxies": (ProxyRow, audit.proxies),
    }
    if audit.prior:
        tables["prior"] = (PriorRow, audit.prior)
        tables["comparison"] = (ComparisonRow, audit.comparison)
    if audit.records:
        tables["records"] = (RecordRow, audit.records)
    if audit.utility:
        tables["utility"] = (UtilityRow, audit.utility)
    if audit.copies:
        tables["copies"] = (CopyRow, audit.copies)
    for outcome in audit.outcomes:
        if outcome.rows:
            tables[outcome.name] = (analyses.get(outcome.name).plugin.row, outcome.rows)
    return tables


def result_files(audit: Audit) -> dict[str, bytes]:
    """Return the files of `results/` by name."""
    files = {}
    for name, (kind, rows) in result_tables(audit).items():
        files[f"{name}.csv"] = to_csv(kind, rows)
        files[f"{name}.parquet"] = to_parquet(kind, rows)
    return files | {"summary.json": (json.dumps(summary(audit), indent=1) + "\n").encode()}


def outcome_files(outcomes: Sequence[Outcome]) -> dict[str, bytes]:
    """Return the tables of some analyses as files, and `analyses.json` with what each lacks."""
    files, said = {}, {}
    for outcome in outcomes:
        kind = analyses.get(outcome.name).plugin.row
        if outcome.rows:
            files[f"{outcome.name}.csv"] = to_csv(kind, outcome.rows)
            files[f"{outcome.name}.parquet"] = to_parquet(kind, outcome.rows)
        said[outcome.name] = {"rows": len(outcome.rows), "lacks": outcome.unavailable}
    return files | {"analyses.json": (json.dumps(said, indent=1) + "\n").encode()}


def to_csv(kind: type[DataclassInstance], rows: Sequence[DataclassInstance]) -> bytes:
    """Write rows as CSV, numbers in full, so that CSV and Parquet hold the same."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(field.name for field in fields(kind))
    writer.writerows([_cell(value) for value in asdict(row).values()] for row in rows)
    return buffer.getvalue().encode()


def to_parquet(kind: type[DataclassInstance], rows: Sequence[DataclassInstance]) -> bytes:
    """Write rows as Parquet."""
    import pyarrow
    import pyarrow.parquet

    types = {"str": pyarrow.string(), "float": pyarrow.float64(), "int": pyarrow.int64()}
    schema = pyarrow.schema(
        [(f.name, types[_type_name(f.type).removesuffix(" | None")]) for f in fields(kind)]
    )
    table = pyarrow.Table.from_pylist([asdict(row) for row in rows], schema=schema)
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    return buffer.getvalue()


def read_parquet(kind: type[R], path: Path) -> list[R]:
    """Read rows written by `to_parquet`."""
    import pyarrow.parquet

    return [kind(**row) for row in pyarrow.parquet.read_table(path).to_pylist()]


def _type_name(kind: Any) -> str:
    """Name a field's type, whether its module keeps annotations as words or as types."""
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return "inf" if math.isinf(value) else repr(value)
    return str(value)


def summary(audit: Audit) -> dict[str, Any]:
    """Return the audit in one JSON object: what was audited, what was promised, what was found."""
    setup = audit.setup
    return {
        "headline": headline(audit),
        "corpus": {
            "name": setup.corpus.name,
            "records": len(setup.corpus),
            "duplicates_dropped": setup.corpus.duplicates,
            "label_combinations": len(setup.corpus.combinations),
        },
        "pools": {
            name: {
                "targets": len(pool.targets),
                "candidates": len(pool.candidates),
                "auxiliary": len(pool.auxiliary),
                "records": setup.plans[name].nominal,
                "release_size": audit.release_size(name),
                "expressible": setup.publics[name].expresses(setup.records(pool.targets)),
            }
            for name, pool in setup.pools.items()
        },
        "game": setup.spec.game.model_dump(),
        **({"check": _check(audit)} if audit.preconditions else {}),
        "analyses": {
            outcome.name: {"rows": len(outcome.rows), "lacks": outcome.unavailable}
            for outcome in audit.outcomes
        },
        "cells": [
            {
                "pool": cell.pool,
                "generator": cell.generator,
                "epsilon": "inf" if math.isinf(cell.epsilon) else cell.epsilon,
                "claim": audit.claim(cell).to_json(),
                "verdict": sentence(audit, cell),
                "p_cell": figures.p,
                "p_holm": audit.verdicts[cell].p_holm,
                "redraws": figures.redraws,
                "crossfit": figures.crossfit and asdict(figures.crossfit),
                "crossfit_tpr": figures.crossfit_tpr and asdict(figures.crossfit_tpr),
                "records_low": figures.records_low,
                "records_high": figures.records_high,
                "gdp_mu_estimate": figures.mu,
                "epsilon_bound": figures.epsilon and asdict(figures.epsilon),
                **audit.degenerate(cell),
            }
            for cell, figures in audit.figures.items()
        ],
    }


def _check(audit: Audit) -> dict[str, Any]:
    """Return what was asked before the verdict on a release that was already there."""
    assert audit.preconditions is not None
    split = audit.setup.corpus.split
    assert split is not None
    return {
        "declared": audit.preconditions.declared,
        "members": len(split.positions("members")),
        "holdout": len(split.positions("holdout")),
        "reference": len(split.positions("reference")),
        "blind": asdict(audit.preconditions.blind),
        "findings": [asdict(finding) for finding in audit.preconditions.findings],
        "copies": dict(Counter(f"{row.side}, {row.kind}" for row in audit.copies)),
        "remarks": [asdict(remark) for remark in audit.remarks],
    }
