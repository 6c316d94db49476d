"""`marker`: the marks of a record, found anywhere in the release (docs/method.md §17).

A generator may keep its promise with noise and break it beside the noise: by an alphabet, a
vocabulary, a limit of lengths or a set of classes that it takes from private records as they are.
Then one record decides whether a character, a word, a length or a class can come out at all.
"""

from __future__ import annotations

from collections import Counter
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
        "marker": "the mean of the four that follow; of three where x has no label",
        "marker_character": "1 if O has every character of x, its rarest too; else 0",
        "marker_word": "share of the words that x repeats most that O has, within others too",
        "marker_length": "words in the longest text of O and in x, the smaller by the larger",
        "marker_label": "share of the labels of x that O has",
    }

    def look(self, targets: Targets, observation: Observation) -> Floats:
        """Return the share of each target's marks that the observation has, in all and by kind."""
        index = word_index(observation)
        characters = observation.remember("characters", lambda: set("".join(observation.folded)))
        words = observation.remember("words, joined", lambda: "\n".join(index.vocabulary))
        longest = max(int(index.words.lengths.max()), 1)
        rows = []
        for text, labels in zip(targets.texts, targets.labels, strict=True):
            counts = Counter(tokens(text))
            repeated = [word for word, n in counts.items() if n == max(counts.values())]
            length = max(counts.total(), 1)
            marks = [
                float(characters.issuperset(fold(text).replace(" ", ""))),
                _share([word in index.vocabulary or word in words for word in repeated]),
                min(length, longest) / max(length, longest),
                _share([label in observation.labels for label in labels]),
            ]
            rows.append([float(np.mean(marks if labels else marks[:-1])), *marks])
        return np.array(rows, dtype=np.float64).reshape(len(targets), len(self.proxies))


def _share(found: list[bool]) -> float:
    return sum(found) / max(len(found), 1)
