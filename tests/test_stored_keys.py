"""Keys of stored artefacts: a run folder of an earlier version must open without work.

A key may change only with the version of what it names. If this test fails, something that is not
part of an artefact's content has entered its key (the name of a module, for example), and every
stored run would be made again.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from synthleak.audit.setup import Setup, set_up
from synthleak.audit.steps.releases import wanted_sets
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.evidence.attack import attack_key
from synthleak.evidence.table import evidence_key

KEYS: dict[str, Any] = json.loads((Path(__file__).parent / "stored_keys.json").read_text("utf-8"))
GENERATORS = [
    {"kind": "constant"},
    {"kind": "bystander"},
    {"kind": "echo", "p": 0.5},
    {"kind": "ngram", "epsilon": ["inf", 4]},
    {"kind": "command", "argv": ["make-synthetic", "{train}", "{out}"]},
    {"kind": "dpsgd", "epsilon": ["inf", 4]},
    {"kind": "augpe", "epsilon": [1]},
    {"kind": "epsvec", "epsilon": [1]},
]


def bench_of(design: str) -> Setup:
    spec = {
        "seed": 3,
        "corpus": {"reader": "demo", "size": 400},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": [
            {"name": "outlier", "rule": "outlier", "percentile": 90, "size": 10},
            {"name": "rare", "rule": "rare", "max_frequency": 3, "size": 8},
            {"name": "random", "rule": "random", "match": "outlier", "draws": 1},
        ],
        "game": {"design": design, "instances": 4, "records": 60},
        "generator": GENERATORS,
    }
    return set_up(LoadedSpec(parse_spec(spec)), MemoryStore())


def keys_of(design: str) -> dict[str, Any]:
    setup = bench_of(design)
    stored = sorted(setup.store.list(""))
    encoder = setup.plugins.encoder.identity()
    targets = setup.targets("outlier")
    releases = [
        setup.release_key(cell, item)
        for cell in setup.cells
        for _, item in wanted_sets(setup, cell)
    ]
    return {
        "stored by set-up": [name for name in stored if not name.startswith("vectors")],
        "releases": hashlib.sha256("".join(releases).encode()).hexdigest(),
        "first release of each generator": {
            f"{cell.generator} {cell.epsilon:g}": setup.release_key(
                cell, wanted_sets(setup, cell)[0][1]
            )
            for cell in setup.cells
            if cell.pool == "outlier"
        },
        "evidence": {
            member.name: evidence_key(member, encoder, targets, "text")
            for member in setup.plugins.families
            if member.name in KEYS[design]["evidence"]  # a new family has no stored keys yet
        },
        "prior attacks": {
            attack.kind: attack_key(attack, encoder, targets, "text", ("one", "two"))
            for attack in setup.plugins.attacks
        },
    }


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_keys_of_stored_artefacts_stay(design: str) -> None:
    assert keys_of(design) == KEYS[design]
