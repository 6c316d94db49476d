"""Games of persons of the self-test: several records each that are alike (docs/method.md §15)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from synthleak.audit.setup import Setup, draw, read, select
from synthleak.core.seeds import stream
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.corpus.corpus import Corpus, Record
from synthleak.corpus.demo import write_demo
from synthleak.selftest.games import FAMILIES, INSTANCES, Game

PEOPLE, EACH = 120, 4
"""People of a corpus, and the records that each of them has."""
SHARING = 0.75
"""How many of a person's records hold the phrase: an ICC of about 0.5 in the evidence."""
ASKED = 10
PRIVATE = {"lone": 100, "cohort": 200}
WORDS, TWINS, TOLD = 16, 4, 24
"""Words, people who use each, and records in which each of them does."""


@dataclass(frozen=True)
class PersonGame(Game):
    """A game whose targets are persons with `EACH` records that are alike.

    Most records of a person hold a phrase that one other person uses too. Where that one is known
    all of them look familiar: an intraclass correlation of about one half in the evidence.
    """

    @property
    def targets(self) -> int:
        """How many persons are asked about."""
        return ASKED

    @property
    def records(self) -> int:
        """How many private records a release is made of."""
        return PRIVATE[self.design]

    def corpus(self, seed: int) -> Corpus:
        """Write the records of all persons."""
        rng, phrases = stream(seed, "phrases"), PEOPLE // 2
        texts = [record.text for record in write_demo(phrases + PEOPLE * EACH, seed)]
        own = iter(texts[phrases:])
        return Corpus(
            "people",
            tuple(
                Record(
                    f"{person}-{number}",
                    f"{texts[person % phrases]} " * bool(rng.random() < SHARING) + next(own),
                    (),
                    f"p{person}",
                )
                for person in range(PEOPLE)
                for number in range(EACH)
            ),
        )

    def game(self) -> dict[str, object]:
        """Return the game section of the spec."""
        return {
            "design": self.design,
            "instances": INSTANCES,
            "records": self.records,
            "rounds": 10,
            "candidates": 5,
            "adjacency": self.adjacency,
            "unit": "person",
            "max_records": EACH,
        }

    def setup(self, seed: int) -> Setup:
        """Set up the game with people, a pool of them and coins of this seed."""
        spec = {
            "seed": seed,
            "corpus": {"reader": "demo"},
            "encoders": {"pools": "hashing", "evidence": "hashing"},
            "pool": [{"name": "pool", "rule": "random", "size": self.targets, "draws": 1}],
            "game": self.game(),
            "generator": [{"kind": self.generator, **self.settings, "epsilon": self.epsilon}],
            "evidence": {"families": list(FAMILIES)},
        }
        store = MemoryStore()
        inputs = replace(read(LoadedSpec(parse_spec(spec))), corpus=self.corpus(seed))
        return self.chosen(draw(inputs, select(inputs, store), store))


@dataclass(frozen=True)
class Told(PersonGame):
    """A game whose every person uses one word again and again, which some others use too.

    A mechanism that bounds single records lets such a person through `TOLD` times over. The words
    are in R as well, so that n-grams with them can be released at all.
    """

    @property
    def targets(self) -> int:
        """How many persons are asked about: a tenth of the private set at most."""
        return 4

    @property
    def records(self) -> int:
        """How many private records a release is made of."""
        return 5 * self.targets * TOLD

    def corpus(self, seed: int) -> Corpus:
        """Write records of two words: that of the person, and another."""
        rng = stream(seed, "words")
        letters = ("bdfgklmnprstvz", "aeiou")
        words: list[str] = []
        while len(words) < WORDS:
            word = "".join(letters[at % 2][rng.integers(len(letters[at % 2]))] for at in range(8))
            words += [word] * (word not in words)
        return Corpus(
            "people",
            tuple(
                Record(f"{person}-{number}", f"{words[person % WORDS]} {number}{mark}", (), mark)
                for person in range(WORDS * TWINS)
                for mark in [f"p{person}"]
                for number in range(TOLD)
            ),
        )

    def game(self) -> dict[str, object]:
        """Return the game section of the spec: as many persons of C as are needed, all of them."""
        return {
            **super().game(),
            "instances": 2 * INSTANCES,
            "release_size": 400,
            "auxiliary": 0.65,
            "max_records": TOLD,
        }


def half_of_people(setup: Setup) -> tuple[str, ...]:
    """Return the ids of all records of half of the persons, drawn by the audit's seed."""
    pool = setup.pools["pool"]
    drawn = stream(setup.spec.seed, "spared").permutation(len(pool.targets))
    spared = drawn[: len(pool.targets) // 2].tolist()
    return tuple(r.id for target in spared for r in setup.records(pool.records_of(target)))
