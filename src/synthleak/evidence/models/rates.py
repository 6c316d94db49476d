"""`rates`: the target's n-grams became a little more frequent (docs/method.md §17).

This is what training with noise leaves behind: no text is copied, but the rates of all n-grams of a
member shift.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from synthleak.evidence.family import CountFamily, model_families
from synthleak.evidence.observation import Floats


@model_families.register("rates", version=1)
class Rates(CountFamily):
    """Counts of the target's word n-grams against those that references expect."""

    proxies: ClassVar[dict[str, str]] = {
        "ngram_rates": "log ratio of counts in O to those expected, over word n-grams, n = 1 to 3"
    }
    longest: ClassVar[tuple[int, ...]] = (3,)

    def excess(self, counts: Floats, expected: Floats) -> Floats:
        """Return ln((c + ½) / (E + ½)): near (c - E) / (E + ½), and bounded where c is large."""
        excess: Floats = np.log(counts + 0.5) - np.log(expected + 0.5)
        return excess
