"""Texts that are written without private data, and the few that private records choose of them.

The texts of a class are written once for all releases of a public side: they depend on the
description, the class and the settings alone (design/claim-epsvec.md). Votes and their noise are
each release's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from synthleak.core.identity import digest
from synthleak.core.seeds import derive, stream
from synthleak.corpus.corpus import Labels
from synthleak.encoders.encoder import Encoder, Vectors
from synthleak.releases.lm.fleet.decoding import Decoding
from synthleak.releases.lm.prompting.prompt_tokens import distinct
from synthleak.releases.lm.prompting.prompts import (
    described,
    few_shot,
    fill,
    labelled,
    usual_lengths,
)
from synthleak.releases.lm.prompting.text_sampling import TextSampler
from synthleak.releases.lm.prompting.votes import count_votes, noised, ranked, vectors_of
from synthleak.releases.release import Public, Request

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
    missing = sorted({labels for own in classes for labels in own} - set(known))
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
        own = tuple(texts[number * each : (number + 1) * each])
        known[labels] = ClassTexts(own[: generator.candidates], own[generator.candidates :])
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
    found = {}
    for labels in classes:
        own = np.array([record.labels == labels for record in request.records], dtype=bool)
        counts = noised(count_votes(private[own], vectors[labels]), sigma, rng)
        best = ranked(counts, rng)[:exemplars]
        found[labels] = tuple(texts[labels].candidates[position] for position in best)
    return found
