"""Calibration: the evidence of a cell becomes scores, once, and every later stage reads them."""

from __future__ import annotations

import numpy as np

from synthleak.audit.setup import Setup
from synthleak.audit.steps.observations import evidence_keys, observations
from synthleak.calibration import Scores, calibrate, rounded
from synthleak.core.cell import Cell
from synthleak.evidence.observation import Floats, Targets
from synthleak.evidence.persons import by_person
from synthleak.evidence.table import Evidence, get_evidence


def evidence_of(setup: Setup, cell: Cell) -> Evidence:
    """Return what every proxy saw of every target on every set of a cell.

    Values of records are rounded before they are taken to persons, so that the order of equal texts
    cannot show in a mean.
    """
    pool, values = setup.pools[cell.pool], record_values(setup, cell)
    if pool.persons is not None:
        values = by_person(rounded(values), pool.sizes)
    return Evidence(values, setup.proxies)


def record_values(setup: Setup, cell: Cell) -> Floats:
    """Return `[set, record, proxy]`: what every proxy saw of every record of every target."""
    blocks = setup.targets(cell.pool).blocks()

    def seen(text: str, block: Targets) -> Floats:
        keys = [key for _, key in evidence_keys(setup, block, text)]
        return np.concatenate([get_evidence(setup.store, key) for key in keys], axis=1)

    values = [
        np.concatenate([seen(text, block) for block in blocks])
        for text, _ in observations(setup, cell)
    ]
    return np.stack(values)


def scores_of(setup: Setup, cell: Cell) -> list[Scores]:
    """Return the calibrated scores of a cell, one table per scenario.

    The scores of the last cell stay in memory: on disk they would take three times what the
    evidence takes, which they can always be computed from.
    """

    def make() -> list[Scores]:
        return calibrate(evidence_of(setup, cell), setup.plan_of(cell).baselines)

    return setup.last("scores", cell, make)
