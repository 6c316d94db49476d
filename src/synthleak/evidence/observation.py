"""Observations and targets: all that a proxy ever sees (docs/method.md §6).

An observation is a release or a raw reference; a proxy cannot tell which. Its texts are read in
canonical order (by folded text), so their order in the file never matters, and what several proxies
derive from them is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, wraps
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from synthleak.core.errors import ContractError
from synthleak.core.seeds import digest
from synthleak.core.text import fold, tokens
from synthleak.encoders.encoder import Vectors, at_unit_length

T = TypeVar("T")
S = TypeVar("S", bound="TextSet")
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
BLOCK = 512
"""Targets that are observed together: a table of them and 100,000 texts takes 400 MB."""
CHUNK = 2**16
LARGE = 4096
"""Above this number of texts a sample stands for O where its texts are compared."""


class TextSet:
    """Texts and what is derived from them; each derivation is computed once, when it is needed.

    Args:
        texts: the texts, in the order of their rows.
        encode: turns texts into vectors, one row per text.
    """

    def __init__(self, texts: Sequence[str], encode: Callable[[Sequence[str]], Vectors]) -> None:
        self.texts = tuple(texts)
        self._encode = encode
        self._cache: dict[str, object] = {}

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def key(self) -> str:
        """The content hash of the texts, in this order."""
        return digest("texts", self.texts)

    @cached_property
    def folded(self) -> list[str]:
        """The texts with case and white space folded."""
        return [fold(text) for text in self.texts]

    @cached_property
    def tokens(self) -> list[list[str]]:
        """The lower-cased word tokens of each text."""
        return [tokens(text) for text in self.texts]

    @cached_property
    def encoded(self) -> Vectors:
        """The encoder's vectors as they came, one row per text.

        Equal texts are encoded once, so that rounding cannot make them differ. Half a surrogate
        pair, which no encoder can read, becomes a question mark.
        """
        readable = [
            text if text.isascii() else text.encode(errors="replace").decode()
            for text in self.texts
        ]
        row_of = {text: row for row, text in enumerate(dict.fromkeys(readable))}
        encoded = self._encode(list(row_of))
        if len(row_of) == len(readable):
            return encoded
        return encoded[[row_of[text] for text in readable]]

    @cached_property
    def vectors(self) -> Floats:
        """The encoder's vectors in double precision."""
        return self.encoded.astype(np.float64)

    @cached_property
    def directions(self) -> Floats:
        """The vectors at unit length; a zero vector stays zero."""
        return at_unit_length(self.vectors)

    def chunks(self, size: int = CHUNK) -> Iterator[tuple[slice, Floats]]:
        """Yield which rows, and their vectors in double precision: all of many take memory.

        Args:
            size: how many rows at once.
        """
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            yield part, self.encoded[part].astype(np.float64)

    def remember(self, key: str, compute: Callable[[], T]) -> T:
        """Return what is derived from these texts, computed once for all proxies.

        Args:
            key: names the derivation; two plug-ins that use one key share the value.
            compute: derives the value; it is called the first time only.

        Returns:
            What `compute` returned.
        """
        if key not in self._cache:
            self._cache[key] = compute()
        return self._cache[key]  # type: ignore[return-value]

    def forget(self) -> None:
        """Drop everything derived; it is computed again when needed."""
        self._cache.clear()
        for name in ("folded", "tokens", "encoded", "vectors", "directions"):
            self.__dict__.pop(name, None)


