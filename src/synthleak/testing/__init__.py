"""For authors of plug-ins: tiny data, and a contract check for every kind.

>>> from synthleak.releases.generators.echo import Echo
>>> check_generator(Echo(p=0.5))

A check returns nothing, or raises a `ContractError` with the reason. It checks what the rest of the
project relies on: results that are the same on every machine and in any batch, keys that hold all
that a result depends on, and no access to what an attacker would not see.
"""

from __future__ import annotations

from synthleak.testing.engines import check_engine
from synthleak.testing.evidence import check_analysis, check_attack, check_family
from synthleak.testing.records import (
    check_design,
    check_encoder,
    check_generator,
    check_reader,
    check_rule,
)
from synthleak.testing.tiny import tiny_corpus, tiny_ground, tiny_pool, tiny_request, tiny_study

__all__ = [
    "check_analysis",
    "check_attack",
    "check_design",
    "check_encoder",
    "check_engine",
    "check_family",
    "check_generator",
    "check_reader",
    "check_rule",
    "tiny_corpus",
    "tiny_ground",
    "tiny_pool",
    "tiny_request",
    "tiny_study",
]
