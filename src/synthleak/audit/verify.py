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
from pathlib import Path
from typing import Any

import synthleak
from synthleak.analyses.gaps import MergedRow
from synthleak.audit.adjudicate import played_again
from synthleak.audit.commitment import (
    Commitment,
    is_commitment_hash,
    kept_commitment,
    read_commitment,
)
from synthleak.audit.folder import (
    COMMITMENT,
    COMMITTED,
    MANIFEST,
    REPORT,
    RESULTS,
    SIGN_OFF,
    ManifestError,
    RunFolder,
    digest_of_file,
    first_of,
)
from synthleak.audit.kept_results import ADJUDICATION, files_of, settled
from synthleak.audit.result import Audit
from synthleak.audit.setup import (
    Setup,
    cells_of_all_sizes,
    changes,
    generator_of,
    identity_of,
    targets_in,
)
from synthleak.audit.stages import set_up
from synthleak.audit.steps import releases
from synthleak.audit.steps.measurements import measurement_needs
from synthleak.audit.steps.model_rung import model_needs
from synthleak.audit.steps.observations import (
    Observed,
    evidence_keys,
    last_observation,
    missing_evidence,
    missing_models,
    observations,
)
from synthleak.audit.steps.prior_attacks import prior_attack_needs
from synthleak.audit.steps.work import at_present_look, said_of_history
from synthleak.core.artefact import Artefact
from synthleak.core.cell import Cell, counted
from synthleak.core.errors import Damaged, MissingExtra, StoreError, SynthleakError, UserError
from synthleak.core.locations import Location, locate
from synthleak.core.registry import check_trusted, trusting
from synthleak.core.runtime import single_threaded
from synthleak.core.seeds import digest, stream
from synthleak.core.store import MemoryStore, StagedStore, Store, damaged_in, name_of
from synthleak.encoders.encoder import dump_array
from synthleak.evidence.family import Family
from synthleak.evidence.observation import Targets
from synthleak.evidence.table import look
from synthleak.plan.plan import RecordSet
from synthleak.releases.generators.command import Command
from synthleak.releases.release import dump_texts
from synthleak.report.sign_off import signed_hashes
from synthleak.report.tables import to_csv

VERIFIED, DIFFERS, UNCHECKED = "verified", "differs", "not checked"


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


def compared(what: str, differing: Sequence[str], whole: str) -> Finding:
    """Name the first differences, or say what was compared."""
    if not differing:
        return Finding(what, VERIFIED, whole)
    return Finding(what, DIFFERS, first_of(differing))


def unless_damaged(what: str, compare: Callable[[], Finding]) -> Finding:
    """Turn what is damaged on the way into a difference, or does not fit together."""
    try:
        return compare()
    except Damaged as error:
        return Finding(what, DIFFERS, error.what)
    except (SynthleakError, MemoryError, OSError):
        raise
    except Exception as error:
        why = f"what is stored does not fit together ({type(error).__name__})"
        return Finding(what, DIFFERS, f"{why}: it was altered, or this is a bug")


def is_stored(store: Store, name: str, data: bytes) -> bool:
    try:
        return store.get(name) == data
    except (KeyError, Damaged):
        return False


def title_of(cell: Cell) -> str:
    return f"{cell.pool}/{cell.generator}/{cell.epsilon:g}"


def all_releases(setup: Setup) -> Iterator[tuple[Cell, RecordSet]]:
    """Yield every release of an audit: its cell, and the set that it was made from."""
    for cell in setup.cells:
        for _, item in releases.wanted_sets(setup, cell):
            yield cell, item


_REMADE = ("pool/", "written/", "plan/")


class Remaking(StagedStore):
    """Reads a store, but has pools and plans made again, and keeps all that is put apart."""

    def exists(self, name: str) -> bool:
        below = not name.startswith(_REMADE) and super().exists(name)
        return below or MemoryStore.exists(self, name)


