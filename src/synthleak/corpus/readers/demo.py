"""`demo`: the corpus that the project writes itself, so that an audit needs no download.

Patient messages from a grammar, with what the pool rules look for: spans that give a person away
(medicines, doses, names, dates, order numbers), a long tail of rare label combinations, and a few
planted records that do not belong (docs/method.md §1). Nobody in it exists.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import combinations, count

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synthleak.core.seeds import stream
from synthleak.core.text import fold
from synthleak.corpus.corpus import Labels, Reader, Record, readers

Alternatives = tuple[str, ...]


def _any(block: str) -> Alternatives:
    """Return the alternatives in a block of text, parted by bars or line ends."""
    return tuple(part.strip() for part in re.split(r"[|\n]", block) if part.strip())


_GRAMMAR = tomllib.loads(files("synthleak.corpus").joinpath("demo.toml").read_text("utf-8"))
DETAILS = _any(_GRAMMAR["details"])
CLAUSES, PLANTED, WORDS = (
    {symbol: _any(block) for symbol, block in _GRAMMAR[name].items()}
    for name in ("clauses", "planted", "words")
)
LABELS: Labels = tuple(sorted(CLAUSES))
WORD_RANGE = (8, 35)
PLANTED_SHARE = 0.04

# The k-th combination has frequency ~ (k + flatness) ** -decay: a head, and a tail at every size.
_FLATNESS, _DECAY = 10.0, 4.2
# Clauses of fewer words than this get a detail: texts of few words would all look like outliers.
_SHORT = 10
_SITES = "AAAAAABBBC"
_FACTS = ("doctor", "town", "pharmacy", "phone", "who")
MOST_RECORDS = 8
"""How many records a person of the demo has at most; one at least, each number as likely."""
_JOINERS: Alternatives = (". ", ". ", ". ", ". ", "; ", " - ", "... ")
_SLOT = re.compile(r"\{(\w+)\}")


def write_demo(size: int, seed: int, *, persons: bool = False) -> Iterator[Record]:
    """Yield `size` records, no two with the same text; the same arguments give the same records.

    With `persons` a person has one to eight records, named by their `group`, in which the age,
    the medicine, the ailment, the doctor, places, people, a telephone number and the way of
    joining sentences recur.
    """
    rng = stream(seed, "demo")
    planted = set(rng.choice(size, round(PLANTED_SHARE * size), replace=False).tolist())
    owners = _owners(size, stream(seed, "demo persons")) if persons else [None] * size
    people = {owner: _Person(stream(seed, "demo person", owner)) for owner in owners if owner}
    seen: set[str] = set()
    for number, (labels, owner) in enumerate(zip(_label_sets(size, rng), owners, strict=True)):
        person = None if owner is None else people[owner]
        age = 18 + int(78 * rng.random()) if person is None else person.age
        odd = number in planted
        text = _new_text(labels, age, odd, seen, rng, person)
        site = _pick(_SITES, rng) if person is None else person.site
        meta = {"planted": odd, "site": site, "age": age}
        yield Record(id=f"demo-{number + 1:04d}", text=text, labels=labels, group=owner, meta=meta)


def _owners(size: int, rng: np.random.Generator) -> list[str | None]:
    """Return whose each record is, in a drawn order: persons have one to eight records."""
    owners: list[str | None] = []
    for number in count(1):
        if len(owners) >= size:
            break
        several = min(int(rng.integers(1, MOST_RECORDS + 1)), size - len(owners))
        owners += [f"person-{number:04d}"] * several
    return [owners[place] for place in rng.permutation(size).tolist()]


class _Person:
    """What recurs in the messages of one person."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.age = 18 + int(78 * rng.random())
        self.site = _pick(_SITES, rng)
        author = _Author(self.age, rng)
        self.facts = {symbol: author.fill(f"{{{symbol}}}") for symbol in _FACTS}
        self.facts |= {"reason": _pick(WORDS["ailment"], rng)}
        self.drug = _pick(WORDS["medicine"], rng)
        self.joiner = _pick(_JOINERS, rng)


def _label_sets(size: int, rng: np.random.Generator) -> list[Labels]:
    """Return the labels of every record, shuffled.

    The cumulated frequencies are read off at evenly spaced points rather than at random ones, so
    that the tail of rare combinations is as long for one seed as for another.
    """
    ranked = _ranked_combinations()
    frequency = (np.arange(len(ranked)) + _FLATNESS) ** -_DECAY
    edges = np.cumsum(frequency / frequency.sum())
    points = (np.arange(size) + rng.random()) / size
    drawn: NDArray[np.intp] = rng.permutation(np.searchsorted(edges[:-1], points))
    return [ranked[rank] for rank in drawn]


