"""From requests to releases by steering: the fleets of `epsvec`."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.errors import GeneratorError
from synthleak.core.seeds import derive
from synthleak.corpus.corpus import Labels
from synthleak.releases.lm.fleet.decoding import Decoding
from synthleak.releases.lm.fleet.sampling import Tokens
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, memory_of
from synthleak.releases.lm.prompting.prompted import timed
from synthleak.releases.lm.prompting.prompts import described, few_shot
from synthleak.releases.lm.prompting.sampling_limits import plan_sampling
from synthleak.releases.lm.prompting.text_sampling import TextSampler
from synthleak.releases.lm.steering.exemplars import ClassTexts, choose_exemplars, public_texts
from synthleak.releases.lm.steering.hooks import SteeringVectors
from synthleak.releases.lm.steering.states import PromptedText
from synthleak.releases.lm.steering.vectors import (
    clipped_sums,
    noise_of,
    reference_statistics,
    unit_vectors,
)
from synthleak.releases.release import Request, Synthetic

if TYPE_CHECKING:
    from synthleak.releases.generators.epsvec import EpsVec

log = logging.getLogger("synthleak.releases")


@dataclass(frozen=True)
class Groups:
    """The classes of all instances of a fleet, one after another, with their exemplar prompts."""

    instance: NDArray[np.int64]
    labels: tuple[Labels, ...]
    prompts: tuple[Tokens, ...]

    def numbers(self) -> dict[tuple[int, Labels], int]:
        """Return the number of the group of (instance, class)."""
        pairs = zip(self.instance.tolist(), self.labels, strict=True)
        return {pair: number for number, pair in enumerate(pairs)}


def steered(generator: EpsVec, requests: Sequence[Request]) -> list[list[Synthetic]]:
    """Return a release per request. All are one cell's: they share N, ε, size and public side."""
    with timed("loading the backbone"):
        shared = generator.shared_backbone()
        sampler = TextSampler(shared, attempts=generator.attempts)
        if sampler.tokenizer.chat_frame is None:
            log.warning(
                "the backbone %r has no chat template: candidates are begun plainly, and neither"
                " prompt nor styles are used",
                generator.backbone,
            )
        how = generator.decoding(sampler.tokenizer.ends(one_line=True))
    classes = [generator.classes(request) for request in requests]
    with timed("writing public texts"):
        texts = public_texts(generator, sampler, how, requests[0].public, classes)
    with timed("votes"):
        groups = _groups(generator, sampler, requests, classes, texts)
    with timed("reading texts for the vectors"):
        vectors = steering_vectors(generator, shared, sampler, requests, groups, texts)
    with timed("sampling the releases", 0, 1):
        return _sampled(generator, sampler, how, requests, classes, groups, vectors)


def _groups(
    generator: EpsVec,
    sampler: TextSampler,
    requests: Sequence[Request],
    classes: Sequence[Sequence[Labels]],
    texts: Mapping[Labels, ClassTexts],
) -> Groups:
    """Let the private records of each request choose its exemplars, and write its prompts."""
    vectors = {
        labels: generator.encoder.encode(texts[labels].candidates)
        for labels in {labels for own in classes for labels in own}
    }
    instance, names, words = [], [], []
    for number, (request, own) in enumerate(zip(requests, classes, strict=True)):
        drawn = sorted(set(own))
        shown = choose_exemplars(
            request,
            drawn,
            texts,
            vectors,
            generator.encoder,
            exemplars=generator.exemplars,
            sigma=generator.vote_sigma(request),
        )
        instance += [number] * len(drawn)
        names += drawn
        words += [few_shot(described(request.public), name, shown[name]) for name in drawn]
    return Groups(np.array(instance), tuple(names), tuple(sampler.tokenizer.encode_plain(words)))


