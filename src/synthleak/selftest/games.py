"""Games of the self-test: generators whose leak is known, in `lone` and `cohort`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from synthleak.audit.setup import Setup, set_up
from synthleak.core.identity import digest
from synthleak.core.seeds import stream
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.releases.generator import Generator
from synthleak.releases.generators.echo import Echo
from synthleak.releases.release import Request, Synthetic

TARGETS = 20
RECORDS = {"lone": 60, "cohort": 100}
"""N = 60; a cohort of 20 targets needs 100, since those who join may be a tenth of N at most."""
INSTANCES = 20
FAMILIES = ("char_overlap", "bm25")


@dataclass(frozen=True)
class Game:
    """One game: a generator of the registry, or one made by `instead` for the pool's targets.

    `as_stated` reads the generator's claim about records as if it were about persons.
    """

    design: str
    generator: str
    settings: dict[str, Any] = field(default_factory=dict)
    epsilon: float = math.inf
    adjacency: str = "replace"
    instead: Callable[[Setup], Generator] | None = None
    as_stated: bool = False

    @property
    def targets(self) -> int:
        """How many records, or persons, are asked about."""
        return TARGETS

    @property
    def records(self) -> int:
        """How many private records a release is made of."""
        return RECORDS[self.design]

    @property
    def looks(self) -> tuple[int, ...]:
        """At how many instances results are looked at before the end."""
        return ()

    def setup(self, seed: int) -> Setup:
        """Set up the game with a corpus, a pool and coins of this seed."""
        budget = {"epsilon": self.epsilon} if math.isfinite(self.epsilon) else {}
        spec = {
            "seed": seed,
            "corpus": {"reader": "demo", "size": 400, "seed": seed},
            "encoders": {"pools": "hashing", "evidence": "hashing"},
            "pool": [{"name": "pool", "rule": "random", "size": self.targets, "draws": 1}],
            "game": {
                "design": self.design,
                "instances": INSTANCES,
                "looks": list(self.looks),
                "records": self.records,
                "rounds": 10,
                "candidates": 10,
                "adjacency": self.adjacency,
            },
            "generator": [{"kind": self.generator, **self.settings, **budget}],
            "evidence": {"families": list(FAMILIES)},
        }
        return self.chosen(set_up(LoadedSpec(parse_spec(spec)), MemoryStore()))

    def chosen(self, setup: Setup) -> Setup:
        """Put the generator that is made by `instead` into its place."""
        if self.instead is None:
            return setup
        section, _ = setup.plugins.generators[0]
        chosen = ((section, self.instead(setup)),)
        return replace(setup, plugins=replace(setup.plugins, generators=chosen))


class LookedGame(Game):
    """A game that ends at the first of three declared looks that finds a leak."""

    @property
    def looks(self) -> tuple[int, ...]:
        """At how many instances results are looked at before the end."""
        return (8, 14)


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
    """Return the ids of the targets."""
    return tuple(record.id for record in setup.records(setup.pools["pool"].asked))


def half_of(setup: Setup, share: float = 0.5) -> tuple[str, ...]:
    """Return half of the targets, or another share, drawn by the audit's seed."""
    ids = targets_of(setup)
    drawn = stream(setup.spec.seed, "spared").permutation(len(ids))[: round(share * len(ids))]
    return tuple(ids[place] for place in sorted(drawn.tolist()))
