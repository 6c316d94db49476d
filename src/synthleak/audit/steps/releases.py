"""Releases: every generator makes one from every set of its plan.

What a generator is asked for and the key of its answer are here, and what is read of the answer:
texts, claims, and what the first releases of a cell are good for. Where the spec asks for it, the
models behind the releases score the targets as they are made (docs/method.md §16).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthleak.analyses import utility
from synthleak.audit.setup import (
    RELEASE_KEYS,
    Setup,
    draws_sets,
    encoding,
    generator_of,
    memory_of,
    raw_key,
    record_keys,
    records_at,
    section_of,
    sets_of,
)
from synthleak.core.artefact import Artefact, Need, as_json
from synthleak.core.cell import Cell
from synthleak.core.errors import ContractError, Damaged, GeneratorError
from synthleak.core.registry import calling
from synthleak.core.seeds import derive, digest, stream
from synthleak.core.store import discard, fetch, name_of
from synthleak.corpus.corpus import Record
from synthleak.encoders.encoder import dump_array
from synthleak.evidence.observation import Floats, check_values
from synthleak.plan.plan import RecordSet
from synthleak.releases.claim import Claim
from synthleak.releases.generator import AccountedGenerator, Generator, StatedGenerator, owners_of
from synthleak.releases.release import (
    Header,
    Request,
    Synthetic,
    different_texts,
    dump_texts,
    load_texts,
)

MODEL_SCORES_VERSION = 1


@dataclass(frozen=True)
class ReleaseUnit:
    """Some releases of one cell that are still to be made."""

    cell: Cell
    sets: tuple[int, ...]
    sample: bool = True
    """Whether releases are missing, and not only the scores of the models behind them."""


def wanted_sets(setup: Setup, cell: Cell) -> list[tuple[int, RecordSet]]:
    """Return the sets of a cell's plan that a generator makes releases from, up to its look."""
    return [(i, item) for i, item in sets_of(setup, cell) if item.form == "release"]


def cells_with_releases(setup: Setup) -> list[Cell]:
    """Return the cells whose releases are made: where pools share them, those of one pool."""
    first = next(iter(setup.plans))
    return [c for c in setup.cells if not setup.spec.game.share_releases or c.pool == first]


def count_releases(setup: Setup) -> int:
    return sum(len(wanted_sets(setup, cell)) for cell in cells_with_releases(setup))


def request_for(setup: Setup, cell: Cell, record_set: RecordSet) -> Request:
    """Return what the generator of a cell is given for one set."""
    section, plan = section_of(setup, cell), setup.plans[cell.pool]
    return Request(
        records=records_at(setup, record_set.records),
        nominal=plan.nominal,
        size=plan.release_size,
        epsilon=cell.epsilon,
        delta=_delta(setup, cell),
        public=setup.publics[cell.pool],
        seed=_seed(setup, cell, record_set),
        label_prior=section.label_prior,
        store=setup.store,
        persons=setup.spec.game.persons,
    )


def release_key(setup: Setup, cell: Cell, record_set: RecordSet) -> str:
    """Return the key of a release: of contents and settings, never of batch or worker.

    It is made once: what a generator reads from elsewhere is taken as it was when first asked.
    """
    keys, cell = memory_of(setup, RELEASE_KEYS), cell.whole
    if (cell, record_set.name) not in keys:
        generator, plan = generator_of(setup, cell), setup.plans[cell.pool]
        elsewhere = generator.fingerprint(request_for(setup, cell, record_set))
        owners: list[Any] = []
        if setup.spec.game.persons or getattr(generator, "unit", "record") == "person":
            owners = ["persons", owners_of(records_at(setup, record_set.records))]
        keys[cell, record_set.name] = digest(
            "release",
            generator.identity(),
            record_keys(setup, record_set.records),
            [plan.nominal, plan.release_size, cell.epsilon, _delta(setup, cell)],
            [section_of(setup, cell).label_prior, setup.publics[cell.pool].key],
            _seed(setup, cell, record_set),
            *([elsewhere] if elsewhere else []),
            *owners,
        )
    key: str = keys[cell, record_set.name]
    return key


