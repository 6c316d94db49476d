"""Games of the self-test: generators whose leak is known, in `lone` and `cohort`.

Of records, of persons with several records that are alike (docs/method.md §15), and judged by `lm`
alone, on a tiny model that is made in memory, once a process; torch is imported when it is played.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

from synthleak.audit.setup import Setup, records_at
from synthleak.audit.stages import draw, read, select
from synthleak.core.seeds import digest, stream
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.corpus.corpus import Corpus, Record
from synthleak.corpus.readers.demo import write_demo
from synthleak.evidence.models.coverage import Coverage
from synthleak.evidence.models.lm import LanguageModelProxy
from synthleak.evidence.models.rates import Rates
from synthleak.evidence.models.style import Style
from synthleak.releases.generator import Generator
from synthleak.releases.generators.echo import Echo
from synthleak.releases.lm.backbone import prepared
from synthleak.releases.release import Request, Synthetic

TARGETS = 20
RECORDS = {"lone": 60, "cohort": 100}
"""N = 60; a cohort of 20 targets needs 100, since those who join may be a tenth of N at most."""
INSTANCES = 20
FAMILIES = ("char_overlap", "bm25")


def spec_of(
    seed: int, families: Sequence[str], also: Sequence[str] = (), **sections: Any
) -> LoadedSpec:
    shared = {
        "seed": seed,
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "evidence": {"families": list(families), "also": list(also)},
    }
    return LoadedSpec(parse_spec(shared | sections))


@dataclass(frozen=True)
class Game:
    """One game: a generator of the registry, or one made by `instead` for the pool's targets.

    `as_stated` reads the generator's claim about records as if it were about persons; `looks` are
    declared before the last one, after all `instances`; `sizes` are those of a release. `targets`
    is how many records, or persons, are asked about; `also` are the opt-in families.
    """

    design: str
    generator: str
    settings: dict[str, Any] = field(default_factory=dict)
    epsilon: float = math.inf
    adjacency: str = "replace"
    instead: Callable[[Setup], Generator] | None = None
    as_stated: bool = False
    looks: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    instances: int = INSTANCES
    targets: ClassVar[int] = TARGETS
    also: ClassVar[tuple[str, ...]] = ()

    @property
    def records(self) -> int:
        return RECORDS[self.design]

    def corpus(self, seed: int) -> Corpus | None:
        """Write the records; None takes those of the demo."""
        return None

    def game(self) -> dict[str, object]:
        return {
            "design": self.design,
            "instances": self.instances,
            "looks": list(self.looks),
            "records": self.records,
            "rounds": 10,
            "candidates": 10,
            "adjacency": self.adjacency,
            **({"release_size": list(self.sizes)} if self.sizes else {}),
        }

    def pool(self) -> dict[str, Any]:
        return {"name": "pool", "rule": "random", "size": self.targets, "draws": 1}

    def setup(self, seed: int) -> Setup:
        budget = {"epsilon": self.epsilon} if math.isfinite(self.epsilon) else {}
        loaded = spec_of(
            seed,
            FAMILIES,
            self.also,
            corpus={"reader": "demo", "size": 400, "seed": seed},
            pool=[self.pool()],
            game=self.game(),
            generator=[{"kind": self.generator, **self.settings, **budget}],
        )
        inputs, store = read(loaded), MemoryStore()
        if (corpus := self.corpus(seed)) is not None:
            inputs = replace(inputs, corpus=corpus)
        return self.chosen(draw(inputs, select(inputs, store), store))

    def chosen(self, setup: Setup) -> Setup:
        """Put the generator that is made by `instead` into its place."""
        if self.instead is None:
            return setup
        section, _ = setup.plugins.generators[0]
        chosen = ((section, self.instead(setup)),)
        return replace(setup, plugins=replace(setup.plugins, generators=chosen))


class PartialEcho(Echo):
    """Copies private records at a known rate, but never the spared ones."""

    spared: tuple[str, ...] = ()

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Echo what is left when the spared are taken out."""
        kept = tuple(record for record in request.records if record.id not in self.spared)
        return super().generate(replace(request, records=kept))


PartialEcho.kind, PartialEcho.version = "partial echo", 1


