"""`coverage`: words of the target that the release has and references lack (docs/method.md §16).

A generator may let a member's rare words turn up in texts that are otherwise unlike the member.
Proxies that look for one similar text do not see that.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from synthleak.evidence.family import CountFamily, model_families
from synthleak.evidence.observation import Floats


def excess_presence(counts: Floats, expected: Floats) -> Floats:
    """Return (seen - p) / p, where p is the chance that an n-gram is seen at all.

    This is the score test of "it is a little more likely than expected" where only presence counts:
    the rarer an n-gram was expected to be, the more it weighs that it is there.

    >>> excess_presence(np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 9.5])).round(2)
    array([-1.  ,  1.54,  0.  ])
    """
    chance = -np.expm1(-expected - 0.5)
    excess: Floats = ((counts > 0) - chance) / chance
    return excess


@model_families.register("coverage", version=1)
class Coverage(CountFamily):
    """Words of the target that the release has and references lack, in whichever texts."""

    proxies: ClassVar[dict[str, str]] = {
        "word_coverage": "mean over the words of x: seen in any text of O, against the chance of it"
    }
    longest: ClassVar[int] = 1

    def excess(self, counts: Floats, expected: Floats) -> Floats:
        """Count a word as there or not: see `excess_presence`."""
        return excess_presence(counts, expected)
