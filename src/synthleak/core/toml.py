"""Writing TOML, for the resolved spec of a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w


def dump_toml(content: Mapping[str, Any]) -> str:
    """Write plain values, paths, tables and lists; a key whose value is None is left out.

    >>> print(dump_toml({"seed": 1, "p": None, "game": {"a key": float("-inf")}}))
    seed = 1
    <BLANKLINE>
    [game]
    "a key" = -inf
    <BLANKLINE>
    """
    return tomli_w.dumps(_writable(content))


def _writable(value: Any) -> Any:
    """Leave out None, which TOML does not have, and write paths as strings."""
    if isinstance(value, Mapping):
        return {str(key): _writable(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    return str(value) if isinstance(value, Path) else value
