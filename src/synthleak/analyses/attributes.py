"""Attributes of records that a data holder can know without an audit, and whether they predict V.

They are computed from a record and its pool before any release; the candidates C and the auxiliary
records R hold none of its targets (docs/method.md §10.5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synthleak.analyses.analysis import (
    ATTRIBUTES,
    NO_CELL,
    RANDOM,
    AttributeRow,
    Signal,
    Study,
    Unavailable,
    analysis,
    with_holm,
)
from synthleak.analyses.cells import columns_of
from synthleak.analyses.vulnerability import SELECTION_RULES, SPLIT, TOO_FEW, Group, cell_groups
from synthleak.core.cell import LEVEL
from synthleak.core.seeds import stream
from synthleak.core.text import entities, tokens
from synthleak.corpus.corpus import Corpus
from synthleak.encoders.encoder import Vectors, at_unit_length
from synthleak.evidence.fast.words import Ragged, WordIndex, number
from synthleak.evidence.observation import Floats, Ints
from synthleak.evidence.table import starts_of
from synthleak.metrics.measurements import known
from synthleak.metrics.profile import FEWEST
from synthleak.pools.pool import Pool

ATTRIBUTES_VERSION = 2
RARE_QUANTILE = 0.1
PERMUTATIONS = 9_999
SLACK = 1e-6
"""Permutations are kept in single precision; a ρ this close counts as equal."""
SELECTED_ON = {"outlier": "outlierness"}
"""Rules that select by an attribute: within such a pool its range is restricted."""


def record_attributes(
    corpus: Corpus, pool: Pool, vectors: Callable[[], Vectors]
) -> list[AttributeRow]:
    """Return the attributes of every target of a pool; `vectors` are those of `all_records`.

    Those of a person are the means over the person's records.

    Vectors are scaled to length 1, as the pool rule `outlier` scales them: an outlier by the rule
    is an outlier by the attribute.
    """
    units = at_unit_length(vectors().astype(np.float64))
    texts = [corpus.all_records[position].text for position in pool.asked]
    known = [corpus.records[p].text for p in (*pool.candidates, *pool.auxiliary)]
    lengths = [len(tokens(text)) for text in texts]
    targets = units[list(pool.asked)]
    columns: tuple[Sequence[float] | Floats, ...] = (
        lengths,
        np.linalg.norm(targets - units[: len(corpus)].mean(axis=0), axis=1),
        nearest_cosine(targets, units[list(pool.candidates)]),
        rare_bigram_density(texts, known),
        [len(entities(text)) / max(n, 1) for text, n in zip(texts, lengths, strict=True)],
    )
    names = [corpus.all_records[position].id for position in pool.targets]
    if pool.persons is not None:
        names = [corpus.person_names[position] for position in pool.targets]
        starts = starts_of(pool.sizes)
        columns = tuple(np.add.reduceat(column, starts) / pool.sizes for column in columns)
    return [
        AttributeRow(corpus.name, pool.name, name, *map(float, values))
        for name, *values in zip(names, *columns, strict=True)
    ]


def nearest_cosine(rows: Floats, others: Floats) -> Floats:
    return np.asarray((at_unit_length(rows) @ at_unit_length(others).T).max(axis=1))


def rare_bigram_density(texts: Sequence[str], known: Sequence[str]) -> Floats:
    """Return the share of each text's word bigrams that are rare among the `known` texts.

    Rare is a document frequency at or below the 10th percentile, every occurrence of a bigram
    counting once; a bigram that no known text has is rare. A text without bigrams has none rare.

    >>> rare_bigram_density(["a b c", "c a", "a"], ["a b"] * 9 + ["b c"]).tolist()
    [0.5, 1.0, 0.0]
    """
    index = WordIndex(known)

    def frequencies(rows: Ragged) -> tuple[Ints, Ints]:
        """Return how many known texts have each bigram, and where it stands."""
        words, owners = rows.values.astype(np.int64), rows.owners
        first = np.flatnonzero(owners[:-1] == owners[1:])
        return index.pair_frequency(words[first], words[first + 1]), owners[first]

    occurrences, limit = frequencies(index.words)[0], 0
    if len(occurrences):
        last = max(0, int(np.ceil(RARE_QUANTILE * len(occurrences))) - 1)
        limit = int(np.partition(occurrences, last)[last])
    rows, vocabulary = number(map(tokens, texts))
    numbers = index.numbers_of(vocabulary)[rows.values]
    frequency, owners = frequencies(Ragged(numbers, rows.starts))
    rare = np.bincount(owners, frequency <= limit, minlength=len(texts))
    return np.asarray(rare / np.maximum(np.bincount(owners, minlength=len(texts)), 1))


@dataclass(frozen=True)
class AttributeTest:
    """A row of `attributes.csv`: Spearman's ρ of one attribute with V in one pool."""

    corpus: str
    pool: str
    block: str
    generator: str
    attribute: str
    scenario: str
    proxy: str
    view: str
    budgets: int
    records: int
    rho: float | None
    p_value: float | None
    p_holm: float | None
    floor: float | None
    selected_on: str