def verify(
    out: Location | str,
    *,
    replay: int = 0,
    draw: int = 0,
    signed: Path | str | None = None,
    committed: Path | str | None = None,
    trust_plugins: bool = False,
) -> Verification:
    """Check a finished audit and its provenance. Nothing is written.

    Args:
        out: The run folder.
        replay: How many units are made again and compared, byte by byte.
        draw: The seed that chooses those units.
        signed: A sign-off that was filed: are spec and tables still those that it names? By
            default the one in the folder is compared, if it is there.
        committed: A commitment that was filed before, its file or its hash: is the audit the
            committed one, and how did its gate end? A hash is compared with the commitment that
            the folder keeps, and so is the audit by default.
        trust_plugins: Whether files and programs that its spec names may be run.

    Returns:
        What was compared, and how that ended.

    Raises:
        UserError: If the audit is not finished, if `signed` or `committed` is something else, or
            if records cannot be read that are needed for units or a commitment.
    """
    folder = RunFolder(locate(out))
    try:
        manifest = folder.begun()
    except ManifestError:
        return Verification((Finding("manifest", DIFFERS, "manifest.json is damaged"),), draw)
    if manifest["findings"] is None:
        raise UserError("the audit is not finished", str(out), "finish it with `run` first")
    findings = [_provenance(manifest), _files(folder, manifest), _store(folder), *_purged(manifest)]
    findings += _signed(folder, signed)
    commitment, more = _commitment(folder, committed)
    findings += more
    try:
        loaded = folder.spec()
    except StoreError as error:
        return Verification((*findings, Finding("spec", DIFFERS, error.what)), draw)
    check_trusted(loaded.spec.plugins, folder.root, trust=trust_plugins)
    store = Remaking(folder.store)
    try:
        setup = at_present_look(set_up(loaded, store))
        _check_elsewhere(setup)
    except UserError as error:
        if replay or committed:
            raise
        why = f"the records cannot be read ({error}): pools, tables and units are not compared"
        return Verification((*findings, Finding("records", UNCHECKED, why)), draw)
    findings.append(_identity(setup, manifest))
    if commitment is not None:
        findings += _as_committed(commitment, Audit(setup, folder))
    findings.append(_seeds(store, folder.store, purged="purged" in manifest))
    findings.append(unless_damaged("releases", partial(_releases, setup)))
    findings.append(unless_damaged("evidence", partial(_evidence, setup)))
    findings.append(unless_damaged("tables", partial(_tables, setup, folder, manifest)))
    if (folder.results / f"{ADJUDICATION}.json").is_file():
        findings.append(unless_damaged("adjudication", partial(_adjudication, setup, folder)))
    trust = trust_plugins or trusting.get()
    findings += replayed(setup, replay, draw, trust) if replay else []
    return Verification(tuple(findings), draw)


def _check_elsewhere(setup: Setup) -> None:
    """Find the releases that others put beside the audit: their content is in every key."""
    for cell, item in all_releases(setup):
        file = generator_of(setup, cell).awaited(releases.request_for(setup, cell, item))
        if file is not None:
            raise UserError("no such file", file)
        releases.release_key(setup, cell, item)


def _provenance(manifest: dict[str, Any]) -> Finding:
    by, when = manifest["synthleak"], manifest.get("made", "at a time that was not noted")
    same = by == synthleak.__version__
    here = "" if same else f"; this is {synthleak.__version__}, whose page may differ"
    return Finding("made by", VERIFIED, f"synthleak {by}, {when}{here}")


def _files(folder: RunFolder, manifest: dict[str, Any]) -> Finding:
    return compared(
        "files", folder.altered(), f"{len(manifest['hashes'])} files match their hashes"
    )


def _store(folder: RunFolder) -> Finding:
    count = sum(1 for _ in folder.store.list(""))
    missing = [f"{name} is missing" for name in folder.missing()]
    whole = f"{count:,} artefacts match their digests"
    return compared("store", [*damaged_in(folder.store), *missing], whole)


def _purged(manifest: dict[str, Any]) -> list[Finding]:
    if "purged" not in manifest:
        return []
    purged = manifest["purged"]
    counts = ", ".join(f"{count:,} {what}" for what, count in purged["removed"].items())
    return [Finding("purged", UNCHECKED, f"{counts} were removed on {purged['at'][:10]}")]


def _signed(folder: RunFolder, page: Path | str | None) -> list[Finding]:
    """Compare spec and tables with a sign-off; manifest and report may be written again."""
    filed = folder.root / SIGN_OFF if page is None else Path(page)
    if page is None and not filed.is_file():
        return []
    try:
        noted = signed_hashes(filed.read_bytes().decode(errors="replace"))
    except OSError as error:
        raise UserError(f"cannot be read ({error.strerror})", str(filed)) from error
    if not noted and page is not None:
        raise UserError("not a sign-off with hashes", str(filed), "name one made by `report`")
    if not noted:
        return [Finding("sign-off", UNCHECKED, "the page names no hashes")]
    differing = [n for n, value in noted.items() if digest_of_file(folder.root / n) != value]
    fixed = [name for name in differing if name not in (MANIFEST, REPORT)]
    since = f"; written again since: {', '.join(differing)}" if differing else ""
    whole = f"the hashes on the page are those of spec and tables; its words are not read{since}"
    return [compared("sign-off", fixed, whole)]


