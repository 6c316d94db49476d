"""What an encoder is, and how each text is encoded only once (docs/method.md §2).

A store holds whole artefacts only, so vectors are stored in packs: the vectors of the texts that
were missing in one call, and then the keys of those texts. A pack without keys was not finished and
does not count; nor does one with an empty list of keys, which marks a damaged pack.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synthleak.core.errors import ContractError, Damaged, MissingExtra, UserError, import_extra
from synthleak.core.registry import Plugin, PluginRegistry, calling
from synthleak.core.seeds import digest
from synthleak.core.store import Store, discard, fetch, name_of

Vectors = NDArray[np.float32]
F = TypeVar("F", bound=np.floating)

_PACK = 4096
"""Texts in a pack: the most that an interruption loses, and that is read to find one vector."""
_KEY_BYTES = 16
_OPEN_PACKS = 32


class Encoder(Plugin):
    """Turns texts into vectors, row i from text i alone.

    Fields of a subclass are the keys that `[encoder]` may set in a spec.
    """

    @property
    def cheap(self) -> bool:
        """Whether encoding again costs less than keeping the vectors on disk."""
        return False

    def check(self) -> None:
        """Look for extras and files, before any work starts.

        Raises:
            UserError: something is missing.
        """

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Vectors:
        """Turn texts into vectors.

        Args:
            texts: any texts, empty ones and none at all included.

        Returns:
            A finite float32 array with a row per text.
        """


encoders: PluginRegistry[Encoder] = PluginRegistry("encoder", "synthleak.encoders.builtin")


def at_unit_length(vectors: NDArray[F]) -> NDArray[F]:
    """Return vectors scaled to length 1; a zero vector stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[F] = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    return unit


def package_folder(package: str, *files: str) -> Path | None:
    """Return the folder of an installed package that holds these files, without importing it."""
    spec = importlib.util.find_spec(package)
    folders = map(Path, (spec.submodule_search_locations or []) if spec else [])
    return next((f for f in folders if all((f / name).is_file() for name in files)), None)


class TransformerEncoder(Encoder):
    """An encoder that runs a sentence-transformers model.

    `batch` and `device` change the speed, not the vectors (but for the last bits of a float), so
    they are not part of an encoder's identity.
    """

    extra: ClassVar[str]

    batch: int = Field(default=32, ge=1, description="texts at a time; changes speed only")
    device: str = Field(
        default="auto", description="cpu, cuda, ...; auto takes a GPU if there is one; speed only"
    )

    def identity(self) -> dict[str, Any]:
        """Return what decides the vectors; batch, device and location do not."""
        settings = super().identity()
        return {key: value for key, value in settings.items() if key not in ("batch", "device")}

    def check(self) -> None:
        """Raise an error if sentence-transformers is missing, without importing it (seconds)."""
        if importlib.util.find_spec("sentence_transformers") is None:
            raise MissingExtra(
                f"the encoder {self.kind!r} needs the package sentence-transformers",
                remedy=f"pip install 'synthleak[{self.extra}]'",
            )

    def run(self, source: str, texts: Sequence[str], **settings: Any) -> Vectors:
        """Encode with the model at `source`, loaded once per process."""
        who = f"the encoder {self.kind!r}"
        library = import_extra("sentence_transformers", extra=self.extra, by=who)
        import_extra("transformers.utils.logging", extra=self.extra, by=who).disable_progress_bar()
        model = load_model(library, source, self.device, tuple(sorted(settings.items())))
        if not texts:
            return self.run(source, [""], **settings)[:0]
        # The engine shows progress; a bar here would be one per observation.
        vectors = model.encode(list(texts), batch_size=self.batch, show_progress_bar=False)
        return np.ascontiguousarray(vectors, dtype=np.float32)


@lru_cache(maxsize=2)
def load_model(
    library: Any, source: str, device: str, settings: tuple[tuple[str, Any], ...]
) -> Any:
    """Load a model from a folder or by its name on the Hugging Face hub, in single precision."""
    chosen = dict(settings)
    try:
        model = library.SentenceTransformer(
            source,
            device=None if device == "auto" else device,
            revision=chosen.get("revision"),
            local_files_only=Path(source).is_dir(),
        ).float()
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"the model {source!r} cannot be loaded ({type(error).__name__}: {reason})",
            remedy="name a folder that sentence-transformers saved, or a model this machine can"
            " fetch, and a device that it has",
        ) from None
    if chosen.get("max_tokens"):
        model.max_seq_length = chosen["max_tokens"]
    return model


def encode_once(encoder: Encoder, texts: Sequence[str], store: Store) -> Vectors:
    """Encode texts; an expensive encoder is run on new texts only (docs/method.md §2).

    Vectors are stored by the content of each text, so a text that is in the corpus, in a pool and
    in a release is encoded once. Missing vectors are encoded and stored pack by pack.
    """
    if encoder.cheap or not texts:
        return _encode(encoder, texts)
    packs = packs_of(store, digest("encoder", encoder.identity()))  # type: ignore[arg-type]
    keys = [text_key(text) for text in texts]
    by_key = dict(zip(keys, texts, strict=True))
    while True:  # again only if a pack is damaged, which then counts as missing
        missing = packs.missing(keys)
        for start in range(0, len(missing), _PACK):
            new_keys = missing[start : start + _PACK]
            packs.add(new_keys, _encode(encoder, [by_key[key] for key in new_keys]))
        try:
            return packs.get(keys)
        except Damaged as error:
            packs.give_up(error.name)


def _encode(encoder: Encoder, texts: Sequence[str]) -> Vectors:
    """Encode, and check the encoder's contract: a finite float32 row per text."""
    with calling("encoder", encoder.kind, encoder):
        vectors = encoder.encode(texts)
        if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.dtype != np.float32:
            raise ContractError(
                f"the encoder {encoder.kind!r} returned {vectors.dtype} {vectors.shape} for"
                f" {len(texts)} texts, not float32 ({len(texts)}, d)"
            )
    if not np.isfinite(vectors).all():
        raise ContractError(f"the encoder {encoder.kind!r} returned a value that is not finite")
    return vectors


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

    def get(self, keys: Sequence[bytes]) -> Vectors:
        """Return the vectors of keys; raise `Damaged` if one of their packs turns out to be."""
        rows: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for position, key in enumerate(keys):
            pack, row = self._places[key]
            rows[pack].append((position, row))
        parts = []
        positions: list[int] = []
        for pack, pairs in rows.items():
            parts.append(self._vectors(pack)[[row for _, row in pairs]])
            positions += [position for position, _ in pairs]
        vectors = np.empty((len(keys), parts[0].shape[1]), dtype=np.float32)
        vectors[positions] = np.concatenate(parts)
        return vectors

    def _read_new_packs(self) -> None:
        there = set(self._store.list(f"vectors/{self._encoder}/"))
        for name in sorted(there - self._known):
            pack = _pack_of(name)
            if name == name_of("vector_keys", pack) and name_of("vectors", pack) in there:
                try:
                    self._enter(pack, fetch(self._store, "vector_keys", pack, _cut_keys))
                except Damaged as error:
                    self.give_up(error.name)

    def give_up(self, damaged: str) -> None:
        """Remove the pack that a damaged artefact belongs to, here and in the store."""
        pack = _pack_of(damaged)
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


def _pack_of(name: str) -> str:
    return name.removeprefix("vectors/").rpartition(".")[0]


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
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def load_array(data: bytes) -> Vectors:
    array: Vectors = np.load(io.BytesIO(data), allow_pickle=False)
    return array
