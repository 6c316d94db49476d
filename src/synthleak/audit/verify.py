"""`synthleak verify`: is a finished audit what its spec, its seed and its records lead to?

Hashes say whether a file was altered by accident. Somebody who writes matching hashes is found by
making things again: pools and plans from the seed, tables from the stored evidence, and some units
drawn at random, byte by byte. Releases of language models differ between machines: of those, key
(records, settings and seed), claim and shape are compared instead (docs/security.md).
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import synthleak
from synthleak.analyses.merged import MergedRow
from synthleak.audit.adjudicate import played_again
from synthleak.audit.commitment import (
    Commitment,
    is_commitment_hash,
    kept_commitment,
    read_commitment,
)
from synthleak.audit.folder import (
    ARTEFACTS,
    COMMITMENT,
    MANIFEST,
    REPORT,
    RESULTS,
    SIGN_OFF,
    RunFolder,
    digest_of_file,
)
from synthleak.audit.history import said_of_history
from synthleak.audit.kept_results import ADJUDICATION, settled
from synthleak.audit.manifest import ManifestError
from synthleak.audit.replay import replayed
from synthleak.audit.resolved_spec import changes
from synthleak.audit.result import Audit
from synthleak.audit.run import written
from synthleak.audit.setup import Setup, identity_of, set_up
from synthleak.audit.steps.looks import at_present_look
from synthleak.audit.steps.observations import missing_evidence, missing_models
from synthleak.audit.steps.releases import header_of, open_release
from synthleak.audit.verification import (
    DIFFERS,
    UNCHECKED,
    VERIFIED,
    Finding,
    Verification,
    all_releases,
    compared,
    is_stored,
    title_of,
    unless_damaged,
)
from synthleak.core.errors import StoreError, UserError
from synthleak.core.identity import digest
from synthleak.core.places import Place, place
from synthleak.core.plugins import check_trusted, trusting
from synthleak.core.store import MemoryStore, StagedStore, Store, damaged_in, name_of
from synthleak.core.unit import counted
from synthleak.report.sign_off import signed_hashes
from synthleak.report.tables import to_csv

_REMADE = ("pool/", "written/", "plan/")


class Remaking(StagedStore):
    """Reads a store, but has pools and plans made again, and keeps all that is put apart."""

    def exists(self, name: str) -> bool:
        """Say whether `name` was put here, or is below and not to be made again."""
        below = not name.startswith(_REMADE) and super().exists(name)
        return below or MemoryStore.exists(self, name)


def verify(
    out: Place | str,
    *,
    replay: int = 0,
    draw: int = 0,
    signed: Path | str | None = None,
    committed: Path | str | None = None,
    trust_plugins: bool = False,
) -> Verification:
    """Check a finished audit and its provenance; make `replay` of its units again. Writes nothing.

    `signed` is a sign-off that was filed: are spec and tables still those that it names?
    `committed` is a commitment that was filed before, its file or its hash: is the audit the
    committed one, and does its gate hold? A hash is compared with the commitment that the folder
    keeps. Without either, the one in the folder is compared if it is there. Raises `UserError` if
    the audit is not finished, if `signed` or `committed` is something else, or if its records
    cannot be read and units are to be made again or a commitment is to be compared.
    """
    folder = RunFolder(place(out))
    try:
        manifest = folder.manifest()
    except ManifestError:
        return Verification((Finding("manifest", DIFFERS, "manifest.json is damaged"),), draw)
    if manifest is None:
        raise UserError("not a run folder", str(out), "name one made by `run`, `check` or `demo`")
    if manifest["findings"] is None:
        raise UserError("the audit is not finished", str(out), "finish it with `run` first")
    found = [_provenance(manifest), _files(folder), _store(folder), *_purged(folder, manifest)]
    found += _signed(folder, signed)
    commitment, said = _commitment(folder, committed)
    found += said
    try:
        loaded = folder.spec()
    except StoreError as error:
        return Verification((*found, Finding("spec", DIFFERS, error.what)), draw)
    check_trusted(loaded.spec.plugins, folder.root, trust=trust_plugins)
    store = Remaking(folder.store)
    try:
        setup = at_present_look(set_up(loaded, store))
        _check_elsewhere(setup)
    except UserError as error:
        if replay or committed:
            raise
        why = f"the records cannot be read ({error}): pools, tables and units are not compared"
        return Verification((*found, Finding("records", UNCHECKED, why)), draw)
    found.append(_identity(setup, manifest))
    if commitment is not None:
        found += _as_committed(commitment, Audit(setup, folder))
    found.append(_seeds(store, folder.store, purged="purged" in manifest))
    found.append(unless_damaged("releases", partial(_releases, setup)))
    found.append(unless_damaged("evidence", partial(_evidence, setup)))
    found.append(unless_damaged("tables", partial(_tables, setup, folder, manifest)))
    if (folder.results / f"{ADJUDICATION}.json").is_file():
        found.append(unless_damaged("adjudication", partial(_adjudication, setup, folder)))
    trust = trust_plugins or trusting.get()
    found += replayed(setup, replay, draw, trust) if replay else []
    return Verification(tuple(found), draw)


def _check_elsewhere(setup: Setup) -> None:
    """Find the releases that others put beside the audit: their content is in every key."""
    for cell, item in all_releases(setup):
        file = setup.generator_of(cell)[1].awaited(setup.request(cell, item))
        if file is not None:
            raise UserError("no such file", file)
        setup.release_key(cell, item)


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
    return compared("files", folder.altered(), f"{len(hashes)} files match their hashes")


def _store(folder: RunFolder) -> Finding:
    manifest = folder.manifest() or {}
    if not manifest.get("sealed"):
        return Finding("store", UNCHECKED, "artefacts have no digests: `run` the audit once")
    count = sum(1 for _ in folder.store.list(""))
    lost = [f"{name} is missing" for name in folder.missing()]
    whole = f"{count:,} artefacts match their digests"
    listed = ARTEFACTS in manifest.get("hashes", {})
    if not listed:
        whole += "; none are listed, so that none can be missed: `run` the audit once"
    found = compared("store", [*damaged_in(folder.store), *lost], whole)
    return found if listed or found.outcome == DIFFERS else replace(found, outcome=UNCHECKED)


def _purged(folder: RunFolder, manifest: dict[str, Any]) -> list[Finding]:
    if "purged" not in manifest:
        return []
    said = manifest["purged"]
    counts = ", ".join(f"{count:,} {what}" for what, count in said["removed"].items())
    return [Finding("purged", UNCHECKED, f"{counts} were removed on {said['at'][:10]}")]


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
    if given is not None and not is_hash:
        return read_commitment(Path(given)), []
    try:
        kept = kept_commitment(folder)
    except UserError as error:
        return None, [Finding("commitment", DIFFERS, f"{COMMITMENT}: {error.what}")]
    if is_hash and kept is None:
        raise UserError(
            "the folder keeps no commitment, and a hash alone cannot be compared",
            str(folder.root),
            "name the file that `plan commit` wrote",
        )
    if kept is not None and is_hash and kept.hash != given:
        why = f"the folder keeps another commitment, {kept.hash}"
        return None, [Finding("commitment", DIFFERS, why)]
    return kept, []


def _identity(setup: Setup, manifest: dict[str, Any]) -> Finding:
    same = digest(identity_of(setup)) == manifest["key"]
    whole = f"settings, versions and records are those of the manifest; seed {setup.spec.seed}"
    differing = [] if same else changes(manifest["identity"], setup) or ["the settings"]
    return compared("spec", differing, whole)


def _as_committed(commitment: Commitment, audit: Audit) -> list[Finding]:
    """Compare an audit with its commitment, and say how the gate that was committed ended."""
    differing = commitment.differences(audit.setup, audit.folder.manifest())
    found = commitment.on(audit.cells)
    whole = f"this audit was committed to on {found.at}, as {found.hash}"
    gate = [] if found.gate is None else [Finding("gate", VERIFIED, found.outcome)]
    return [compared("commitment", differing, whole), *gate]


def _seeds(remade: Remaking, kept: Store, *, purged: bool) -> Finding:
    made = {
        name: data
        for name, data in remade.held_back.items()
        if name.startswith(_REMADE)
        and not (purged and name.startswith("written/") and not kept.exists(name))
    }
    differing = [name for name, data in made.items() if not is_stored(kept, name, data)]
    return compared("seed", differing, f"{len(made)} pools and plans drawn again are the same")


def _releases(setup: Setup) -> Finding:
    """Compare claim and shape of every release with what its generator states and was asked for."""
    differing, count = [], 0
    for cell, item in all_releases(setup):
        count += 1
        _, generator = setup.generator_of(cell)
        request, header = setup.request(cell, item), header_of(setup, cell, item)
        fits = generator.any_size or header.size == request.size
        kept = setup.store.exists(name_of("text", header.text))
        if kept and len(open_release(setup, header.text)) != header.size:
            fits = False
        if not fits or not header.claim.agrees(generator.claim(request)):
            differing.append(f"{title_of(cell)}, {item.name}")
    return compared(
        "releases", differing, f"claim and shape are right, {counted(count, 'release')}"
    )


def _evidence(setup: Setup) -> Finding:
    missing = [f"{unit.pool} on {unit.text}" for unit in missing_evidence(setup)]
    missing += [
        f"{one.family} in {one.targets[0][0]}, {len(one.sets)}" for one in missing_models(setup)
    ]
    return compared("evidence", missing, "every family has looked at every observation")


def _tables(setup: Setup, folder: RunFolder, manifest: dict[str, Any]) -> Finding:
    """Make the results again from the stored measurements, and compare them byte by byte.

    Another version may say the same in other words: then the page and the headline may differ.
    """
    same_version = manifest["synthleak"] == synthleak.__version__
    again = Audit(setup, RunFolder(folder.root / "nowhere")).results
    made = written(
        replace(
            again,
            adjudicated=tuple(settled(setup, folder)[1]),
            history=said_of_history(setup, folder),
        )
    )
    files = {n: d for n, d in made.items() if same_version or n.startswith(f"{RESULTS}/")}
    said = f"{RESULTS}/summary.json"
    differing = [
        name
        for name, data in files.items()
        if not _holds(folder.root / name, data, but_words=name == said and not same_version)
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
    said = f"{counted(len(again), 'row')} of merged games made again are the same"
    return compared("adjudication", [] if same else [name], said)


def _holds(path: Place, data: bytes, *, but_words: bool = False) -> bool:
    if not path.is_file():
        return False
    kept = path.read_bytes()
    if not but_words:
        return kept == data
    one, two = (json.loads(some) | {"headline": None} for some in (kept, data))
    return bool(one == two)
