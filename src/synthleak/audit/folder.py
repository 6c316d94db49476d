"""The run folder: resolved spec, manifest, store and results, and whose they are.

`store/` serves any spec; `results/` belongs to one. A changed spec on an old folder is refused
unless the folder is to be extended (docs/design/decisions.md).
"""

from __future__ import annotations

import hashlib
import json
import logging
import shlex
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from packaging.version import Version
from pydantic import AfterValidator, BaseModel

import synthleak
from synthleak.audit.setup import Setup, changes, identity_of, resolved
from synthleak.audit.stages import set_up
from synthleak.core.errors import Damaged, StoreError, SynthleakError, UserError
from synthleak.core.locations import Location, Url, write_file
from synthleak.core.private_files import is_transient
from synthleak.core.registry import check_trusted
from synthleak.core.seeds import digest, plain
from synthleak.core.spec import LoadedSpec, dump_toml, load_spec, parse_spec, parse_toml
from synthleak.core.store import (
    FolderStore,
    StagedStore,
    UrlStore,
    damaged_in,
    discard,
    dump_names,
    load_names,
)
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
FAILED = "failed"
"""Where `--keep-failed` keeps what failed programs were given."""
COMMITMENT = "commitment.json"
COMMITTED = "committed"
"""Where the manifest names the hash of the commitment."""
PAGES = "text_pages"
"""Where the manifest names pages with texts that lie in the folder under other names."""
ENDINGS = (".csv", ".parquet", ".json")
"""What the files of `results/` end with."""
NAMED = 3
"""Differences that are named one by one."""
NAMED_FILES = 5
"""Altered files that are named one by one."""

log = logging.getLogger("synthleak.store")


class ManifestError(StoreError):
    """The manifest of a run folder is damaged; it can be rebuilt."""


def _inside(name: str) -> str:
    """Refuse a name that leads out of the folder: whoever wrote the manifest may be a stranger."""
    if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name:
        raise ValueError
    return name


_Name = Annotated[str, AfterValidator(_inside)]


class _Purged(BaseModel):
    at: str
    removed: dict[str, int]


class Look(BaseModel):
    """A look at results: after how many instances, when, and at which cells.

    `without_p` are cells that were measured and have no p-value.
    """

    instances: int
    at: str
    cells: list[str]
    without_p: list[str] = []


class _Shape(BaseModel):
    """What a manifest holds."""

    synthleak: str
    key: str
    findings: str | None
    files: list[_Name]
    identity: dict[str, Any]
    hashes: dict[_Name, str | None] = {}
    purged: _Purged | None = None
    looks: list[Look] = []
    text_pages: list[_Name] = []
    committed: str | None = None
    made: str = ""
    digest: str


def own_digest(content: Mapping[str, Any]) -> str:
    return digest("manifest", {k: v for k, v in content.items() if k != "digest"})


