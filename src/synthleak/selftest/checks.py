"""Checks of the self-test: releases that tell nothing of who was in, or a known amount.

Members stand first, as files list them, and who is a member is drawn before the release is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthleak.audit.setup import Setup
from synthleak.audit.stages import set_up
from synthleak.core.seeds import stream
from synthleak.core.store import MemoryStore
from synthleak.corpus.readers.demo import write_demo
from synthleak.corpus.sources import Rows
from synthleak.selftest.games import FAMILIES, spec_of

REPEATED, COPIES = 1100, 60
"""Records, more than two blocks of 512, and how many of them have the same text."""
PERSONS, EACH = 60, 8
SHARING = 0.6
"""How many of a person's records hold the words that they share: an ICC of 0.5 in the evidence."""
TORN_PERSONS, TORN_EACH = 30, 16
LARGE, SINGLE = 80, 320
"""Records of one person with a fifth of them all, and those of people with one each."""
UNEVEN = 500
MANY_NUMBERS, FEW_NUMBERS = 10**6, 200
"""How many numbers there are to draw from."""
COINS, EPSILON, DELTA = 800, 1.73, 1e-9
REFERENCE, OTHERS = 60, 60
"""Records that S2 knows, and texts of a release that nobody else holds."""

EMBEDDED = ("rare_ngram", "dot", "cos", "csls", "mahalanobis")
"""Families whose last digits once told one block of records from another."""


@dataclass(frozen=True)
class Files:
    """What a check is given: rows of text, with a group where there are persons.

    `later` is a release that was published after the first.
    """

    members: Sequence[dict[str, str]]
    holdout: Sequence[dict[str, str]]
    release: Sequence[str]
    reference: Sequence[str] = ()
    later: Sequence[str] = ()


@dataclass(frozen=True)
class Check:
    """One check: files made from a seed, what is declared of them, and what is claimed.

    `draws` is the seed of the check itself, if it is not that of the files.
    """

    files: Callable[[int], Files]
    declared: str = "random"
    epsilon: float = math.inf
    families: tuple[str, ...] = FAMILIES
    also: tuple[str, ...] = ()
    unit: str = "record"
    as_stated: bool = False
    draws: int | None = None

    def setup(self, seed: int) -> Setup:
        files = self.files(seed)
        claim = {"epsilon": self.epsilon, "delta": DELTA, "private": True}
        corpus: dict[str, Any] = {
            "reader": "split",
            "members": Rows(tuple(files.members)),
            "holdout": Rows(tuple(files.holdout)),
            "declared": self.declared,
        }
        if files.reference:
            corpus["reference"] = Rows(tuple(files.reference))
        generator: dict[str, Any] = {"kind": "given", "path": Rows(tuple(files.release))}
        game: dict[str, Any] = {"design": "given", "instances": 1, "unit": self.unit}
        if files.later:
            generator["series"] = (Rows(tuple(files.later)),)
            game["release_size"] = [len(files.release), len(files.release) + len(files.later)]
        loaded = spec_of(
            seed if self.draws is None else self.draws,
            self.families,
            self.also,
            corpus=corpus,
            pool=[{"name": "pool", "rule": "all"}],
            game=game,
            generator=[generator | (claim if math.isfinite(self.epsilon) else {})],
        )
        return set_up(loaded, MemoryStore())


def repeated_texts(seed: int) -> Files:
    """Repeat one text many times on both sides, and hold it once in an independent release."""
    rng = stream(seed, "repeated texts")
    repeated, *others = _texts(REPEATED - COPIES + OTHERS + REFERENCE, seed, rng)
    cut = REPEATED - COPIES
    records = [*[repeated] * COPIES, *others[:cut]]
    inside = rng.permutation(np.arange(REPEATED) % 2 == 0)
    return _split(
        [{"text": text} for text in records],
        inside,
        [repeated, *others[cut : cut + OTHERS - 1]],
        others[cut + OTHERS - 1 :],
    )


def repeated_texts_with_coins(seed: int) -> Files:
    """Repeat one text many times, and toss a coin for every record."""
    files = repeated_texts(seed)
    records = [*files.members, *files.holdout]
    return _split(records, _tossed(len(records), seed), files.release, files.reference)


def several_records_each(seed: int) -> Files:
    """Give each person several records that are alike, whole persons on one side."""
    return _persons(seed, PERSONS, EACH)


