"""Entity and number overlap: exact matches on what identifies a person or an event."""

from __future__ import annotations

import numpy as np

from synthleak.core.text import entities
from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.retrieval import max_and_mean, retrieve
from synthleak.evidence.fast.words import Ragged, presence, ragged


@family(
    "entity_f1",
    order=5,
    version=1,
    view="lexical",
    scale="ratio",
    proxies={
        "entity_f1_max": "largest F1 on numbers, identifiers and names with a candidate",
        "entity_f1_mean": "mean F1 on numbers, identifiers and names with the candidates",
    },
)
def entity_f1(targets: Targets, observation: Observation) -> Floats:
    """F1 on distinct entity-like spans of target and retrieved text; 0 if neither has one.

    >>> from synthleak.evidence import observe_texts
    >>> observe_texts(entity_f1, ["Took 40 mg on 3/4"], ["He took 40 mg", "He took it"])
    array([[0.667, 0.333]])
    """
    retrieved = retrieve(targets, observation)
    rows = retrieved.places
    number, own = targets.remember("entities", lambda: _number(targets))
    spans = retrieved.texts.remember("entities", lambda: _spans(retrieved.texts))
    texts = ragged([number[span] for span in row if span in number] for row in spans)
    theirs = np.array([len(row) for row in spans])
    shared = np.stack(
        [
            np.count_nonzero(presence(own[target], texts, candidates), axis=1)
            for target, candidates in enumerate(rows)
        ]
    )
    either = own.lengths[:, None] + theirs[rows]
    return max_and_mean(2 * shared / np.maximum(either, 1))


def _spans(texts: Observation) -> list[tuple[str, ...]]:
    """Return the different spans of each text; a text of a large O is looked through once."""
    if texts.whole is None:
        return [tuple(dict.fromkeys(entities(text))) for text in texts.texts]
    whole, rows = texts.whole
    known: dict[int, tuple[str, ...]] = whole.remember("entities of rows", dict)
    for row, text in zip(rows.tolist(), texts.texts, strict=True):
        if row not in known:
            known[row] = tuple(dict.fromkeys(entities(text)))
    return [known[row] for row in rows.tolist()]


def _number(targets: Targets) -> tuple[dict[str, int], Ragged]:
    number: dict[str, int] = {}
    spans = [dict.fromkeys(entities(text)) for text in targets.texts]
    rows = ragged([number.setdefault(span, len(number)) for span in row] for row in spans)
    return number, rows
