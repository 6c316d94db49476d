"""The contract of generators."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from synthleak.releases.claim import Claim
from synthleak.releases.generator import Generator
from synthleak.releases.release import Request, Synthetic
from synthleak.testing.contract import Fail, check_settings, refuser, twice
from synthleak.testing.tiny import tiny_request


def check_generator(generator: Generator, *, size: int = 12) -> None:
    """Hold a generator to its contract, without privacy and, if it offers it, at ε = 2.

    Args:
        generator: the generator, with its settings.
        size: texts of each release that it is asked for.

    Raises:
        ContractError: with the reason, if it breaks its contract.
    """
    fail = refuser("generator", generator)
    check_settings(generator, fail)
    if generator.batch < 1:
        fail("batch is below 1")
    for epsilon in (float("inf"), *([2.0] if generator.private_by_design else [])):
        request = tiny_request(epsilon=epsilon, size=size)
        if not 0 < generator.default_delta(request.nominal) < 1:
            fail("default_delta must lie between 0 and 1")
        _check_releases(generator, request, fail)
        _check_claim(generator, request, fail)


def _check_releases(generator: Generator, request: Request, fail: Fail) -> None:
    given = copy.deepcopy(request.records)
    release = twice(lambda: list(generator.generate(request)), lambda a, b: a == b, fail)
    if request.records != given:
        fail("it changes the records that it is given")
    if len(release) != request.size and not generator.any_size:
        fail(f"it made {len(release)} records where {request.size} were asked for")
    for record in release:
        if not isinstance(record, Synthetic) or not isinstance(record.text, str):
            fail("a release must hold Synthetic records with a text")
        if not isinstance(record.labels, tuple):
            fail("labels must be a tuple")
    others = [replace(request, seed=2), replace(request, seed=3, records=request.records[1:])]
    alone = [release, *(list(generator.generate(other)) for other in others)]
    if (alone[1] == release) != generator.ignores_seed:
        fail(
            "another seed makes the same release: declare ignores_seed"
            if alone[1] == release
            else "it declares ignores_seed, and another seed makes another release"
        )
    together = [list(made) for made in generator.generate_many([request, *others])]
    if together != alone:
        fail("generate_many and generate make different releases: the batch must not matter")
    if generator.scores_records:
        scored = generator.generate_and_score([request, *others], request.records)
        if [list(made) for made, _ in scored] != alone:
            fail("generate_and_score makes other releases: who is scored must not matter")
    renamed = [replace(r, id=f"x{r.id}", group="g", meta={"site": "B"}) for r in request.records]
    if list(generator.generate(replace(request, records=tuple(renamed)))) != release:
        fail("it reads id, group or meta, which are in no key: use text and labels only")


def _check_claim(generator: Generator, request: Request, fail: Fail) -> None:
    claim = generator.claim(request)
    if not isinstance(claim, Claim):
        fail(f"claim() returned a {type(claim).__name__}")
    if generator.claim(replace(request, seed=9, records=request.records[1:])) != claim:
        fail("its claim depends on the private records or the seed")
    if Claim.from_json(claim.to_json()) != claim:
        fail("its claim does not survive JSON")
    if not np.isfinite(request.epsilon):
        return
    if claim.void is None and not claim.promises:
        fail(f"it takes ε = {request.epsilon:g} and promises nothing")
    if claim.promises and claim.delta_at(request.epsilon) > request.delta * 1.01:
        fail(f"its claim does not reach ε = {request.epsilon:g} at δ = {request.delta:g}")


def are_labels(labels: object) -> bool:
    """Say whether these are sorted, different words."""
    return (
        isinstance(labels, tuple)
        and all(isinstance(label, str) for label in labels)
        and list(labels) == sorted(set(labels))
    )
