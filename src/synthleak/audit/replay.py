"""Makes units of a finished audit again, drawn at random: are they the same, byte by byte?

A release of a language model is not made again: it differs between machines (docs/security.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, zip_longest
from typing import Any

from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import measurement_needs
from synthleak.audit.steps.observations import evidence_keys, observations, observed
from synthleak.audit.steps.prior_attacks import prior_attack_needs
from synthleak.audit.steps.releases import digest_of, header_of
from synthleak.audit.verification import (
    UNCHECKED,
    VERIFIED,
    Finding,
    all_releases,
    compared,
    is_stored,
    title_of,
    unless_damaged,
)
from synthleak.core.artefact import Artefact
from synthleak.core.cell import Cell
from synthleak.core.errors import MissingExtra, UserError
from synthleak.core.seeds import stream
from synthleak.core.store import StagedStore, name_of
from synthleak.core.threads import single_threaded
from synthleak.encoders.encoder import dump_array
from synthleak.evidence.family import Family
from synthleak.evidence.table import look
from synthleak.plan.plan import RecordSet
from synthleak.releases.generators.command import Command
from synthleak.releases.release import dump_texts

Unit = Callable[[], Finding]


def replayed(setup: Setup, count: int, draw: int, trust: bool) -> list[Finding]:
    """Make some units again: releases, evidence and measurements in turn, each drawn at random."""
    setup = replace(setup, store=StagedStore(setup.store))
    kinds = [
        _drawn([*_release_units(setup, trust)], draw, "releases"),
        _drawn([*_evidence_units(setup, trust)], draw, "evidence"),
        _drawn([*_measurement_units(setup)], draw, "measurements"),
    ]
    turns = [unit for unit in chain.from_iterable(zip_longest(*kinds)) if unit is not None]
    with single_threaded():  # as they were made
        return [unless_damaged("unit", unit) for unit in turns[:count]]


def _drawn(units: list[Unit], draw: int, kind: str) -> list[Unit]:
    return [units[place] for place in stream(draw, "verify", kind).permutation(len(units))]


def _release_units(setup: Setup, trust: bool) -> Iterator[Unit]:
    for cell, item in all_releases(setup):
        yield partial(_again, setup, cell, item, trust)


def _again(setup: Setup, cell: Cell, item: RecordSet, trust: bool) -> Finding:
    what = f"release {title_of(cell)}, {item.name}"
    header = header_of(setup, cell, item)
    reason = _not_again(setup, cell, trust)
    if reason:
        return Finding(what, UNCHECKED, f"{reason}: key, claim and shape are right")
    release = setup.generator_of(cell)[1].generate(setup.request(cell, item))
    same = digest_of(release) == header.text
    if same:
        setup.store.put(name_of("text", header.text), dump_texts(release))
    return compared(what, [] if same else ["its texts"], "made again, the same")


def _not_again(setup: Setup, cell: Cell, trust: bool) -> str:
    """Say why a release of this cell is not made again, if so."""
    _, generator = setup.generator_of(cell)
    if not generator.reproducible:
        return "a language model gives other bytes on another machine"
    if isinstance(generator, Command) and not trust:
        return "its program is run with --trust-plugins only"
    try:
        generator.check()
    except (UserError, MissingExtra) as error:
        return f"it cannot be made here ({error})"
    return ""


def _evidence_units(setup: Setup, trust: bool) -> Iterator[Unit]:
    made_from = {
        header_of(setup, cell, item).text: (cell, item) for cell, item in all_releases(setup)
    }
    for pool in setup.pools:
        cells = [cell for cell in setup.cells if cell.pool == pool]
        seen = dict.fromkeys(chain.from_iterable(observations(setup, cell) for cell in cells))
        for text, raw in seen:
            for block, targets in enumerate(setup.targets(pool).blocks()):
                for member, key in evidence_keys(setup, targets, text):
                    release = made_from.get(text)
                    yield partial(
                        _look_again, setup, pool, text, raw, block, member, key, release, trust
                    )


def _look_again(
    setup: Setup,
    pool: str,
    text: str,
    raw: int | None,
    block: int,
    member: Family,
    key: str,
    release: tuple[Cell, RecordSet] | None,
    trust: bool,
) -> Finding:
    what = f"evidence {member.name} in {pool}, {text[:12]}"
    if member.model is not None:
        why = "a language model gives other values on another machine"
        return Finding(what, UNCHECKED, why)
    if raw is None and release and not setup.store.exists(name_of("text", text)):
        again = _again(setup, *release, trust)
        if again.outcome != VERIFIED:
            return Finding(what, again.outcome, f"its release was purged; {again.detail}")
    values = look(member, setup.targets(pool).blocks()[block], observed(setup, pool, text, raw))
    same = is_stored(setup.store, name_of("evidence", key), dump_array(values))
    return compared(what, [] if same else ["its values"], "made again, the same")


def _measurement_units(setup: Setup) -> Iterator[Unit]:
    for cell in setup.cells:
        for artefact, of in [*measurement_needs(setup, cell), *prior_attack_needs(setup, cell)]:
            yield partial(_measure_again, setup, cell, artefact, of)


def _measure_again(
    setup: Setup, cell: Cell, artefact: Artefact[Any, ..., Any], of: tuple[Any, ...]
) -> Finding:
    name = name_of(artefact.kind, artefact.key(setup, *of))
    same = is_stored(setup.store, name, artefact.dump(artefact.make(setup, *of)))
    what = f"{artefact.kind} of {title_of(cell)}"
    return compared(what, [] if same else [name], "made again, the same")
