"""Vectors stored by content, so that each encoder encodes a text only once (docs/method.md §2).

A store holds whole artefacts only, so vectors are stored in packs: the vectors of the texts that
were missing in one call, and then the keys of those texts. A pack without keys was not finished and
does not count; nor does one with an empty list of keys, which marks a damaged pack.
"""

from __future__ import annotations

import hashlib
import io
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from synthleak.core.errors import Damaged
from synthleak.core.identity import digest
from synthleak.core.store import Store, discard, fetch, name_of

Vectors = NDArray[np.float32]

_KEY_BYTES = 16
_OPEN_PACKS = 32


class Packs:
    """The vectors of one encoder in one store."""

    def __init__(self, store: Store, encoder: str) -> None:
        self._store = store
        self._encoder = encoder
        self._places: dict[bytes, tuple[str, int]] = {}
        self._known: set[str] = set()
        self._open: dict[str, Vectors] = {}

    def missing(self, keys: Sequence[bytes]) -> list[bytes]:
        """Return the keys that no pack holds, each once, after reading packs of other processes."""
        if any(key not in self._places for key in keys):
            self._read_new_packs()
        return [key for key in dict.fromkeys(keys) if key not in self._places]

    def add(self, keys: Sequence[bytes], vectors: Vectors) -> None:
        """Store the vectors of these keys as one pack."""
        pack = f"{self._encoder}/{digest('pack', [key.hex() for key in keys])}"
        self._store.put(name_of("vectors", pack), dump_array(vectors))
        self._store.put(name_of("vector_keys", pack), b"".join(keys))
        self._enter(pack, keys)

    def get(self, keys: Sequence[bytes]) -> Vectors | None:
        """Return the vectors of keys; None if one of their packs turns out to be damaged."""
        rows: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for position, key in enumerate(keys):
            pack, row = self._places[key]
            rows[pack].append((position, row))
        found: Vectors | None = None
        for pack, pairs in rows.items():
            try:
                vectors = self._vectors(pack)
            except Damaged as error:
                self.give_up(pack, error.name)
                return None
            if found is None:
                found = np.empty((len(keys), vectors.shape[1]), dtype=np.float32)
            positions, places = zip(*pairs, strict=True)
            found[list(positions)] = vectors[list(places)]
        if found is None:
            raise ValueError("no keys were given")
        return found

    def _read_new_packs(self) -> None:
        there = set(self._store.list(f"vectors/{self._encoder}/"))
        for name in sorted(there - self._known):
            pack = name.removeprefix("vectors/").rpartition(".")[0]
            if name == name_of("vector_keys", pack) and name_of("vectors", pack) in there:
                try:
                    self._enter(pack, fetch(self._store, "vector_keys", pack, _cut_keys))
                except Damaged as error:
                    self.give_up(pack, error.name)

    def give_up(self, pack: str, damaged: str) -> None:
        """Remove a damaged pack, here and in the store."""
        discard(self._store, damaged)
        self._store.put(name_of("vector_keys", pack), b"")
        self._known.add(name_of("vector_keys", pack))
        self._places = {key: place for key, place in self._places.items() if place[0] != pack}

    def _enter(self, pack: str, keys: Sequence[bytes]) -> None:
        self._known.add(name_of("vector_keys", pack))
        for row, key in enumerate(keys):
            self._places.setdefault(key, (pack, row))

    def _vectors(self, pack: str) -> Vectors:
        if pack not in self._open:
            while len(self._open) >= _OPEN_PACKS:
                del self._open[next(iter(self._open))]
            self._open[pack] = fetch(self._store, "vectors", pack, load_array)
        return self._open[pack]


@lru_cache(maxsize=8)
def packs_of(store: Store, encoder: str) -> Packs:
    """Return the packs of an encoder, whose index is read once per process."""
    return Packs(store, encoder)


def text_key(text: str) -> bytes:
    """Return the key of a text: its content, exactly.

    >>> text_key("a") == text_key("a"), text_key("a") == text_key("A"), len(text_key(""))
    (True, False, 16)
    """
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_KEY_BYTES]


def _cut_keys(data: bytes) -> list[bytes]:
    if len(data) % _KEY_BYTES:
        raise ValueError("cut short")
    return [data[start : start + _KEY_BYTES] for start in range(0, len(data), _KEY_BYTES)]


def dump_array(array: NDArray[np.generic]) -> bytes:
    """Write an array as `.npy`."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def load_array(data: bytes) -> Vectors:
    """Read an array written by `dump_array`."""
    array: Vectors = np.load(io.BytesIO(data), allow_pickle=False)
    return array