def _commitment(
    folder: RunFolder, given: Path | str | None
) -> tuple[Commitment | None, list[Finding]]:
    """Return the commitment to compare with: the one given, or the one that the folder keeps."""
    is_hash = isinstance(given, str) and is_commitment_hash(given)
    noted = folder.noted.get(COMMITTED)
    try:
        kept = kept_commitment(folder)
        why = "" if noted in (None, kept and kept.hash) else "missing, or not the one noted"
    except UserError as error:
        kept, why = None, error.what
    lost = [Finding("kept commitment", DIFFERS, f"{COMMITMENT}: {why}")] if why else []
    if given is not None and not is_hash:
        return read_commitment(Path(given)), lost
    if is_hash and kept is None:
        raise UserError(
            "the folder keeps no commitment, and a hash alone cannot be compared",
            str(folder.root),
            "name the file that `plan commit` wrote",
        )
    if kept is not None and is_hash and kept.hash != given:
        why = f"the folder keeps another commitment, {kept.hash}"
        return None, [*lost, Finding("commitment", DIFFERS, why)]
    return kept, lost


def _identity(setup: Setup, manifest: dict[str, Any]) -> Finding:
    same = digest(identity_of(setup)) == manifest["key"]
    whole = f"settings, versions and records are those of the manifest; seed {setup.spec.seed}"
    differing = [] if same else changes(manifest["identity"], setup) or ["the settings"]
    return compared("spec", differing, whole)


def _as_committed(commitment: Commitment, audit: Audit) -> list[Finding]:
    """Compare an audit with its commitment, and say how the gate that was committed ended."""
    differing = commitment.differences(audit.setup, audit.folder.manifest())
    whole = f"this audit was committed to on {commitment.at}, as {commitment.hash}"
    findings = [compared("commitment", differing, whole)]
    if commitment.gate is not None:

        def gate() -> Finding:
            return Finding("gate", VERIFIED, commitment.on(audit.cells).outcome)

        findings.append(unless_damaged("gate", gate))
    return findings


def _seeds(remade: Remaking, kept: Store, *, purged: bool) -> Finding:
    drawn_again = {
        name: data
        for name, data in remade.held_back.items()
        if name.startswith(_REMADE)
        and not (purged and name.startswith("written/") and not kept.exists(name))
    }
    differing = [name for name, data in drawn_again.items() if not is_stored(kept, name, data)]
    return compared(
        "seed", differing, f"{len(drawn_again)} pools and plans drawn again are the same"
    )


def _releases(setup: Setup) -> Finding:
    """Compare claim and shape of every release with what its generator states and was asked for."""
    differing, count = [], 0
    for cell, item in all_releases(setup):
        count += 1
        generator = generator_of(setup, cell)
        request, header = (
            releases.request_for(setup, cell, item),
            releases.header_of(setup, cell, item),
        )
        fits = generator.any_size or header.size == request.size
        kept = setup.store.exists(name_of("text", header.text))
        if kept and len(releases.open_release(setup, header.text)) != header.size:
            fits = False
        if not fits or not header.claim.agrees(generator.claim(request)):
            differing.append(f"{title_of(cell)}, {item.name}")
    return compared(
        "releases", differing, f"claim and shape are right, {counted(count, 'release')}"
    )


def _evidence(setup: Setup) -> Finding:
    missing = [
        f"{who.pool} on {unit.observed.key}"
        for unit in missing_evidence(setup)
        for who in unit.looks
    ]
    missing += [
        f"{one.family} in {one.targets[0][0]}, {len(one.sets)}" for one in missing_models(setup)
    ]
    missing += [
        f"scores of {len(unit.sets)} models of {title_of(unit.cell)}"
        for unit in releases.missing_releases(setup)
        if not unit.sample
    ]
    return compared("evidence", missing, "every family has looked at every observation")


def _tables(setup: Setup, folder: RunFolder, manifest: dict[str, Any]) -> Finding:
    """Make the results again from the stored measurements, and compare them byte by byte.

    Another version may say the same in other words: then the page and the headline may differ.
    """
    same_version = manifest["synthleak"] == synthleak.__version__
    again = Audit(setup, RunFolder(folder.root / "nowhere")).results
    again = replace(
        again,
        adjudicated=tuple(settled(setup, folder)[1]),
        history=said_of_history(setup, folder),
    )
    files = {
        name: data
        for name, data in files_of(again).items()
        if same_version or name.startswith(f"{RESULTS}/")
    }
    summary = f"{RESULTS}/summary.json"
    differing = [
        name
        for name, data in files.items()
        if not _holds(folder.root / name, data, but_words=name == summary and not same_version)
    ]
    return compared("tables", differing, f"{len(files)} files made again are the same")