@dataclass(frozen=True)
class Matrix:
    """The correlations of one pool and generator under one rule: `rho[attribute]`, and their null.

    `null[attribute, permutation]` is ρ with attributes permuted over records.
    """

    group: Group
    signal: Signal
    records: int
    rho: Floats
    null: NDArray[np.float32]


def two_sided(value: float, null: Floats | NDArray[np.float32]) -> float | None:
    """Return the share of permutations, the observed one included, that are as far from 0.

    It is None where the value is not defined.
    """
    if not np.isfinite(value):
        return None
    return (1 + int((np.abs(null) >= abs(value) - SLACK).sum())) / (len(null) + 1)


def matrices(study: Study, *, paper: bool = False) -> dict[str, list[Matrix]]:
    """Return the attribute–pool matrices under each of the four rules, computed once per study.

    With `paper`, of V by the paper's formula.
    """
    if not study.cell_data:
        raise Unavailable(NO_CELL)
    name = "attribute matrices of the paper" if paper else "attribute matrices"
    by_rule = study.once(name, lambda: _matrices(study, paper))
    if not by_rule[SPLIT]:
        raise Unavailable(TOO_FEW)
    return by_rule


def _matrices(study: Study, paper: bool) -> dict[str, list[Matrix]]:
    table = {
        (row.corpus, row.pool, row.record): [getattr(row, name) for name in ATTRIBUTES]
        for row in study.attributes
    }
    groups = cell_groups(study)
    permutations = max(PERMUTATIONS, 25 * len(ATTRIBUTES) * len(groups))
    by_rule: dict[str, list[Matrix]] = {rule: [] for rule in SELECTION_RULES}
    for group in groups:
        keys = [(group.pool.corpus, group.pool.name, record) for record in group.pool.records]
        if all(key in table for key in keys):
            rows = np.array([table[key] for key in keys])
            for rule, matrix in _of_group(group, rows, permutations, paper):
                by_rule[rule].append(matrix)
    return by_rule


def _of_group(
    group: Group, attributes: Floats, permutations: int, paper: bool
) -> Iterator[tuple[str, Matrix]]:
    """Yield the correlations under each rule; which records qualify depends on the coins alone."""
    chosen = {
        rule: signal for rule in SELECTION_RULES if (signal := group.choose(rule)) is not None
    }
    vs = {rule: group.v(signal, paper=paper) for rule, signal in chosen.items()}
    qualify = np.isfinite(next(iter(vs.values())))
    if qualify.sum() < FEWEST:
        return
    sides = np.stack([_ranks(column) for column in attributes[qualify].T])
    rng = stream(group.cells[0].seed, "attributes", group.pool.corpus, group.pool.name)
    order = rng.permuted(np.tile(np.arange(sides.shape[1]), (permutations, 1)), axis=1)
    permuted_attributes = sides[:, order]
    for rule, v in vs.items():
        ranks = _ranks(v[qualify])
        null = (permuted_attributes @ ranks).astype(np.float32)
        yield rule, Matrix(group, chosen[rule], int(qualify.sum()), sides @ ranks, null)


