"""What an analysis is: a pure function from the tables of an audit to rows (docs/method.md §10).

An analysis sees tables, and for every cell its plan with its coins, its targets, V(x) of every
record under every signal and bootstrap draws: all of it comes from the store, so it runs in
seconds. Its rows become `results/<name>.csv`. If the study is not enough for it, it raises
`Unavailable` and says what it needs; the other analyses still run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from synthleak.analyses.cells import CellRow, ProxyRow, RecordRow
from synthleak.analyses.prior import ComparisonRow, PriorRow
from synthleak.core.cell import Cell, CellColumns
from synthleak.core.errors import ContractError, Damaged, UserError
from synthleak.core.registry import Registry, calling
from synthleak.core.runtime import single_threaded
from synthleak.core.spec import GameSection
from synthleak.evidence.observation import Floats
from synthleak.metrics.measurements import CellMeasurements
from synthleak.metrics.meta_classifier import MetaMeasurements
from synthleak.metrics.null import holm
from synthleak.metrics.profile import Profile
from synthleak.plan.plan import Design, Plan, designs

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Row = type["DataclassInstance"]
T = TypeVar("T")
R = TypeVar("R", bound=CellColumns)
D = TypeVar("D", bound="DataclassInstance")

RANDOM, UNION = "random", "union"
"""Rules whose pools are controls, merged, or written; every other pool was selected."""

SELECTED, CONTROLS, EVERY, CANARIES = "selected", "controls", "all", "canaries"
POOLS = (SELECTED, CONTROLS, EVERY, CANARIES)
"""An aggregate over cells is given for each of these, since controls would dilute what selected
pools show (docs/method.md §10). Merged pools count in `all` only, and canaries, who are nobody,
count by themselves (docs/method.md §13)."""


@dataclass(frozen=True)
class PoolFacts:
    """A pool of one corpus: the ids of its records in the order of its plan, and its rule.

    `match` is the pool that a control takes its size from; `written` says that the rule wrote its
    records for the test (canaries).
    """

    corpus: str
    name: str
    rule: str
    records: tuple[str, ...]
    origins: tuple[str, ...]
    match: str | None = None
    written: bool = False


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
        """Load the normal scores of ranks within the cell.

        Args:
            signals: Those that are read and no others: a small archive may hold only those. All
                signals of the cell if None.

        Returns:
            The scores as `[set, target, signal]`.

        Raises:
            Damaged: The store no longer holds them.
        """
        wanted = self.signals if signals is None else signals
        return self.load_scores([self.signals.index(signal) for signal in wanted])

    def place(self, scenario: str, proxy: str) -> int | None:
        """Return the column of a signal; None if this cell does not have it."""
        names = [(signal.scenario, signal.proxy) for signal in self.signals]
        return names.index((scenario, proxy)) if (scenario, proxy) in names else None

    @property
    def epsilon(self) -> float:
        return self.cell.epsilon


@dataclass(frozen=True)
class Study:
    """What an analysis may look at: the tables of one audit, or of several joined.

    Attributes:
        cells: the rows of `cells.csv`.
        proxies: the rows of `proxies.csv`.
        records: the rows of `records.csv`.
        prior: the rows of `prior.csv`.
        comparison: the rows of `comparison.csv`.
        cell_data: the plan, coins and V of every cell, in the order of `cells`.
        attributes: the attributes of every record of every pool.
        pools: the rule that selected each pool.
    """

    cells: tuple[CellRow, ...]
    proxies: tuple[ProxyRow, ...]
    records: tuple[RecordRow, ...] = ()
    prior: tuple[PriorRow, ...] = ()
    comparison: tuple[ComparisonRow, ...] = ()
    cell_data: tuple[CellData, ...] = ()
    attributes: tuple[AttributeRow, ...] = ()
    pools: tuple[PoolFacts, ...] = ()
    _cache: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return what several analyses of this study share; the first call computes it.

        Args:
            name: Under which it is kept.
            make: Computes it.
        """
        if name not in self._cache:
            self._cache[name] = make()
        value: T = self._cache[name]
        return value

    def groups(self, corpus: str, pool: str) -> tuple[str, ...]:
        """Return which of `selected`, `controls`, `all` and `canaries` a pool counts in.

        Args:
            corpus: The corpus of the pool.
            pool: Its name.
        """
        known = self.once("known pools", lambda: {(p.corpus, p.name): p for p in self.pools})
        facts = known.get((corpus, pool))
        if facts is None or facts.rule == UNION:
            return (EVERY,)
        if facts.written:
            return (CANARIES,)
        return (CONTROLS if facts.rule == RANDOM else SELECTED, EVERY)

    def grouped(self, rows: Sequence[R]) -> Iterator[tuple[str, str, list[R]]]:
        """Group rows by pools and generator.

        Args:
            rows: Rows that name their cell.

        Yields:
            (pools, generator, rows) for each group of pools with each generator, and with all of
            them together, under the name `all`, where there are several.
        """
        names = list(dict.fromkeys(row.generator for row in rows))
        for pools in POOLS:
            inside = [row for row in rows if pools in self.groups(row.corpus, row.pool)]
            for name in ["all", *names] if len(names) > 1 else names:
                yield pools, name, [row for row in inside if name in ("all", row.generator)]


