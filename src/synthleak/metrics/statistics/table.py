"""The statistics that the verdict combines, for every signal and every assignment (docs/method.md
§8).

A leak can show in several ways: a little in many members, or much in few. Each way has a statistic
of its own, and the test in `nulls.py` combines them without counting any of them twice. To add one,
name it here and compute it in `pooled.py` or `by_record.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from synthleak.evidence.observation import Floats
from synthleak.metrics.selection import Signals

AUC = "auc"
TOP_TENTH = "top_tenth"
TAILS: Mapping[str, float] = {"tail5": 0.05, "tail1": 0.01}
"""Mean TPR over false-positive rates up to this limit."""
FINE_TAILS: Mapping[str, float] = {**TAILS, "tail02": 0.002}
"""Where 500 non-members or more are compared, a limit of 0.2% still means something."""

TITLES: Mapping[str, str] = {
    AUC: "AUC",
    "tail5": "mean TPR up to 5% FPR",
    "tail1": "mean TPR up to 1% FPR",
    "tail02": "mean TPR up to 0.2% FPR",
    TOP_TENTH: "mean AUC of the tenth of records that leak most",
}
"""Each statistic in words."""


@dataclass(frozen=True)
class Statistics:
    """`values[statistic, assignment, signal]`; the first statistic is the AUC."""

    names: tuple[str, ...]
    values: Floats

    @property
    def auc(self) -> Floats:
        """The AUC as [assignment, signal]."""
        auc: Floats = self.values[0]
        return auc

    def of(self, signals: Signals) -> Statistics:
        """Return the statistics of some signals only."""
        return Statistics(self.names, self.values[:, :, signals])
