"""The run folder: resolved spec, manifest, store and results, and whose they are.

`store/` serves any spec; `results/` belongs to one. A changed spec on an old folder is refused
unless the folder is to be extended (design/identity.md).
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import synthleak
from synthleak.audit.manifest import Look, ManifestError, is_whole, own_digest, release_of
from synthleak.audit.resolved_spec import changes, resolved
from synthleak.audit.setup import Setup, identity_of, set_up
from synthleak.core.errors import Damaged, StoreError, SynthleakError, UserError
from synthleak.core.identity import digest, plain
from synthleak.core.places import Place, Url, write_place
from synthleak.core.plugins import check_trusted
from synthleak.core.private_files import is_transient
from synthleak.core.spec import LoadedSpec, load_spec, parse_spec, parse_toml
from synthleak.core.store import FolderStore, StagedStore, dump_names, load_names
from synthleak.core.toml import dump_toml
from synthleak.core.url_store import UrlStore
from synthleak.core.whole_files import refuse_links
from synthleak.report.results import Provenance

SPEC = "spec.toml"
MANIFEST = "manifest.json"
ARTEFACTS = "artefacts.txt"
"""The names of all artefacts that the store had when the audit was last finished."""
STORE = "store"
RESULTS = "results"
REPORT = "report.html"
CONFIDENTIAL = "report-confidential.html"
SIGN_OFF = "sign-off.html"
COMMITMENT = "commitment.json"
PAGES = "text_pages"
"""Where the manifest names pages with texts that lie in the folder under other names."""
ENDINGS = (".csv", ".parquet", ".json")
"""What the files of `results/` end with."""


@dataclass(frozen=True)
class RunFolder:
    """One run folder, on disk or at a URL."""

    root: Place

    @cached_property
    def store(self) -> FolderStore | UrlStore:
        """The store of the folder; one without digests stays readable until the next run."""
        if isinstance(self.root, Url):
            return UrlStore(self.root / STORE)
        try:
            manifest = self.manifest()
            sealed = manifest is None or manifest.get("sealed", False)
        except StoreError:  # said by whoever reads the manifest
            sealed = FolderStore(self.root / STORE).has_digests()
        return FolderStore(self.root / STORE, old=not sealed)

    @property
    def results(self) -> Place:
        """Where the tables lie."""
        return self.root / RESULTS

    def manifest(self) -> dict[str, Any] | None:
        """Return the manifest, or None if no audit was started here."""
        path = self.root / MANIFEST
        if not path.is_file():
            return None
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            whole = is_whole(content)
        except (OSError, ValueError, TypeError, RecursionError):
            whole = False
        if not whole:
            raise ManifestError(
                "the manifest is damaged",
                str(path),
                "run `"
                + shlex.join(["synthleak", "run", str(self.root / SPEC), "--out", str(self.root)])
                + "`, which rebuilds it",
            )
        if release_of(content["synthleak"]) > release_of(synthleak.__version__):
            raise StoreError(
                f"written by synthleak {content['synthleak']}, and this is {synthleak.__version__}",
                str(self.root),
                "install that version or a later one",
            )
        return content

    def spec(self) -> LoadedSpec:
        """Return the spec that this folder belongs to; one that was changed since is refused."""
        manifest = self.manifest()
        if manifest is None:
            raise UserError(
                "not a run folder", str(self.root), "name one made by `run`, `check` or `demo`"
            )
        if self._differs(SPEC, manifest):
            raise StoreError(
                "the spec is not the one that this folder was made with",
                str(self.root / SPEC),
                f"run the spec of this audit again: `synthleak run SPEC --out {self.root}`",
            )
        return self._loaded()

    def _loaded(self) -> LoadedSpec:
        """Read the spec; its paths are absolute."""
        path = self.root / SPEC
        if isinstance(path, Path):
            return load_spec(path)
        text = path.read_text(encoding="utf-8")
        return LoadedSpec(parse_spec(parse_toml(text, str(path))), None, text)

    def rebuild(self, own: LoadedSpec) -> bool:
        """Write a damaged manifest again from the folder's spec; say whether that was needed.

        It then holds no results: they are made again from the store. Files with plug-ins are loaded
        if the spec that is run, `own`, names them too.
        """
        try:
            self.manifest()
        except ManifestError:
            pass
        else:
            return False
        try:
            loaded = self._loaded()
            known = {_resolved(own, name) for name in own.spec.plugins}
            names = [n for n in loaded.spec.plugins if _resolved(loaded, n) not in known]
            check_trusted(names, self.root)
            setup = set_up(loaded, StagedStore(self.store))
        except UserError as error:
            raise StoreError(
                f"the manifest is damaged, and the spec cannot be used ({error})",
                str(self.root),
                "choose another folder",
            ) from None
        hashes = self._hashes([SPEC])
        self._write_manifest(setup, sealed=False, findings=None, files=[], hashes=hashes)
        return True

    def seal_store(self) -> None:
        """Protect the artefacts of an earlier version like new ones: each gets its digest."""
        content = self.manifest() or {}
        if not content.get("sealed"):
            self.store.seal_all()
            self._put_manifest({**content, "sealed": True})

    def altered(self) -> list[str]:
        """Return the files that are not as they were when the manifest was written, or gone.

        A manifest of an earlier version holds no hashes: then only missing files are noticed.
        """
        manifest = self.manifest() or {}
        hashes = manifest.get("hashes", {})
        names = dict.fromkeys([*manifest.get("files", ()), *hashes])
        return [name for name in names if self._differs(name, manifest)]

    def missing(self) -> list[str]:
        """Return the artefacts that are gone: listed when the audit was finished, and not purged.

        A folder of an earlier version has no list. One that is itself damaged lists nothing: it
        is among the files that were altered.
        """
        try:
            listed = load_names((self.root / ARTEFACTS).read_bytes())
        except (OSError, ValueError):
            return []
        there = set(self.store.list(""))
        return [name for name in listed if name not in there]

    def _list_artefacts(self, *, lost: Sequence[str] = (), but: tuple[str, ...] = ()) -> None:
        """Write down the artefacts that the store has and those that it `lost`, `but` for some."""
        names = sorted({*self.store.list(""), *lost})
        data = dump_names(name for name in names if not name.startswith(but))
        path = self.root / ARTEFACTS
        if not path.is_file() or path.read_bytes() != data:
            self.write(ARTEFACTS, data)

    def _differs(self, name: str, manifest: Mapping[str, Any]) -> bool:
        found = digest_of_file(self.root / name)
        return found is None or manifest.get("hashes", {}).get(name, found) != found

    def admit(self, setup: Setup, *, extend: bool) -> list[str] | None:
        """Return what is new in an audit: None if the folder is already this audit's own."""
        before = self.manifest()
        if before is None:
            if self.root.is_dir() and not all(map(is_transient, self.root.iterdir())):
                raise StoreError(
                    "the folder is not empty and holds no audit",
                    str(self.root),
                    "choose another folder",
                )
            return []
        if before["key"] == digest(identity_of(setup)):
            return None
        news = changes(before["identity"], setup)
        if not extend:
            raise StoreError(
                f"the folder belongs to another spec ({'; '.join(news)})",
                str(self.root),
                "add --extend to go on in it, or choose another folder",
            )
        self._check_looks(before["identity"].get("game", {}), setup.spec.game.model_dump())
        return news

    def _check_looks(self, was: Mapping[str, Any], game: Mapping[str, Any]) -> None:
        """Refuse another number of instances once results were looked at (docs/method.md §8.12)."""
        looks, now = self.looks(), game["instances"]
        same = was.get("instances") == now and was.get("looks") == game.get("looks")
        if looks and not same:
            seen = max(look.instances for look in looks)
            raise StoreError(
                f"results were looked at after {seen} instances; more need `looks` declared before"
                " the start",
                str(self.root),
                "choose another folder, and declare there all numbers of instances that you will"
                f" look at, such as looks = [{seen}] with instances = {max(now, 2 * seen)}",
            )

    def looks(self) -> list[Look]:
        """Return every look at results that the manifest knows of.

        A folder of an earlier version has noted none: its results were looked at once.
        """
        content = self.manifest() or {}
        if "looks" in content:
            return [Look.model_validate(look) for look in content["looks"]]
        if content.get("findings") is None:
            return []
        instances = content["identity"].get("game", {}).get("instances", 1)
        return [Look(instances=instances, at=content.get("made", ""), cells=[])]

    def note_look(self, instances: int, cells: Sequence[str], without_p: Sequence[str]) -> None:
        """Write down that cells were looked at: their names, and nothing that was found."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        look = Look(instances=instances, at=at, cells=[*cells], without_p=[*without_p])
        content = self.manifest() or {}
        self._put_manifest({**content, "looks": _dumped([*self.looks(), look])})

    def begin(self, setup: Setup, *, new: bool) -> None:
        """Say whose folder this is, before anything else is put into it.

        The manifest comes first: a folder without one is somebody else's. If the spec did not
        follow, because the disk was full or the machine stopped, it is written the next time.
        """
        if new:
            self._write_manifest(setup, findings=None, files=[], looks=_dumped(self.looks()))
        text = dump_toml(resolved(setup)).encode()
        path = self.root / SPEC
        if not path.is_file() or path.read_bytes() != text:
            self.write(SPEC, text)
        self._note([SPEC])

    def finish(
        self,
        setup: Setup,
        findings: str,
        files: Mapping[str, bytes],
        *,
        tables: Container[str],
        seconds: float,
    ) -> None:
        """Replace the results as a whole, and last write the manifest that says so.

        Tables that this audit does not have are removed (at a URL, where nothing is deleted, they
        are emptied): they would be taken for its own. These are files that the manifest named, and
        those that are called as `tables` are; any other file is somebody else's.
        """
        before = self.manifest() or {}
        for name, data in files.items():
            self.write(name, data)
        self._list_artefacts()
        if before.get("findings") != findings:
            known = before.get("files", ())
            for path in self._tables():
                name = f"{RESULTS}/{path.name}"
                if name not in files and (name in known or Path(name).stem in tables):
                    self._remove(path)
        self._write_manifest(
            setup,
            findings=findings,
            files=sorted(files),
            looks=_dumped(self.looks()),
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(seconds, 1),
            hashes=self._hashes([SPEC, ARTEFACTS, *sorted(files)]),
            **{key: before[key] for key in ("purged", PAGES) if key in before},
        )

    def rewrite_report(self, page: bytes) -> None:
        """Write the page again, and note its hash."""
        self.write(REPORT, page)
        self._note([REPORT])

    def note_text_page(self, path: Place) -> None:
        """Write down that a page with texts lies in the folder, under a name of its own."""
        content = self.manifest() or {}
        if not isinstance(self.root, Path) or not isinstance(path, Path):
            return
        if path.resolve().is_relative_to(self.root.resolve()):
            name = path.resolve().relative_to(self.root.resolve()).as_posix()
            self._put_manifest({**content, PAGES: sorted({*content.get(PAGES, ()), name})})

    def note_purge(self, removed: Mapping[str, int], but: tuple[str, ...]) -> None:
        """Write down what is removed from the folder, and when, before it is.

        Args:
            removed: how many files of each kind are removed.
            but: how the names of artefacts begin that no longer count as missing.
        """
        content = self.manifest() or {}
        if ARTEFACTS in content.get("hashes", {}):
            self._list_artefacts(lost=self.missing(), but=but)
            content["hashes"] |= self._hashes([ARTEFACTS])
        before = content.get("purged", {}).get("removed", {})
        total = {kind: before.get(kind, 0) + removed.get(kind, 0) for kind in {**before, **removed}}
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._put_manifest({**content, "purged": {"at": at, "removed": total}})

    @contextmanager
    def naming_purge(self) -> Iterator[None]:
        """Say of texts that a purge removed that it did, and when: they are not damaged."""
        try:
            yield
        except Damaged as error:
            said = (self.manifest() or {}).get("purged")
            if not said or self.store.exists(error.name):
                raise
            day, _, time = said["at"].partition("T")
            raise StoreError(
                f"the texts of the releases were purged on {day} at {time[:5]} UTC",
                str(self.root),
                "run the spec in another folder to make them again",
            ) from None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Refuse a finished folder whose content has the right types and still does not fit.

        Whoever knows the format can forge any digest. While an audit is being finished an error
        is one of ours, and stays what it is.
        """
        try:
            yield
        except (SynthleakError, MemoryError, OSError):
            raise
        except Exception as error:
            if (self.manifest() or {}).get("findings") is None:
                raise
            raise StoreError(
                f"what is stored does not fit together ({type(error).__name__}): it was altered,"
                " or this is a bug",
                str(self.root),
                "run the spec in another folder; if that fails too, please report it",
            ) from error

    def note_hashes(self) -> None:
        """Take an audit that nobody altered as it is: also one of an earlier version.

        Its files get their hashes, and artefacts that were made since are listed.
        """
        manifest = self.manifest() or {}
        self._list_artefacts(lost=self.missing())
        new = [name for name in manifest["files"] if name not in manifest.get("hashes", {})]
        self._note([ARTEFACTS, *new])

    def provenance(self) -> Provenance:
        """Return who made the results when, and the hashes of the files; the manifest's own too."""
        manifest = self.manifest() or {}
        noted = manifest.get("hashes")
        return Provenance(
            folder=self.root.resolve().name,
            version=manifest["synthleak"],
            made=manifest.get("made"),
            hashes={MANIFEST: digest_of_file(self.root / MANIFEST), **noted} if noted else {},
        )

    def holds(self, findings: str, *, but: Sequence[str] = ()) -> bool:
        """Say whether the results are there, unaltered `but` for some, and of this evidence."""
        manifest = self.manifest()
        return (
            manifest is not None
            and manifest["findings"] == findings
            and not set(self.altered()) - set(but)
        )

    def _tables(self) -> Iterator[Place]:
        if self.results.is_dir():
            there: list[Place] = [*self.results.iterdir()]
            yield from (path for path in sorted(there, key=str) if path.suffix in ENDINGS)

    def _remove(self, path: Place) -> None:
        if isinstance(path, Url):
            path.write_bytes(b"")
        else:
            refuse_links(path.parent, path.parent.parent)
            path.unlink(missing_ok=True)

    def _hashes(self, names: Sequence[str]) -> dict[str, str | None]:
        return {name: digest_of_file(self.root / name) for name in names}

    def _note(self, names: Sequence[str]) -> None:
        """Bring the hashes of some files in the manifest up to date."""
        content = self.manifest() or {}
        before = content.get("hashes", {})
        now = {**before, **self._hashes(names)}
        if now != before:
            self._put_manifest({**content, "hashes": now})

    def _write_manifest(self, setup: Setup, **facts: Any) -> None:
        identity = identity_of(setup)
        content = {
            "synthleak": synthleak.__version__,
            "key": digest(identity),
            "sealed": True,
            **facts,
            "identity": plain(identity),
        }
        self._put_manifest(content)

    def _put_manifest(self, content: dict[str, Any]) -> None:
        sealed = {**content, "digest": own_digest(content)}
        self.write(MANIFEST, json.dumps(sealed, indent=1) + "\n")

    def refuse_links(self) -> None:
        """Refuse a folder some part of which lies elsewhere, before anything is done in it."""
        if isinstance(self.root, Path):
            kinds = [*(self.root / STORE).glob("*"), *(self.root / RESULTS).glob("*")]
            files = (self.root / name for name in (MANIFEST, SPEC, REPORT, ARTEFACTS))
            for path in (self.root / STORE, self.root / RESULTS, *kinds, *files):
                refuse_links(path, self.root)

    def write(self, name: str, text: str | bytes) -> None:
        """Write one file of the folder, whole."""
        if isinstance(self.root, Path):
            refuse_links(self.root / name, self.root)
        write_place(self.root / name, text if isinstance(text, bytes) else text.encode())


def _dumped(looks: Sequence[Look]) -> list[dict[str, Any]]:
    return [look.model_dump(exclude_defaults=True) for look in looks]


def digest_of_file(path: Place) -> str | None:
    """Return the SHA-256 of a file, or none if it cannot be read or is not a regular one."""
    try:
        if not path.is_file():
            return None
        if isinstance(path, Url):
            return hashlib.sha256(path.read_bytes()).hexdigest()
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _resolved(loaded: LoadedSpec, name: str) -> Path:
    return ((loaded.base or Path()) / name).resolve()
