"""How an audit runs: the spec proposes, options decide, and mistakes give one line."""

from __future__ import annotations

import pytest

from support.specs import tiny_spec
from synthleak.core.errors import SpecError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import RuntimeSection, parse_spec

ON_RAY = RuntimeSection(engine="ray", address="head:6379", workers=3)


def test_options_stand_over_the_spec() -> None:
    assert Runtime.of(ON_RAY) == Runtime(engine="ray", address="head:6379", workers=3)
    assert Runtime.of(ON_RAY, address="other:1").address == "other:1"
    assert Runtime.of(ON_RAY, workers=5, wait=True).workers == 5
    local = Runtime.of(ON_RAY, engine="local")
    assert (local.engine, local.address, local.workers) == ("local", None, 3)
    assert Runtime.of(RuntimeSection()) == Runtime()


def test_a_wrong_runtime_gives_one_line() -> None:
    with pytest.raises(SpecError, match="an address belongs to a Ray cluster"):
        Runtime(address="head:6379")
    with pytest.raises(SpecError, match="--engine: unknown engine 'dask'; known: local, ray"):
        Runtime(engine="dask")
    with pytest.raises(SpecError, match=r"runtime\.engine"):
        parse_spec(tiny_spec(runtime={"engine": "dask"}))
    with pytest.raises(SpecError, match=r"runtime\.cluster"):
        parse_spec(tiny_spec(runtime={"cluster": "x"}))
