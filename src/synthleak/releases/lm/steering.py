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
from synthleak.releases.lm.fleet.sampling import Tokens
from synthleak.releases.lm.fleet.shared_backbone import memory_of
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
from synthleak.releases.release import Request, Synthetic

if TYPE_CHECKING:
    from synthleak.releases.generators.epsvec import EpsVec

log = logging.getLogger("synthleak.releases")


@dataclass(frozen=True)
class ClassTexts:
    """The texts of one class: those that may become exemplars, and those that means are over."""

    candidates: tuple[str, ...] = field(repr=False)
    references: tuple[str, ...] = field(repr=False)


def identity_of(generator: EpsVec) -> str:
    """Return the hash of the settings that public texts depend on."""
    return digest(generator.identity())


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


@dataclass(frozen=True)
class Groups:
    """The classes of all instances of a fleet, one after another, with their exemplar prompts."""

    instance: NDArray[np.int64]
    labels: tuple[Labels, ...]
    prompts: tuple[Tokens, ...]

    def numbers(self) -> dict[tuple[int, Labels], int]:
        pairs = zip(self.instance.tolist(), self.labels, strict=True)
        return {pair: number for number, pair in enumerate(pairs)}


def _add_noise(total: Tensor, owner: Tensor, scale: Tensor, requests: Sequence[Request]) -> None:
    """Add each release's own noise to its sums; `scale[i, l]` is its standard deviation."""
    if not bool((scale > 0).any()):
        return
    owners = owner.cpu().numpy()
    for number, request in enumerate(requests):
        groups = torch.from_numpy(np.flatnonzero(owners == number)).to(total.device)
        noise = torch.from_numpy(noise_of(request.seed, (len(groups), *total.shape[1:])))
        total[groups] += noise.to(total) * scale[number].to(total.dtype)[:, None]


def steered(generator: EpsVec, requests: Sequence[Request]) -> list[list[Synthetic]]:
    """Return a release per request. All are one cell's: they share N, ε, size and public side."""
    with timed("loading the backbone"):
        steering = Steering(generator, requests)
    with timed("writing public texts"):
        texts = steering.public_texts()
    with timed("votes"):
        groups = steering.groups(texts)
    with timed("reading texts for the vectors"):
        vectors = steering.vectors(groups, texts)
    with timed("sampling the releases", 0, 1):
        return steering.sampled(groups, vectors)


