"""Releases: every generator makes one from every set of its plan; those made are opened here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from synthleak.audit.setup import Setup
from synthleak.core.cell import Cell
from synthleak.core.errors import ContractError, Damaged, GeneratorError
from synthleak.core.identity import digest
from synthleak.core.plugins import calling
from synthleak.core.store import discard, fetch, name_of
from synthleak.plan.plan import RecordSet
from synthleak.releases.claim import Claim
from synthleak.releases.generator import AccountedGenerator, Generator, StatedGenerator
from synthleak.releases.release import (
    Header,
    Request,
    Synthetic,
    different_texts,
    dump_texts,
    load_texts,
)


@dataclass(frozen=True)
class ReleaseUnit:
    """Some releases of one cell that are still to be made."""

    cell: Cell
    sets: tuple[int, ...]


def wanted_sets(setup: Setup, cell: Cell) -> list[tuple[int, RecordSet]]:
    """Return the sets of a cell's plan that a generator makes releases from, up to its look."""
    return [(i, item) for i, item in setup.sets_of(cell) if item.form == "release"]


def release_name(setup: Setup, cell: Cell, record_set: RecordSet) -> str:
    """Return where the header of a release lies."""
    return name_of("release", setup.release_key(cell, record_set))


def is_made(setup: Setup, cell: Cell, record_set: RecordSet) -> bool:
    """Say whether a release is in the store; one whose header is damaged is not."""
    name = release_name(setup, cell, record_set)
    if not setup.store.exists(name):
        return False
    try:
        header_of(setup, cell, record_set)
    except Damaged:
        discard(setup.store, name)
        return False
    return True


def discard_releases(setup: Setup, damaged: Iterable[str]) -> None:
    """Treat the releases whose texts are among damaged artefacts as missing."""
    texts = {name for name in damaged if name.startswith("text/")}
    if not texts:
        return
    for cell in setup.cells:
        for _, item in wanted_sets(setup, cell):
            if is_made(setup, cell, item):
                text = header_of(setup, cell, item).text
                if name_of("text", text) in texts:
                    setup.store.discard(release_name(setup, cell, item))