def steering_vectors(
    generator: EpsVec,
    shared: SharedBackbone,
    sampler: TextSampler,
    requests: Sequence[Request],
    groups: Groups,
    texts: Mapping[Labels, ClassTexts],
) -> SteeringVectors:
    """Return the noised steering vectors of every group (docs/method.md §5.2)."""
    layers = generator.layers_of(int(shared.backbone.model.config.num_hidden_layers))
    prompt = max(map(len, groups.prompts))
    longest = prompt + generator.max_tokens
    if longest > shared.backbone.context:
        raise GeneratorError(
            f"a prompt with {generator.exemplars} exemplars and a text takes {longest} tokens and"
            f" the backbone {generator.backbone!r} reads {shared.backbone.context}",
            remedy="use a smaller max_tokens",
        )
    limits = plan_sampling(shared.shape(1), memory_of(shared.device), prompt, generator.max_tokens)
    generated = [list(texts[labels].references) for labels in groups.labels]
    made, of_made = _prompted_texts(generator, sampler, groups, generated)
    reference = reference_statistics(shared, made, of_made, groups.instance, layers, limits.tokens)
    private, of_private = _prompted_texts(generator, sampler, groups, _private(requests, groups))
    request = requests[0]
    infinite = math.isinf(request.epsilon)
    owner = torch.from_numpy(groups.instance).to(shared.device)
    bounds = generator.clip * reference.spread
    total = clipped_sums(
        shared,
        private,
        of_private,
        reference.means,
        None if infinite else bounds[owner],
        layers,
        limits.tokens,
    )
    if generator.scope == "corpus":
        total = torch.zeros_like(total[: len(requests)]).index_add_(0, owner, total)
        owner = torch.arange(len(requests), device=shared.device)
    _add_noise(total, owner, bounds * generator.vector_sigma(request, len(layers)), requests)
    units = reference.norms / generator.part if generator.unit == "auto" else generator.unit
    length = generator.strength(request) * units * torch.ones_like(reference.norms)
    vectors = unit_vectors(total) * length[owner][:, :, None].to(total.dtype)
    if generator.scope == "corpus":
        vectors = vectors[torch.from_numpy(groups.instance).to(shared.device)]
    return SteeringVectors(layers, vectors.cpu())


def _add_noise(total: Tensor, owner: Tensor, scale: Tensor, requests: Sequence[Request]) -> None:
    """Add each release's own noise to its sums; `scale[i, l]` is its standard deviation."""
    if not bool((scale > 0).any()):
        return
    owners = owner.cpu().numpy()
    for number, request in enumerate(requests):
        own = torch.from_numpy(np.flatnonzero(owners == number)).to(total.device)
        noise = torch.from_numpy(noise_of(request.seed, (len(own), *total.shape[1:])))
        total[own] += noise.to(total) * scale[number].to(total.dtype)[:, None]


def _private(requests: Sequence[Request], groups: Groups) -> list[list[str]]:
    """Return the private texts of each group; a class that is not generated has no group."""
    numbers = groups.numbers()
    found: list[list[str]] = [[] for _ in groups.labels]
    for number, request in enumerate(requests):
        for record in request.records:
            group = numbers.get((number, record.labels))
            if group is not None:
                found[group].append(record.text)
    return found


def _prompted_texts(
    generator: EpsVec, sampler: TextSampler, groups: Groups, texts: Sequence[Sequence[str]]
) -> tuple[list[PromptedText], NDArray[np.int64]]:
    """Put texts after the prompt of their group, on one line and cut to the same limit."""
    different = sorted({text for own in texts for text in own})
    spelled = sampler.tokenizer.encode([f" {' '.join(text.split())}" for text in different])
    tokens = {
        text: row[: generator.max_tokens] for text, row in zip(different, spelled, strict=True)
    }
    made = [
        PromptedText(groups.prompts[number], tokens[text], generator.max_tokens)
        for number, own in enumerate(texts)
        for text in own
    ]
    return made, np.repeat(np.arange(len(texts)), [len(own) for own in texts])


def _sampled(
    generator: EpsVec,
    sampler: TextSampler,
    how: Decoding,
    requests: Sequence[Request],
    classes: Sequence[Sequence[Labels]],
    groups: Groups,
    vectors: SteeringVectors,
) -> list[list[Synthetic]]:
    numbers = groups.numbers()
    rows = [(number, labels) for number, own in enumerate(classes) for labels in own]
    owners = [(derive(request.seed, "release"), request.size) for request in requests]
    texts = sampler.sample(
        groups.prompts,
        [numbers[row] for row in rows],
        owners,
        how,
        one_line=True,
        labels=[labels for _, labels in rows],
        steering=vectors,
    )
    releases: list[list[Synthetic]] = [[] for _ in requests]
    for (number, labels), text in zip(rows, texts, strict=True):
        releases[number].append(Synthetic(text, labels))
    return releases
