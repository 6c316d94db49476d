"""Measurements: the scores of a cell meet the labels of its plan (docs/method.md §8).

One unit is one cell, so that its scores are computed once: measurements, means over rounds,
curves, and the profile of its records. Each is kept under a key of all that it is made from, and a
finished audit is opened without computing anything.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np

from synthleak.audit.setup import Setup
from synthleak.audit.steps.observations import all_evidence_keys, observations
from synthleak.audit.steps.profiles import ATTRIBUTES, PROFILE, draws_sets
from synthleak.audit.steps.releases import claim_of, held_claim
from synthleak.audit.steps.scores import scores_of
from synthleak.core.artefact import Artefact, Need, as_json
from synthleak.core.cell import Cell
from synthleak.core.identity import digest
from synthleak.core.text import tokens
from synthleak.evidence.persons import starts_of
from synthleak.metrics.comparison import statistics_of
from synthleak.metrics.curves import CURVES_VERSION, Curves, trace
from synthleak.metrics.measure import (
    MEASUREMENTS_VERSION,
    Further,
    further_redraws,
    measure,
    redraws_for,
)
from synthleak.metrics.measurements import CellMeasurements
from synthleak.metrics.records.exposure import NAMING_VERSION
from synthleak.metrics.rounds import RoundMeasurements, round_measurements
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.metrics.types import Ints
from synthleak.plan.plan import designs


def redraws_of(setup: Setup, pool: str) -> int:
    """Return how many redraws the measurements of a pool's cells need."""
    return redraws_for(_tests(setup), _statistics(setup, pool))


def further_of(setup: Setup, pool: str) -> Further | None:
    """Return what is drawn of a pool's cells where these redraws reach their floor."""
    asked = setup.spec.analyses.redraws
    count = None if asked == "auto" else asked
    return further_redraws(_tests(setup), _statistics(setup, pool), count)


def _tests(setup: Setup) -> int:
    """Return what the level is shared by: the cells, at every look."""
    return len(setup.cells) * setup.spec.game.number_of_looks


def _statistics(setup: Setup, pool: str) -> int:
    plan = setup.plans[pool]
    return len(statistics_of(designs.get(plan.design).plugin, plan))


def measurements_key(setup: Setup, cell: Cell) -> str:
    """Return the key of a cell's measurements: plan, evidence, claim, streams, redraws."""
    # Strings of a key stay as they are, whatever the code is called: stored runs depend on them.
    return digest(
        "figures",
        MEASUREMENTS_VERSION,
        setup.plan_identity(cell),
        setup.game_of(cell).model_dump(),
        setup.stream_name("figures", cell),
        redraws_of(setup, cell.pool),
        claim_of(setup, cell).to_json(),
        [all_evidence_keys(setup, cell.pool, text) for text, _ in observations(setup, cell)],
        *([] if (asked := setup.spec.analyses.redraws) == "auto" else [asked]),
        *([] if setup.corpus.split is None else [NAMING_VERSION]),
    )


def _curves_key(setup: Setup, cell: Cell) -> str:
    return digest("curves", CURVES_VERSION, measurements_key(setup, cell))


def _rounds_key(setup: Setup, cell: Cell) -> str:
    return digest("rounds", measurements_key(setup, cell))


def scored_cell(setup: Setup, cell: Cell) -> ScoredCell:
    """Return what a cell's measurements are made from."""
    plan = setup.plan_of(cell)
    return ScoredCell(
        scores_of(setup, cell),
        designs.get(plan.design).plugin,
        plan,
        setup.game_of(cell),
        setup.stream_name("figures", cell),
        contents_of(setup, cell.pool),
        lengths_of(setup, cell.pool),
    )


def contents_of(setup: Setup, name: str) -> tuple[str, ...]:
    """Return a hash of the text of each target of a pool, with that of its id behind it."""
    pool = setup.pools[name]
    owned = [setup.records(pool.records_of(target)) for target in range(len(pool.targets))]
    return tuple(
        digest("content", sorted(record.text for record in records))
        + digest("content", sorted(record.id for record in records))
        for records in owned
    )


def lengths_of(setup: Setup, pool: str) -> Ints | None:
    """Return the number of words of each target of a check; None in a game, which needs none."""
    if setup.corpus.split is None:
        return None
    targets = setup.pools[pool]
    words = [len(tokens(record.text)) for record in setup.records(targets.asked)]
    return np.add.reduceat(words, starts_of(targets.sizes))


def _measure(setup: Setup, cell: Cell) -> CellMeasurements:
    ROUNDS.get(setup, cell)  # stored now, while the scores are in memory
    return measure(
        scored_cell(setup, cell),
        held_claim(setup, cell),
        redraws=redraws_of(setup, cell.pool),
        further=further_of(setup, cell.pool),
    )


def _trace(setup: Setup, cell: Cell) -> Curves:
    return trace(scored_cell(setup, cell), held_claim(setup, cell))


def _rounds(setup: Setup, cell: Cell) -> list[RoundMeasurements]:
    trials = setup.plan_of(cell).trials
    return [round_measurements(table, trials) for table in scores_of(setup, cell)]


def _dump_rounds(made: list[RoundMeasurements]) -> bytes:
    return json.dumps([asdict(one) for one in made], default=np.ndarray.tolist).encode()


def _load_rounds(data: bytes) -> list[RoundMeasurements]:
    def plain(one: dict[str, Any]) -> dict[str, Any]:
        return {k: np.array(v) if isinstance(v, list) else v for k, v in one.items()}

    return [RoundMeasurements(**plain(one)) for one in json.loads(data)]


MEASUREMENTS = Artefact("figures", measurements_key, _measure, *as_json(CellMeasurements))
CURVES = Artefact("figures", _curves_key, _trace, *as_json(Curves))
"""ROC and sorted V with their bands, for figures."""
ROUNDS = Artefact("figures", _rounds_key, _rounds, _dump_rounds, _load_rounds)
"""The paper's means over rounds, one per scenario, for the table of proxies."""


def measurement_needs(setup: Setup, cell: Cell) -> list[Need]:
    """Return what is made from the scores of a cell."""
    needs: list[Need] = [(MEASUREMENTS, (cell,)), (ROUNDS, (cell,)), (CURVES, (cell,))]
    if draws_sets(setup, cell.pool):
        needs += [(ATTRIBUTES, (cell.pool,)), (PROFILE, (cell,))]
    return needs
