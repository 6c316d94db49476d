"""For test suites: `assert_no_leak`, and for authors of plug-ins tiny data and contract checks.

>>> from synthleak.releases.generators.echo import Echo
>>> check_generator(Echo(p=0.5))

A check returns nothing, or raises a `ContractError` with the reason. It checks what the rest of the
project relies on: results that are the same on every machine and in any batch, keys that hold all
that a result depends on, and no access to what an attacker would not see.
"""

from __future__ import annotations

from synthleak.testing.engines import check_engine
from synthleak.testing.evidence import check_analysis, check_attack, check_family
from synthleak.testing.no_leak import assert_no_leak
from synthleak.testing.records import (
    check_design,
    check_encoder,
    check_generator,
    check_reader,
    check_rule,
)
from synthleak.testing.tiny import tiny_corpus, tiny_ground, tiny_pool, tiny_request, tiny_study

__all__ = [
    "assert_no_leak",
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
