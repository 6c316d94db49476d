"""An artefact: something that is made once, kept in the store, and read from then on.

Its key is the content hash of all that it is made from (docs/design/decisions.md), so that the same
question asks for the same artefact.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from pydantic import TypeAdapter

from synthleak.core.store import Store, keep, name_of


class HasStore(Protocol):
    """Anything that carries a store."""

    @property
    def store(self) -> Store:
        """Where artefacts are kept."""


S = TypeVar("S", bound=HasStore)
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Artefact(Generic[S, P, T]):
    """One kind of artefact: how it is named, made, written and read.

    `key` and `make` are called with the setup, and with what the artefact is of (a cell, say).
    """

    kind: str
    key: Callable[Concatenate[S, P], str]
    make: Callable[Concatenate[S, P], T]
    dump: Callable[[T], bytes]
    load: Callable[[bytes], T]

    def name(self, setup: S, /, *args: P.args, **kwargs: P.kwargs) -> str:
        return name_of(self.kind, self.key(setup, *args, **kwargs))

    def exists(self, setup: S, /, *args: P.args, **kwargs: P.kwargs) -> bool:
        return setup.store.exists(self.name(setup, *args, **kwargs))

    def get(self, setup: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return it, made now only if it was never made or is damaged."""
        key, make = self.key(setup, *args, **kwargs), partial(self.make, setup, *args, **kwargs)
        return keep(setup.store, self.kind, key, make, self.dump, self.load)


def as_json(kind: type[T]) -> tuple[Callable[[T], bytes], Callable[[bytes], T]]:
    """Return how a dataclass, or a list or tuple of one, is written and read.

    JSON that does not fit the types raises a ValueError.
    """

    @cache
    def adapter() -> TypeAdapter[T]:
        return TypeAdapter(kind)

    def dump(value: Any) -> bytes:
        rows = isinstance(value, list | tuple)
        return json.dumps([asdict(row) for row in value] if rows else asdict(value)).encode()

    return dump, lambda data: adapter().validate_json(data)


Need = tuple[Artefact[Any, ..., Any], tuple[Any, ...]]
"""An artefact that some work needs, and what it is of."""
