"""Where artefacts are kept.

Artefacts are put whole and never changed. A store offers four things (put, get, exists, list) and
nothing else: no rename, append or lock, so that an object store can stand in for a folder.
The layout of a run folder is the table `LAYOUT`; see docs/results.md.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from synthleak.core.errors import StoreError

T = TypeVar("T")

LAYOUT = {
    "pool": "pool/{key}.json",
    "plan": "plan/{key}.json.gz",
    "release": "release/{key}.json",
    "text": "text/{key}.jsonl.gz",
    "vectors": "vectors/{key}.npy",
    "vector_keys": "vectors/{key}.keys",
    "evidence": "evidence/{key}.npy",
    "figures": "figures/{key}.json",
    "answers": "answers/{key}.json.gz",
    "profile": "profile/{key}.npz",
    "ranks": "profile/{key}.npy",
    "attributes": "attributes/{key}.json",
    "meta": "meta/{key}.json",
    "utility": "utility/{key}.json",
}


class Store(Protocol):
    """Anything that keeps whole artefacts by name."""

    def put(self, name: str, data: bytes) -> None:
        """Keep `data` under `name`: wholly or not at all."""

    def get(self, name: str) -> bytes:
        """Return what was put under `name`; raise KeyError if nothing was."""

    def exists(self, name: str) -> bool:
        """Say whether `name` was put."""

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the names that start with `prefix`, sorted."""


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
    """Return the artefact of this key, made now only if it was never made before."""
    name = name_of(kind, key)
    if store.exists(name):
        return fetch(store, kind, key, load)
    made = make()
    store.put(name, dump(made))
    return made


def fetch(store: Store, kind: str, key: str, load: Callable[[bytes], T]) -> T:
    """Return a kept artefact; a damaged one is named, never half-read."""
    name = name_of(kind, key)
    data = store.get(name)
    try:
        return load(data)
    except Exception as error:
        raise StoreError(
            f"the artefact {name} is damaged ({type(error).__name__})",
            where=str(getattr(store, "root", "store")),
            remedy="delete that file and run again; only its content is made again",
        ) from error


class MemoryStore:
    """A store that forgets when the process ends."""

    def __init__(self) -> None:
        self._items: dict[str, bytes] = {}

    def put(self, name: str, data: bytes) -> None:
        """Keep `data` under `name`."""
        self._items[name] = bytes(data)

    def get(self, name: str) -> bytes:
        """Return what was put under `name`."""
        return self._items[name]

    def exists(self, name: str) -> bool:
        """Say whether `name` was put."""
        return name in self._items

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the names that start with `prefix`, sorted."""
        yield from sorted(name for name in self._items if name.startswith(prefix))


class StagedStore(MemoryStore):
    """Reads from a store but holds back what is put, until `commit`.

    A mistake in the spec is found before anything is written.
    """

    def __init__(self, below: Store) -> None:
        super().__init__()
        self._below = below

    def get(self, name: str) -> bytes:
        """Return what was put under `name`, here or below."""
        return super().get(name) if super().exists(name) else self._below.get(name)

    def exists(self, name: str) -> bool:
        """Say whether `name` was put, here or below."""
        return super().exists(name) or self._below.exists(name)

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the names that start with `prefix`, sorted."""
        yield from sorted({*super().list(prefix), *self._below.list(prefix)})

    def commit(self) -> None:
        """Put everything that was held back."""
        for name, data in sorted(self._items.items()):
            self._below.put(name, data)


class FolderStore:
    """A store in a folder of the local disk."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def put(self, name: str, data: bytes) -> None:
        """Keep `data` under `name`: a reader sees the whole of it or nothing."""
        path = self.root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, data)
        except OSError as error:
            raise cannot_write(self.root, error) from error

    def get(self, name: str) -> bytes:
        """Return what was put under `name`."""
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            raise KeyError(name) from None

    def exists(self, name: str) -> bool:
        """Say whether `name` was put."""
        return (self.root / name).is_file()

    def list(self, prefix: str) -> Iterator[str]:
        """Yield the names that start with `prefix`, sorted; half-written files are not names."""
        folder = self.root / prefix.rpartition("/")[0]
        names = (
            path.relative_to(self.root).as_posix()
            for path in folder.rglob("*")
            if path.is_file() and not path.name.startswith(".")
        )
        yield from sorted(name for name in names if name.startswith(prefix))


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is never seen half-written; only its owner may read it."""
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def cannot_write(root: Path, error: OSError) -> StoreError:
    """Return an error that says why nothing can be written, and what to do."""
    if error.errno == errno.ENOSPC:
        return StoreError(
            "the disk is full",
            where=str(root),
            remedy="free some space and run again; finished work is kept",
        )
    return StoreError(
        f"cannot write ({error.strerror})",
        where=str(root),
        remedy="choose a folder that you may write to",
    )
