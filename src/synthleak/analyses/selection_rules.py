"""How far the attribute correlations hang on the rule that chose the proxy (METHOD §10)."""

from __future__ import annotations

from dataclasses import dataclass


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
