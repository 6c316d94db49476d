"""Per-cell data that the analyses need beyond the tables (docs/method.md §10).

This is what analyses of records read: the plan with its coins, the targets, V(x) of every record
under every signal, and bootstrap draws for paired differences. All of it comes from the store, so
an analysis computes little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from synthleak.core.cell import Cell
from synthleak.core.spec_sections import GameSection
from synthleak.evidence.observation import Floats
from synthleak.metrics.measurements import CellMeasurements
from synthleak.metrics.meta_classifier import MetaMeasurements
from synthleak.metrics.records.profile import Profile
from synthleak.plan.plan import Design, Plan, designs

RANDOM, UNION, CANARY = "random", "union", "canary"
"""Rules whose pools are controls, merged, or written; every other pool was selected."""

SELECTED, CONTROLS, EVERY, CANARIES = "selected", "controls", "all", "canaries"
POOLS = (SELECTED, CONTROLS, EVERY, CANARIES)
"""An aggregate over cells is given for each of these, since controls would dilute what selected
pools show (docs/method.md §10). Merged pools count in `all` only, and canaries, who are nobody,
count by themselves (docs/method.md §13)."""


@dataclass(frozen=True)
class PoolFacts:
    """A pool of one corpus: the ids of its records in the order of its plan, and its rule.

    `section` is the pool's name in the spec (several draws of a control share it), `match` the
    pool that a control takes its size from.
    """

    corpus: str
    name: str
    rule: str
    section: str
    records: tuple[str, ...]
    origins: tuple[str, ...]
    match: str | None = None


@dataclass(frozen=True)
class Signal:
    """One proxy in one scenario; its position among a cell's signals is its column everywhere."""

    scenario: str
    proxy: str
    view: str


@dataclass(frozen=True)
class AttributeRow:
    """A row of `attributes_of_records`: the attributes of a record, known before any release."""

    corpus: str
    pool: str
    record: str
    length: float
    outlierness: float
    near_duplication: float
    rare_bigrams: float
    entities: float


ATTRIBUTES = ("length", "outlierness", "near_duplication", "rare_bigrams", "entities")
"""The five attributes, by their names in every table."""


@dataclass(frozen=True)
class CellData:
    """One cell: its coins, targets, measurements, and V(x) under every signal.

    `meta` holds the meta-classifier's measurements, one per scenario; None where it was not run.
    """

    cell: Cell
    pool: PoolFacts
    seed: int
    generator_kind: str
    plan: Plan
    game: GameSection
    signals: tuple[Signal, ...]
    measurements: CellMeasurements
    profile: Profile
    load_scores: Callable[[Sequence[int]], Floats] = field(compare=False, repr=False)
    meta: tuple[MetaMeasurements, ...] | None = None

    @property
    def design(self) -> Design:
        """The design that drew the coins and can redraw them."""
        return designs.get(self.plan.design).plugin

    @cached_property
    def scenarios(self) -> tuple[str, ...]:
        """The scenarios, in the order of the measurements' rows."""
        return tuple(dict.fromkeys(signal.scenario for signal in self.signals))

    def scores(self, signals: Sequence[Signal] | None = None) -> Floats:
        """Load the normal scores of ranks within the cell, as `[set, target, signal]`.

        Ask for the signals that are read and no others: a small archive may hold only those.
        """
        wanted = self.signals if signals is None else signals
        return self.load_scores([self.signals.index(signal) for signal in wanted])

    def place(self, scenario: str, proxy: str) -> int | None:
        """Return the column of a signal; None if this cell does not have it."""
        names = [(signal.scenario, signal.proxy) for signal in self.signals]
        return names.index((scenario, proxy)) if (scenario, proxy) in names else None

    @property
    def epsilon(self) -> float:
        """The budget."""
        return self.cell.epsilon
