"""The results contract: CSV and Parquet hold the same, the page holds no more than the tables."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet
import pytest

from synthleak import Audit, CellRow, ProxyRow, Runtime, run
from synthleak.report.tables import result_files, to_csv, to_parquet

CELL_COLUMNS = [
    "corpus",
    "pool",
    "generator",
    "epsilon",
    "scenario",
    "proxy",
    "view",
    "auc",
    "auc_spread",
    "tpr_at_fpr05",
    "n_positive",
    "n_negative",
]


@pytest.fixture
def audit(tiny: Callable[..., object], tmp_path: Path) -> Audit:
    return run(tiny(), tmp_path / "run", runtime=Runtime(workers=1))  # type: ignore[arg-type]


def test_the_contract(audit: Audit) -> None:
    files = result_files(audit.results)
    for name, rows, kind in (
        ("cells", audit.cells, CellRow),
        ("proxies", audit.proxies, ProxyRow),
    ):
        written = list(csv.DictReader(io.StringIO(files[f"{name}.csv"].decode())))
        packed = pyarrow.parquet.read_table(io.BytesIO(files[f"{name}.parquet"])).to_pylist()
        assert len(written) == len(packed) == len(rows)
        assert list(written[0]) == list(packed[0]) == list(kind.__dataclass_fields__)
        for text, value in zip(written, packed, strict=True):
            assert float(text["auc"]) == value["auc"]
            assert float(text["epsilon"]) == value["epsilon"]
    assert list(CellRow.__dataclass_fields__)[: len(CELL_COLUMNS)] == CELL_COLUMNS


@dataclass(frozen=True)
class Row:
    """A row with an id that comes from a file."""

    record: str
    auc: float


def test_csv_cells_that_a_spreadsheet_would_run_are_guarded() -> None:
    ids = ["=cmd()", "+1", "-x", "@SUM(A1)", "\tx", "p-1"]
    rows = [Row(name, -0.5) for name in ids]
    written = list(csv.DictReader(io.StringIO(to_csv(Row, rows).decode(), newline="")))
    assert [row["record"] for row in written] == ["'" + name for name in ids[:-1]] + ["p-1"]
    assert {row["auc"] for row in written} == {"-0.5"}
    packed = pyarrow.parquet.read_table(io.BytesIO(to_parquet(Row, rows))).to_pylist()
    assert [row["record"] for row in packed] == ids


def test_cells_hold_best_proxy_per_scenario(audit: Audit) -> None:
    keys = [(row.pool, row.generator, row.epsilon, row.scenario) for row in audit.cells]
    assert keys == [
        ("outlier", "ngram", epsilon, scenario)
        for epsilon in (math.inf, 2.0)
        for scenario in ("S1", "S2", "S3")
    ]
    for row in audit.cells:
        same = [p for p in audit.proxies if (p.epsilon, p.scenario) == (row.epsilon, row.scenario)]
        assert row.auc == max(p.auc for p in same)
        assert (row.n_positive, row.n_negative) == (6, 6)


def test_the_summary_says_what_was_audited_and_promised(audit: Audit) -> None:
    summary = json.loads(result_files(audit.results)["summary.json"])
    assert summary["corpus"]["records"] == 160
    assert summary["pools"]["outlier"]["expressible"] == 1.0
    infinite, finite = summary["cells"]
    assert infinite["epsilon"] == "inf" and infinite["claim"]["events"] == []
    assert finite["claim"]["events"][0]["sigma"] > 0


def test_a_frame_counts_rows_of_a_release_from_zero_too(leaky: Audit) -> None:
    nearest, records = leaky.to_pandas("nearest"), leaky.to_pandas("records")
    assert len(nearest) and list(nearest["row_position"] + 1) == list(nearest["row"])
    assert records["nearest_row_position"].isna().all(), "a game has no single release"
