"""Analyses: rows of their own kind, counted by hand on small tables."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from support.oracles.planted import Ground, Planted, raised
from synthleak.analyses import Study, Unavailable, analyses, analysis
from synthleak.analyses.analysis import Analysis, outcomes_of
from synthleak.analyses.overviews import ViewRow, views
from synthleak.audit.kept_results import TABLES
from synthleak.core.errors import ContractError
from synthleak.report.tables import read_parquet, to_csv, to_parquet
from synthleak.testing import check_analysis, tiny_study


def test_views_are_counted_by_generator_and_scenario() -> None:
    first, *rest = tiny_study().cells
    study = Study((replace(first, view="embedding"), *rest), ())
    assert views(study) == [
        ViewRow("x", "S1", cells=2, lexical=1, embedding=1),
        ViewRow("x", "S2", cells=2, lexical=0, embedding=2),
    ]
    assert views(Study((), ())) == []


@dataclass(frozen=True)
class Pair:
    """Two values."""

    name: str
    value: object


def test_the_number_of_threads_changes_no_digit() -> None:
    """Sums of several threads differ in the last bits, and `verify` compares bytes."""

    def threads(study: Study) -> list[Pair]:
        return [Pair(found["prefix"], found["num_threads"]) for found in threadpool_info()]

    with threadpool_limits(limits=2):
        rows = Analysis("threads", 1, Pair, threads).rows(tiny_study())
        assert {found["num_threads"] for found in threadpool_info()} == {2}
    assert rows and {row.value for row in rows if isinstance(row, Pair)} == {1}


def test_a_broken_analysis_is_refused_with_a_reason() -> None:
    with pytest.raises(ContractError, match=r"'bad'.* int,.* Pair"):
        check_analysis(Analysis("bad", 1, Pair, lambda study: [1]))
    with pytest.raises(ContractError, match=r"value .*list"):
        check_analysis(Analysis("bad", 1, Pair, lambda study: [Pair("a", [1])]))
    seen: list[int] = []

    def moody(study: Study) -> list[Pair]:
        seen.append(1)
        return [Pair("a", len(seen))]

    with pytest.raises(ContractError):
        check_analysis(Analysis("bad", 1, Pair, moody))


def test_names_of_tables_are_taken_and_rows_are_dataclasses() -> None:
    for name in (*TABLES, "summary", "adjudication"):
        with pytest.raises(ContractError, match=f"'{name}'"):
            analysis(name, version=1, row=Pair)(lambda study: [])
    with pytest.raises(ContractError, match="'mine'"):
        analysis("mine", version=1, row=int)(lambda study: [])  # type: ignore[arg-type]


def whole_study(design: str) -> Study:
    """A study that lacks nothing: controls, two generators, two budgets, two scenarios."""
    made = Planted(Ground(design=design, instances=20, records=12, redraws=39))
    for generator in ("one", "other"):
        for epsilon in (math.inf, 1.0):
            more = {"generator": generator, "epsilon": epsilon}
            made.add("odd", raised(1.0), **more)
            for draw in range(2):
                start = 12 * (draw + 1)
                made.add(f"random{draw}", raised(0.5), rule="random", start=start, **more)
    for pool, start in (("odd", 0), ("random0", 12), ("random1", 24)):
        made.describe(pool, range(12), start)
    return made.study()


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_rows_of_every_analysis_survive_csv_and_parquet(design: str, tmp_path: Path) -> None:
    study = whole_study(design)
    outcomes = {outcome.name: outcome for outcome in outcomes_of(study)}
    unavailable = {name for name, outcome in outcomes.items() if outcome.unavailable is not None}
    assert unavailable == {"merged", "prior_attacks"}
    for name, outcome in outcomes.items():
        plugin = analyses.get(name).plugin
        assert plugin.outcome(replace(study)) == outcome
        assert set(plugin.shown) <= {field.name for field in fields(plugin.row)}
        if outcome.rows:
            path = tmp_path / f"{name}.parquet"
            path.write_bytes(to_parquet(plugin.row, outcome.rows))
            assert tuple(read_parquet(plugin.row, path)) == outcome.rows
            lines = to_csv(plugin.row, outcome.rows).decode().splitlines()
            assert len(lines) == len(outcome.rows) + 1
            assert "nan" not in lines[1]


def test_example_in_the_docs_runs() -> None:
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"## Add an analysis.*?```python\n(.*?)```", text, re.DOTALL)
    example: dict[str, Any] = {}
    exec(code.replace('@analysis("strongest", version=1, row=StrongestRow)\n', ""), example)
    study = tiny_study()
    rows = example["strongest"](study)
    assert {row.pool for row in rows} <= {row.pool for row in study.cells}
    with pytest.raises(Unavailable):
        example["strongest"](replace(study, cells=()))


def test_only_named_analyses_are_run() -> None:
    study = tiny_study()
    assert [o.name for o in outcomes_of(study, only=["meta", "views"])] == ["meta", "views"]
    usual = {outcome.name for outcome in outcomes_of(study)}
    assert "meta" not in usual
    assert {outcome.name for outcome in outcomes_of(study, also=["meta"])} == usual | {"meta"}


def test_package_exports_the_decorator_without_heavy_imports() -> None:
    code = (
        "import sys; from synthleak.analyses import Study, Unavailable, analysis;"
        "print(callable(analysis), {'torch', 'sklearn', 'scipy', 'pyarrow'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["True", "set()"]
