"""`coverage`: words of the target that the release has and references lack (docs/method.md §17).

A generator may let a member's words turn up in texts that are otherwise unlike the member, or in
another order. Proxies that look for one similar text do not see that.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from synthleak.evidence.family import CountFamily, model_families
from synthleak.evidence.observation import Floats


def surprise(counts: Floats, expected: Floats) -> Floats:
    """Return -ln p for each n-gram that is there, where p is the chance that it is; else 0.

    >>> surprise(np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 9.5])).round(3) + 0
    array([0.   , 0.933, 0.   ])
    """
    found: Floats = -np.log(-np.expm1(-expected - 0.5)) * (counts > 0)
    return found


@model_families.register("coverage", version=1)
class Coverage(CountFamily):
    """Words and n-grams of the target that the release has and references lack, in any text."""

    proxies: ClassVar[dict[str, str]] = {
        "word_coverage": "words of x that O has, weighted by their rarity in references",
        "ngram_coverage": "the same over word n-grams of x, n = 1 to 3",
    }
    longest: ClassVar[tuple[int, ...]] = (1, 3)

    def excess(self, counts: Floats, expected: Floats) -> Floats:
        """Return the surprise that an n-gram is there at all."""
        return surprise(counts, expected)