@dataclass(frozen=True)
class RunFolder:
    """One run folder, on disk or at a URL."""

    root: Location

    @cached_property
    def store(self) -> FolderStore | UrlStore:
        at = self.root / STORE
        return UrlStore(at) if isinstance(at, Url) else FolderStore(at)

    @property
    def results(self) -> Location:
        return self.root / RESULTS

    def manifest(self) -> dict[str, Any] | None:
        """Return the manifest, or None if no audit was started here."""
        path = self.root / MANIFEST
        if not path.is_file():
            return None
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            whole = _Shape.model_validate(content).digest == own_digest(content)
            later = Version(content["synthleak"]).release > Version(synthleak.__version__).release
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
        if later:
            raise StoreError(
                f"written by synthleak {content['synthleak']}, and this is {synthleak.__version__}",
                str(self.root),
                "install that version or a later one",
            )
        return content

    @property
    def noted(self) -> dict[str, Any]:
        """What the manifest notes; nothing if no audit was started here."""
        return self.manifest() or {}

    def begun(self) -> dict[str, Any]:
        """Return the manifest; a folder where no audit was started is refused."""
        manifest = self.manifest()
        if manifest is None:
            raise UserError(
                "not a run folder", str(self.root), "name one made by `run`, `check` or `demo`"
            )
        return manifest

    def spec(self) -> LoadedSpec:
        """Return the spec that this folder belongs to; one that was changed since is refused."""
        if self._differs(SPEC, self.begun()):
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

    def _rebuild(self, running: LoadedSpec) -> None:
        """Write a damaged manifest again from the folder's spec.

        It then holds no results: they are made again from the store. Files with plug-ins are loaded
        if the spec that is run names them too.
        """

        def files(loaded: LoadedSpec) -> set[Path]:
            return {((loaded.base or Path()) / name).resolve() for name in loaded.spec.plugins}

        try:
            loaded = self._loaded()
            check_trusted([*map(str, files(loaded) - files(running))], self.root)
            setup = set_up(loaded, StagedStore(self.store))
        except UserError as error:
            raise StoreError(
                f"the manifest is damaged, and the spec cannot be used ({error})",
                str(self.root),
                "choose another folder",
            ) from None
        self._write_manifest(setup, findings=None, files=[], hashes=self._hashes([SPEC]))
        log.warning("%s is damaged: it is rebuilt from the spec", self.root / MANIFEST)

    def take_stock(self, loaded: LoadedSpec) -> bool:
        """Compare a folder that holds an audit with its digests; say whether its store is whole.

        Whatever was altered or lost since it was written is named here. What is damaged or gone in
        the store counts as missing from then on, and the run makes it again.
        """
        self.refuse_links()
        try:
            if self.manifest() is None:
                return True
        except ManifestError:
            self._rebuild(loaded)
        self._warn(self.altered(), "%s was altered or is missing: it is made again", "files")
        missing = self.missing()
        paths = [f"{STORE}/{name}" for name in missing]
        self._warn(paths, "%s is missing: it is made again if it is needed", "artefacts")
        for name in missing:
            self.store.discard(name)
        # Reading all of a bucket costs money: there, what is read is checked.
        damaged = [] if isinstance(self.root, Url) else damaged_in(self.store)
        for name in damaged:
            discard(self.store, name)
        return not missing and not damaged

    def _warn(self, names: Sequence[str], message: str, what: str) -> None:
        """Name the first of what was altered or lost, and count the rest."""
        for name in names[:NAMED_FILES]:
            log.warning(message, self.root / name)
        if len(names) > NAMED_FILES:
            log.warning("and %d more %s of %s", len(names) - NAMED_FILES, what, self.root)

    def altered(self) -> list[str]:
        """Return the files that are not as they were when the manifest was written, or gone."""
        manifest = self.noted
        names = dict.fromkeys([*manifest.get("files", ()), *manifest.get("hashes", {})])
        return [name for name in names if self._differs(name, manifest)]

    def missing(self) -> list[str]:
        """Return the artefacts that are gone: listed when the audit was finished, and not purged.

        A list that is itself damaged lists nothing: it is among the files that were altered.
        """
        try:
            listed = load_names((self.root / ARTEFACTS).read_bytes())
        except (OSError, ValueError):
            return []
        present = set(self.store.list(""))
        return [name for name in listed if name not in present]

    def _list_artefacts(self, *, lost: Sequence[str] = (), but: tuple[str, ...] = ()) -> None:
        """Write down the artefacts that the store has and those that it `lost`, `but` for some."""
        names = sorted({*self.store.list(""), *lost})
        data = dump_names(name for name in names if not name.startswith(but))
        path = self.root / ARTEFACTS
        if not path.is_file() or path.read_bytes() != data:
            self.write(ARTEFACTS, data)

    def _differs(self, name: str, manifest: Mapping[str, Any]) -> bool:
        digest_now = digest_of_file(self.root / name)
        return digest_now is None or manifest.get("hashes", {}).get(name, digest_now) != digest_now

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
                "add --extend to go on in it and make again what changed, or choose another folder",
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
        return [Look.model_validate(look) for look in self.noted.get("looks", ())]

    def note_look(self, instances: int, cells: Sequence[str], without_p: Sequence[str]) -> None:
        """Write down that cells were looked at: their names, and nothing that was found."""
        look = Look(instances=instances, at=_now(), cells=[*cells], without_p=[*without_p])
        self._change(looks=_dumped([*self.looks(), look]))

    def begin(self, setup: Setup, *, new: bool) -> None:
        """Say whose folder this is, before anything else is put into it.

        The manifest comes first: a folder without one is somebody else's. If the spec did not
        follow, because the disk was full or the machine stopped, it is written the next time.
        """
        if new:
            self._write_manifest(setup, findings=None, files=[], **self._lasting())
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
        before = self.noted
        for name, data in files.items():
            self.write(name, data)
        self._list_artefacts()
        there: list[Location] = [*self.results.iterdir()]
        for path in there if before.get("findings") != findings else ():
            name = f"{RESULTS}/{path.name}"
            known = Path(name).stem in tables and path.suffix in ENDINGS
            if name in files or not (known or name in before.get("files", ())):
                continue
            if isinstance(path, Url):
                path.write_bytes(b"")
            else:
                refuse_links(path.parent, path.parent.parent)
                path.unlink(missing_ok=True)
        self._write_manifest(
            setup,
            findings=findings,
            files=sorted(files),
            made=_now(),
            seconds=round(seconds, 1),
            hashes=self._hashes([SPEC, ARTEFACTS, *sorted(files)]),
            **self._lasting(),
        )

    def _lasting(self) -> dict[str, Any]:
        """Return what a manifest says of the folder, whatever audit is in it."""
        kept = {key: self.noted[key] for key in ("purged", PAGES, COMMITTED) if key in self.noted}
        return {"looks": _dumped(self.looks()), **kept}

    def keep_commitment(self, hash: str, data: bytes) -> None:
        """Keep a commitment, and note its hash in the manifest: it is missed if it is lost."""
        self.write(COMMITMENT, data)
        self._change(**{COMMITTED: hash})

    def rewrite_report(self, page: bytes) -> None:
        self.write(REPORT, page)
        self._note([REPORT])

    def note_text_page(self, path: Location) -> None:
        """Write down that a page with texts lies in the folder, under a name of its own."""
        if not isinstance(self.root, Path) or not isinstance(path, Path):
            return
        if path.resolve().is_relative_to(self.root.resolve()):
            name = path.resolve().relative_to(self.root.resolve()).as_posix()
            self._change(**{PAGES: sorted({*self.noted.get(PAGES, ()), name})})

    def note_purge(self, removed: Mapping[str, int], but: tuple[str, ...]) -> None:
        """Write down what is removed from the folder, and when, before it is.

        Args:
            removed: how many files of each kind are removed.
            but: how the names of artefacts begin that no longer count as missing.
        """
        if ARTEFACTS in self.noted.get("hashes", {}):  # else the audit was never finished
            self._list_artefacts(lost=self.missing(), but=but)
            self._note([ARTEFACTS])
        before = self.noted.get("purged", {}).get("removed", {})
        total = {kind: before.get(kind, 0) + removed.get(kind, 0) for kind in {**before, **removed}}
        self._change(purged={"at": _now(), "removed": total})

    @contextmanager
    def naming_purge(self) -> Iterator[None]:
        """Say of texts that a purge removed that it did, and when: they are not damaged."""
        try:
            yield
        except Damaged as error:
            purged = self.noted.get("purged")
            if not purged or self.store.exists(error.name):
                raise
            day, _, time = purged["at"].partition("T")
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
            if self.noted.get("findings") is None:
                raise
            raise StoreError(
                f"what is stored does not fit together ({type(error).__name__}): it was altered,"
                " or this is a bug",
                str(self.root),
                "run the spec in another folder; if that fails too, please report it",
            ) from error

    def note_hashes(self) -> None:
        """Take an audit that nobody altered as it is; artefacts that were made since are listed."""
        self._list_artefacts(lost=self.missing())
        self._note([ARTEFACTS])

    def provenance(self) -> Provenance:
        """Return who made the results when, and the hashes of the files; the manifest's own too."""
        manifest = self.noted
        noted = manifest.get("hashes")
        return Provenance(
            folder=self.root.resolve().name,
            version=manifest["synthleak"],
            made=manifest.get("made"),
            hashes={MANIFEST: digest_of_file(self.root / MANIFEST), **noted} if noted else {},
        )

    def _hashes(self, names: Sequence[str]) -> dict[str, str | None]:
        return {name: digest_of_file(self.root / name) for name in names}

    def _note(self, names: Sequence[str]) -> None:
        """Bring the hashes of some files in the manifest up to date."""
        self._change(hashes={**self.noted.get("hashes", {}), **self._hashes(names)})

    def _change(self, **facts: Any) -> None:
        """Write the manifest with these facts, unless it has them."""
        before = self.noted
        if (now := before | facts) != before:
            self._put_manifest(now)

    def _write_manifest(self, setup: Setup, **facts: Any) -> None:
        identity = identity_of(setup)
        content = {
            "synthleak": synthleak.__version__,
            "key": digest(identity),
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
        if isinstance(self.root, Path):
            refuse_links(self.root / name, self.root)
        write_file(self.root / name, text if isinstance(text, bytes) else text.encode())


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _dumped(looks: Sequence[Look]) -> list[dict[str, Any]]:
    return [look.model_dump(exclude_defaults=True) for look in looks]


def first_of(names: Sequence[str]) -> str:
    """Name the first of many, and count the rest.

    >>> first_of(["a", "b"]), first_of(list("abcde"))
    ('a, b', 'a, b, c and 2 more')
    """
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def digest_of_file(path: Location) -> str | None:
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
