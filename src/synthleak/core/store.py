"""Where artefacts are kept.

Artefacts are put whole and never changed. A store offers four things (put, get, exists, list) and
nothing else: no rename, append, delete or lock, so that an object store can stand in for a folder.
The layout of a run folder is the table `LAYOUT`; see docs/results.md.

On disk an artefact ends with its digest (`seal`), which is checked whenever it is read. A damaged
artefact is discarded: it counts as missing until it is put again, by whoever needs it.
"""

from __future__ import annotations

import hashlib
import logging
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from synthleak.core.errors import Damaged, StoreError
from synthleak.core.locations import Url
from synthleak.core.reading import FILE
from synthleak.core.whole_files import cannot_write, refuse_links, write_whole

log = logging.getLogger("synthleak.store")
T = TypeVar("T")

LAYOUT = {
    "pool": "pool/{key}.json",
    "written": "written/{key}.json",
    "plan": "plan/{key}.json.gz",
    "release": "release/{key}.json",
    "text": "text/{key}.jsonl.gz",
    "vectors": "vectors/{key}.npy",
    "vector_keys": "vectors/{key}.keys",
    "evidence": "evidence/{key}.npy",
    "model": "model/{key}.npy",
    "figures": "figures/{key}.json",  # measurements of cells, not plots
    "answers": "answers/{key}.json.gz",
    "profile": "profile/{key}.npz",
    "ranks": "profile/{key}.npy",
    "attributes": "attributes/{key}.json",
    "meta": "meta/{key}.json",
    "utility": "utility/{key}.json",
}
DURABLE = ("release", "text", "answers", "model")
"""What may have cost hours or money waits for the disk; the rest is soon made again if lost."""


