"""Looks: a cell that is found at a declared look is finished, the others go on.

Nothing is noted of a decision: it follows from the stored measurements, so that a run that was
stopped, a later one and `verify` come to the same looks (docs/method.md §8.12).
"""

from __future__ import annotations

from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import MEASUREMENTS
from synthleak.core.artefact import Need
from synthleak.core.cell import Cell
from synthleak.core.errors import Damaged
from synthleak.core.verdict import LEVEL
from synthleak.metrics.null import holm


def needs_at_look(setup: Setup, cell: Cell) -> list[Need]:
    """Return what decides at a look whether a cell goes on."""
    return [(MEASUREMENTS, (cell,))]


def is_measured(setup: Setup) -> bool:
    """Say whether every cell was measured at its look."""
    try:
        return all(MEASUREMENTS.exists(setup, cell) for cell in setup.cells)
    except Damaged:  # a release of this look was not made yet
        return False


def going_on(setup: Setup) -> list[Cell]:
    """Return the cells that need another look, where every cell was measured at its own.

    Found is what Holm over all cells finds. A cell without a p-value may have one at a later look:
    it counts with p = 1, so that no later look takes a finding back.
    """
    if not setup.reached:
        return []
    p_values = [MEASUREMENTS.get(setup, cell).p for cell in setup.cells]
    adjusted = holm([1.0 if p is None else p for p in p_values])
    last = setup.spec.game.instances
    return [
        cell
        for cell, p in zip(setup.cells, adjusted, strict=True)
        if p is not None and p > LEVEL and setup.reached[cell] < last
    ]


def at_next_look(setup: Setup) -> Setup | None:
    """Return the setup with every cell that is not found at its next look; None at the end."""
    cells, looks = going_on(setup), setup.spec.game.looks
    if not cells:
        return None
    following = {cell: looks[looks.index(setup.reached[cell]) + 1] for cell in cells}
    return setup.at({**setup.reached, **following})


def at_present_look(setup: Setup) -> Setup:
    """Return the setup at the looks to which the measurements in the store have led."""
    if not setup.spec.game.looks:
        return setup
    setup = setup.at(dict.fromkeys(setup.cells, setup.spec.game.looks[0]))
    while is_measured(setup) and (further := at_next_look(setup)) is not None:
        setup = further
    return setup


def is_decided(setup: Setup) -> bool:
    """Say whether no cell of a setup needs another look."""
    return not setup.reached or (is_measured(setup) and not going_on(setup))


def said_of_look(setup: Setup, further: Setup) -> str:
    """Say at a look how many cells are found, and how many go on."""
    cells, looks = len(setup.cells), setup.spec.game.looks
    more = sum(further.reached[cell] > setup.reached[cell] for cell in setup.cells)
    look = max(setup.reached.values())
    return (
        f"look {looks.index(look) + 1} of {len(looks)}, after {look} instances: a leak found in"
        f" {cells - more} of {cells} cells; {more} go on"
    )
