"""Disclosures: what is somebody's own, where a release has it, and when it is more than chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from synthleak.analyses.disclosures import (
    DISTINCTIVE,
    Disclosure,
    Disclosures,
    OwnWords,
    concerned,
    strengths_of,
    surplus_test,
)
from synthleak.core.artefact import as_json
from synthleak.core.seeds import stream
from synthleak.core.text import identifiers

TEXTS = [
    "She saw Dr. Okonkwo about the rash on her left knee, and paid 4482 in cash.",
    "Write to ann.lee@post.example or ask Marta Quill; the code is QX-77812.",
    "It was a quiet week with nothing at all to report.",
    "They saw nothing at all to report about the rash.",
]


def own_of(texts: list[str], release: list[str], **more: list[int]) -> list[tuple[int, str, str]]:
    owner = np.array(more.get("owner", range(len(texts))))
    asked = more.get("asked", [*range(len(texts))])
    found = OwnWords(texts, owner, asked).find(release)
    texts = [texts[position] for position in asked]
    return [(one.row, one.kind, texts[one.target][one.start : one.end]) for one in found]


def test_passages_and_identifiers_are_found_with_their_rows() -> None:
    release = [
        "No idea.",
        "He had the Rash on her  left knee, and smiled; mail ANN.LEE@post.example now.",
        "Marta Quill (QX-77812) owes 4482, not 44821.",
    ]
    assert own_of(TEXTS, release) == [
        (2, "passage", "the rash on her left knee, and"),
        (3, "number", "4482"),
        (2, "e-mail", "ann.lee@post.example"),
        (3, "name", "Marta Quill"),
        (3, "code", "QX-77812"),
    ]


@pytest.mark.parametrize(
    ("release", "why"),
    [
        ("there was nothing at all to report", "another record says it too"),
        ("the rash on her knee", "four words"),
        ("a quill that marta had", "a name is written with capitals"),
        ("they paid 44820 in coins", "another number"),
    ],
)
def test_what_is_no_disclosure(release: str, why: str) -> None:
    assert own_of(TEXTS, [release]) == [], why


def test_a_group_may_repeat_itself() -> None:
    texts = ["Call 555-0199 at once.", "I told you, 555-0199!", "Call me later, please."]
    release = ["It is 555-0199."]
    assert own_of(texts, release) == []
    assert [kind for _, kind, _ in own_of(texts, release, owner=[0, 0, 1])] == ["number"] * 2


def test_what_nobody_asks_about_still_makes_words_common() -> None:
    assert own_of(TEXTS, ["nothing at all to report"], asked=[2]) == []
    assert own_of(TEXTS[:3], ["nothing at all to report"], asked=[2]) == [
        (1, "passage", "nothing at all to report")
    ]


def test_passages_do_not_cross_texts_and_the_longest_is_told() -> None:
    text = " ".join(f"w{n}" for n in range(30))
    halves = [" ".join(text.split()[:4]), " ".join(text.split()[4:8])]
    assert own_of([text, "x"], halves) == []
    words = OwnWords([text, "x"], np.arange(2), [0])
    (one,) = words.find(["so", f"he said {' '.join(text.split()[3:24])} and left"])
    assert (one.row, one.kind, one.length) == (2, "passage", 21)
    assert words.find(["w0 w1"]) == []  # a second release is another look


def test_identifiers_are_read_by_rules() -> None:
    text = "Mr Poe of Bath paid 12,500 on 3/4 (code A1); see www.b.org. Code AB-12x; q1@r.org"
    found = [(kind, text[start:end]) for kind, start, end in identifiers(text)]
    assert found == [
        ("name", "Poe"),
        ("name", "Bath"),
        ("number", "12,500"),
        ("url", "www.b.org"),
        ("code", "AB-12x"),
        ("e-mail", "q1@r.org"),
    ]


def test_a_passage_is_distinctive_by_its_own_runs() -> None:
    """A phrase of habit with one new word in it counts for less than as many new words."""
    texts = [
        "please let us know if you have any other pain today",
        "let us know if you feel any worse",
        "if you have any cough say so",
        "do you have any other pain today",
        "purple herons danced across frozen lakes before dawn broke slowly",
    ]
    words = OwnWords(texts, np.arange(5), range(5))
    habit, new = words.find(["let us know if you have any other", " ".join(texts[4].split()[:8])])
    assert (habit.length, new.length) == (8, 8)
    assert habit.strength == 1 / 5  # every three words in a row are also those of another
    assert new.strength == 7 / 5


def test_a_surplus_is_found_in_what_is_distinctive() -> None:
    """Many phrases of habit on both sides, and a few distinctive ones on one."""
    rng, targets = stream("surplus"), 400
    inside = rng.permutation(targets) < targets // 2
    strengths = np.zeros((len(DISTINCTIVE), 1, targets))
    strengths[0, 0, rng.permutation(targets)[:120]] = 0.5
    strengths[1, 0, np.flatnonzero(inside)[:12]] = 1.2
    redrawn = [rng.permutation(inside)[None] for _ in range(499)]
    sides = [(one, ~one) for one in redrawn]
    p, deciding = surplus_test(concerned(strengths), (inside[None], ~inside[None]), sides)
    assert p < 0.01 and deciding > 0
    assert surplus_test(concerned(0 * strengths), sides[0], sides) == (1.0, 0)


def test_strengths_are_the_largest_of_a_person() -> None:
    strong = ((0, 0.5), (1, 1.5), (2, 0.5))
    found = [Disclosure(n, 1, "name", 1, 0, 3, strength) for n, strength in strong]
    strengths = strengths_of(found, np.array([0, 0, 1]), (1, 2))
    assert strengths[[*DISTINCTIVE].index("name"), 0].tolist() == [1.5, 0.5]
    counts = {"any": (1, 0)}
    kept = Disclosures((found[0],), 1, 1, counts, 0.004, "any", {0: (0.1, 0.2)})
    dump, load = as_json(Disclosures)
    assert load(dump(kept)) == kept and kept.exceed
    assert not replace(kept, p=None).exceed
