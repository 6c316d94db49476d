"""From requests to releases by fine-tuning: the fleets of `dpsgd`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from synthleak.core.engine.progress import span
from synthleak.core.seeds import derive
from synthleak.corpus.corpus import Record
from synthleak.releases.lm.fleet.batches import Example
from synthleak.releases.lm.fleet.likelihood import Floats, ScoredTexts
from synthleak.releases.lm.fleet.memory import Fleet
from synthleak.releases.lm.fleet.sampling import Sampler
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone
from synthleak.releases.lm.fleet.training import Owners, progress_counter
from synthleak.releases.lm.generator import timed
from synthleak.releases.release import Request, Synthetic

if TYPE_CHECKING:
    from synthleak.releases.generators.dpsgd import DpSgd

log = logging.getLogger(__name__)

TRAINING = 0.85
"""The share of a fleet's time that training takes, for estimates of the time left."""


def finetuned(
    generator: DpSgd,
    requests: Sequence[Request],
    records: Sequence[Record] = (),
    *,
    sample: bool = True,
) -> Iterator[tuple[list[Synthetic], Floats]]:
    """Yield a release per request, made in fleets as large as memory allows, and model's scores.

    All requests share N, ε and release size: they are one cell's. Only seeds and records differ.

    Args:
        generator: whose settings count.
        requests: what the releases are made from.
        records: what is scored under every model (docs/method.md §16).
        sample: whether releases are sampled; without, they are empty.
    """
    from synthleak.releases.generators.dpsgd import example_of

    shared = generator.shared_backbone()
    longest = min(generator.max_tokens, shared.backbone.context)
    sets, owners = _examples(generator, shared, requests, longest)
    examples = [example_of(record, shared.backbone, longest)[0] for record in records]
    scored = ScoredTexts(shared, examples)

    def make(first: int, fleet: Fleet, size: int) -> list[tuple[list[Synthetic], Floats]]:
        part = slice(first, first + size)
        persons = None if owners is None else owners[part]
        with span(first, first + size):
            return _one_fleet(
                generator, shared, requests[part], sets[part], persons, fleet, scored, sample
            )

    limits = {"batch": generator.expected_batch, "longest": longest, "most": generator.fleet}
    yield from shared.in_fleets(len(requests), make, rank=generator.rank, **limits)


def _one_fleet(
    generator: DpSgd,
    shared: SharedBackbone,
    requests: Sequence[Request],
    sets: Sequence[Sequence[Example]],
    owners: Owners | None,
    fleet: Fleet,
    scored: ScoredTexts,
    sample: bool,
) -> list[tuple[list[Synthetic], Floats]]:
    longest = min(generator.max_tokens, shared.backbone.context)
    seeds = [derive(request.seed, "dpsgd") for request in requests]
    adapters = shared.adapters(seeds, rank=generator.rank, scale=generator.scale)
    config = generator.training_config(requests[0])
    trainer = shared.trainer(adapters, config, longest=longest, fleet=fleet)
    with timed(f"training {len(requests)} instances", 0, TRAINING if sample else 1):
        counter = progress_counter("training", len(requests), config.steps, "step")
        trainer.train(sets, seeds, counter, owners)
    del trainer
    with timed(f"scoring {len(scored)} texts"):
        scores = scored.gains(adapters)
    releases: list[list[Synthetic]] = [[] for _ in requests]
    if sample:
        sampler = shared.sampler(
            adapters, generator.decoding((shared.backbone.end,), longest, least=1), fleet=fleet
        )
        with timed("sampling the releases", TRAINING, 1):
            releases = sampled(shared, sampler, [generator.classes(r) for r in requests], seeds)
    return list(zip(releases, scores, strict=True))


def sampled(
    shared: SharedBackbone,
    sampler: Sampler,
    classes: Sequence[Sequence[tuple[str, ...]]],
    seeds: Sequence[int],
) -> list[list[Synthetic]]:
    """Sample a text for every class, prompted with its labels."""
    from synthleak.releases.generators.dpsgd import prompt_of

    backbone = shared.backbone
    encoded = {labels: prompt_of(labels, backbone) for labels in set(chain.from_iterable(classes))}
    counter = progress_counter("sampling", len(classes), sum(map(len, classes)), "text")
    prompts = [[encoded[labels] for labels in of_release] for of_release in classes]
    return [
        [
            Synthetic(backbone.decode(tokens), labels)
            for tokens, labels in zip(texts, of_release, strict=True)
        ]
        for texts, of_release in zip(sampler.sample(prompts, seeds, counter), classes, strict=True)
    ]


_said_cut: set[int] = set()
"""Limits of length at which records were cut, and this process has said so."""


def _examples(
    generator: DpSgd, shared: SharedBackbone, requests: Sequence[Request], longest: int
) -> tuple[list[list[Example]], list[NDArray[np.int64]] | None]:
    """Write every private record as tokens, each once however many sets hold it.

    With them come the persons that they belong to, where persons are drawn and clipped.
    """
    from synthleak.releases.generators.dpsgd import example_of

    known: dict[tuple[str, tuple[str, ...]], tuple[Example, bool]] = {}
    sets = []
    contributions = [generator.contributions(request) for request in requests]
    for persons in contributions:
        examples = []
        for record in (record for records in persons for record in records):
            key = (record.text, record.labels)
            if key not in known:
                known[key] = example_of(record, shared.backbone, longest)
            examples.append(known[key][0])
        sets.append(examples)
    cut = sum(was_cut for _, was_cut in known.values())
    if cut and longest not in _said_cut:
        _said_cut.add(longest)
        log.warning(
            "%d of %d records are longer than max_tokens = %d and were cut",
            cut,
            len(known),
            longest,
        )
    if generator.unit == "record":
        return sets, None
    return sets, [
        np.repeat(np.arange(len(persons)), list(map(len, persons))) for persons in contributions
    ]