def _adjudication(setup: Setup, folder: RunFolder) -> Finding:
    """Play the merged games again on the stored evidence, and compare their rows."""
    key, rows = settled(setup, folder)
    if key is None:
        why = "damaged, or of earlier results, so nothing shows it: adjudicate again"
        return Finding("adjudication", UNCHECKED, why)
    again = played_again(Audit(setup, folder), Remaking(folder.store))
    name = f"{RESULTS}/{ADJUDICATION}.csv"
    same = again == rows and _holds(folder.root / name, to_csv(MergedRow, again))
    whole = f"{counted(len(again), 'row')} of merged games made again are the same"
    return compared("adjudication", [] if same else [name], whole)


def _holds(path: Location, data: bytes, *, but_words: bool = False) -> bool:
    if not path.is_file():
        return False
    kept = path.read_bytes()
    if not but_words:
        return kept == data
    one, two = (json.loads(some) | {"headline": None} for some in (kept, data))
    return bool(one == two)


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
    header = releases.header_of(setup, cell, item)
    reason = _not_again(setup, cell, trust)
    if reason:
        return Finding(what, UNCHECKED, f"{reason}: key, claim and shape are right")
    release = generator_of(setup, cell).generate(releases.request_for(setup, cell, item))
    same = releases.digest_of(release) == header.text
    if same:
        setup.store.put(name_of("text", header.text), dump_texts(release))
    return compared(what, [] if same else ["its texts"], "made again, the same")


def _not_again(setup: Setup, cell: Cell, trust: bool) -> str:
    """Say why a release of this cell is not made again, if so."""
    generator = generator_of(setup, cell)
    if not generator.reproducible:
        return "a language model gives other bytes on another machine"
    if isinstance(generator, Command) and not trust:
        return "its program is run with --trust-code only"
    try:
        generator.check()
    except (UserError, MissingExtra) as error:
        return f"it cannot be made here ({error})"
    return ""


def _evidence_units(setup: Setup, trust: bool) -> Iterator[Unit]:
    made_from = {
        releases.header_of(setup, cell, item).text: (cell, item)
        for cell, item in all_releases(setup)
    }
    for pool in setup.pools:
        cells = [cell for cell in cells_of_all_sizes(setup) if cell.pool == pool]
        for seen in dict.fromkeys(seen for cell in cells for seen in observations(setup, cell)):
            release = made_from.get(seen.release)
            make = partial(_again, setup, *release, trust) if release else None
            for targets in targets_in(setup, pool).blocks():
                for member, key in evidence_keys(setup, targets, seen.key):
                    yield partial(_look_again, setup, pool, seen, targets, member, key, make)


def _look_again(
    setup: Setup,
    pool: str,
    seen: Observed,
    targets: Targets,
    member: Family,
    key: str,
    make_release: Unit | None,
) -> Finding:
    what = f"evidence {member.name} in {pool}, {seen.key[:12]}"
    if member.model is not None:
        why = "a language model gives other values on another machine"
        return Finding(what, UNCHECKED, why)
    if make_release and not setup.store.exists(name_of("text", seen.release)):
        again = make_release()
        if again.outcome != VERIFIED:
            return Finding(what, again.outcome, f"its release was purged; {again.detail}")
    values = look(member, targets, last_observation(setup, pool, seen), counts=True)
    same = is_stored(setup.store, name_of("evidence", key), dump_array(values))
    return compared(what, [] if same else ["its values"], "made again, the same")


def _measurement_units(setup: Setup) -> Iterator[Unit]:
    for cell in setup.cells:
        needs = (measurement_needs, prior_attack_needs, model_needs)
        for artefact, of in (need for listed in needs for need in listed(setup, cell)):
            yield partial(_measure_again, setup, cell, artefact, of)


def _measure_again(
    setup: Setup, cell: Cell, artefact: Artefact[Any, ..., Any], of: tuple[Any, ...]
) -> Finding:
    name = name_of(artefact.kind, artefact.key(setup, *of))
    same = is_stored(setup.store, name, artefact.dump(artefact.make(setup, *of)))
    what = f"{artefact.kind} of {title_of(cell)}"
    return compared(what, [] if same else [name], "made again, the same")
