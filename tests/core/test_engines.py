"""Engines: a new one is one file, and decides nothing about results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.specs import tiny_spec

from synthleak import run
from synthleak.cli.about import rows_of
from synthleak.core.engine import Engine, engines
from synthleak.core.engine.progress import Silent
from synthleak.core.errors import ContractError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import parse_spec
from synthleak.testing import check_engine


class Backwards(Engine):
    """Every unit in this process, the last one first."""

    takes_address = True

    def __init__(self) -> None:
        self.heard: list[str] = []

    @contextmanager
    def session(self, runtime: Runtime) -> Iterator[None]:
        self.heard.append(f"begin {runtime.address}")
        yield
        self.heard.append("end")

    def workers(self, runtime: Runtime) -> int:
        return 7

    def run_units(self, task: Any, context: Any, units: Any, **how: Any) -> None:
        with how["progress"].stage(how["title"], how["steps"]) as stage:
            for unit in reversed(list(units)):
                stage.advance(task(context, unit))
        self.heard.append(how["title"])


@pytest.fixture
def engine() -> Iterator[Backwards]:
    engine = Backwards()
    engines.add("backwards", engine, version=1)
    yield engine
    engines.drop([engines.get("backwards").source])


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "results").glob("*.csv")}


def test_an_audit_runs_on_an_engine_of_others(engine: Backwards, tmp_path: Path) -> None:
    there = tiny_spec(runtime={"engine": "backwards", "address": "somewhere"})
    run(parse_spec(there), tmp_path / "there", progress=Silent())
    run(parse_spec(tiny_spec()), tmp_path / "here", progress=Silent())
    assert tables(tmp_path / "there") == tables(tmp_path / "here")
    assert engine.heard[0] == "begin somewhere" and engine.heard[-1] == "end"
    assert {"releases", "observations", "measurements"} <= set(engine.heard)


def test_an_engine_that_forgets_a_unit_breaks_its_contract(engine: Backwards) -> None:
    check_engine(engine)

    class Forgets(Backwards):
        """Every unit but one."""

        def run_units(self, task: Any, context: Any, units: Any, **how: Any) -> None:
            super().run_units(task, context, [*units][1:], **how)

    with pytest.raises(ContractError, match="some units were not done"):
        check_engine(Forgets())


def test_engines_are_listed(engine: Backwards) -> None:
    assert {"local", "ray", "backwards"} <= {row["name"] for row in rows_of("engines")}
    assert engine.workers(Runtime()) == 7
