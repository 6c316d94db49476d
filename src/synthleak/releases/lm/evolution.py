"""From requests to releases by private evolution: the fleets of `augpe`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from synthleak.core.seeds import derive, digest, stream
from synthleak.corpus.corpus import Labels, Record
from synthleak.encoders.encoder import Encoder, Vectors
from synthleak.releases.generator import Floats
from synthleak.releases.lm.generator import timed
from synthleak.releases.lm.prompts import degenerate, filled
from synthleak.releases.lm.votes import (
    Population,
    Quota,
    histogram,
    noised,
    survivors,
    vectors_of,
    votes_near,
)
from synthleak.releases.release import Public, Request, Synthetic

if TYPE_CHECKING:
    from synthleak.releases.generators.augpe import AugPe


class Writer(Protocol):
    """Answers requests: a backbone on this machine, or a chat-completions address."""

    def tell(self) -> None:
        """Say what was used so far, where that costs something."""

    def write(
        self,
        requests: Sequence[str],
        labels: Sequence[Labels],
        each: int,
        owners: Sequence[tuple[int, int]],
        written: Callable[[Sequence[str]], None] = lambda texts: None,
    ) -> list[str]:
        """Return `each` answers to every request, those of one request together.

        `labels` are those that a request asks to fit; an answer that only repeats them is rejected.
        `owners` are (seed, answers) in the order of the answers: a seed decides its own alone.
        `written` may be given texts, in a thread, while others are being written.
        """


class TextVectors:
    """Vectors of synthetic texts, each different one encoded once.

    With a cheap encoder that happens while the device writes more texts.
    """

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._rows: dict[str, int] = {}
        self._parts: list[Vectors] = []

    def written(self, texts: Sequence[str]) -> None:
        """Encode texts that will probably be asked for."""
        if self._encoder.cheap:
            self._add(texts)

    def _add(self, texts: Sequence[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._rows]
        if new:
            self._parts.append(self._encoder.encode(new))
            self._rows |= zip(new, range(len(self._rows), len(self._rows) + len(new)), strict=True)

    def of(self, texts: Sequence[str]) -> Vectors:
        self._add(texts)
        every = np.concatenate(self._parts) if self._parts else self._encoder.encode([])
        return every[[self._rows[text] for text in texts]]


@dataclass
class _Instance:
    """One instance: what is asked for, what is private, and the population so far."""

    request: Request
    quota: Quota
    private: dict[Labels, Vectors]
    rng: np.random.Generator
    population: Population
    scores: Floats


def evolved(
    generator: AugPe, writer: Writer, requests: Sequence[Request], records: Sequence[Record] = ()
) -> list[tuple[list[Synthetic], Floats]]:
    """Return a release per request, and what its votes say of records (docs/method.md §16).

    All requests are one cell's: they share N, ε, size and public side.
    """
    try:
        instances = Evolution(generator, writer, requests[0].public).run(requests, records)
    finally:  # what was used is paid for, also where a run breaks off
        writer.tell()
    return [
        ([Synthetic(*one) for one in zip(last.texts, last.labels, strict=True)], instance.scores)
        for instance, last in ((instance, instance.population) for instance in instances)
    ]


class Evolution:
    """The steps of private evolution, for the instances of one fleet."""

    def __init__(self, generator: AugPe, writer: Writer, public: Public) -> None:
        self._generator, self._writer, self._public = generator, writer, public

    def run(self, requests: Sequence[Request], records: Sequence[Record] = ()) -> list[_Instance]:
        """Return the instances after all rounds; each adds up its noised votes near the records."""
        with timed("vectors of private records"):
            private = self._private_vectors([request.records for request in requests], requests)
            (asked,) = self._private_vectors([records], requests)
        rows: dict[Labels, list[int]] = defaultdict(list)
        for row, record in enumerate(records):
            rows[record.labels].append(row)
        rounds = self._generator.rounds  # RANDOM texts, then VARIATION texts in all but the last
        with timed("RANDOM texts", 0, 1 / rounds):
            instances = self._begin(requests, private, len(records))
        sigma = self._generator.sigma(requests[0])
        for number in range(1, rounds + 1):
            with timed(f"votes of round {number}"):
                for instance in instances:
                    old = instance.population
                    votes = noised(histogram(old, instance.private), sigma, instance.rng)
                    for labels, near in votes_near(old, votes, asked).items():
                        instance.scores[rows[labels], 0] += near
                    going = survivors(old, votes, instance.quota, instance.rng)
                    instance.population = old.keep(going)
            if number < rounds:
                title = f"VARIATION texts of round {number}"
                with timed(title, number / rounds, (number + 1) / rounds):
                    self._vary(instances, number)
        return instances

    def _private_vectors(
        self, sets: Sequence[Sequence[Record]], requests: Sequence[Request]
    ) -> list[dict[Labels, Vectors]]:
        """Return the vectors of each set's records by class; a text is encoded once for all."""
        different = sorted({record.text for records in sets for record in records})
        vectors = vectors_of(self._generator.encoder, different, requests[0].store)
        row = {text: number for number, text in enumerate(different)}
        by_class = []
        for records in sets:
            rows_of: dict[Labels, list[int]] = {}
            for record in records:
                rows_of.setdefault(record.labels, []).append(row[record.text])
            by_class.append({labels: vectors[rows] for labels, rows in rows_of.items()})
        return by_class

    def _begin(
        self, requests: Sequence[Request], private: Sequence[dict[Labels, Vectors]], scored: int
    ) -> list[_Instance]:
        """Write the first populations, from prompts alone."""
        quotas = [Counter(self._generator.classes(request)) for request in requests]
        family = self._generator.family
        labels = [
            [name for name, count in sorted(quota.items()) for _ in range(count * family)]
            for quota in quotas
        ]
        encoded = TextVectors(self._generator.encoder)
        if self._generator.shared_random:
            texts = self._shared_texts(labels, encoded)
        else:
            seeds = [derive(request.seed, "random") for request in requests]
            texts = self._random_texts(seeds, labels, encoded)
        vectors = encoded.of([text for of_instance in texts for text in of_instance])
        instances, start = [], 0
        for number, request in enumerate(requests):
            part = slice(start, start + len(labels[number]))
            population = Population(tuple(labels[number]), tuple(texts[number]), vectors[part])
            rng = stream(request.seed, "votes")
            scores = np.zeros((scored, 1))
            quota, vectors_by_class = quotas[number], private[number]
            instances.append(_Instance(request, quota, vectors_by_class, rng, population, scores))
            start = part.stop
        return instances

    def _shared_texts(
        self, labels: Sequence[Sequence[Labels]], encoded: TextVectors
    ) -> list[list[str]]:
        """Write RANDOM texts once per class: a release takes the first that it needs of each class.

        Text j of a class depends on the public side, the class and j alone, so it does not matter
        how many are written or for whom.
        """
        counts = [Counter(of_instance) for of_instance in labels]
        most = {name: max(count[name] for count in counts) for count in counts for name in count}
        names = sorted(most)
        side = digest(self._generator.identity(), self._public.key, self._public.description)
        seeds = [derive("shared", side, digest(name)) for name in names]
        texts = self._random_texts(seeds, [[name] * most[name] for name in names], encoded)
        pool = dict(zip(names, texts, strict=True))
        return [
            [text for name in sorted(count) for text in pool[name][: count[name]]]
            for count in counts
        ]

    def _random_texts(
        self, seeds: Sequence[int], labels: Sequence[Sequence[Labels]], encoded: TextVectors
    ) -> list[list[str]]:
        """Write a RANDOM text for every label of every seed."""
        prompts: list[str] = []
        for seed, names in zip(seeds, labels, strict=True):
            prompts += self._prompts(self._generator.random_prompt, seed, names)
        owners = [(seed, len(names)) for seed, names in zip(seeds, labels, strict=True)]
        named = [name for names in labels for name in names]
        texts = iter(self._writer.write(prompts, named, 1, owners, encoded.written))
        return [[next(texts) for _ in names] for names in labels]

    def _prompts(
        self, template: str, seed: int, names: Sequence[Labels], texts: Sequence[str] | None = None
    ) -> list[str]:
        """Fill in a template for every class, with a style and a length drawn for each."""
        generator, public = self._generator, self._public
        styles = stream(seed, "styles").choice(generator.styles, len(names))
        words = stream(seed, "words").choice(generator.lengths(public), len(names))
        phrase = generator.label_phrase
        return filled(template, public, names, styles, words, texts=texts, phrase=phrase)

    def _vary(self, instances: Sequence[_Instance], number: int) -> None:
        """Let every survivor have L - 1 descendants: paraphrases in one style, by chance different.

        A rejected paraphrase is replaced by its parent.
        """
        each = self._generator.family - 1
        if not each:
            return
        prompts: list[str] = []
        labels: list[Labels] = []
        parents: list[str] = []
        owners: list[tuple[int, int]] = []
        for instance in instances:
            seed = derive(instance.request.seed, "variation", number)
            old = instance.population
            prompts += self._prompts(self._generator.variation_prompt, seed, old.labels, old.texts)
            labels += old.labels
            parents += old.texts
            owners.append((seed, each * len(old.texts)))
        encoded = TextVectors(self._generator.encoder)
        answers = self._writer.write(prompts, labels, each, owners, encoded.written)
        asked = [pair for pair in zip(parents, labels, strict=True) for _ in range(each)]
        texts = [
            parent if degenerate(text, name) else text
            for text, (parent, name) in zip(answers, asked, strict=True)
        ]
        vectors = encoded.of(texts)
        start = 0
        for instance in instances:
            old = instance.population
            part = slice(start, start + each * len(old.texts))
            instance.population = Population(
                old.labels + tuple(name for name in old.labels for _ in range(each)),
                old.texts + tuple(texts[part]),
                np.concatenate([old.vectors, vectors[part]]),
            )
            start = part.stop
