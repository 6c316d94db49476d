"""The input of the paper tables: the joined tables of a study, its corpora and its pools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from synthleak.analyses.analysis import Outcome, Study, Unavailable, analyses, join_studies
from synthleak.analyses.cells import CellRow
from synthleak.analyses.gaps import MergedRow
from synthleak.analyses.overviews import MetaRow
from synthleak.analyses.prior import ComparisonRow, PriorRow
from synthleak.audit.kept_results import settled
from synthleak.core.cell import CellColumns
from synthleak.core.locations import opened
from synthleak.core.registry import Entry
from synthleak.corpus.statistics import Statistics, statistics_of
from synthleak.evidence.family import Family, families
from synthleak.paper.tables.layout import Piece, Words, budgets_of, words
from synthleak.report.tables import read_parquet

if TYPE_CHECKING:
    from synthleak.audit.result import Audit

OUTLIER, RARE, RANDOM, UNION = "outlier", "rare", "random", "union"
SELECTED_POOLS, RARE_POOLS = "selected pools", "rare-label pools"
PoolName = tuple[str, str]
"""A corpus, and the name of one of its pools."""
R = TypeVar("R", CellRow, MetaRow)


@dataclass(frozen=True)
class PoolLine:
    """A pool: the rule that selected it, in words, and how many records it holds."""

    corpus: str
    name: str
    rule: str
    words: Words
    encoder: str
    targets: int


@dataclass(frozen=True)
class Source:
    """The input of all paper tables. `rows` returns the rows of an analysis by its name.

    `adjudicated` are the merged games of flagged cells.
    """

    cells: tuple[CellRow, ...]
    corpora: Mapping[str, Statistics]
    pools: tuple[PoolLine, ...]
    rows: Callable[[str], Sequence[Any]]
    comparison: tuple[ComparisonRow, ...] = ()
    prior: tuple[PriorRow, ...] = ()
    adjudicated: tuple[MergedRow, ...] = ()
    families: tuple[Entry[Family], ...] = ()

    def rule(self, row: CellColumns) -> str:
        """Return the rule that selected the pool of a row; empty for an unknown pool."""
        wanted = pool_of(row)
        rules = (line.rule for line in self.pools if (line.corpus, line.name) == wanted)
        return next(rules, "")

    def main_cells(self) -> tuple[list[CellRow], str]:
        """Return the rows of selected pools, or of controls where nothing was selected; say so."""
        other = (RARE, RANDOM, UNION)
        if rows := [row for row in self.cells if self.rule(row) not in other]:
            return rows, SELECTED_POOLS
        if rows := [row for row in self.cells if self.rule(row) == RANDOM]:
            return rows, "random controls"
        raise Unavailable("needs a pool that is neither rare, a control nor merged")

    def rare_cells(self) -> tuple[list[CellRow], str]:
        if rows := [row for row in self.cells if self.rule(row) == RARE]:
            return rows, RARE_POOLS
        raise Unavailable('needs a pool of the rule "rare"')


def pool_of(row: CellColumns) -> PoolName:
    return row.corpus, row.pool


def labels_of(pools: Iterable[PoolName]) -> dict[PoolName, str]:
    """Name each of some pools: by its corpus alone where that is enough."""
    once = list(dict.fromkeys(pools))
    corpora = [corpus for corpus, _ in once]
    return {pool: " ".join(pool) if corpora.count(pool[0]) > 1 else pool[0] for pool in once}


class Grid(Generic[R]):
    """Rows of cells, by the row names and column headings of a table."""

    def __init__(self, rows: Sequence[R]) -> None:
        self.rows: Sequence[R] = rows
        self._label = labels_of(map(pool_of, rows))
        self._by_place: dict[tuple[str, str, float, str], R] = {
            (self._label[pool_of(row)], row.generator, row.epsilon, row.scenario): row
            for row in rows
        }
        self.labels = list(self._label.values())
        self.generators = list(dict.fromkeys(row.generator for row in rows))
        self.scenarios = sorted({row.scenario for row in rows})

    def of_generator(self, generator: str) -> tuple[list[str], list[float]]:
        rows = [row for row in self.rows if row.generator == generator]
        labels = list(dict.fromkeys(self._label[pool_of(row)] for row in rows))
        return labels, budgets_of(row.epsilon for row in rows)

    def at(self, label: str, generator: str, epsilon: float, scenario: str) -> R | None:
        return self._by_place.get((label, generator, epsilon, scenario))

    def best(self, label: str, generator: str, epsilon: float) -> R | None:
        scenarios = (self.at(label, generator, epsilon, s) for s in self.scenarios)
        rows = [row for row in scenarios if row is not None]
        return max(rows, key=lambda row: (row.auc, row.tpr_at_fpr05), default=None)


def source_of(audits: Sequence[Audit]) -> Source:
    """Return the input of the tables: joined tables, corpora, pools, analyses on demand."""
    study = join_studies([(str(audit.folder.root), audit.study) for audit in audits])
    used = {member.name for audit in audits for member in audit.setup.plugins.families}
    pools = {(line.corpus, line.name): line for audit in audits for line in _pool_lines(audit)}
    return Source(
        cells=study.cells,
        corpora={audit.setup.corpus.name: statistics_of(audit.setup.corpus) for audit in audits},
        pools=tuple(pools.values()),
        rows=_rows(audits, study),
        comparison=study.comparison,
        prior=study.prior,
        adjudicated=tuple(row for audit in audits for row in settled(audit.setup, audit.folder)[1]),
        families=tuple(entry for entry in families if entry.name in used),
    )


def _rows(audits: Sequence[Audit], study: Study) -> Callable[[str], Sequence[Any]]:
    """Read an analysis from the results of a single audit; run it on the study of several."""

    @cache
    def outcome(name: str) -> Outcome:
        plugin = analyses.get(name).plugin
        path = audits[0].folder.results / f"{name}.parquet"
        if len(audits) == 1 and path.is_file():
            return Outcome(name, tuple(read_parquet(plugin.row, opened(path))))
        return plugin.outcome_if_kept(study)

    def rows(name: str) -> Sequence[Any]:
        if (reason := outcome(name).unavailable) is not None:
            raise Unavailable(reason)
        return outcome(name).rows

    return rows


def _pool_lines(audit: Audit) -> list[PoolLine]:
    setup = audit.setup
    return [
        PoolLine(
            corpus=setup.corpus.name,
            name=name,
            rule=order.rule.kind,
            words=rule_words(order.rule.kind, order.rule.model_dump()),
            encoder=setup.plugins.pool_encoder.kind if order.rule.uses_vectors else "",
            targets=len(setup.pools[name].targets),
        )
        for order in setup.plugins.orders
        for name in order.names()
    ]


def rule_words(kind: str, settings: dict[str, Any]) -> Words:
    """Write a pool rule as the study does.

    >>> "".join(piece.text for piece in rule_words("outlier", {"percentile": 99.0, "lof": 10}))
    'd99 + LOFk=10'
    >>> "".join(piece.text for piece in rule_words("rare", {"max_frequency": 10}))
    'freq. ≤ 10'
    """
    if kind == OUTLIER:
        pieces: list[str | Piece] = ["d", Piece(f"{settings['percentile']:g}", form="sub")]
        if settings.get("lof") is not None:
            pieces += [" + LOF", Piece(f"k={settings['lof']}", form="sub")]
        if settings.get("unit") is False:
            pieces.append(" (raw vectors)")
        return words(*pieces)
    if kind == RARE:
        frequency, labels = settings.get("max_frequency"), settings.get("min_labels")
        parts = [f"freq. ≤ {frequency}"] if frequency is not None else []
        parts += [f"card. ≥ {labels}"] if labels is not None else []
        return words(" or ".join(parts))
    return words(kind)