def _delta(setup: Setup, cell: Cell) -> float:
    delta = section_of(setup, cell).delta
    if delta == "auto":
        return generator_of(setup, cell).default_delta(setup.plans[cell.pool].nominal)
    return float(delta)


def _seed(setup: Setup, cell: Cell, record_set: RecordSet) -> int:
    name = generator_of(setup, cell).seed_name(section_of(setup, cell).name)
    return release_seed(record_set, name, cell.epsilon)


def release_seed(record_set: RecordSet, name: str, epsilon: float) -> int:
    """Give every release randomness of its own, by its set, its generator's settings and ε.

    Two sections that differ in δ, in label_prior or in the corpus's description alone share it.
    """
    return derive(record_set.seed, name, repr(epsilon))


def release_name(setup: Setup, cell: Cell, record_set: RecordSet) -> str:
    return name_of("release", release_key(setup, cell, record_set))


def is_made(setup: Setup, cell: Cell, record_set: RecordSet) -> bool:
    """Say whether a release is in the store.

    One whose header is damaged is not, nor one whose texts were found damaged or lost. Texts that
    were purged are not needed.
    """
    name = release_name(setup, cell, record_set)
    if not setup.store.exists(name):
        return False
    try:
        text = header_of(setup, cell, record_set).text
    except Damaged:
        discard(setup.store, name)
        return False
    return not setup.store.lost(name_of("text", text))


def scored_pools(setup: Setup, cell: Cell) -> list[str]:
    """Return the pools whose targets the models of a cell score: all that share its releases."""
    if not (setup.spec.evidence.model and generator_of(setup, cell).score_columns):
        return []
    return [*setup.pools] if setup.spec.game.share_releases else [cell.pool]


def model_scores_name(setup: Setup, cell: Cell, record_set: RecordSet, pool: str) -> str:
    """Return where the scores of a pool's targets lie, under the model behind a release."""
    records = record_keys(setup, setup.pools[pool].asked)
    key = digest("model", MODEL_SCORES_VERSION, release_key(setup, cell, record_set), records)
    return name_of("model", key)


def has_model_scores(setup: Setup, cell: Cell, record_set: RecordSet) -> bool:
    """Say whether the model behind a release has scored all that it is to score."""
    return all(
        setup.store.exists(model_scores_name(setup, cell, record_set, pool))
        for pool in scored_pools(setup, cell)
    )


