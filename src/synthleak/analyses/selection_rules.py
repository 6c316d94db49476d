"""How much attribute correlations depend on the rule that chose the proxy (docs/method.md §10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.analyses.analysis import Study, Unavailable, analysis
from synthleak.analyses.attributes import AttributeTest, attribute_tests
from synthleak.analyses.chosen import RULES, SPLIT
from synthleak.core.verdict import LEVEL


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
    tests = {rule: attribute_tests(study, rule) for rule in RULES}
    if sum(map(bool, tests.values())) < 2:
        raise Unavailable(
            "needs the proxies of a second rule: containment_max in S2, or cos_max in S1"
        )
    usual = {_key(row): row.rho for row in tests[SPLIT]}
    generators = list(dict.fromkeys(row.generator for row in tests[SPLIT]))
    return [
        _row(generator, rule, [row for row in rows if row.generator == generator], usual)
        for generator in generators
        for rule, rows in tests.items()
        if rows
    ]


def _key(row: AttributeTest) -> tuple[str, ...]:
    return (row.corpus, row.pool, row.generator, row.attribute)


def _row(
    generator: str,
    rule: str,
    rows: Sequence[AttributeTest],
    usual: dict[tuple[str, ...], float | None],
) -> SelectionRow:
    known = [row for row in rows if row.rho is not None]
    moves = [
        abs(row.rho - before)
        for row in known
        if row.rho is not None and (before := usual.get(_key(row))) is not None
    ]
    adjusted = [row.p_holm for row in known if row.p_holm is not None]
    compared = bool(moves) and rule != SPLIT
    return SelectionRow(
        generator=generator,
        selection=rule,
        tests=len(known),
        significant=sum(p <= LEVEL for p in adjusted),
        smallest_p_holm=min(adjusted, default=None),
        largest_move=max(moves) if compared else None,
        median_move=float(np.median(moves)) if compared else None,
    )