class Steering:
    """The steps of one fleet: from texts of its public side to steered releases."""

    def __init__(self, generator: EpsVec, requests: Sequence[Request]) -> None:
        self._generator, self._requests = generator, requests
        self._public = requests[0].public
        self._shared = generator.shared_backbone()
        self._sampler = TextSampler(self._shared, attempts=generator.attempts)
        self._tokenizer = self._sampler.tokenizer
        if self._tokenizer.chat_frame is None:
            log.warning(
                "the backbone %r has no chat template: candidates are begun plainly, and neither"
                " prompt nor styles are used",
                generator.backbone,
            )
        self._how = generator.decoding(self._tokenizer.ends(one_line=True))
        self.classes = [generator.classes(request) for request in requests]

    def public_texts(self) -> Mapping[Labels, ClassTexts]:
        """Return the texts of the classes of all instances; missing ones are written now."""
        generator, public = self._generator, self._public
        empty: dict[Labels, ClassTexts] = {}
        identity = identity_of(generator)
        known = public.remember(f"written for {identity}", lambda: empty)
        missing = sorted({labels for drawn in self.classes for labels in drawn} - set(known))
        each = generator.candidates + generator.references
        prompts, owners = [], []
        for labels in missing:
            seed = derive("written", identity, digest(public.key, public.description, labels))
            prompts += self._asked(labels, seed, each)
            owners.append((seed, each))
        different, of = distinct(prompts)
        chat = self._tokenizer.chat_frame is not None
        encode = self._tokenizer.encode_requests if chat else self._tokenizer.encode_plain
        named = [labels for labels in missing for _ in range(each)]
        texts = self._sampler.sample(
            encode(different), of, owners, self._how, one_line=True, quoted=chat, labels=named
        )
        for number, labels in enumerate(missing):
            written = tuple(texts[number * each : (number + 1) * each])
            cut = generator.candidates
            known[labels] = ClassTexts(written[:cut], written[cut:])
        return known

    def _asked(self, labels: Labels, seed: int, count: int) -> list[str]:
        """Return the prompts for `count` texts of a class."""
        public = self._public
        if self._tokenizer.chat_frame is None:
            return [few_shot(described(public), labels, ())] * count
        rng = stream(seed, "styles")
        styles = rng.choice(self._generator.styles, count)
        lengths = rng.choice(usual_lengths(public), count)
        return [
            fill(
                self._generator.prompt,
                {
                    "description": described(public),
                    "labelled": labelled(labels),
                    "style": str(style),
                    "words": str(words),
                },
            )
            for style, words in zip(styles, lengths, strict=True)
        ]

    def groups(self, texts: Mapping[Labels, ClassTexts]) -> Groups:
        """Let the private records of each request choose its exemplars, and write its prompts."""
        generator = self._generator
        vectors = {
            labels: generator.encoder.encode(texts[labels].candidates)
            for labels in {labels for drawn in self.classes for labels in drawn}
        }
        instance, names, prompts = [], [], []
        for number, request in enumerate(self._requests):
            drawn = sorted(set(self.classes[number]))
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
            prompts += [few_shot(described(self._public), name, shown[name]) for name in drawn]
        tokens = self._tokenizer.encode_plain(prompts)
        return Groups(np.array(instance), tuple(names), tuple(tokens))

    def vectors(self, groups: Groups, texts: Mapping[Labels, ClassTexts]) -> SteeringVectors:
        """Return the vectors of every group: from its clipped sum, noised."""
        generator, shared, request = self._generator, self._shared, self._requests[0]
        layers = generator.layers_of(int(shared.backbone.model.config.num_hidden_layers))
        prompt = max(map(len, groups.prompts))
        longest = prompt + generator.max_tokens
        if longest > shared.backbone.context:
            raise GeneratorError(
                f"a prompt with {generator.exemplars} exemplars and a text takes {longest} tokens"
                f" and the backbone {generator.backbone!r} reads {shared.backbone.context}",
                remedy="use a smaller max_tokens",
            )
        memory = memory_of(shared.device)
        at_once = plan_sampling(shared.shape(1), memory, prompt, generator.max_tokens).tokens
        generated = [texts[labels].references for labels in groups.labels]
        read = self._prompted(groups, generated)
        reference = reference_statistics(shared, *read, groups.instance, layers, at_once)
        owner = torch.from_numpy(groups.instance).to(shared.device)
        bounds = generator.clip * reference.spread
        limit = None if math.isinf(request.epsilon) else bounds[owner]
        private = self._prompted(groups, self._private(groups))
        total = clipped_sums(shared, *private, reference.means, limit, layers, at_once)
        if generator.scope == "corpus":
            count = len(self._requests)
            total = torch.zeros_like(total[:count]).index_add_(0, owner, total)
            owner = torch.arange(count, device=shared.device)
        scale = bounds * generator.vector_sigma(request, len(layers))
        _add_noise(total, owner, scale, self._requests)
        units = reference.norms / generator.part if generator.unit == "auto" else generator.unit
        length = generator.strength(request) * units * torch.ones_like(reference.norms)
        vectors = unit_vectors(total) * length[owner][:, :, None].to(total.dtype)
        if generator.scope == "corpus":
            vectors = vectors[torch.from_numpy(groups.instance).to(shared.device)]
        return SteeringVectors(layers, vectors.cpu())

    def _private(self, groups: Groups) -> list[list[str]]:
        """Return the private texts of each group; a class that is not generated has no group."""
        numbers = groups.numbers()
        texts_of: list[list[str]] = [[] for _ in groups.labels]
        for number, request in enumerate(self._requests):
            for record in request.records:
                group = numbers.get((number, record.labels))
                if group is not None:
                    texts_of[group].append(record.text)
        return texts_of

    def _prompted(
        self, groups: Groups, texts: Sequence[Sequence[str]]
    ) -> tuple[list[PromptedText], NDArray[np.int64]]:
        """Put texts after the prompt of their group, on one line and cut to the same limit."""
        most = self._generator.max_tokens
        different = sorted({text for of_group in texts for text in of_group})
        spelled = self._tokenizer.encode([f" {' '.join(text.split())}" for text in different])
        tokens = {text: row[:most] for text, row in zip(different, spelled, strict=True)}
        prompted = [
            PromptedText(prompt, tokens[text], most)
            for prompt, of_group in zip(groups.prompts, texts, strict=True)
            for text in of_group
        ]
        return prompted, np.repeat(np.arange(len(texts)), [len(of_group) for of_group in texts])

    def sampled(self, groups: Groups, vectors: SteeringVectors) -> list[list[Synthetic]]:
        """Return the releases, each text steered by the vector of its group."""
        numbers = groups.numbers()
        rows = [(number, labels) for number, drawn in enumerate(self.classes) for labels in drawn]
        texts = self._sampler.sample(
            groups.prompts,
            [numbers[row] for row in rows],
            [(derive(request.seed, "release"), request.size) for request in self._requests],
            self._how,
            one_line=True,
            labels=[labels for _, labels in rows],
            steering=vectors,
        )
        releases: list[list[Synthetic]] = [[] for _ in self._requests]
        for (number, labels), text in zip(rows, texts, strict=True):
            releases[number].append(Synthetic(text, labels))
        return releases