def check_generators(setup: Setup) -> None:
    """Ask every generator that has releases to make whether it can, before any is made."""
    for section, generator in setup.plugins.generators:
        cells = [cell for cell in setup.cells if cell.generator == section.name]
        if any(
            not (is_made(setup, cell, item) and has_model_scores(setup, cell, item))
            for cell in cells
            for _, item in wanted_sets(setup, cell)
        ):
            with naming(section.name):
                generator.check()


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Let an error name the generator as the spec does: several may be of one kind."""
    try:
        yield
    except GeneratorError as error:
        location = re.sub(r"^generator [^,]*(, |$)", "", error.where or "")
        where = f"generator {name}, {location}" if location else f"generator {name}"
        raise GeneratorError(error.what, where, error.remedy) from None


def check_awaited(setup: Setup) -> None:
    """Say which releases somebody has yet to put somewhere; what is there was taken in."""
    for section, generator in setup.plugins.generators:
        awaited = [
            generator.awaited(request_for(setup, cell, item))
            for cell in cells_with_releases(setup)
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
    """Yield the units of missing releases, one cell after another: there may be a million.

    Those follow whose release is there, and not what the model behind it says of the targets.
    """
    listed = set()
    for cell in setup.cells:
        generator = generator_of(setup, cell)
        missing: dict[bool, list[int]] = {True: [], False: []}
        for position, item in wanted_sets(setup, cell):
            key, made = release_key(setup, cell, item), is_made(setup, cell, item)
            if key in listed or (made and has_model_scores(setup, cell, item)):
                continue
            if generator.awaited(request_for(setup, cell, item)) is None:
                listed.add(key)
                missing[not made].append(position)
        size = generator.batch
        for sample, positions in missing.items():
            for start in range(0, len(positions), size):
                yield ReleaseUnit(cell, tuple(positions[start : start + size]), sample)


def account_claims(setup: Setup) -> None:
    """Account for the noise of releases that are to be made, here: each worker would for itself."""
    for cell, position in {unit.cell: unit.sets[0] for unit in missing_releases(setup)}.items():
        generator = generator_of(setup, cell)
        if isinstance(generator, AccountedGenerator | StatedGenerator):
            with naming(cell.generator):
                generator.claim(request_for(setup, cell, setup.plans[cell.pool].sets[position]))


def make_releases(setup: Setup, unit: ReleaseUnit) -> int:
    """Let the generator make the releases of a unit; each is kept as soon as it is made.

    Where models are asked for, each scores the targets of all pools that share its release.
    """
    generator = generator_of(setup, unit.cell)
    sets = [setup.plans[unit.cell.pool].sets[position] for position in unit.sets]
    requests = [request_for(setup, unit.cell, item) for item in sets]
    pools = scored_pools(setup, unit.cell)
    asked = [records_at(setup, setup.pools[pool].asked) for pool in pools]
    # A failed call is named, to be repeated; of a batch it is not known which one failed.
    call = f", pool {unit.cell.pool}, {sets[0].name}" if len(sets) == 1 else ""
    with naming(f"{unit.cell.generator}{call}"):
        answers = _each_answer(generator, requests, asked, unit.sample)
        for item, (release, scores) in zip(sets, answers, strict=True):
            for pool, of_pool in zip(pools, scores, strict=True):
                name = model_scores_name(setup, unit.cell, item, pool)
                if not setup.store.exists(name):
                    setup.store.put(name, dump_array(of_pool))
            if release is not None:
                text, texts, header = release
                setup.store.put(name_of("text", text), texts)
                setup.store.put(release_name(setup, unit.cell, item), header)
    return len(sets)


def _each_answer(
    generator: Generator,
    requests: Sequence[Request],
    asked: Sequence[Sequence[Record]],
    sample: bool,
) -> Iterator[tuple[tuple[str, bytes, bytes] | None, list[Floats]]]:
    """Yield every release as it is kept, if it is wanted, and the scores of each pool's records."""
    records = [record for of_pool in asked for record in of_pool]
    ends = np.cumsum([len(of_pool) for of_pool in asked])
    with calling("generator", generator.kind, generator):
        if not asked:
            for request, release in zip(requests, generator.generate_many(requests), strict=True):
                yield _checked(generator, request, release), []
            return
        answers = generator.generate_and_score(requests, records, sample=sample)
        for request, (release, scores) in zip(requests, answers, strict=True):
            shape = (len(records), len(generator.score_columns))
            values = check_values(f"the generator {generator.kind!r}", scores, shape)
            kept = _checked(generator, request, release) if sample else None
            yield kept, np.split(values, ends[:-1])


def _checked(
    generator: Generator, request: Request, release: Sequence[Synthetic]
) -> tuple[str, bytes, bytes]:
    """Return digest, texts and header of a release, once it is found to keep the contract."""
    if len(release) != request.size and not generator.any_size:
        raise ContractError(
            f"the generator {generator.kind!r} made {len(release)} records, not {request.size}"
        )
    parts = [part for record in release for part in (record.text, *record.labels)]
    if not all(isinstance(part, str) for part in parts):
        raise ContractError(f"the generator {generator.kind!r} made a record of other than texts")
    text, claim = digest_of(release), generator.claim(request)
    header = Header(text, len(release), claim, different_texts(release))
    return text, dump_texts(release), header.to_bytes()