class Unavailable(Exception):  # noqa: N818 - reads as what it is
    """The study does not hold what an analysis needs; the message names it, in one line."""


Analyse = Callable[[Study], Sequence[Any]]


@dataclass(frozen=True)
class Outcome:
    """The rows of an analysis, or the line that says what it needs."""

    name: str
    rows: tuple[DataclassInstance, ...]
    unavailable: str | None = None


@dataclass(frozen=True)
class Analysis:
    """One analysis: its rows are of type `row`, a dataclass of strings, numbers and None.

    An `opt_in` analysis takes long and runs only if it is named. `shown` are the columns that
    terminal and page show; empty means all.
    """

    name: str
    version: int | str
    row: Row
    analyse: Analyse
    opt_in: bool = False
    shown: tuple[str, ...] = ()

    def rows(self, study: Study) -> list[DataclassInstance]:
        """Run it and return its rows; none if something it needs is missing."""
        return list(self.outcome_if_kept(study).rows)

    def outcome_if_kept(self, study: Study) -> Outcome:
        """Run it on stored audits; what a folder no longer holds is something that it needs."""
        try:
            return self.outcome(study)
        except Damaged as error:
            return Outcome(self.name, (), f"needs {error.name}, which is gone: run the audit again")

    def outcome(self, study: Study) -> Outcome:
        """Run it and check the type of its rows; return them, or what it needs."""
        try:
            with single_threaded(), calling("analysis", self.name, self.analyse, Unavailable):
                rows = tuple(self.analyse(study))
        except Unavailable as reason:
            return Outcome(self.name, (), str(reason))
        for row in rows:
            if type(row) is not self.row:
                raise ContractError(
                    f"the analysis {self.name!r} returned a {type(row).__name__},"
                    f" not a {self.row.__name__}"
                )
        return Outcome(self.name, rows)


analyses: Registry[Analysis] = Registry("analysis", "synthleak.analyses")

RESERVED = (
    *("cells", "proxies", "prior", "comparison", "records", "utility", "copies", "nearest"),
    *("ladder", "summary", "adjudication"),
)
"""Names of tables that every audit writes."""
NO_CELL = "needs at least one finished cell"


def analysis(
    name: str, *, version: int, row: Row, opt_in: bool = False, shown: str | Sequence[str] = ()
) -> Callable[[Analyse], Analyse]:
    """Register the decorated function as an analysis; its rows become `results/<name>.csv`.

    Args:
        name: What the analysis and its table are called.
        version: Raise it when the rows change.
        row: The dataclass of its rows; fields are strings, numbers or None.
        opt_in: Whether it takes long and runs only if it is named.
        shown: The columns that terminal and page show, in a sequence or in one string with spaces
            between them; all if empty.

    Returns:
        The decorator, which returns the function as it is.

    Raises:
        ContractError: A table has that name, or `row` is not a dataclass.
    """
    columns = shown.split() if isinstance(shown, str) else shown

    def register(analyse: Analyse) -> Analyse:
        if name in RESERVED:
            raise ContractError(f"an analysis cannot be called {name!r}: a table has that name")
        if not is_dataclass(row):
            raise ContractError(f"the rows of the analysis {name!r} must be a dataclass")
        entry = Analysis(name, version, row, analyse, opt_in, tuple(columns))
        analyses.add(name, entry, version=version, described_by=analyse)
        return analyse

    return register


def with_holm(rows: Sequence[D]) -> list[D]:
    """Fill the column `p_holm` of rows: Holm's adjustment of their `p_value`, over all of them."""
    adjusted = holm([vars(row)["p_value"] for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)]


def outcomes_of(
    study: Study, *, only: Sequence[str] = (), also: Sequence[str] = ()
) -> list[Outcome]:
    """Run all analyses but the opt-in ones, and those named in `also`; or those in `only` alone."""
    return [
        entry.plugin.outcome(study)
        for entry in sorted(analyses, key=lambda entry: entry.name)
        if (entry.name in only if only else entry.name in also or not entry.plugin.opt_in)
    ]


def join_studies(studies: Sequence[tuple[str, Study]]) -> Study:
    """Join the studies of several run folders, each given with its folder's name.

    Two folders must not hold the same cell, which would count twice, nor two pools of one name.
    """
    owner: dict[Cell, str] = {}
    pools: dict[tuple[str, str], tuple[str, PoolFacts]] = {}
    for folder, study in studies:
        for cell in dict.fromkeys(Cell.of(row) for row in study.cells):
            if cell in owner:
                raise UserError(
                    f"{cell.name} of {cell.corpus} is also in {owner[cell]}",
                    folder,
                    "leave one of the two folders out",
                )
            owner[cell] = folder
        for cell_data in study.cell_data:
            key = (cell_data.pool.corpus, cell_data.pool.name)
            first, known = pools.setdefault(key, (folder, cell_data.pool))
            if known.records != cell_data.pool.records:
                raise UserError(
                    f"the pool {key[1]!r} of {key[0]} has other records in {first}",
                    folder,
                    "join audits of the same corpus and seed, or give the pool its own name",
                )
    joined: dict[str, Any] = {
        table.name: tuple(row for _, study in studies for row in getattr(study, table.name))
        for table in fields(Study)
        if table.init
    }
    for name in ("attributes", "pools"):
        joined[name] = tuple(dict.fromkeys(joined[name]))
    return Study(**joined)
