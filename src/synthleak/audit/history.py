"""Which results of a folder were looked at, and when: what a p-value cannot know by itself.

A cell that is added after others were seen is one more test of the same audit (docs/method.md
§8.12). The manifest notes every look; the page says what was added or left out since the first.
"""

from __future__ import annotations

from itertools import groupby

from synthleak.audit.folder import RunFolder
from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import MEASUREMENTS
from synthleak.core.cell import counted_cells


def note_looks(setup: Setup, folder: RunFolder) -> None:
    """Write the cells that were never looked at after as many instances into the manifest."""
    noted = {
        (look.instances, name) for look in folder.looks() for name in look.cells + look.without_p
    }
    new = []
    for cell in setup.cells:
        instances = int(setup.plan_of(cell).trials.set.max()) + 1
        if (instances, cell.name) not in noted:
            new.append((instances, MEASUREMENTS.get(setup, cell).p is not None, cell.name))
    for instances, looked in groupby(sorted(new), key=lambda item: item[0]):
        cells = [*looked]
        folder.note_look(
            instances,
            [name for _, tested, name in cells if tested],
            [name for _, tested, name in cells if not tested],
        )


def said_of_history(setup: Setup, folder: RunFolder) -> tuple[str, ...]:
    """Say which cells were added after others had been looked at, and which were left out."""
    looks = [(look.at, look.cells + look.without_p) for look in folder.looks()]
    looks = [(at, names) for at, names in looks if names]
    present, said = [cell.name for cell in setup.cells], []
    first = {name: at for at, names in reversed(looks) for name in names}
    began = set(looks[0][1]) if looks else set(present)
    for at, names in looks:
        added = [name for name in names if name in present and name not in began]
        began |= set(added)
        if added:
            said.append(
                f"Added on {at[:10]}, after results of other cells had been seen:"
                f" {'; '.join(added)}. Holm’s adjustment is over {counted_cells(present)}."
            )
    gone = [name for name in first if name not in present]
    if gone:
        said.append(
            f"Also looked at in this folder, and not counted here: {'; '.join(gone)}."
            " Results that were left out after they had been seen make the others look stronger."
        )
    return tuple(said)
