"""Observations and targets: all that a proxy ever sees (docs/method.md §6).

An observation is a release or a raw reference; a proxy cannot tell which, nor who asks. Its texts
are opened in canonical order (by folded text), so that their order in the file never matters, and
what several proxies derive from them is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from synthleak.core.errors import ContractError
from synthleak.core.identity import digest
from synthleak.core.text import fold, tokens
from synthleak.encoders.encoder import Vectors

T = TypeVar("T")
Floats = NDArray[np.float64]
BLOCK = 512
"""Targets that are observed together: beside 100,000 texts a table of them takes 400 MB."""


class TextSet:
    """Texts with what is derived from them, each derivation computed once and on demand."""

    def __init__(self, texts: Sequence[str], encode: Callable[[Sequence[str]], Vectors]) -> None:
        self.texts = tuple(texts)
        self._encode = encode
        self._memory: dict[str, object] = {}

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

        Equal texts are encoded once, so that no rounding can tell them apart; half a surrogate
        pair, which no encoder can read, becomes a question mark.
        """
        readable = [text.encode(errors="replace").decode() for text in self.texts]
        place = {text: row for row, text in enumerate(dict.fromkeys(readable))}
        encoded = self._encode(list(place))
        if len(place) == len(readable):
            return encoded
        return encoded[[place[text] for text in readable]]

    @cached_property
    def vectors(self) -> Floats:
        """The encoder's vectors in double precision."""
        return self.encoded.astype(np.float64)

    @cached_property
    def directions(self) -> Floats:
        """The vectors at unit length; a zero vector stays zero."""
        norms = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        unit: Floats = np.divide(
            self.vectors, norms, out=np.zeros_like(self.vectors), where=norms > 0
        )
        return unit

    def remember(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` derived from these texts, made once for all proxies."""
        if name not in self._memory:
            self._memory[name] = make()
        return self._memory[name]  # type: ignore[return-value]

    def forget(self) -> None:
        """Drop all that was derived; it is computed again when asked for."""
        self._memory.clear()
        for name in ("folded", "tokens", "encoded", "vectors", "directions"):
            self.__dict__.pop(name, None)


class Targets(TextSet):
    """The pool's records, as the attacker knows them.

    `auxiliary` holds the texts of R for prior attacks, whose S2 reads them (docs/method.md §9). No
    proxy does: a proxy sees a target and an observation.
    """

    def __init__(
        self,
        texts: Sequence[str],
        encode: Callable[[Sequence[str]], Vectors],
        auxiliary: Sequence[str] = (),
    ) -> None:
        super().__init__(texts, encode)
        self.auxiliary = TextSet(auxiliary, encode)

    def blocks(self) -> list[Targets]:
        """Cut many targets into blocks that are observed one after another; few are one block.

        The other targets of a block change no value. The cuts are fixed, so that keys and the last
        digits do not depend on the number of workers.
        """
        if len(self) <= BLOCK:
            return [self]
        return self.remember("blocks", self._cut)

    def _cut(self) -> list[Targets]:
        made = [
            Targets(self.texts[start : start + BLOCK], self._encode)
            for start in range(0, len(self), BLOCK)
        ]
        for block in made:
            block.auxiliary = self.auxiliary
        return made


class Observation(TextSet):
    """What is observed: the texts of a release or of a raw reference, in canonical order.

    An empty release is opened as one empty text, so that it can be scored like any other.
    """

    def __init__(self, texts: Sequence[str], encode: Callable[[Sequence[str]], Vectors]) -> None:
        super().__init__(canonical(texts) or [""], encode)
        self._beside: dict[str, dict[str, object]] = {}

    def beside(self, targets: Targets, name: str, make: Callable[[], T]) -> T:
        """Return what `make` derived from these texts and the targets, made once.

        What was derived for other targets is forgotten: many of them come block by block.
        """
        if targets.key not in self._beside:
            self._beside.clear()
        memory = self._beside.setdefault(targets.key, {})
        if name not in memory:
            memory[name] = make()
        return memory[name]  # type: ignore[return-value]

    def part(self, rows: NDArray[np.int64]) -> Observation:
        """Return some of the texts, in their order, as an observation of their own."""
        made = Observation([], self._encode)
        made.texts = tuple(self.texts[row] for row in rows.tolist())
        return made

    def forget_targets(self) -> None:
        """Drop what was derived together with targets."""
        self._beside.clear()


def check_values(who: str, values: Floats, shape: tuple[int, int]) -> Floats:
    """Return one finite value per target and column, or say which plug-in broke its contract."""
    values = np.asarray(values, dtype=np.float64)
    if values.shape != shape:
        raise ContractError(f"{who} returned {values.shape} values, not {shape}")
    if not np.isfinite(values).all():
        raise ContractError(f"{who} returned a value that is not finite")
    return values


def canonical(texts: Sequence[str]) -> list[str]:
    """Put texts into the one order in which observations are opened.

    >>> canonical(["b", "A", "a "])
    ['A', 'a ', 'b']
    """
    return sorted(texts, key=lambda text: (fold(text), text))
