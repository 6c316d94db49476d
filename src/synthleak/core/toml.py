"""Writing TOML, for the resolved spec of a run folder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def dump_toml(content: Mapping[str, Any]) -> str:
    """Write a mapping of plain values, tables and lists of tables; None is left out.

    >>> print(dump_toml({"seed": 1, "pool": [{"name": "rare", "epsilon": [math.inf, 4.0]}]}))
    seed = 1
    <BLANKLINE>
    [[pool]]
    name = "rare"
    epsilon = [inf, 4.0]
    <BLANKLINE>
    """
    plain = {k: v for k, v in content.items() if not _is_table(v) and not _is_tables(v)}
    blocks = [_lines(plain)] if plain else []
    for key, value in content.items():
        if _is_table(value):
            blocks.append(f"[{key}]\n{_lines(value)}")
        elif _is_tables(value):
            blocks += [f"[[{key}]]\n{_lines(item)}" for item in value]
    return "\n".join(blocks)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_table, value))


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_value(v)}\n" for key, v in table.items() if v is not None)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inner = ", ".join(f"{k} = {_value(v)}" for k, v in value.items() if v is not None)
        return f"{{ {inner} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, str | Path):
        return json.dumps(str(value), ensure_ascii=False)
    raise TypeError(f"TOML has no form for {type(value).__name__}")
