"""Games of the self-test in which `lm` is the only proxy family, on a tiny model.

The model has random weights and knows the most frequent words of the demo corpus. It is made in
memory, once a process; torch is imported when the first of these games is played.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from synthleak.audit.setup import Setup
from synthleak.corpus.demo import write_demo
from synthleak.evidence.models.lm import LanguageModelProxy
from synthleak.releases.lm.backbone import prepared
from synthleak.selftest.games import Game

ASKED, PRIVATE = 10, 50
"""Targets, and N: fewer than in other games, since an adapter is trained on every release."""
VOCABULARY, HIDDEN = 400, 32
TUNING = {"rank": 4, "learning_rate": 0.03}
"""A small model takes large steps; what is not named here is as in every audit."""


@dataclass(frozen=True)
class LanguageModelGame(Game):
    """A game that is judged by `lm` alone: no other proxy raises an alarm or finds a leak."""

    @property
    def targets(self) -> int:
        """How many records are asked about."""
        return ASKED

    @property
    def records(self) -> int:
        """How many private records a release is made of."""
        return PRIVATE

    def setup(self, seed: int) -> Setup:
        """Set up the game, and put `lm` in the place of the other families."""
        setup = super().setup(seed)
        lm = TinyModelProxy.model_validate(TUNING).family()
        return replace(setup, plugins=replace(setup.plugins, families=(lm,)))


class TinyModelProxy(LanguageModelProxy):
    """The family `lm` with the tiny model as its backbone."""

    def shared(self) -> Any:
        """Return the tiny model, made once a process."""
        return _tiny_backbone()


@lru_cache(maxsize=1)
def _tiny_backbone() -> Any:
    from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone
    from synthleak.selftest.tiny_backbone import tiny_model

    words = Counter(word for record in write_demo(1000, 0) for word in record.text.split(" "))
    known = [word for word, _ in words.most_common(VOCABULARY)]
    return SharedBackbone(prepared("tiny", *tiny_model(known, hidden=HIDDEN), "cpu"))
