"""Whether an attribute of a record predicts its vulnerability (docs/method.md §10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from synthleak.analyses.analysis import NO_CELL, Study, Unavailable, analysis
from synthleak.analyses.cell_data import ATTRIBUTES, CANARY, UNION, Signal
from synthleak.analyses.chosen import RULES, SPLIT, TOO_FEW, Group, groups_of
from synthleak.core.seeds import stream
from synthleak.evidence.observation import Floats
from synthleak.metrics.estimate import known
from synthleak.metrics.null import holm
from synthleak.metrics.records.vulnerability import FEWEST

PERMUTATIONS = 9_999
SLACK = 1e-6
"""Permutations are kept in single precision; a ρ this close counts as equal."""
SELECTED_ON = {"outlier": "outlierness"}
"""Rules that select by an attribute: within such a pool its range is restricted."""


@dataclass(frozen=True)
class AttributeTest:
    """A row of `attributes.csv`: Spearman's ρ of one attribute with V in one pool.

    V is pooled over budgets under one (scenario, proxy) per pool and generator, chosen on 80% of
    the instances. `block` is the rule that selected the pool; `selected_on` is `†` where that rule
    selects by this attribute. `floor` is the smallest |ρ| that is significant at 5% with `records`
    records. `p_holm` adjusts for all attribute–pool tests.
    """

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

    def p(self, attribute: int) -> float | None:
        """Return the two-sided p of one attribute; None where ρ is not defined."""
        return two_sided(float(self.rho[attribute]), self.null[attribute])


def two_sided(value: float, null: Floats | NDArray[np.float32]) -> float | None:
    """Return the share of permutations, the observed one included, that are as far from 0."""
    if not np.isfinite(value):
        return None
    return (1 + int((np.abs(null) >= abs(value) - SLACK).sum())) / (len(null) + 1)


def matrices(study: Study) -> dict[str, list[Matrix]]:
    """Return the attribute–pool matrices under each of the four rules, computed once per study."""
    return study.once("attribute matrices", lambda: _matrices(study))


def _matrices(study: Study) -> dict[str, list[Matrix]]:
    table = {
        (row.corpus, row.pool, row.record): [getattr(row, name) for name in ATTRIBUTES]
        for row in study.attributes
    }
    groups = [group for group in groups_of(study) if group.pool.rule not in (UNION, CANARY)]
    permutations = max(PERMUTATIONS, 25 * len(ATTRIBUTES) * len(groups))
    found: dict[str, list[Matrix]] = {rule: [] for rule in RULES}
    for group in groups:
        keys = [(group.pool.corpus, group.pool.name, record) for record in group.pool.records]
        if all(key in table for key in keys):
            rows = np.array([table[key] for key in keys])
            for rule, matrix in _of_group(group, rows, permutations):
                found[rule].append(matrix)
    return found


def _of_group(group: Group, attributes: Floats, permutations: int) -> Iterator[tuple[str, Matrix]]:
    """Yield the correlations under each rule; which records qualify depends on the coins alone."""
    chosen = {rule: signal for rule in RULES if (signal := group.choose(rule)) is not None}
    vs = {rule: group.v(signal) for rule, signal in chosen.items()}
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
    scaled: Floats = ranks / length if length > 0 else np.full(len(values), np.nan)
    return scaled


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


def attribute_tests(study: Study, rule: str) -> list[AttributeTest]:
    """Return every attribute–pool test under one rule, Holm over all of them."""
    rows = [
        AttributeTest(
            corpus=matrix.group.pool.corpus,
            pool=matrix.group.pool.name,
            block=matrix.group.pool.rule,
            generator=matrix.group.generator,
            attribute=attribute,
            scenario=matrix.signal.scenario,
            proxy=matrix.signal.proxy,
            view=matrix.signal.view,
            budgets=len(matrix.group.cells),
            records=matrix.records,
            rho=known(matrix.rho[place]),
            p_value=matrix.p(place),
            p_holm=None,
            floor=detection_floor(matrix.records),
            selected_on="†" if SELECTED_ON.get(matrix.group.pool.rule) == attribute else "",
        )
        for matrix in known_matrices(study, rule)
        for place, attribute in enumerate(ATTRIBUTES)
    ]
    adjusted = holm([row.p_value for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)]


def known_matrices(study: Study, rule: str) -> list[Matrix]:
    """Return the correlations under a rule; raise `Unavailable` where the study has none."""
    if not study.cell_data:
        raise Unavailable(NO_CELL)
    found = matrices(study)[rule]
    if not found and rule == SPLIT:
        raise Unavailable(TOO_FEW)
    return found