class Targets(TextSet):
    """The pool's records, as the attacker knows them.

    Args:
        texts: the texts of the records.
        encode: turns texts into vectors, one row per text.
        auxiliary: the texts of R, which prior attacks use in S2 (docs/method.md §9). Proxies do
            not: a proxy sees a target and an observation.
        labels: the labels of each record; none by default.
    """

    def __init__(
        self,
        texts: Sequence[str],
        encode: Callable[[Sequence[str]], Vectors],
        auxiliary: Sequence[str] = (),
        labels: Sequence[Sequence[str]] = (),
    ) -> None:
        super().__init__(texts, encode)
        self.auxiliary = TextSet(auxiliary, encode)
        self.labels = tuple(map(tuple, labels)) or ((),) * len(self.texts)

    def blocks(self) -> list[Targets]:
        """Split many targets into blocks that are observed one after another; few are one block.

        No value depends on the other targets of a block. The blocks are fixed, so that keys and the
        last digits do not depend on the number of workers.

        Returns:
            The blocks, in the order of the targets.
        """

        def split() -> list[Targets]:
            blocks = [
                Targets(
                    self.texts[start : start + BLOCK],
                    self._encode,
                    labels=self.labels[start : start + BLOCK],
                )
                for start in range(0, len(self), BLOCK)
            ]
            for block in blocks:
                block.auxiliary = self.auxiliary
            return blocks

        return [self] if len(self) <= BLOCK else self.remember("blocks", split)


class Observation(TextSet):
    """What is observed: the texts of a release or of a raw reference, in canonical order.

    An empty release counts as one empty text, so that it can be scored like any other.

    Args:
        texts: the texts, in any order.
        encode: turns texts into vectors, one row per text.
        labels: the labels of the texts, in any order; none by default.
    """

    def __init__(
        self,
        texts: Sequence[str],
        encode: Callable[[Sequence[str]], Vectors],
        labels: Iterable[Sequence[str]] = (),
    ) -> None:
        super().__init__(canonical(texts) or [""], encode)
        self.labels = frozenset(label for row in labels for label in row)
        """Every label that some text has."""
        self._cache_for: dict[str, dict[str, object]] = {}
        self.whole: tuple[Observation, Ints] | None = None
        """The large observation that this is a part of, and which of its rows."""

    @property
    def is_large(self) -> bool:
        """Whether a sample stands for these texts where they are compared with one another."""
        return len(self) > LARGE

    def cached_for(self, targets: Targets, key: str, compute: Callable[[], T]) -> T:
        """Return what is derived from these texts and the targets, computed once.

        What was derived for other targets is dropped: targets come block by block.

        Args:
            targets: the targets that the value depends on.
            key: names the derivation; two plug-ins that use one key share the value.
            compute: derives the value; it is called the first time only.

        Returns:
            What `compute` returned.
        """
        if targets.key not in self._cache_for:
            self._cache_for.clear()
        cache = self._cache_for.setdefault(targets.key, {})
        if key not in cache:
            cache[key] = compute()
        return cache[key]  # type: ignore[return-value]

    def part(self, rows: Ints) -> Observation:
        """Return some of the texts, in their order, as an observation of their own.

        Args:
            rows: which texts.
        """
        part = Observation([], self._encode)
        part.texts = tuple(self.texts[row] for row in rows.tolist())
        part.whole = (self, rows)
        return part

    def forget_targets(self) -> None:
        """Drop what was derived together with targets."""
        self._cache_for.clear()


def cached(derive: Callable[[S], T]) -> Callable[[S], T]:
    """Call the decorated function once per text set (`TextSet.remember`)."""
    key = f"{derive.__module__}.{derive.__qualname__}"
    return wraps(derive)(lambda texts: texts.remember(key, lambda: derive(texts)))


def cached_for_targets(
    derive: Callable[[Targets, Observation], T],
) -> Callable[[Targets, Observation], T]:
    """Call the decorated function once per observation and targets (`Observation.cached_for`)."""
    key = f"{derive.__module__}.{derive.__qualname__}"
    return wraps(derive)(
        lambda targets, observation: observation.cached_for(
            targets, key, lambda: derive(targets, observation)
        )
    )


def check_values(who: str, values: Floats, shape: tuple[int, int]) -> Floats:
    """Return finite values of this shape; a plug-in that returns others breaks its contract."""
    values = np.asarray(values, dtype=np.float64)
    if values.shape != shape:
        raise ContractError(f"{who} returned {values.shape} values, not {shape}")
    if not np.isfinite(values).all():
        raise ContractError(f"{who} returned a value that is not finite")
    return values


def canonical(texts: Sequence[str]) -> list[str]:
    """Sort texts into the order in which observations are read.

    >>> canonical(["b", "A", "a "])
    ['A', 'a ', 'b']
    """
    return sorted(texts, key=lambda text: (fold(text), text))
