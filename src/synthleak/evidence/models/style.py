"""`style`: the target's punctuation, case and spacing, whatever its words (docs/method.md §17)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import ClassVar

from synthleak.evidence.family import CountFamily, model_families
from synthleak.evidence.models.coverage import surprise
from synthleak.evidence.observation import Floats

_RUN = re.compile(r"\w+|\W+")


def shapes(text: str) -> list[str]:
    """Return the case of each word, and what stands between words as it is.

    >>> shapes("Wait... I took 20mg, OK?!")
    ['Aa', '... ', 'Aa', ' ', 'a', ' ', 'a', ', ', 'AA', '?!']
    """
    return [_shape(run) for run in _RUN.findall(text)]


@lru_cache(maxsize=2**16)
def _shape(run: str) -> str:
    if not (run[0].isalnum() or run[0] == "_"):
        return run
    if run.isnumeric():
        return "0"
    if run.islower():
        return "a"
    if run.istitle():
        return "Aa"
    return "AA" if run.isupper() else "aA"


@model_families.register("style", version=1)
class Style(CountFamily):
    """Runs of punctuation, case and spacing that the release has and references lack."""

    proxies: ClassVar[dict[str, str]] = {
        "style_coverage": "runs of up to 8 shapes of x that O has, weighted by their rarity"
    }
    longest: ClassVar[tuple[int, ...]] = (8,)

    @staticmethod
    def cut(text: str) -> list[str]:
        """Return the shapes of a text."""
        return shapes(text)

    def excess(self, counts: Floats, expected: Floats) -> Floats:
        """Return the surprise that a run is there at all."""
        return surprise(counts, expected)
