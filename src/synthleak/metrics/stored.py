"""Measurements as JSON in the store: written from dataclasses, read back by their types."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


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