class ByHash(Generator):
    """Copies the private records whose content hash is even and fills up from R, without chance.

    The same records always give the same release: half of the targets always leak, the others
    never. The spared are not looked at.
    """

    spared: tuple[str, ...] = ()

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Copy, fill, and order, all by content hash."""
        private = {
            digest(record.text): record
            for record in request.records
            if record.id not in self.spared
        }
        public = {digest(record.text): record for record in request.public.auxiliary}
        copied = [key for key in private if int(key, 16) % 2 == 0]
        filled = sorted(public)[: request.size - len(copied)]
        both = private | public
        return [Synthetic(both[key].text, both[key].labels) for key in sorted([*copied, *filled])]


ByHash.kind, ByHash.version = "by hash", 1


def targets_of(setup: Setup) -> tuple[str, ...]:
    return tuple(record.id for record in records_at(setup, setup.pools["pool"].asked))


def half_of(setup: Setup, share: float = 0.5) -> tuple[str, ...]:
    """Return half of the targets, or another share, drawn by the audit's seed."""
    ids = targets_of(setup)
    drawn = stream(setup.spec.seed, "spared").permutation(len(ids))[: round(share * len(ids))]
    return tuple(ids[place] for place in sorted(drawn.tolist()))


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

    targets: ClassVar[int] = ASKED

    @property
    def records(self) -> int:
        return PRIVATE[self.design]

    def corpus(self, seed: int) -> Corpus:
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
        return {**super().game(), "candidates": 5, "unit": "person", "max_records": EACH}


@dataclass(frozen=True)
class Told(PersonGame):
    """A game whose every person uses one word again and again, which some others use too.

    A mechanism that bounds single records lets such a person through `TOLD` times over. The words
    are in R as well, so that n-grams with them can be released at all.
    """

    targets: ClassVar[int] = 4

    @property
    def records(self) -> int:
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
    return tuple(r.id for target in spared for r in records_at(setup, pool.records_of(target)))


INSTEAD: dict[str, Callable[[Setup], Generator]] = {
    "echo of others": lambda setup: PartialEcho(spared=targets_of(setup)),
    "echo of half": lambda setup: PartialEcho(spared=half_of(setup)),
    "echo of a tenth": lambda setup: PartialEcho(spared=half_of(setup, 0.9)),
    "echo of half the people": lambda setup: PartialEcho(spared=half_of_people(setup)),
    "by hash": lambda setup: ByHash(),
    "by hash, blind to the targets": lambda setup: ByHash(spared=targets_of(setup)),
}
"""Generators that are made for the pool of an audit, by their names in rows.toml."""

LM_ASKED, LM_PRIVATE = 10, 50
"""Targets, and N: fewer than in other games, since an adapter is trained on every release."""
VOCABULARY, HIDDEN = 400, 32
TUNING = {"rank": 4, "learning_rate": 0.03}
"""A small model takes large steps; what is not named here is as in every audit."""


@dataclass(frozen=True)
class LanguageModelGame(Game):
    """A game that is judged by `lm` alone: no other proxy raises an alarm or finds a leak."""

    targets: ClassVar[int] = LM_ASKED

    @property
    def records(self) -> int:
        return LM_PRIVATE

    def setup(self, seed: int) -> Setup:
        """Set up the game, and put `lm` in the place of the other families."""
        setup = super().setup(seed)
        lm = TinyModelProxy.model_validate(TUNING).family()
        return replace(setup, plugins=replace(setup.plugins, families=(lm,)))


@dataclass(frozen=True)
class CountingGame(Game):
    """A game that is judged by the families that count n-grams, and by nothing else."""

    def setup(self, seed: int) -> Setup:
        """Set up the game, and put the families that count in the place of the others."""
        setup = super().setup(seed)
        families = tuple(family.family() for family in (Coverage(), Rates(), Style()))
        return replace(setup, plugins=replace(setup.plugins, families=families))


class TinyModelProxy(LanguageModelProxy):
    """The family `lm` with the tiny model as its backbone."""

    def shared(self) -> Any:
        return _tiny_backbone()


@lru_cache(maxsize=1)
def _tiny_backbone() -> Any:
    from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone
    from synthleak.selftest.tiny_backbone import tiny_model

    words = Counter(word for record in write_demo(1000, 0) for word in record.text.split(" "))
    known = [word for word, _ in words.most_common(VOCABULARY)]
    return SharedBackbone(prepared("tiny", *tiny_model(known, hidden=HIDDEN), "cpu"))
