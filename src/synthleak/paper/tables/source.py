"""The input of the paper tables: the joined tables of a study, its corpora and its pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from synthleak.analyses.analysis import Unavailable
from synthleak.analyses.cells import CellRow
from synthleak.analyses.merged import MergedRow
from synthleak.analyses.prior import ComparisonRow, PriorRow
from synthleak.core.registry import Entry
from synthleak.corpus.statistics import TOKENIZER, Statistics, statistics_of
from synthleak.evidence.family import Family
from synthleak.paper.tables.layout import Piece, Words, words

if TYPE_CHECKING:
    from synthleak.audit.result import Audit

OUTLIER, RARE, RANDOM, UNION = "outlier", "rare", "random", "union"


@dataclass(frozen=True)
class CorpusFacts:
    """A corpus in numbers."""

    name: str
    statistics: Statistics
    tokenizer: str = TOKENIZER


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
    corpora: tuple[CorpusFacts, ...]
    pools: tuple[PoolLine, ...]
    rows: Callable[[str], Sequence[Any]]
    comparison: tuple[ComparisonRow, ...] = ()
    prior: tuple[PriorRow, ...] = ()
    adjudicated: tuple[MergedRow, ...] = ()
    families: tuple[Entry[Family], ...] = ()

    def rule(self, corpus: str, pool: str) -> str:
        """Return the rule that selected a pool; empty for an unknown pool."""
        found = (line.rule for line in self.pools if (line.corpus, line.name) == (corpus, pool))
        return next(found, "")

    def label(self, corpus: str, pool: str, pools: Sequence[tuple[str, str]]) -> str:
        """Name a pool beside others: by its corpus alone where that is enough."""
        several = len({name for owner, name in pools if owner == corpus}) > 1
        return f"{corpus} {pool}" if several else corpus

    def main_cells(self) -> list[CellRow]:
        """Return the rows of selected pools; of controls where nothing was selected."""
        other = (RARE, RANDOM, UNION)
        rows = [row for row in self.cells if self.rule(row.corpus, row.pool) not in other]
        rows = rows or [row for row in self.cells if self.rule(row.corpus, row.pool) == RANDOM]
        return _or_unavailable(rows, "no pool that is neither rare, a control nor merged")

    def main_pools(self) -> str:
        """Name the pools whose rows `main_cells` returns."""
        rules = {self.rule(row.corpus, row.pool) for row in self.main_cells()}
        return "random controls" if rules == {RANDOM} else "selected pools"

    def rare_cells(self) -> list[CellRow]:
        """Return the rows of rare pools."""
        rows = [row for row in self.cells if self.rule(row.corpus, row.pool) == RARE]
        return _or_unavailable(rows, 'a pool of the rule "rare"')


def _or_unavailable(rows: list[CellRow], what: str) -> list[CellRow]:
    if not rows:
        raise Unavailable(f"needs {what}")
    return rows


def pool_lines(audit: Audit) -> list[PoolLine]:
    """Return the pools of an audit in the order of its spec."""
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


def corpus_facts(audit: Audit) -> CorpusFacts:
    """Return the corpus of an audit in numbers."""
    return CorpusFacts(audit.setup.corpus.name, statistics_of(audit.setup.corpus))


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
