"""`synthleak verify`: is a finished audit what its spec, its seed and its records lead to?

Hashes say whether a file was altered by accident. Somebody who writes matching hashes is found by
making things again: pools and plans from the seed, tables from the stored evidence, and some units
drawn at random, byte by byte. Releases of language models differ between machines: of those, key
(records, settings and seed), claim and shape are compared instead (docs/security.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, zip_longest
from typing import Any

import synthleak
from synthleak.audit.folder import RESULTS, RunFolder
from synthleak.audit.manifest import ManifestError
from synthleak.audit.resolved_spec import changes
from synthleak.audit.result import Audit
from synthleak.audit.run import written
from synthleak.audit.setup import Setup, identity_of, set_up
from synthleak.audit.steps.measurements import measurement_needs
from synthleak.audit.steps.observations import (
    evidence_keys,
    missing_evidence,
    missing_models,
    observations,
    observed,
)
from synthleak.audit.steps.prior_attacks import prior_attack_needs
from synthleak.audit.steps.releases import digest_of, header_of, open_release, wanted_sets
from synthleak.core.artefact import Artefact
from synthleak.core.cell import Cell
from synthleak.core.errors import Damaged, MissingExtra, StoreError, UserError
from synthleak.core.identity import digest
from synthleak.core.places import Place, place
from synthleak.core.plugins import check_trusted, trusting
from synthleak.core.seeds import stream
from synthleak.core.store import MemoryStore, StagedStore, Store, damaged_in, name_of
from synthleak.encoders.encoder import dump_array
from synthleak.evidence.family import Family
from synthleak.evidence.table import look
from synthleak.plan.plan import RecordSet
from synthleak.releases.generators.command import Command
from synthleak.releases.release import dump_texts

VERIFIED, DIFFERS, UNCHECKED = "verified", "differs", "not checked"
NAMED = 3
"""Differences that are named one by one."""
_REMADE = ("pool/", "written/", "plan/")


@dataclass(frozen=True)
class Finding:
    """One thing that was compared, and how that ended."""

    what: str
    outcome: str
    detail: str


@dataclass(frozen=True)
class Verification:
    """What was compared; `draw` is the seed that chose the units to make again."""

    findings: tuple[Finding, ...]
    draw: int

    @property
    def verified(self) -> bool:
        """Whether nothing differs. What could not be checked is said in the findings."""
        return all(finding.outcome != DIFFERS for finding in self.findings)


class Remaking(StagedStore):
    """Reads a store, but has pools and plans made again, and keeps all that is put apart."""

    def exists(self, name: str) -> bool:
        """Say whether `name` was put here, or is below and not to be made again."""
        below = not name.startswith(_REMADE) and super().exists(name)
        return below or MemoryStore.exists(self, name)


def verify(
    out: Place | str, *, replay: int = 0, draw: int = 0, trust_plugins: bool = False
) -> Verification:
    """Check a finished audit and its provenance; make `replay` of its units again. Writes nothing.

    Raises `UserError` if there is no finished audit, or if its records cannot be read and units are
    to be made again.
    """
    folder = RunFolder(place(out))
    try:
        manifest = folder.manifest()
    except ManifestError:
        return Verification((Finding("manifest", DIFFERS, "manifest.json is damaged"),), draw)
    if manifest is None:
        raise UserError("not a run folder", str(out), "name one made by `run`")
    if manifest["findings"] is None:
        raise UserError("the audit is not finished", str(out), "finish it with `run` first")
    found = [_provenance(manifest), _files(folder), _store(folder), *_purged(folder, manifest)]
    try:
        loaded = folder.spec()
    except StoreError as error:
        return Verification((*found, Finding("spec", DIFFERS, error.what)), draw)
    check_trusted(loaded.spec.plugins, folder.root, trust=trust_plugins)
    store = Remaking(folder.store)
    try:
        setup = set_up(loaded, store)
        _check_elsewhere(setup)
    except UserError as error:
        if replay:
            raise
        why = f"the records cannot be read ({error}): pools, tables and units are not compared"
        return Verification((*found, Finding("records", UNCHECKED, why)), draw)
    found.append(_identity(setup, manifest))
    found.append(_seeds(store, folder.store, purged="purged" in manifest))
    found.append(_unless_damaged("releases", partial(_releases, setup)))
    found.append(_unless_damaged("evidence", partial(_evidence, setup)))
    found.append(_unless_damaged("tables", partial(_tables, setup, folder, manifest)))
    trust = trust_plugins or trusting.get()
    found += _replayed(setup, replay, draw, trust) if replay else []
    return Verification(tuple(found), draw)


def _check_elsewhere(setup: Setup) -> None:
    """Find the releases that others put beside the audit: their content is in every key."""
    for cell, item in _all_releases(setup):
        file = setup.generator_of(cell)[1].awaited(setup.request(cell, item))
        if file is not None:
            raise UserError("no such file", file)
        setup.release_key(cell, item)


def _compared(what: str, differing: Sequence[str], whole: str) -> Finding:
    """Name the first differences, or say what was compared."""
    if not differing:
        return Finding(what, VERIFIED, whole)
    more = f" and {len(differing) - NAMED:,} more" if len(differing) > NAMED else ""
    return Finding(what, DIFFERS, f"{', '.join(differing[:NAMED])}{more}")


def _unless_damaged(what: str, compare: Callable[[], Finding]) -> Finding:
    """Turn what is damaged on the way into a difference."""
    try:
        return compare()
    except Damaged as error:
        return Finding(what, DIFFERS, error.what)


def _provenance(manifest: dict[str, Any]) -> Finding:
    by, when = manifest["synthleak"], manifest.get("made", "at a time that was not noted")
    same = by == synthleak.__version__
    here = "" if same else f"; this is {synthleak.__version__}, whose page may differ"
    return Finding("made by", VERIFIED, f"synthleak {by}, {when}{here}")


def _files(folder: RunFolder) -> Finding:
    manifest = folder.manifest() or {}
    hashes = manifest.get("hashes", {})
    unknown = [name for name in manifest["files"] if name not in hashes]
    if unknown:
        why = f"{len(unknown)} files have no hash: `run` the audit once to add them"
        return Finding("files", UNCHECKED, why)
    return _compared("files", folder.altered(), f"{len(hashes)} files match their hashes")


def _store(folder: RunFolder) -> Finding:
    if not (folder.manifest() or {}).get("sealed"):
        return Finding("store", UNCHECKED, "artefacts have no digests: `run` the audit once")
    count = sum(1 for _ in folder.store.list(""))
    return _compared("store", damaged_in(folder.store), f"{count:,} artefacts match their digests")


def _purged(folder: RunFolder, manifest: dict[str, Any]) -> list[Finding]:
    if "purged" not in manifest:
        return []
    said = manifest["purged"]
    counts = ", ".join(f"{count:,} {what}" for what, count in said["removed"].items())
    return [Finding("purged", UNCHECKED, f"{counts} were removed on {said['at'][:10]}")]


def _identity(setup: Setup, manifest: dict[str, Any]) -> Finding:
    same = digest(identity_of(setup)) == manifest["key"]
    whole = f"settings, versions and records are those of the manifest; seed {setup.spec.seed}"
    differing = [] if same else changes(manifest["identity"], setup) or ["the settings"]
    return _compared("spec", differing, whole)


def _seeds(remade: Remaking, kept: Store, *, purged: bool) -> Finding:
    made = {
        name: data
        for name, data in remade.held_back.items()
        if name.startswith(_REMADE)
        and not (purged and name.startswith("written/") and not kept.exists(name))
    }
    differing = [name for name, data in made.items() if not _is(kept, name, data)]
    return _compared("seed", differing, f"{len(made)} pools and plans drawn again are the same")


def _is(store: Store, name: str, data: bytes) -> bool:
    try:
        return store.get(name) == data
    except (KeyError, Damaged):
        return False


def _releases(setup: Setup) -> Finding:
    """Compare claim and shape of every release with what its generator states and was asked for."""
    differing, count = [], 0
    for cell, item in _all_releases(setup):
        count += 1
        _, generator = setup.generator_of(cell)
        request, header = setup.request(cell, item), header_of(setup, cell, item)
        fits = generator.any_size or header.size == request.size
        kept = setup.store.exists(name_of("text", header.text))
        if kept and len(open_release(setup, header.text)) != header.size:
            fits = False
        if not fits or header.claim != generator.claim(request):
            differing.append(f"{_title(cell)}, {item.name}")
    return _compared("releases", differing, f"claim and shape of {count:,} releases are right")


def _evidence(setup: Setup) -> Finding:
    missing = [f"{unit.pool} on {unit.text}" for unit in missing_evidence(setup)]
    missing += [
        f"{one.family} in {one.targets[0][0]}, {len(one.sets)}" for one in missing_models(setup)
    ]
    return _compared("evidence", missing, "every family has looked at every observation")


def _tables(setup: Setup, folder: RunFolder, manifest: dict[str, Any]) -> Finding:
    """Make the results again from the stored measurements, and compare them byte by byte.

    Another version may say the same in other words: then the page and the headline may differ.
    """
    same_version = manifest["synthleak"] == synthleak.__version__
    made = written(Audit(setup, RunFolder(folder.root / "nowhere")).results)
    files = {n: d for n, d in made.items() if same_version or n.startswith(f"{RESULTS}/")}
    said = f"{RESULTS}/summary.json"
    differing = [
        name
        for name, data in files.items()
        if not _holds(folder.root / name, data, but_words=name == said and not same_version)
    ]
    return _compared("tables", differing, f"{len(files)} files made again are the same")


def _holds(path: Place, data: bytes, *, but_words: bool = False) -> bool:
    if not path.is_file():
        return False
    kept = path.read_bytes()
    if not but_words:
        return kept == data
    one, two = (json.loads(some) | {"headline": None} for some in (kept, data))
    return bool(one == two)


def _title(cell: Cell) -> str:
    return f"{cell.pool}/{cell.generator}/{cell.epsilon:g}"


def _all_releases(setup: Setup) -> Iterator[tuple[Cell, RecordSet]]:
    for cell in setup.cells:
        for _, item in wanted_sets(setup, cell):
            yield cell, item


Unit = Callable[[], Finding]


def _replayed(setup: Setup, count: int, draw: int, trust: bool) -> list[Finding]:
    """Make some units again: releases, evidence and measurements in turn, each drawn at random."""
    from threadpoolctl import threadpool_limits

    setup = replace(setup, store=StagedStore(setup.store))
    kinds = [
        _drawn([*_release_units(setup, trust)], draw, "releases"),
        _drawn([*_evidence_units(setup, trust)], draw, "evidence"),
        _drawn([*_measurement_units(setup)], draw, "measurements"),
    ]
    turns = [unit for unit in chain.from_iterable(zip_longest(*kinds)) if unit is not None]
    with threadpool_limits(limits=1):  # as they were made: sums then add in one order
        return [_unless_damaged("unit", unit) for unit in turns[:count]]


def _drawn(units: list[Unit], draw: int, kind: str) -> list[Unit]:
    return [units[place] for place in stream(draw, "verify", kind).permutation(len(units))]


def _release_units(setup: Setup, trust: bool) -> Iterator[Unit]:
    for cell, item in _all_releases(setup):
        yield partial(_again, setup, cell, item, trust)


def _again(setup: Setup, cell: Cell, item: RecordSet, trust: bool) -> Finding:
    what = f"release {_title(cell)}, {item.name}"
    header = header_of(setup, cell, item)
    reason = _not_again(setup, cell, trust)
    if reason:
        return Finding(what, UNCHECKED, f"{reason}: key, claim and shape are right")
    release = setup.generator_of(cell)[1].generate(setup.request(cell, item))
    same = digest_of(release) == header.text
    if same:
        setup.store.put(name_of("text", header.text), dump_texts(release))
    return _compared(what, [] if same else ["its texts"], "made again, the same")


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
        header_of(setup, cell, item).text: (cell, item) for cell, item in _all_releases(setup)
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
    same = _is(setup.store, name_of("evidence", key), dump_array(values))
    return _compared(what, [] if same else ["its values"], "made again, the same")


def _measurement_units(setup: Setup) -> Iterator[Unit]:
    for cell in setup.cells:
        for artefact, of in [*measurement_needs(setup, cell), *prior_attack_needs(setup, cell)]:
            yield partial(_measure_again, setup, cell, artefact, of)


def _measure_again(
    setup: Setup, cell: Cell, artefact: Artefact[Any, ..., Any], of: tuple[Any, ...]
) -> Finding:
    name = name_of(artefact.kind, artefact.key(setup, *of))
    same = _is(setup.store, name, artefact.dump(artefact.make(setup, *of)))
    what = f"{artefact.kind} of {_title(cell)}"
    return _compared(what, [] if same else [name], "made again, the same")