def _ranked_combinations() -> list[Labels]:
    """Return all combinations of one to four labels, the most usual first.

    A message that calls one medicine effective and ineffective would not read well: left out.
    """
    possible = [
        labels
        for count in (1, 2, 3, 4)
        for labels in combinations(LABELS, count)
        if not {"effective", "ineffective"} <= set(labels)
    ]
    return sorted(possible, key=lambda labels: sum(_GRAMMAR["costs"][label] for label in labels))


def _new_text(
    labels: Labels,
    age: int,
    odd: bool,
    seen: set[str],
    rng: np.random.Generator,
    person: _Person | None = None,
) -> str:
    """Write until a text has a fair length and was not written before; remember it in `seen`."""
    shortest, longest = WORD_RANGE
    while True:
        author = _Author(age, rng, person)
        text = author.oddity() if odd else author.message(labels)
        form = fold(text)
        if shortest <= len(text.split()) <= longest and form not in seen:
            seen.add(form)
            return text


class _Author:
    """Who writes one message: keeps to one medicine and ailment, and tries not to repeat words."""

    def __init__(self, age: int, rng: np.random.Generator, person: _Person | None = None) -> None:
        self._rng = rng
        self._used: set[str] = set()
        self._fixed = {
            "age": str(age),
            "reason": self._choose(WORDS["ailment"]),
            "refrain": self._choose(WORDS["refrain"]),
        }
        self._drug = self._choose(WORDS["medicine"])
        self._drug_named = False
        self._joiners = _JOINERS
        if person is not None:
            self._fixed |= person.facts
            self._drug, self._joiners = person.drug, (person.joiner,)

    def message(self, labels: Labels) -> str:
        """Return a clause for each label, questions last, with a detail where that is short."""
        clauses = [self._choose(CLAUSES[label]) for label in labels]
        if sum(len(clause.split()) for clause in clauses) < _SHORT:
            clauses.append(self._choose(DETAILS))
        order = self._rng.permutation(len(clauses)).tolist()
        order.sort(key=lambda position: clauses[position].endswith("?"))
        filled = [self.fill(clauses[position]) for position in order]
        return _join(filled, self._joiners, self._rng)

    def oddity(self) -> str:
        """Return fragments about something else altogether, whatever the labels."""
        topic = self._choose(tuple(PLANTED))
        count = 3 + int(3 * self._rng.random())
        fragments = [self.fill(self._choose(PLANTED[topic])) for _ in range(count)]
        return (" STOP " if topic == "telegram" else ", ").join(fragments)

    def fill(self, template: str) -> str:
        """Return the template with every slot filled, and the slots of what filled it."""
        parts = _split(template)
        return "".join(self._slot(part) if place % 2 else part for place, part in enumerate(parts))

    def _slot(self, symbol: str) -> str:
        if symbol in self._fixed:
            return self._fixed[symbol]
        if symbol == "drug":
            return self._medicine()
        return self.fill(self._choose(WORDS[symbol]))

    def _medicine(self) -> str:
        """Name the medicine first, then mostly say 'it', as people do."""
        pronoun = self._drug_named and self._rng.random() < 0.6
        self._drug_named = True
        return "it" if pronoun else self._drug

    def _choose(self, options: Alternatives) -> str:
        choice = _pick(options, self._rng)
        for _ in range(3):
            if choice not in self._used:
                break
            choice = _pick(options, self._rng)
        self._used.add(choice)
        return choice


@cache
def _split(template: str) -> tuple[str, ...]:
    """Return literal text and slot names in turn.

    >>> _split("took {dose} at {time}")
    ('took ', 'dose', ' at ', 'time', '')
    """
    return tuple(_SLOT.split(template))


def _join(clauses: list[str], joiners: Alternatives, rng: np.random.Generator) -> str:
    """Return the clauses as sentences, some of them run together."""
    text = _sentence(clauses[0])
    for clause in clauses[1:]:
        joiner = ". " if clause.endswith("?") else _pick(joiners, rng)
        text += joiner + (_sentence(clause) if joiner == ". " else clause)
    return text if text.endswith("?") else text + _pick(("", ".", ".", ".", ".", ".", "!"), rng)


def _sentence(clause: str) -> str:
    return clause[:1].upper() + clause[1:]


def _pick(options: Alternatives | str, rng: np.random.Generator) -> str:
    """Return one option, uniformly; many times faster than `rng.choice` on a tuple."""
    return options[int(rng.random() * len(options))]


@readers.register("demo", version=1)
class Demo(Reader):
    """Invented patient messages from a seeded grammar: 7 labels, a rare tail; no download."""

    size: int = Field(default=1200, ge=50, le=200_000, description="how many records")
    seed: int = Field(default=1, ge=0)
    persons: bool = Field(
        default=False, description="several records each: a person's style and facts recur"
    )

    def read(self) -> Iterator[Record]:
        return write_demo(self.size, self.seed, persons=self.persons)
