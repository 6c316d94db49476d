"""Measurements as JSON in the store: written from dataclasses, read back by their types."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


def to_json(made: Any) -> bytes:
    """Write a dataclass."""
    return json.dumps(asdict(made)).encode()


def from_json(kind: type[T], data: bytes) -> T:
    """Read what `to_json` wrote; JSON that does not fit the types raises a ValueError."""
    hashable: Any = kind
    made: T = _adapter(hashable).validate_json(data)
    return made


@lru_cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
