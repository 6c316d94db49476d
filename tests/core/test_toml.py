"""TOML that is written reads back as it was."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.specs import tiny_spec
from synthleak import run
from synthleak.core.engine.progress import Progress
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, dump_toml, parse_spec

KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_what_is_written_reads_back(content: dict[str, Any]) -> None:
    assert tomllib.loads(dump_toml(content)) == content


@pytest.mark.parametrize(
    "content",
    [
        {"limit": -math.inf},
        {"game": {"a key": 1, "": 2}},
        {"note": "\x7f and \x00 and \u2028"},
        {"pool": [{"encoder": {"kind": "static"}}, {}]},
    ],
)
def test_odd_values_and_keys_read_back(content: dict[str, Any]) -> None:
    assert tomllib.loads(dump_toml(content)) == content


def test_none_is_left_out_and_paths_are_strings() -> None:
    written = dump_toml({"a": None, "b": {"c": None, "d": Path("x/y")}, "e": [{"f": None}]})
    assert tomllib.loads(written) == {"b": {"d": "x/y"}, "e": [{}]}


class Heard(Progress):
    """Keeps the lines that a run prints."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def test_spec_in_another_layout_needs_no_work(tmp_path: Path) -> None:
    """Run folders made before hold the same spec, written with one-line arrays and tables."""
    spec = LoadedSpec(parse_spec(tiny_spec(generator=[{"kind": "echo"}])))
    run(spec, tmp_path / "run", runtime=Runtime(workers=1), progress=Progress())
    path = tmp_path / "run" / "spec.toml"
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    lines = [f"{key} = {_inline(value)}" for key, value in content.items()]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert tomllib.loads(path.read_text(encoding="utf-8")) == content
    heard = Heard()
    run(spec, tmp_path / "run", runtime=Runtime(workers=1), progress=heard)
    assert "nothing to do" in " ".join(heard.lines)
    assert tomllib.loads(path.read_text(encoding="utf-8")) == content


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_inline, value))}]"
    return str(value) if value in (math.inf, -math.inf) else json.dumps(value)