def check_generators(setup: Setup) -> None:
    """Ask every generator that has releases to make whether it can, before any is made."""
    for section, generator in setup.plugins.generators:
        cells = [cell for cell in setup.cells if cell.generator == section.name]
        if any(
            not is_made(setup, cell, item) for cell in cells for _, item in wanted_sets(setup, cell)
        ):
            with naming(section.name):
                generator.check()


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Let an error name the generator as the spec does: several may be of one kind."""
    try:
        yield
    except GeneratorError as error:
        place = re.sub(r"^generator [^,]*(, |$)", "", error.where or "")
        where = f"generator {name}, {place}" if place else f"generator {name}"
        raise GeneratorError(error.what, where, error.remedy) from None


def check_awaited(setup: Setup) -> None:
    """Say which releases somebody has yet to put somewhere; what is there was taken in."""
    for section, generator in setup.plugins.generators:
        awaited = [
            generator.awaited(setup.request(cell, item))
            for cell in setup.cells
            if cell.generator == section.name
            for _, item in wanted_sets(setup, cell)
        ]
        missing = [name for name in awaited if name is not None]
        if missing:
            raise GeneratorError(
                f"{len(awaited) - len(missing):,} of {len(awaited):,} releases found;"
                f" missing e.g. {missing[0]}",
                f"generator {section.name}",
                "add the missing ones and run again; those found are kept",
            )


def missing_releases(setup: Setup) -> list[ReleaseUnit]:
    """Cut the releases that can be made and are not in the store into units, each release once."""
    return list(each_missing_release(setup))


def each_missing_release(setup: Setup) -> Iterator[ReleaseUnit]:
    """Yield the units of missing releases, one cell after another: there may be a million."""
    listed = set()
    for cell in setup.cells:
        generator = setup.generator_of(cell)[1]
        missing = [
            position
            for position, item in wanted_sets(setup, cell)
            if setup.release_key(cell, item) not in listed
            and not is_made(setup, cell, item)
            and generator.awaited(setup.request(cell, item)) is None
        ]
        listed |= {
            setup.release_key(cell, setup.plans[cell.pool].sets[position]) for position in missing
        }
        size = generator.batch
        for start in range(0, len(missing), size):
            yield ReleaseUnit(cell, tuple(missing[start : start + size]))


def account_claims(setup: Setup) -> None:
    """Account for the noise of releases that are to be made, here: each worker would for itself."""
    for cell, position in {unit.cell: unit.sets[0] for unit in missing_releases(setup)}.items():
        _, generator = setup.generator_of(cell)
        if isinstance(generator, AccountedGenerator | StatedGenerator):
            with naming(cell.generator):
                generator.claim(setup.request(cell, setup.plans[cell.pool].sets[position]))


def make_releases(setup: Setup, unit: ReleaseUnit) -> int:
    """Let the generator make the releases of a unit; each is kept as soon as it is made."""
    with naming(unit.cell.generator):
        return _make_releases(setup, unit)


def _make_releases(setup: Setup, unit: ReleaseUnit) -> int:
    _, generator = setup.generator_of(unit.cell)
    sets = [setup.plans[unit.cell.pool].sets[position] for position in unit.sets]
    requests = [setup.request(unit.cell, item) for item in sets]
    for item, (text, texts, header) in zip(sets, _each_release(generator, requests), strict=True):
        setup.store.put(name_of("text", text), texts)
        setup.store.put(release_name(setup, unit.cell, item), header)
    return len(sets)


def _each_release(
    generator: Generator, requests: Sequence[Request]
) -> Iterator[tuple[str, bytes, bytes]]:
    """Yield digest, texts and header of every release, once it is found to keep the contract."""
    with calling("generator", generator.kind, generator):
        for request, release in zip(requests, generator.generate_many(requests), strict=True):
            if len(release) != request.size and not generator.any_size:
                raise ContractError(
                    f"the generator {generator.kind!r} made {len(release)} records,"
                    f" not {request.size}"
                )
            parts = [part for record in release for part in (record.text, *record.labels)]
            if not all(isinstance(part, str) for part in parts):
                raise ContractError(
                    f"the generator {generator.kind!r} made a record of other than texts"
                )
            text, claim = digest_of(release), generator.claim(request)
            header = Header(text, len(release), claim, different_texts(release))
            yield text, dump_texts(release), header.to_bytes()


def digest_of(release: Iterable[Synthetic]) -> str:
    """Return the content hash of a release."""
    return digest("release text", [[record.text, record.labels] for record in release])


def header_of(setup: Setup, cell: Cell, record_set: RecordSet) -> Header:
    """Return the header of a release that was made."""
    return fetch(setup.store, "release", setup.release_key(cell, record_set), Header.from_bytes)


def claim_of(setup: Setup, cell: Cell) -> Claim:
    """Return what the releases of a cell promise."""
    _, first = wanted_sets(setup, cell)[0]
    return header_of(setup, cell, first).claim


def held_claim(setup: Setup, cell: Cell) -> Claim:
    """Return the claim that the targets of a cell are compared with.

    It is that of all copies of a canary (docs/method.md §13), or of a person (§15).
    """
    claim, game = claim_of(setup, cell), setup.spec.game
    if game.persons:
        return claim.for_persons(game.max_records)
    return claim.for_group(max(setup.pools[cell.pool].copies))


def open_release(setup: Setup, text: str) -> list[Synthetic]:
    """Return the records of a release; one that was changed by hand counts as damaged."""
    release = fetch(setup.store, "text", text, load_texts)
    if digest_of(release) != text:
        raise Damaged(name_of("text", text))
    return release
