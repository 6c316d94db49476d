"""Copies: found where they stand, counted on both sides, tested against the holdout."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.analyses.copies import NEAR, Copies, find_copies, surplus_p
from synthleak.core.artefact import as_json
from synthleak.core.seeds import stream
from synthleak.core.text import char_grams

TEXTS = [
    "The nurse at Dunnock Vale wrote down 40 mg twice a day.",
    "My knee has hurt since the second week of treatment, mostly at night.",
    "Nothing to report, thank you.",
    "I was dizzy on the train to Upper Thrimble on Monday.",
]
RELEASE = [
    "Something else entirely.",
    "the nurse at  dunnock vale wrote down 40 MG twice a day.",
    "My knee has hurt since the second week of treatment, mostly at noon.",
    "Nothing to report, thank you.",
]
MEMBER = np.array([True, True, False, False])


def overlap() -> np.ndarray:
    def jaccard(one: str, other: str) -> float:
        a, b = char_grams(one), char_grams(other)
        return len(a & b) / len(a | b)

    return np.array([max(jaccard(text, other) for other in RELEASE) for text in TEXTS])


def test_verbatim_and_near_copies_with_their_rows() -> None:
    found = find_copies(TEXTS, RELEASE, overlap(), MEMBER, [np.arange(4)], stream("c"))
    assert [(c.target, c.row, c.verbatim) for c in found.found] == [
        (0, 2, True),
        (1, 3, False),
        (2, 4, True),
    ]
    assert NEAR <= found.found[1].similarity < 1
    assert found.found[1].similarity == pytest.approx(overlap()[1])
    assert (found.verbatim, found.near) == ((1, 1), (1, 0))
    dump, load = as_json(Copies)
    assert found.looked and load(dump(found)) == found


def test_without_the_proxy_only_verbatim_copies_are_found() -> None:
    found = find_copies(TEXTS, RELEASE, None, MEMBER, [np.arange(4)], stream("c"))
    assert [c.target for c in found.found] == [0, 2] and not found.looked


def test_a_surplus_is_tested_exactly_and_by_groups() -> None:
    member = np.arange(200) < 100
    copied = np.zeros(200, dtype=bool)
    copied[:8] = True
    alone = surplus_p(copied, member, np.arange(200), stream("p"))
    assert 0 < alone < 0.005
    # The same eight copies, all of one person: one coin decided about them.
    person = np.maximum(np.arange(200) - 7, 0)
    assert surplus_p(copied, member, person, stream("p")) > 0.3
    assert surplus_p(~copied & ~member, member, np.arange(200), stream("p")) == 1.0
