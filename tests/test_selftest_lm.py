"""`lm` in the self-test: its rows pass, fail on a broken `lm`, and say when they cannot be run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from synthleak.audit.setup import Setup
from synthleak.audit.steps import work
from synthleak.audit.steps.observations import ModelUnit, observations
from synthleak.cli.main import cli
from synthleak.core.engine.progress import Silent
from synthleak.core.seeds import stream
from synthleak.evidence import Floats, Observation, Targets
from synthleak.selftest import running
from synthleak.selftest.games import LanguageModelGame, TinyModelProxy
from synthleak.selftest.rows import ROWS, Row, check
from synthleak.selftest.running import audit

NULL, FOUND = (row for row in ROWS if isinstance(row.audit, LanguageModelGame))
REASON = "language models need torch and transformers; pip install 'synthleak[llm]'"
Look = Callable[[TinyModelProxy, Targets, Sequence[Observation]], list[Floats]]


def passes(row: Row, audits: int) -> bool:
    return check(row, [audit(row, seed) for seed in range(audits)], ()).passed


def measures_nothing(_: Any, targets: Targets, seen: Sequence[Observation]) -> list[Floats]:
    """An `lm` whose values are noise."""
    return [stream(0, one.key).normal(size=(len(targets), 2)) for one in seen]


def peeking_at(setup: Setup, unit: ModelUnit) -> Look:
    """Return an `lm` that adds the coin of a target to its value."""
    (cell,) = setup.cells
    plan = setup.plans["pool"]
    coins = np.zeros((len(plan.sets), len(setup.pools["pool"].targets), 1))
    coins[plan.trials.set, plan.trials.target, 0] = plan.trials.member
    places = {seen: place for place, seen in enumerate(observations(setup, cell))}

    def look(self: TinyModelProxy, targets: Targets, seen: Sequence[Observation]) -> list[Floats]:
        noise = measures_nothing(self, targets, seen)
        return [own + coins[places[one]] for own, one in zip(noise, unit.sets, strict=True)]

    return look


def test_lm_holds_the_null_and_finds_copies() -> None:
    pytest.importorskip("transformers")
    quiet = [audit(NULL, seed) for seed in range(2)]
    assert check(NULL, quiet, ()).passed and audit(NULL, 0) == quiet[0]
    assert passes(FOUND, 2)


def test_an_lm_that_peeks_at_the_coins_fails_the_null(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_with_models(setup: Setup, unit: ModelUnit) -> int:
        monkeypatch.setattr(TinyModelProxy, "look_together", peeking_at(setup, unit))
        return work.MODELS.task(setup, unit)

    peeking = replace(work.MODELS, task=look_with_models)
    monkeypatch.setattr(running, "PROXIES", (work.OBSERVATIONS, peeking))
    assert not passes(NULL, 6)


def test_an_lm_that_measures_nothing_fails_on_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TinyModelProxy, "look_together", measures_nothing)
    assert passes(NULL, 6) and not passes(FOUND, 6)


def test_each_game_has_a_chance_of_its_own() -> None:
    games = [row.game for row in ROWS if row.by_chance]
    assert len(set(games)) == len(games) == 9


def test_rows_without_their_extra_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    few = [row for row in ROWS[:25] if row.by_chance or row.p == 0.1]
    monkeypatch.setattr(running, "ROWS", [*few, NULL, FOUND])
    monkeypatch.setattr(running, "QUICK", 2)
    monkeypatch.setattr(running, "QUICK_LEVEL", 2)
    monkeypatch.setitem(sys.modules, "transformers", None)
    names = [row.name for row in (NULL, FOUND)]
    done = CliRunner().invoke(cli, ["selftest", "--workers", "1", "--out", str(tmp_path / "made")])
    made = json.loads((tmp_path / "made").read_text(encoding="utf-8"))
    assert done.exit_code == 0 and made["passed"]
    assert made["not_run"] == dict.fromkeys(names, REASON)
    assert not set(names) & {row["row"] for row in made["rows"]}
    lines = done.output.splitlines()
    for name in names:
        assert f"{name}: not run; {REASON}" in lines
        assert any(line.startswith(name) and line.rstrip().endswith("not run") for line in lines)
    assert lines[-1].startswith("all 4 rows that were run pass; 2 rows NOT RUN; ")


def test_rows_that_load_torch_are_played_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that loads torch after its first audit is replaced, and loads it again."""
    pytest.importorskip("transformers")
    units: list[tuple[int, int]] = []

    def listed(_task: Any, _ground: Any, asked: list[tuple[int, int]], **_: Any) -> None:
        units.extend(asked)
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "run_units", listed)
    with pytest.raises(KeyboardInterrupt):
        running.run_selftest(full=False, workers=2, progress=Silent(), audits=3)
    assert {row for row, _ in units[:6]} == {37, 38} and units[6][0] == 0
    assert len(set(units)) == len(units) == 3 * len(ROWS)


def test_torch_is_imported_with_the_first_game_only() -> None:
    code = (
        "import sys; from synthleak.selftest.rows import ROWS;"
        "ROWS[-1].audit.setup(3); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