class Store(Protocol):
    """Anything that keeps whole artefacts by name."""

    def put(self, name: str, data: bytes) -> None:
        """Keep `data` under `name`: wholly or not at all."""

    def get(self, name: str) -> bytes:
        """Return what was put under `name`; raise KeyError if nothing was, Damaged if altered."""

    def exists(self, name: str) -> bool:
        """Say whether `name` was put, and not discarded since."""

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the names that start with `prefix`, sorted."""

    def discard(self, name: str) -> None:
        """Take `name` for missing until it is put again. This process alone needs to know."""

    def lost(self, name: str) -> bool:
        """Say whether `name` was discarded, and not put since."""

    def refresh(self) -> None:
        """Look again: other processes may have put something since."""


def name_of(kind: str, key: str) -> str:
    """Return where an artefact of this kind lies.

    >>> name_of("pool", "ab12")
    'pool/ab12.json'
    """
    return LAYOUT[kind].format(key=key)


def keep(
    store: Store,
    kind: str,
    key: str,
    make: Callable[[], T],
    dump: Callable[[T], bytes],
    load: Callable[[bytes], T],
) -> T:
    """Return the artefact of this key, made now only if it was never made or is damaged."""
    name = name_of(kind, key)
    if store.exists(name):
        try:
            return fetch(store, kind, key, load)
        except Damaged:
            discard(store, name)
    value = make()
    store.put(name, dump(value))
    return value


def fetch(store: Store, kind: str, key: str, load: Callable[[bytes], T]) -> T:
    """Return a kept artefact; one that is damaged or gone is named, never half-read."""
    name = name_of(kind, key)
    try:
        return load(store.get(name))
    except (StoreError, MemoryError):
        raise
    except Exception:
        raise Damaged(name) from None


def discard(store: Store, name: str) -> None:
    """Take a damaged artefact for missing, and say so."""
    log.warning("%s is damaged: it is made again", name)
    store.discard(name)


def until_whole(store: Store) -> Iterator[AbstractContextManager[None]]:
    """Yield attempts at some work, until one of them meets no damaged artefact.

    What an attempt finds damaged or gone counts as missing in the next, which makes it again. What
    is damaged again after that is an error.

    >>> for attempt in until_whole(MemoryStore()):
    ...     with attempt:
    ...         print("done")
    done
    """
    damaged: set[str] = set()
    whole = False

    @contextmanager
    def attempt() -> Iterator[None]:
        nonlocal whole
        try:
            yield
            whole = True
        except Damaged as error:
            if error.name in damaged:
                raise
            damaged.add(error.name)
            discard(store, error.name)

    while not whole:
        yield attempt()


_MARK = b"\nsha256 "
_SEAL_BYTES = len(_MARK) + 65


def seal(name: str, data: bytes) -> bytes:
    """Return an artefact as it is written: its data, then the digest of its name and data.

    >>> unseal("pool/k.json", seal("pool/k.json", b"{}"))
    b'{}'
    """
    digest = hashlib.sha256(name.encode() + b"\0" + data).hexdigest().encode()
    return data + _MARK + digest + b"\n"


def unseal(name: str, written: bytes) -> bytes:
    """Return the data of an artefact; raise Damaged if they do not match their digest."""
    data = written[:-_SEAL_BYTES]
    digest = hashlib.sha256(name.encode() + b"\0" + data).hexdigest().encode()
    if not written.endswith(_MARK + digest + b"\n"):
        raise Damaged(name)
    return data


_ARTEFACT = re.compile(
    "|".join(
        re.escape(name).replace(r"\{key\}", r"[\w-]{1,64}+(?:/[\w-]{1,64}+)?")
        for name in LAYOUT.values()
    ),
    re.ASCII,
)
_LIST = "artefacts"


def dump_names(names: Iterable[str]) -> bytes:
    """Write a list of artefacts, one a line, with a digest of its own.

    >>> load_names(dump_names(["plan/k.json.gz", "pool/k.json"]))
    ['plan/k.json.gz', 'pool/k.json']
    """
    return seal(_LIST, "\n".join(names).encode())


def load_names(written: bytes) -> list[str]:
    """Read a list of artefacts; raise ValueError if it is not as it was written."""
    try:
        names = unseal(_LIST, written).decode().splitlines()
    except Damaged:
        raise ValueError from None
    if not all(map(is_artefact, names)):
        raise ValueError
    return names


def is_artefact(name: str) -> bool:
    """Say whether a file of a store is called as artefacts are.

    >>> is_artefact("pool/ab12.json"), is_artefact("pool/notes.txt")
    (True, False)
    """
    return _ARTEFACT.fullmatch(name) is not None


def damaged_in(store: Store) -> list[str]:
    """Read the whole store and return the names of artefacts that do not match their digest."""
    damaged = []
    for name in store.list(""):
        try:
            store.get(name)
        except Damaged:
            damaged.append(name)
        except KeyError:  # another process has just replaced it
            continue
    return damaged


def unpacked(data: bytes) -> bytes:
    """Return gzip data unpacked, up to twice the limit on a file: a store may be a stranger's.

    >>> import gzip
    >>> unpacked(gzip.compress(b"a text"))
    b'a text'
    """
    most, packed = 2 * FILE.value, zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    data_unpacked = packed.decompress(data, most + 1)
    if len(data_unpacked) > most or not packed.eof:
        raise ValueError("cut off, or too large")
    return data_unpacked


class MemoryStore:
    """A store that forgets when the process ends."""

    def __init__(self) -> None:
        self._items: dict[str, bytes] = {}

    def put(self, name: str, data: bytes) -> None:
        self._items[name] = bytes(data)

    def get(self, name: str) -> bytes:
        return self._items[name]

    def exists(self, name: str) -> bool:
        return name in self._items

    def list(self, prefix: str) -> Iterator[str]:
        yield from sorted(name for name in self._items if name.startswith(prefix))

    def discard(self, name: str) -> None:
        self._items.pop(name, None)

    def lost(self, name: str) -> bool:
        return False  # what is discarded is forgotten

    def refresh(self) -> None:
        """No other process puts anything here."""


class StagedStore(MemoryStore):
    """Reads from a store, and holds back what is put until `commit`.

    Whatever is wrong with an audit is found before anything is written.
    """

    def __init__(self, below: Store) -> None:
        super().__init__()
        self._below = below

    def get(self, name: str) -> bytes:
        return super().get(name) if super().exists(name) else self._below.get(name)

    def exists(self, name: str) -> bool:
        return super().exists(name) or self._below.exists(name)

    def list(self, prefix: str) -> Iterator[str]:
        yield from sorted({*super().list(prefix), *self._below.list(prefix)})

    def discard(self, name: str) -> None:
        super().discard(name)
        self._below.discard(name)

    def lost(self, name: str) -> bool:
        return not super().exists(name) and self._below.lost(name)

    def refresh(self) -> None:
        self._below.refresh()

    @property
    def held_back(self) -> dict[str, bytes]:
        return dict(self._items)

    def commit(self) -> None:
        for name, data in sorted(self._items.items()):
            self._below.put(name, data)


def _kind(name: str) -> str:
    return name.partition("/")[0]


class FolderStore:
    """A store in a folder of the local disk."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self._discarded: dict[str, tuple[int, int] | None] = {}

    def put(self, name: str, data: bytes) -> None:
        """Keep `data` under `name`: a reader sees the whole of it or nothing."""
        path = self.root / name
        refuse_links(path.parent, self.root.parent)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, seal(name, data), durable=_kind(name) in DURABLE)
        except OSError as error:
            raise cannot_write(self.root, error) from error

    def get(self, name: str) -> bytes:
        """Return what was put under `name`, checked against its digest."""
        try:
            if self._written(name) is None:  # missing, or a pipe, which would be waited for
                raise KeyError(name)
            return unseal(name, (self.root / name).read_bytes())
        except FileNotFoundError:
            raise KeyError(name) from None
        except OSError as error:
            raise StoreError(f"{name} cannot be read ({error.strerror})", str(self.root)) from None

    def exists(self, name: str) -> bool:
        return self._written(name) is not None and not self.lost(name)

    def discard(self, name: str) -> None:
        """Take the file as it is now for missing; whoever puts it again writes another file."""
        self._discarded[name] = self._written(name)

    def lost(self, name: str) -> bool:
        return name in self._discarded and self._discarded[name] == self._written(name)

    def refresh(self) -> None:
        """Every question is asked of the disk."""

    def _written(self, name: str) -> tuple[int, int] | None:
        """Tell one writing of a file from the next, also by another process."""
        try:
            about = (self.root / name).stat()
        except OSError:
            return None
        return (about.st_ino, about.st_mtime_ns) if stat.S_ISREG(about.st_mode) else None

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the names that start with `prefix`, sorted; half-written files are not names."""
        folder = self.root / prefix.rpartition("/")[0]
        names = (
            path.relative_to(self.root).as_posix()
            for path in folder.rglob("*")
            if path.is_file() and not path.name.startswith(".")
        )
        yield from sorted(name for name in names if name.startswith(prefix))


HEADERS = 200_000
"""Headers of releases that stay in memory: every stage reads them, and none ever changes."""


class UrlStore:
    """A store at a URL: artefacts in a bucket, by the same names and with the same digests.

    The process that leads a run asks about thousands of names at once, so it lists a kind of
    artefact and remembers the names until `refresh`. A worker, which gets a copy, asks one by one.
    """

    def __init__(self, root: Url) -> None:
        self.root = root
        self._discarded: dict[str, object] = {}
        self._headers: dict[str, bytes] = {}
        self._listed: dict[str, set[str]] | None = {}

    def __getstate__(self) -> dict[str, Any]:
        """Send no names along: a worker would take them for all that there is."""
        return {**self.__dict__, "_headers": {}, "_listed": None}

    def put(self, name: str, data: bytes) -> None:
        (self.root / name).write_bytes(seal(name, data))
        self._headers.pop(name, None)
        self._discarded.pop(name, None)
        if self._listed and (names := self._listed.get(_kind(name))) is not None:
            names.add(name)

    def get(self, name: str) -> bytes:
        if name in self._headers:
            return self._headers[name]
        try:
            data = unseal(name, (self.root / name).read_bytes())
        except FileNotFoundError:
            raise KeyError(name) from None
        if _kind(name) == "release" and len(self._headers) < HEADERS:
            self._headers[name] = data
        return data

    def exists(self, name: str) -> bool:
        if name in self._discarded:
            return not self.lost(name) and (self.root / name).is_file()
        if self._listed is None:
            return (self.root / name).is_file()
        kind = _kind(name)
        if kind not in self._listed:
            self._listed[kind] = set(self.list(f"{kind}/"))
        return name in self._listed[kind]

    def list(self, prefix: str) -> Iterator[str]:
        folder = prefix.rpartition("/")[0]
        below = (self.root / folder) if folder else self.root
        start = f"{folder}/" if folder else ""
        names = (start + name for name in below.names_below())
        yield from sorted(name for name in names if name.startswith(prefix))

    def discard(self, name: str) -> None:
        """Take the object as it is now for missing; whoever puts it again writes another."""
        self._headers.pop(name, None)
        self._discarded[name] = (self.root / name).written()

    def lost(self, name: str) -> bool:
        return name in self._discarded and self._discarded[name] == (self.root / name).written()

    def refresh(self) -> None:
        """List again: others may have put something since."""
        if self._listed is not None:
            self._listed = {}
