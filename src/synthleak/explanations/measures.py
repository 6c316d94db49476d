"""How strongly each synthetic text of a release points to a record, by the proxy's own measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from synthleak.core.text import fold
from synthleak.evidence.fast.grams import distinct_grams
from synthleak.evidence.fast.neighbours import cosines, distances
from synthleak.evidence.fast.overlap import shared_grams
from synthleak.evidence.fast.retrieval import retrieve
from synthleak.evidence.fast.subsequence import common_words
from synthleak.evidence.fast.substring import longest_substrings
from synthleak.evidence.fast.words import words
from synthleak.evidence.observation import Floats, Observation, Targets, canonical
from synthleak.explanations.spans import Lookout


@dataclass(frozen=True)
class Ranked:
    """The texts that a proxy looked at, strongest first: places in the observation and values."""

    what: str
    places: tuple[int, ...]
    values: tuple[float, ...]


def ranked(
    proxy: str, view: str, lookout: Lookout, targets: Targets, observation: Observation
) -> Ranked:
    """Rank the texts of an observation for its one target.

    Where a proxy is not a maximum or mean over single texts (a density, a language model), the
    plain measure of its view stands in: cosine, or BM25.
    """
    stem = proxy.rpartition("_")[0]
    if view == "embedding":
        what, measure = EMBEDDING.get(proxy.partition("_")[0], EMBEDDING["cos"])
        places, values = np.arange(len(observation)), measure(targets, observation)
    elif stem in BY_SPANS:
        what, count = BY_SPANS[stem]
        places = retrieve(targets, observation).rows[0]
        values = np.array([count(lookout, observation.texts[place]) for place in places])
    else:
        what, measure = LEXICAL.get(stem, LEXICAL["bm25"])
        places, values = retrieve(targets, observation).rows[0], measure(targets, observation)
    order = np.argsort(-values, kind="stable")
    return Ranked(what, tuple(places[order].tolist()), tuple(values[order].tolist()))


def release_rows(texts: list[str]) -> list[int]:
    """Return the row in the file, from 1, of each text of an observation.

    >>> release_rows(["b", "a"])
    [2, 1]
    """
    order = sorted(range(len(texts)), key=lambda row: (fold(texts[row]), texts[row]))
    assert [texts[row] for row in order] == canonical(texts)
    return [row + 1 for row in order]


def _bm25(targets: Targets, observation: Observation) -> Floats:
    scores: Floats = retrieve(targets, observation).scores[0]
    return scores


def _containment(targets: Targets, observation: Observation) -> Floats:
    shared: Floats = shared_grams(targets, observation)[0]
    made: Floats = shared / max(float(distinct_grams(targets)[0]), 1.0)
    return made


def _jaccard(targets: Targets, observation: Observation) -> Floats:
    shared = shared_grams(targets, observation)[0]
    theirs = distinct_grams(observation)[retrieve(targets, observation).rows[0]]
    made: Floats = shared / np.maximum(distinct_grams(targets)[0] + theirs - shared, 1)
    return made


def _substring(targets: Targets, observation: Observation) -> Floats:
    made: Floats = longest_substrings(targets, observation)[0] / max(len(targets.folded[0]), 1)
    return made


def _common(targets: Targets, observation: Observation) -> Floats:
    own = float(words(targets, observation).of_targets.lengths[0])
    made: Floats = common_words(targets, observation)[0] / max(own, 1.0)
    return made


def _rouge(targets: Targets, observation: Observation) -> Floats:
    numbered = words(targets, observation)
    theirs = numbered.of_texts.lengths[retrieve(targets, observation).rows[0]]
    own = numbered.of_targets.lengths[0]
    made: Floats = 2 * common_words(targets, observation)[0] / np.maximum(own + theirs, 1)
    return made


def _cosine(targets: Targets, observation: Observation) -> Floats:
    found: Floats = cosines(targets, observation)[0]
    return found


def _near(targets: Targets, observation: Observation) -> Floats:
    made: Floats = 1 / (1 + distances(targets, observation)[0])
    return made


Measure = Callable[[Targets, Observation], Floats]
LEXICAL: Mapping[str, tuple[str, Measure]] = {
    "bm25": ("BM25", _bm25),
    "containment": ("share of its 5-grams", _containment),
    "jaccard": ("5-gram Jaccard", _jaccard),
    "rouge_l": ("ROUGE-L F1", _rouge),
    "token_lcs": ("common subsequence of words", _common),
    "substring": ("longest common substring / characters", _substring),
}
EMBEDDING: Mapping[str, tuple[str, Measure]] = {
    "cos": ("cosine", _cosine),
    "euclid": ("1 / (1 + distance)", _near),
}
BY_SPANS: Mapping[str, tuple[str, Callable[[Lookout, str], float]]] = {
    "rare_ngram": ("share of its rare word pairs", Lookout.rare_share),
    "entity_f1": ("F1 on numbers, identifiers and names", Lookout.entity_f1),
}
"""By the stem of a proxy's name: what the measure is called, and the measure."""
