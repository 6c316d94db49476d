"""What the report says of an audit beside its tables: corpus, pools, releases, plug-ins; and what
one release can and cannot show, as report/templates/remarks.txt words it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from synthleak.analyses.copies import CopyRow
from synthleak.audit.setup import (
    Setup,
    draws_sets,
    generator_of,
    persons_in,
    proxies_of,
    records_at,
)
from synthleak.audit.steps.measurements import pool_facts
from synthleak.audit.steps.preconditions import COPIES, FINDINGS, Preconditions, preconditions_of
from synthleak.audit.steps.releases import header_of, wanted_sets
from synthleak.core.cell import Cell, counted, noun
from synthleak.encoders.encoder import Encoder
from synthleak.report.results import Facts
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


def corpus_facts(setup: Setup) -> dict[str, Any]:
    corpus, persons = setup.corpus, persons_in(setup)
    facts = {
        "name": corpus.name,
        "records": len(corpus),
        "duplicates_dropped": corpus.duplicates,
        "label_combinations": len(corpus.combinations),
    }
    if persons is not None:
        part = sum(map(len, persons.records))
        facts |= {
            "people": len(persons.records),
            "records_left_out": sum(map(len, persons.owned)) - part,
        }
    return facts


def size_facts(setup: Setup, name: str) -> dict[str, Any]:
    """Return how many records a pool has for each purpose, and whether labels can be asked for."""
    pool, plan = setup.pools[name], setup.plans[name]
    return {
        "targets": len(pool.targets),
        "candidates": len(pool.candidates),
        "auxiliary": len(pool.auxiliary),
        "records": plan.nominal,
        "release_size": plan.release_size
        if draws_sets(setup, name)
        else max(seen_texts(setup, cell) for cell in setup.cells if cell.pool == name),
        "expressible": setup.publics[name].expresses(records_at(setup, pool.asked)),
        **({"written": len(pool.written), "copies": max(pool.copies)} if pool.written else {}),
    }


def seen_texts(setup: Setup, cell: Cell) -> int:
    """Return how many texts of a release are seen in a cell, at most: some may have fewer."""
    return cell.texts_of(
        max(header_of(setup, cell, item).size for _, item in wanted_sets(setup, cell))
    )


def degenerate_releases(setup: Setup, cell: Cell) -> dict[str, int]:
    """Count the releases of a cell that hold no text at all, or one text over and over."""
    sets = wanted_sets(setup, cell)
    counts = [header_of(setup, cell, item).different for _, item in sets]
    return {"empty_releases": counts.count(0), "one_text_releases": counts.count(1)}


def facts_of(setup: Setup) -> Facts:
    corpus, plugins = setup.corpus, setup.plugins
    scored_by = plugins.encoder.identity()
    return Facts(
        description=corpus.description,
        rules={name: pool_facts(setup, name).rule for name in setup.pools},
        pool_encoder=plugins.pool_encoder.kind,
        encoder=plugins.encoder.kind,
        same_encoder=plugins.pool_encoder.identity() == scored_by,
        differing_encoders={
            section.name: encoder.kind
            for section, generator in plugins.generators
            if isinstance(encoder := getattr(generator, "encoder", None), Encoder)
            and encoder.identity() != scored_by
        },
        proxies=len(proxies_of(setup)),
        grouped=any(record.group is not None for record in corpus.records),
        kinds={section.name: section.kind for section, _ in plugins.generators},
        private_priors=[
            section.name for section, _ in plugins.generators if section.label_prior == "private"
        ],
    )


def check_facts(
    setup: Setup,
    preconditions: Preconditions | None,
    copies: Sequence[CopyRow],
    remarks: Sequence[Remark],
) -> dict[str, Any] | None:
    """Return what was asked before the verdict on an existing release; None for a game."""
    split = setup.corpus.split
    if preconditions is None or split is None:
        return None
    return {
        "declared": preconditions.declared,
        "members": len(split.positions("members")),
        "holdout": len(split.positions("holdout")),
        "reference": len(split.positions("reference")),
        "blind": asdict(preconditions.blind),
        "findings": [asdict(finding) for finding in preconditions.findings],
        "copies": dict(Counter(f"{row.side}, {row.kind}" for row in copies)),
        "remarks": [asdict(remark) for remark in remarks],
    }