def one_torn_group(seed: int) -> Files:
    """Give one record of the holdout the name of a member."""
    files = _persons(seed, TORN_PERSONS, TORN_EACH)
    first, *others = files.holdout
    torn = {**first, "group": files.members[0]["group"]}
    return Files(files.members, [torn, *others], files.release)


def one_large_person(seed: int) -> Files:
    """Give one person a fifth of the records, alike, and write the release in their words.

    Who was in is drawn person by person and apart from the release.
    """
    rng = stream(seed, "large person")
    shared, *texts = _texts(1 + LARGE + SINGLE + OTHERS, seed, rng)
    rows = [
        {"text": f"{shared} {text}" if place < LARGE else text, "group": str(max(place, LARGE))}
        for place, text in enumerate(texts[: LARGE + SINGLE])
    ]
    persons = rng.permutation(np.arange(SINGLE) % 2 == 0)
    released = texts[LARGE + SINGLE :]
    in_their_words = [f"{shared} {text}" for text in released[: OTHERS // 3]]
    inside = np.concatenate([np.repeat(persons[0], LARGE), persons])
    return _split(rows, inside, [*in_their_words, *released[OTHERS // 3 :]])


def swapped_halves(seed: int) -> Files:
    """Swap the halves of every held-out text: the same words, lengths and labels on both sides."""
    rng = stream(seed, "swapped halves")
    texts = _texts(UNEVEN + OTHERS, seed, rng)
    inside = rng.permutation(UNEVEN) < UNEVEN // 2
    rows = [
        {"text": text if kept else _swapped(text)}
        for text, kept in zip(texts[:UNEVEN], inside, strict=True)
    ]
    return _split(rows, inside, texts[UNEVEN:])


def _swapped(text: str) -> str:
    words = text.split()
    middle = len(words) // 2
    return " ".join([*words[middle:], *words[:middle]])


def few_tears(seed: int) -> Files:
    """Draw single records, 98 to 2, half of them in pairs that are unlike the others.

    Chance tears so few pairs that whole pairs could have been drawn, with a few mistakes.
    """
    rng = stream(seed, "few tears")
    texts = _texts(UNEVEN + OTHERS, seed, rng)
    half = UNEVEN // 2
    rows = [
        {"text": f"{texts[UNEVEN]} {text}", "group": f"pair {place // 2}"}
        if place < half
        else {"text": text, "group": f"single {place}"}
        for place, text in enumerate(texts[:UNEVEN])
    ]
    inside = rng.permutation(UNEVEN) >= UNEVEN // 50
    return _split(rows, inside, texts[UNEVEN:])


def scattered_words(seed: int) -> Files:
    """Give every member a word of its own, and hold half of these words in texts of others."""
    rng = stream(seed, "scattered words")
    texts = _texts(UNEVEN + 2 * OTHERS + REFERENCE, seed, rng)
    inside = rng.permutation(UNEVEN) < UNEVEN // 2
    words = [f"word{at}" for at in range(UNEVEN)]
    return _lent(texts, inside, words, rng)


def lent_style(seed: int) -> Files:
    """Close texts with signs of their own, and hold those of half of the members, without words."""
    rng = stream(seed, "lent style")
    texts = _texts(UNEVEN + 2 * OTHERS + REFERENCE, seed, rng)
    inside = rng.permutation(UNEVEN) < UNEVEN // 2
    signs = ["".join(rng.permutation(list("!?.,;:~*-+=")))[:6] for _ in range(UNEVEN)]
    return _lent(texts, inside, signs, rng)


def told_identifiers(seed: int) -> Files:
    """Give everybody a number, and hold those of 3% of the members in texts of others."""
    rng = stream(seed, "told identifiers")
    records = 2 * UNEVEN
    texts = _texts(records + 2 * OTHERS, seed, rng)
    inside = rng.permutation(records) < records // 2
    numbers = rng.permutation(MANY_NUMBERS)[: len(texts)] + MANY_NUMBERS
    rows = [f"{text} Call {number}." for text, number in zip(texts, numbers, strict=True)]
    told = numbers[np.flatnonzero(inside)[: 3 * records // 200]].tolist()
    released = [f"{text} Call {n}." for text, n in zip(texts[records:], told, strict=False)]
    return _split(
        [{"text": row} for row in rows[:records]], inside, [*released, *rows[records + len(told) :]]
    )


def common_numbers(seed: int) -> Files:
    """Draw the numbers of persons, and those of a release, from so few that many agree."""
    rng = stream(seed, "common numbers")
    texts = _texts(PERSONS * EACH + OTHERS, seed, rng)
    numbers = rng.integers(FEW_NUMBERS, size=PERSONS + OTHERS) + 10 * FEW_NUMBERS
    rows = [
        {"text": f"{text} Call {numbers[place // EACH]}.", "group": str(place // EACH)}
        for place, text in enumerate(texts[: PERSONS * EACH])
    ]
    inside = np.repeat(rng.permutation(np.arange(PERSONS) % 3 == 0), EACH)
    told = zip(texts[PERSONS * EACH :], numbers[PERSONS:].tolist(), strict=True)
    return _split(rows, inside, [f"{text} Call {number}." for text, number in told])


def later_copies(seed: int) -> Files:
    """Publish texts of others first, and then copies of a fifth of the members."""
    rng = stream(seed, "later copies")
    texts = _texts(UNEVEN + OTHERS, seed, rng)
    inside = rng.permutation(UNEVEN) < UNEVEN // 2
    copied = [texts[place] for place in np.flatnonzero(inside)[: UNEVEN // 10].tolist()]
    files = _split([{"text": text} for text in texts[:UNEVEN]], inside, texts[UNEVEN:])
    return replace(files, later=copied)


def earlier_copies(seed: int) -> Files:
    """Publish the copies first, and texts of others after them."""
    files = later_copies(seed)
    return replace(files, release=files.later, later=files.release)


def randomised_response(seed: int) -> Files:
    """Release the records that answer yes, each with the truth at odds of e^ε.

    Whether a record is in changes the odds of its answer by e^ε, whatever the others do: the
    release is (ε, 0)-private under add/remove, and for no smaller ε.
    """
    rng = stream(seed, "randomised response")
    texts = _texts(COINS, seed, rng)
    inside = _tossed(COINS, seed)
    true = rng.random(COINS) < 1 / (1 + math.exp(-EPSILON))
    released = [text for text, yes in zip(texts, inside == true, strict=True) if yes]
    return _split([{"text": text} for text in texts], inside, released)


def _persons(seed: int, persons: int, each: int) -> Files:
    """Write records of persons, and a release that shares words with a third of them.

    Whose words it shares is drawn apart from who was in, so that it tells nothing of that.
    """
    rng = stream(seed, "persons")
    texts = _texts(persons * (each + 2) + OTHERS, seed, rng)
    shared, rest = texts[:persons], iter(texts[persons:])
    rows = [
        {
            "text": f"{shared[person]} {next(rest)}" if rng.random() < SHARING else next(rest),
            "group": str(person),
        }
        for person in range(persons)
        for _ in range(each)
    ]
    inside = np.repeat(rng.permutation(np.arange(persons) % 2 == 0), each)
    known = rng.permutation(persons)[: persons // 3].tolist()
    return _split(rows, inside, [*(f"{shared[who]} {next(rest)}" for who in known), *rest])


def _lent(
    texts: Sequence[str], inside: NDArray[np.bool_], marks: Sequence[str], rng: np.random.Generator
) -> Files:
    """Close each record with its mark, and texts of others with those of half of the members."""
    rows = [{"text": f"{text} {mark}"} for text, mark in zip(texts[:UNEVEN], marks, strict=True)]
    told = rng.permutation(np.flatnonzero(inside))[: 2 * OTHERS].tolist()
    released = texts[UNEVEN : UNEVEN + 2 * OTHERS]
    release = [f"{text} {marks[at]}" for text, at in zip(released, told, strict=True)]
    return _split(rows, inside, release, texts[UNEVEN + 2 * OTHERS :])


def _texts(count: int, seed: int, rng: np.random.Generator) -> list[str]:
    texts = [record.text for record in write_demo(count, seed)]
    return [texts[place] for place in rng.permutation(count)]


def _tossed(count: int, seed: int) -> NDArray[np.bool_]:
    return stream(seed, "coins").integers(0, 2, size=count).astype(np.bool_)


def _split(
    rows: Sequence[dict[str, str]],
    inside: NDArray[np.bool_],
    release: Sequence[str],
    reference: Sequence[str] = (),
) -> Files:
    members = [row for row, yes in zip(rows, inside, strict=True) if yes]
    holdout = [row for row, yes in zip(rows, inside, strict=True) if not yes]
    return Files(members, holdout, release, reference)
