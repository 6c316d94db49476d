"""What one release can and cannot show, in sentences: report/templates/remarks.txt words them."""

from __future__ import annotations

from dataclasses import dataclass

from synthleak.audit.setup import Setup, generator_of, persons_in
from synthleak.audit.steps.preconditions import COPIES, FINDINGS, preconditions_of
from synthleak.core.cell import counted, noun
from synthleak.report.writing import filled


@dataclass(frozen=True)
class Remark:
    """One thing to know beside the verdict; `name` is short, `text` a sentence or two.

    `about` is `copies`, `files`, `split` (what the verdict rests on) or `limits`.
    """

    name: str
    text: str
    about: str


def remarks_on(setup: Setup) -> list[Remark]:
    """Return what was found in the files, what the verdict rests on, and what it cannot show.

    The most important come first. These concern an existing release; of a game nothing is said.
    """
    preconditions = preconditions_of(setup)
    if preconditions is None:
        return []
    game, first = setup.spec.game, setup.cells[0]
    cells = [cell for cell in setup.cells if cell.pool == first.pool]
    in_order = generator_of(setup, first).in_order
    written = filled(
        "remarks.txt",
        blind=preconditions.blind,
        declared=preconditions.declared,
        findings=[
            *preconditions.findings,
            *(f for cell in cells for f in FINDINGS.get(setup, cell)),
        ],
        series=[*reversed(game.smaller_sizes), game.largest_size] if in_order else [],
        reference=any(plan.sets[-1].form == "raw" for plan in setup.plans.values()),
        encoder=setup.plugins.encoder.kind,
        persons=persons_in(setup),
        most=game.max_records,
        copies=[(cell.generator, COPIES.get(setup, cell)) for cell in cells],
        unit=game.unit,
        counted=counted,
        noun=noun,
    ).decode()
    remarks = []
    for paragraph in filter(None, (part.strip() for part in written.split("\n\n"))):
        title, _, text = paragraph.partition("\n")
        about, _, name = title.partition(": ")
        remarks.append(Remark(name, " ".join(text.split("\n")), about))
    return remarks
