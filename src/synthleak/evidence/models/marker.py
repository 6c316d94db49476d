"""`marker`: the marks of a record, found anywhere in the release (docs/method.md §17).

A generator may keep its promise with noise and break it beside the noise: by an alphabet, a
vocabulary, a limit of lengths or a set of classes that it takes from private records as they are.
Then one record decides whether a character, a word, a length or a class can come out at all.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from synthleak.core.text import fold, tokens
from synthleak.evidence.family import OptInFamily, model_families
from synthleak.evidence.fast.words import word_index
from synthleak.evidence.observation import Floats, Observation, Targets


@model_families.register("marker", version=1)
class Marker(OptInFamily):
    """Whether the release has the rarest character of the target, its words, length and labels."""

    view: ClassVar = "lexical"
    scale: ClassVar = "difference"
    reads_labels: ClassVar = True
    proxies: ClassVar[dict[str, str]] = {
        "marker_character": "1 if O has every character of x, its rarest too; else 0",
        "marker_word": "share of the words that x repeats most that O has, within others too",
        "marker_length": "words in the longest text of O and in x, the smaller by the larger",
        "marker_label": "share of the labels of x that O has",
        "marker": "the mean of these four; of three where x has no label",
    }

    def look(self, targets: Targets, observation: Observation) -> Floats:
        """Return the share of each target's marks that the observation has, by kind and in all."""
        index = word_index(observation)
        characters = observation.remember("characters", lambda: set("".join(observation.folded)))
        words = observation.remember("words, joined", lambda: "\n".join(index.vocabulary))
        longest = max(int(index.words.lengths.max()), 1)
        rows = []
        marks = targets.remember("marks", lambda: list(map(mark_of, targets.texts)))
        for mark, labels in zip(marks, targets.labels, strict=True):
            found = [
                float(characters.issuperset(mark.characters)),
                _share([word in index.vocabulary or word in words for word in mark.repeated]),
                min(mark.length, longest) / max(mark.length, longest),
                _share([label in observation.labels for label in labels]),
            ]
            rows.append([*found, float(np.mean(found if labels else found[:-1]))])
        return np.array(rows, dtype=np.float64).reshape(len(targets), len(self.proxies))


@dataclass(frozen=True)
class Mark:
    """What marks a text: its characters, the words that it repeats most, how many words it has."""

    characters: frozenset[str]
    repeated: tuple[str, ...]
    length: int


def mark_of(text: str) -> Mark:
    """Return the marks of a text, without case and white space.

    >>> mark_of("To be, or not to be").repeated
    ('to', 'be')
    """
    counts = Counter(tokens(text))
    most = max(counts.values(), default=0)
    repeated = tuple(word for word, count in counts.items() if count == most)
    return Mark(frozenset(fold(text).replace(" ", "")), repeated, max(counts.total(), 1))


def _share(found: list[bool]) -> float:
    return sum(found) / max(len(found), 1)