def digest_of(release: Iterable[Synthetic]) -> str:
    return digest("release text", [[record.text, record.labels] for record in release])


def header_of(setup: Setup, cell: Cell, record_set: RecordSet) -> Header:
    return fetch(setup.store, "release", release_key(setup, cell, record_set), Header.from_bytes)


def claim_of(setup: Setup, cell: Cell) -> Claim:
    _, first = wanted_sets(setup, cell)[0]
    return header_of(setup, cell, first).claim


def planned_claim(setup: Setup, cell: Cell) -> Claim:
    """Return the claim that a cell will be held to, before any of its releases is made."""
    _, first = wanted_sets(setup, cell)[0]
    return held_claim(setup, cell, generator_of(setup, cell).claim(request_for(setup, cell, first)))


def held_claim(setup: Setup, cell: Cell, claim: Claim | None = None) -> Claim:
    """Return the claim that the targets of a cell are compared with: that of its releases.

    It is that of all copies of a canary (docs/method.md §13), or of a person (§15).
    """
    claim, game = claim or claim_of(setup, cell), setup.spec.game
    if game.persons:
        return claim.for_persons(game.max_records)
    return claim.for_group(max(setup.pools[cell.pool].copies))


def open_release(setup: Setup, text: str) -> list[Synthetic]:
    """Return the records of a release; one that was changed by hand counts as damaged."""
    release = fetch(setup.store, "text", text, load_texts)
    if digest_of(release) != text:
        raise Damaged(name_of("text", text))
    return release


def utility_row_of(setup: Setup, cell: Cell) -> utility.UtilityRow:
    """Return what the first releases of a cell are good for; each measure is made only once."""
    sets = _measured_sets(setup, cell)
    released, real = ([UTILITY.get(setup, cell, item, of) for item in sets] for of in (False, True))
    return utility.utility_row(cell, released, real)


def _measured_sets(setup: Setup, cell: Cell) -> list[RecordSet]:
    """Return the first sets of a plan: which these are depends on no coin."""
    if not draws_sets(setup, cell.pool):
        return []
    return [item for _, item in wanted_sets(setup, cell)][: utility.RELEASES]


def _test_records(setup: Setup, cell: Cell, item: RecordSet) -> list[int]:
    """Return at most MOST_TESTS real records, neither targets nor in this set."""
    inside = set(item.records)
    rest = [p for p in setup.pools[cell.pool].candidates if p not in inside]
    order = stream(setup.spec.seed, "utility", cell.pool).permutation(len(rest))
    return [rest[place] for place in order[: utility.MOST_TESTS]]


def _utility_key(setup: Setup, cell: Cell, item: RecordSet, real: bool) -> str:
    sample = raw_key(setup, item) if real else header_of(setup, cell, item).text
    tests = digest("tests", setup.corpus.fingerprint, _test_records(setup, cell, item))
    encoder = setup.plugins.encoder.identity()
    return digest("utility", utility.UTILITY_VERSION, sample, tests, encoder)


def _measure_utility(setup: Setup, cell: Cell, item: RecordSet, real: bool) -> utility.Measures:
    records = (
        records_at(setup, item.records)
        if real
        else open_release(setup, header_of(setup, cell, item).text)
    )
    tests = records_at(setup, _test_records(setup, cell, item))
    return utility.measure(
        [(record.text, record.labels) for record in records],
        [(record.text, record.labels) for record in tests],
        encoding(setup),
    )


UTILITY = Artefact("utility", _utility_key, _measure_utility, *as_json(utility.Measures))
"""The measures of one release, or of the real records that it was made from."""


def utility_needs(setup: Setup, cell: Cell) -> list[Need]:
    sets = _measured_sets(setup, cell)
    return [(UTILITY, (cell, item, real)) for item in sets for real in (False, True)]
