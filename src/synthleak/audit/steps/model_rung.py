"""The model's rung: what an attacker gains who has the model behind a release (docs/method.md §16).

The scores were made with the releases; here they meet the coins of the plan. Nothing of this enters
the verdict on a release.
"""

from __future__ import annotations

import numpy as np

from synthleak.analyses.ladder import ModelMeasurements, allowed_by, model_scores
from synthleak.audit.setup import (
    Setup,
    game_of,
    generator_of,
    plan_identity,
    plan_of,
    sets_of,
    stream_name,
)
from synthleak.audit.steps.measurements import (
    contents_of,
    further_of,
    labelled,
    lone_version,
    redraws_of,
)
from synthleak.audit.steps.releases import claim_of, held_claim, model_scores_name, scored_pools
from synthleak.core.artefact import Artefact, Need, as_json
from synthleak.core.cell import Cell
from synthleak.core.errors import Damaged
from synthleak.core.seeds import digest
from synthleak.encoders.encoder import load_array
from synthleak.evidence.observation import Floats
from synthleak.metrics.measure import MEASUREMENTS_VERSION, measure

LADDER_VERSION = 1


def model_values(setup: Setup, cell: Cell) -> Floats:
    """Return `[set, record, column]`: what each model of a cell says of every record."""
    sets, columns = sets_of(setup, cell), generator_of(setup, cell).score_columns
    values = np.zeros((len(sets), len(setup.pools[cell.pool].asked), len(columns)))
    for place, (_, item) in enumerate(sets):
        if item.form == "release":
            name = model_scores_name(setup, cell, item, cell.pool)
            try:
                values[place] = load_array(setup.store.get(name))
            except (KeyError, ValueError):
                raise Damaged(name) from None
    return values


def model_key(setup: Setup, cell: Cell) -> str:
    scores = [
        model_scores_name(setup, cell, item, cell.pool)
        for _, item in sets_of(setup, cell)
        if item.form == "release"
    ]
    return digest(
        "model rung",
        [LADDER_VERSION, MEASUREMENTS_VERSION],
        plan_identity(setup, cell),
        game_of(setup, cell).model_dump(),
        stream_name(setup, "model", cell),
        [redraws_of(setup, cell.pool), setup.spec.analyses.redraws],
        claim_of(setup, cell).to_json(),
        scores,
        *lone_version(setup, cell),
    )


def _measure(setup: Setup, cell: Cell) -> ModelMeasurements:
    plan, pool = plan_of(setup, cell), setup.pools[cell.pool]
    sizes = None if pool.persons is None else pool.sizes
    columns, claim = generator_of(setup, cell).score_columns, held_claim(setup, cell)
    scores = model_scores(model_values(setup, cell), plan, columns, sizes)
    stream, contents = stream_name(setup, "model", cell), contents_of(setup, cell.pool)
    scored = labelled(setup, cell, [scores], stream, contents)
    measured = measure(
        scored,
        claim,
        redraws=redraws_of(setup, cell.pool),
        further=further_of(setup, cell.pool),
        spreads=False,
    )
    names = tuple(proxy.name for proxy in scores.proxies)
    return ModelMeasurements(measured, names, *allowed_by(claim, plan))


MODEL_RUNG = Artefact("figures", model_key, _measure, *as_json(ModelMeasurements))
"""What the models of a cell tell of its targets."""


def model_needs(setup: Setup, cell: Cell) -> list[Need]:
    return [(MODEL_RUNG, (cell,))] if scored_pools(setup, cell) else []
