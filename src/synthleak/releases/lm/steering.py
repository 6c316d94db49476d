"""From requests to releases by steering: the fleets of `epsvec`.

The texts of a class are written once for all releases of a public side: they depend on the
description, the class and the settings alone (docs/design/claim-epsvec.md). The votes for exemplars
and their noise are each release's own.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.errors import GeneratorError
from synthleak.core.seeds import derive, digest, stream
from synthleak.corpus.corpus import Labels
from synthleak.encoders.encoder import Encoder, Vectors
from synthleak.releases.lm.fleet.sampling import Decoding, Tokens
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, memory_of
from synthleak.releases.lm.generator import timed
from synthleak.releases.lm.prompt_decoders import SteeringVectors
from synthleak.releases.lm.prompts import described, few_shot, fill, labelled, usual_lengths
from synthleak.releases.lm.steering_vectors import (
    PromptedText,
    clipped_sums,
    noise_of,
    reference_statistics,
    unit_vectors,
)
from synthleak.releases.lm.text_sampling import TextSampler, distinct
from synthleak.releases.lm.token_sampling import plan_sampling
from synthleak.releases.lm.votes import count_votes, noised, ranked, vectors_of
from synthleak.releases.release import Public, Request, Synthetic

if TYPE_CHECKING:
    from synthleak.releases.generators.epsvec import EpsVec


@dataclass(frozen=True)
class ClassTexts:
    """The texts of one class: those that may become exemplars, and those that means are over."""

    candidates: tuple[str, ...] = field(repr=False)
    references: tuple[str, ...] = field(repr=False)


def identity_of(generator: EpsVec) -> str:
    """Return the hash of the settings that public texts depend on."""
    return digest(generator.identity())


def public_texts(
    generator: EpsVec,
    sampler: TextSampler,
    how: Decoding,
    public: Public,
    classes: Sequence[Sequence[Labels]],
) -> Mapping[Labels, ClassTexts]:
    """Return the texts of the classes of all instances; missing ones are written now."""
    empty: dict[Labels, ClassTexts] = {}
    identity = identity_of(generator)
    known = public.remember(f"written for {identity}", lambda: empty)
    missing = sorted({labels for drawn in classes for labels in drawn} - set(known))
    each = generator.candidates + generator.references
    prompts, owners = [], []
    for labels in missing:
        seed = derive("written", identity, digest(public.key, public.description, labels))
        prompts += _requests(generator, sampler, public, labels, seed)
        owners.append((seed, each))
    different, of = distinct(prompts)
    tokenizer = sampler.tokenizer
    chat = tokenizer.chat_frame is not None
    asked = tokenizer.encode_requests(different) if chat else tokenizer.encode_plain(different)
    named = [labels for labels in missing for _ in range(each)]
    texts = sampler.sample(asked, of, owners, how, one_line=True, quoted=chat, labels=named)
    for number, labels in enumerate(missing):
        written = tuple(texts[number * each : (number + 1) * each])
        known[labels] = ClassTexts(written[: generator.candidates], written[generator.candidates :])
    return known


def _requests(
    generator: EpsVec, sampler: TextSampler, public: Public, labels: Labels, seed: int
) -> list[str]:
    each = generator.candidates + generator.references
    if sampler.tokenizer.chat_frame is None:
        return [few_shot(described(public), labels, ())] * each
    rng = stream(seed, "styles")
    styles = rng.choice(generator.styles, each)
    words = rng.choice(usual_lengths(public), each)
    return [
        fill(
            generator.prompt,
            {
                "description": described(public),
                "labelled": labelled(labels),
                "style": str(style),
                "words": str(count),
            },
        )
        for style, count in zip(styles, words, strict=True)
    ]


def choose_exemplars(
    request: Request,
    classes: Sequence[Labels],
    texts: Mapping[Labels, ClassTexts],
    vectors: Mapping[Labels, Vectors],
    encoder: Encoder,
    *,
    exemplars: int,
    sigma: float,
) -> dict[Labels, tuple[str, ...]]:
    """Return the exemplars of each class: the candidates with most noised votes (docs/method.md
    §5.2).

    `classes` were drawn from the public prior, so the bins that get noise are public too.
    """
    rng = stream(request.seed, "votes")
    private = vectors_of(encoder, [record.text for record in request.records], request.store)
    chosen = {}
    for labels in classes:
        of_class = np.array([record.labels == labels for record in request.records], dtype=bool)
        counts = noised(count_votes(private[of_class], vectors[labels]), sigma, rng)
        best = ranked(counts, rng)[:exemplars]
        chosen[labels] = tuple(texts[labels].candidates[position] for position in best)
    return chosen


log = logging.getLogger("synthleak.releases")


@dataclass(frozen=True)
class Groups:
    """The classes of all instances of a fleet, one after another, with their exemplar prompts."""

    instance: NDArray[np.int64]
    labels: tuple[Labels, ...]
    prompts: tuple[Tokens, ...]

    def numbers(self) -> dict[tuple[int, Labels], int]:
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
    generated_texts, of_generated = _prompted_texts(generator, sampler, groups, generated)
    reference = reference_statistics(
        shared, generated_texts, of_generated, groups.instance, layers, limits.tokens
    )
    private_texts, of_private = _prompted_texts(
        generator, sampler, groups, _private(requests, groups)
    )
    request = requests[0]
    infinite = math.isinf(request.epsilon)
    owner = torch.from_numpy(groups.instance).to(shared.device)
    bounds = generator.clip * reference.spread
    total = clipped_sums(
        shared,
        private_texts,
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
        groups = torch.from_numpy(np.flatnonzero(owners == number)).to(total.device)
        noise = torch.from_numpy(noise_of(request.seed, (len(groups), *total.shape[1:])))
        total[groups] += noise.to(total) * scale[number].to(total.dtype)[:, None]


def _private(requests: Sequence[Request], groups: Groups) -> list[list[str]]:
    """Return the private texts of each group; a class that is not generated has no group."""
    numbers = groups.numbers()
    texts_of: list[list[str]] = [[] for _ in groups.labels]
    for number, request in enumerate(requests):
        for record in request.records:
            group = numbers.get((number, record.labels))
            if group is not None:
                texts_of[group].append(record.text)
    return texts_of


def _prompted_texts(
    generator: EpsVec, sampler: TextSampler, groups: Groups, texts: Sequence[Sequence[str]]
) -> tuple[list[PromptedText], NDArray[np.int64]]:
    """Put texts after the prompt of their group, on one line and cut to the same limit."""
    different = sorted({text for of_group in texts for text in of_group})
    spelled = sampler.tokenizer.encode([f" {' '.join(text.split())}" for text in different])
    tokens = {
        text: row[: generator.max_tokens] for text, row in zip(different, spelled, strict=True)
    }
    prompted = [
        PromptedText(groups.prompts[number], tokens[text], generator.max_tokens)
        for number, of_group in enumerate(texts)
        for text in of_group
    ]
    return prompted, np.repeat(np.arange(len(texts)), [len(of_group) for of_group in texts])


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
