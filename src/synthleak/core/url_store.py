"""A store at a URL: artefacts in a bucket, by the same names and with the same digests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from synthleak.core.locations import Url
from synthleak.core.store import seal, unseal

HEADERS = 200_000
"""Headers of releases that stay in memory: every stage reads them, and none ever changes."""


class UrlStore:
    """A store in an object store.

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
        """Keep `data` under `name`: object stores put a whole object or nothing."""
        (self.root / name).write_bytes(seal(name, data))
        self._headers.pop(name, None)
        self._discarded.pop(name, None)
        if self._listed and (names := self._listed.get(_kind(name))) is not None:
            names.add(name)

    def get(self, name: str) -> bytes:
        """Return what was put under `name`, checked against its digest."""
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


def _kind(name: str) -> str:
    return name.partition("/")[0]
