"""What the page says of an audit beside its tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.specs import tiny_spec
from synthleak.audit.facts import facts_of
from synthleak.audit.setup import Setup
from synthleak.audit.stages import set_up
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.encoders import encoders


def encoder(kind: str, **settings: Any) -> Any:
    """Build an encoder; nothing is loaded."""
    return encoders.build(kind, settings, key="kind", where=())


@pytest.fixture(scope="module")
def setup() -> Setup:
    """Return an audit whose pools and evidence share an encoder."""
    return set_up(LoadedSpec(parse_spec(tiny_spec())), MemoryStore())


@pytest.mark.parametrize(
    ("pools", "evidence", "same"),
    [
        (encoder("minilm", batch=8), encoder("minilm", batch=64), True),
        (encoder("minilm"), encoder("static"), False),
    ],
)
def test_encoders_are_the_same_if_their_vectors_are(
    setup: Setup, pools: Any, evidence: Any, same: bool
) -> None:
    assert facts_of(setup).same_encoder
    plugins = replace(setup.plugins, pool_encoder=pools, encoder=evidence)
    assert facts_of(replace(setup, plugins=plugins)).same_encoder is same