def _ranks(values: Floats) -> Floats:
    """Return centred ranks of length 1, whose product is Spearman's ρ; NaN where all are tied."""
    from scipy.stats import rankdata

    ranks = rankdata(values) - (len(values) + 1) / 2
    length = np.linalg.norm(ranks)
    return ranks / length if length > 0 else np.full(len(values), np.nan)


def detection_floor(records: int) -> float:
    """Return the smallest |ρ| that is significant at 5% with `records` records.

    >>> round(detection_floor(36), 2), round(detection_floor(19), 2)
    (0.33, 0.46)
    """
    from scipy.stats import t

    point = float(t.ppf(0.975, records - 2))
    return float(point / (point**2 + records - 2) ** 0.5)


@analysis(
    "attributes",
    version=1,
    row=AttributeTest,
    shown="pool generator attribute records rho p_value p_holm floor selected_on",
)
def attributes(study: Study) -> Sequence[AttributeTest]:
    """Whether length, outlierness, near-duplication, rare bigrams or entities predict V(x)."""
    return attribute_tests(study, SPLIT)


@analysis("attributes_paper", version=1, row=AttributeTest, opt_in=True)
def attributes_paper(study: Study) -> Sequence[AttributeTest]:
    """Whether attributes predict V by the paper's formula."""
    return attribute_tests(study, SPLIT, paper=True)


def attribute_tests(study: Study, rule: str, *, paper: bool = False) -> list[AttributeTest]:
    """Return every attribute–pool test under one rule, Holm over all of them."""
    rows = [
        AttributeTest(
            **columns_of(matrix.group.pool, "corpus", pool="name", block="rule"),
            generator=matrix.group.generator,
            attribute=attribute,
            **asdict(matrix.signal),
            budgets=len(matrix.group.cells),
            records=matrix.records,
            rho=known(matrix.rho[place]),
            p_value=two_sided(float(matrix.rho[place]), matrix.null[place]),
            p_holm=None,
            floor=detection_floor(matrix.records),
            selected_on="†" if SELECTED_ON.get(matrix.group.pool.rule) == attribute else "",
        )
        for matrix in matrices(study, paper=paper)[rule]
        for place, attribute in enumerate(ATTRIBUTES)
    ]
    return with_holm(rows)


@dataclass(frozen=True)
class CombinedRow:
    """A row of `attributes_combined.csv`: Fisher's z over the disjoint pools of a block."""

    selection: str
    generator: str
    block: str
    corpus: str
    attribute: str
    pools: int
    records: int
    positive_pools: int
    rho: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_holm: float | None


@analysis(
    "attributes_combined",
    version=1,
    row=CombinedRow,
    shown="selection generator block corpus attribute pools records rho p_value p_holm",
)
def attributes_combined(study: Study) -> Sequence[CombinedRow]:
    """Attribute correlations over the disjoint pools of a block, by Fisher's z, under each rule."""
    return _combined(study, paper=False)


@analysis("attributes_combined_paper", version=1, row=CombinedRow, opt_in=True)
def attributes_combined_paper(study: Study) -> Sequence[CombinedRow]:
    """The same correlations of V by the paper's formula."""
    return _combined(study, paper=True)


def _combined(study: Study, *, paper: bool) -> list[CombinedRow]:
    rows: list[CombinedRow] = []
    for rule, of_rule in matrices(study, paper=paper).items():
        blocks: dict[tuple[str, str], list[Matrix]] = {}
        for matrix in of_rule:
            key = (matrix.group.generator, matrix.group.pool.rule)
            blocks.setdefault(key, []).append(matrix)
        # Random pools come first: no property of their records selected them.
        for generator, block in sorted(blocks, key=lambda key: key[1] != RANDOM):
            rows += _block(rule, generator, block, blocks[generator, block])
    return rows


