"""Observations and targets: all that a proxy ever sees (docs/method.md §6).

An observation is a release or a raw reference; a proxy cannot tell which. Its texts are read in
canonical order (by folded text), so their order in the file never matters, and what several proxies
derive from them is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from synthleak.core.errors import ContractError
from synthleak.core.identity import digest
from synthleak.core.text import fold, tokens
from synthleak.encoders.encoder import Vectors

T = TypeVar("T")
P = ParamSpec("P")
S = TypeVar("S", bound="TextSet")
Floats = NDArray[np.float64]
BLOCK = 512
"""Targets that are observed together: a table of them and 100,000 texts takes 400 MB."""


class TextSet:
    """Texts and what is derived from them; each derivation is computed once, when it is needed."""

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

        Equal texts are encoded once, so that rounding cannot make them differ. Half a surrogate
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
        """Return what `make` derives from these texts; it is called once for all proxies."""
        if name not in self._memory:
            self._memory[name] = make()
        return self._memory[name]  # type: ignore[return-value]

    def forget(self) -> None:
        """Drop everything derived; it is computed again when needed."""
        self._memory.clear()
        for name in ("folded", "tokens", "encoded", "vectors", "directions"):
            self.__dict__.pop(name, None)


class Targets(TextSet):
    """The pool's records, as the attacker knows them.

    `auxiliary` holds the texts of R, which prior attacks use in S2 (docs/method.md §9). Proxies do
    not: a proxy sees a target and an observation.
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
        """Split many targets into blocks that are observed one after another; few are one block.

        No value depends on the other targets of a block. The blocks are fixed, so that keys and the
        last digits do not depend on the number of workers.
        """

        def split() -> list[Targets]:
            blocks = [
                Targets(self.texts[start : start + BLOCK], self._encode)
                for start in range(0, len(self), BLOCK)
            ]
            for block in blocks:
                block.auxiliary = self.auxiliary
            return blocks

        return [self] if len(self) <= BLOCK else self.remember("blocks", split)


class Observation(TextSet):
    """What is observed: the texts of a release or of a raw reference, in canonical order.

    An empty release counts as one empty text, so that it can be scored like any other.
    """

    def __init__(self, texts: Sequence[str], encode: Callable[[Sequence[str]], Vectors]) -> None:
        super().__init__(canonical(texts) or [""], encode)
        self._beside: dict[str, dict[str, object]] = {}
        self.whole: tuple[Observation, NDArray[np.int64]] | None = None
        """The observation that this is a part of, and which of its rows."""

    def beside(self, targets: Targets, name: str, make: Callable[[], T]) -> T:
        """Return what `make` derives from these texts and the targets; it is called once.

        What was derived for other targets is dropped: targets come block by block.
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
        made.whole = (self, rows)
        return made

    def forget_targets(self) -> None:
        """Drop what was derived together with targets."""
        self._beside.clear()


def remembered(derive: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Call the decorated function once per text set and arguments (`TextSet.remember`)."""

    @wraps(derive)
    def derived(texts: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        name = repr((derive.__module__, derive.__qualname__, args, kwargs))
        return texts.remember(name, lambda: derive(texts, *args, **kwargs))

    return derived


def remembered_beside(
    derive: Callable[[Targets, Observation], T],
) -> Callable[[Targets, Observation], T]:
    """Call the decorated function once per observation and targets (`Observation.beside`)."""

    @wraps(derive)
    def derived(targets: Targets, observation: Observation) -> T:
        name = f"{derive.__module__}.{derive.__qualname__}"
        return observation.beside(targets, name, lambda: derive(targets, observation))

    return derived


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
