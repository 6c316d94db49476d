"""Keys of stored artefacts: a run folder of an earlier version must open without work.

A key may change only with the version of what it names. If this test fails, something that is not
part of an artefact's content has entered its key (the name of a module, for example), and every
stored run would be made again. Where the statistics of the verdict were added to, measurements are
meant to be made again: keys are compared as they are without that.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from synthleak.analyses import analyses
from synthleak.audit.kept_results import results_key
from synthleak.audit.setup import Setup, identity_of, resolved, targets_in
from synthleak.audit.stages import set_up
from synthleak.audit.steps.measurements import _curves_key, measurements_key, profile_key
from synthleak.audit.steps.prior_attacks import attacks_on, prior_key
from synthleak.audit.steps.releases import make_releases, missing_releases, release_key, wanted_sets
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.evidence.attack import attack_key
from synthleak.evidence.table import evidence_key
from synthleak.metrics.verdict_statistics import STATISTICS_VERSION

KEYS: dict[str, Any] = json.loads((Path(__file__).parent / "stored_keys.json").read_text("utf-8"))
STORED_STATISTICS = 1
"""The `STATISTICS_VERSION` of the stored keys."""
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


def setup_of(design: str, generators: list[dict[str, Any]], **more: Any) -> Setup:
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
        "generator": generators,
        **more,
    }
    return set_up(LoadedSpec(parse_spec(spec)), MemoryStore())


def keys_of(design: str, **more: Any) -> dict[str, Any]:
    setup = setup_of(design, GENERATORS, **more)
    stored = sorted(setup.store.list(""))
    encoder = setup.plugins.encoder.identity()
    targets = targets_in(setup, "outlier")
    releases = [
        release_key(setup, cell, item)
        for cell in setup.cells
        for _, item in wanted_sets(setup, cell)
    ]
    return {
        "stored by set-up": [name for name in stored if not name.startswith("vectors")],
        "releases": hashlib.sha256("".join(releases).encode()).hexdigest(),
        "first release of each generator": {
            f"{cell.generator} {cell.epsilon:g}": release_key(
                setup, cell, wanted_sets(setup, cell)[0][1]
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


def keys_of_results(design: str, **more: Any) -> dict[str, Any]:
    """Make the releases of one generator, and return the keys of all that is made from them."""
    chosen: dict[str, Any] = {
        "evidence": {"families": ["cos", "bigram_logprob"]},
        "prior": [{"kind": "canary"}],
    }
    setup = setup_of(design, [{"kind": "bystander"}], **chosen, **more)
    for unit in missing_releases(setup):
        make_releases(setup, unit)
    cell = setup.cells[0]
    return {
        "measurements": measurements_key(setup, cell),
        "curves": _curves_key(setup, cell),
        "profile": profile_key(setup, cell),
        "prior": [prior_key(setup, cell, attack) for attack in attacks_on(setup, cell)],
        "results": results_key(setup),
    }


@pytest.fixture
def stored_analyses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out analyses and statistics that have no stored keys yet."""
    known = [entry for entry in analyses if entry.name in KEYS["analyses"]]
    monkeypatch.setattr("synthleak.audit.kept_results.analyses", known)
    for module, name in (("measurements", "MEASUREMENTS_VERSION"), ("prior_attacks", "VERSION")):
        path = f"synthleak.audit.steps.{module}"
        version = getattr(importlib.import_module(path), name)
        monkeypatch.setattr(f"{path}.{name}", version - STATISTICS_VERSION + STORED_STATISTICS)


@pytest.mark.parametrize("design", ["lone", "cohort"])
@pytest.mark.usefixtures("stored_analyses")
def test_keys_of_stored_results_stay(design: str) -> None:
    assert keys_of_results(design) == KEYS[f"{design} results"]


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_keys_of_stored_artefacts_stay(design: str) -> None:
    assert keys_of(design) == KEYS[design]


@pytest.mark.usefixtures("stored_analyses")
def test_where_an_audit_runs_enters_no_key() -> None:
    runtime = {"engine": "ray", "address": "head:6379", "workers": 7}
    assert keys_of("lone", runtime=runtime) == KEYS["lone"]
    assert keys_of_results("lone", runtime=runtime) == KEYS["lone results"]
    there, here = (setup_of("lone", GENERATORS[:1], **more) for more in ({"runtime": runtime}, {}))
    assert identity_of(there) == identity_of(here) and resolved(there) == resolved(here)