def _block(rule: str, generator: str, block: str, members: Sequence[Matrix]) -> list[CombinedRow]:
    disjoint = _disjoint(members)
    rows: list[CombinedRow] = []
    for corpus in ("all", *dict.fromkeys(matrix.group.pool.corpus for matrix in disjoint)):
        pools = [matrix for matrix in disjoint if corpus in ("all", matrix.group.pool.corpus)]
        of_corpus = [
            CombinedRow(
                selection=rule,
                generator=generator,
                block=block,
                corpus=corpus,
                attribute=attribute,
                pools=len(pools),
                records=sum(matrix.records for matrix in pools),
                positive_pools=sum(bool(matrix.rho[place] > 0) for matrix in pools),
                **fisher(pools, place, tested=corpus == "all"),
                p_holm=None,
            )
            for place, attribute in enumerate(ATTRIBUTES)
        ]
        rows += with_holm(of_corpus)
    return rows


def _disjoint(members: Sequence[Matrix]) -> list[Matrix]:
    taken: set[tuple[str, str]] = set()
    disjoint = []
    for matrix in members:
        records = {(matrix.group.pool.corpus, record) for record in matrix.group.pool.records}
        if not records & taken:
            disjoint.append(matrix)
            taken |= records
    return disjoint


def fisher(members: Sequence[Matrix], place: int, *, tested: bool) -> dict[str, float | None]:
    """Combine the ρ of disjoint pools by Fisher's z, each weighted by its records minus 3.

    The test permutes attributes over records within every pool, so it needs no normal theory.
    """
    usable = [matrix for matrix in members if np.isfinite(matrix.rho[place])]
    columns = ("rho", "low", "high", "p_value")
    if not usable:
        return dict.fromkeys(columns)
    weights = np.array([matrix.records - 3 for matrix in usable], dtype=np.float64)
    z = float(weights @ [_z(matrix.rho[place]) for matrix in usable] / weights.sum())
    reach = 1.96 / weights.sum() ** 0.5
    p = None
    if tested:
        null = sum(w * _z(matrix.null[place]) for w, matrix in zip(weights, usable, strict=True))
        p = two_sided(z, np.asarray(null) / weights.sum())
    ends = [float(np.tanh(value)) for value in (z, z - reach, z + reach)]
    return dict(zip(columns, [*ends, p], strict=True))


def _z(rho: ArrayLike) -> Floats:
    """Return Fisher's z, finite even where two rankings are equal."""
    return np.arctanh(np.clip(np.asarray(rho, dtype=np.float64), -0.999999, 0.999999))


@dataclass(frozen=True)
class SelectionRow:
    """A row of `selection_rules.csv`: all attribute–pool tests of a generator under one rule.

    `largest_move` and `median_move` are |Δρ| against the 80% split, over the same pools.
    """

    generator: str
    selection: str
    tests: int
    significant: int
    smallest_p_holm: float | None
    largest_move: float | None
    median_move: float | None


@analysis("selection_rules", version=1, row=SelectionRow)
def selection_rules(study: Study) -> Sequence[SelectionRow]:
    """How many attribute tests pass under four selection rules, and how far each ρ moves."""
    tests = {rule: attribute_tests(study, rule) for rule in SELECTION_RULES}
    rho_of_split = {_key(row): row.rho for row in tests[SPLIT]}
    summaries = []
    for generator in dict.fromkeys(row.generator for row in tests[SPLIT]):
        for rule, of_rule in tests.items():
            rows = [row for row in of_rule if row.generator == generator and row.rho is not None]
            moves = [
                abs(row.rho - before)
                for row in rows
                if row.rho is not None and (before := rho_of_split.get(_key(row))) is not None
            ]
            adjusted = [row.p_holm for row in rows if row.p_holm is not None]
            compared = bool(moves) and rule != SPLIT
            summary = SelectionRow(
                generator=generator,
                selection=rule,
                tests=len(rows),
                significant=sum(p <= LEVEL for p in adjusted),
                smallest_p_holm=min(adjusted, default=None),
                largest_move=max(moves) if compared else None,
                median_move=float(np.median(moves)) if compared else None,
            )
            if of_rule:
                summaries.append(summary)
    return summaries


def _key(row: AttributeTest) -> tuple[str, ...]:
    return (row.corpus, row.pool, row.generator, row.attribute)
