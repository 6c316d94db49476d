"""What the self-test plays: kinds of audits whose outcome is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from synthleak.releases.generators.echo import Echo
from synthleak.releases.release import Request, Synthetic

TARGETS = 20
RECORDS = {"lone": 60, "cohort": 100}
"""N = 60; a cohort of 20 targets needs 100, since those who join may be a tenth of N at most."""
INSTANCES = 20
REDRAWS = 199
CROSSFIT_REDRAWS = 19
FAMILIES = ("char_overlap", "bm25")
COPIED = "containment_max"
RATE = 0.1
"""The false-discovery rate at which records are named."""

Kind = Literal["null", "echo", "claim", "named"]


@dataclass(frozen=True)
class Row:
    """One kind of audit, repeated; `p` is how often `echo` copies a record."""

    kind: Kind
    design: str
    generator: str
    p: float = 0.0
    epsilon: float = math.inf
    adjacency: str = "replace"

    @property
    def name(self) -> str:
        """How the row is called in tables."""
        detail = f" p = {self.p:g}" if self.kind in ("echo", "named") else ""
        detail += f" ε = {self.epsilon:g}" if math.isfinite(self.epsilon) else ""
        return f"{self.generator}{detail}, {self.design}"

    @property
    def by_chance(self) -> bool:
        """Whether its TPR is what records that were not copied reach in this design."""
        return self.generator == "bystander"


def _rows() -> list[Row]:
    rows = []
    for design in ("lone", "cohort"):
        rows += [Row("null", design, generator) for generator in ("constant", "bystander")]
        rows += [Row("echo", design, "echo", p=p) for p in (1.0, 0.5, 0.1)]
        rows.append(Row("claim", design, "ngram", epsilon=1.0, adjacency="add"))
    return [*rows, Row("named", "cohort", "echo of half the pool", p=1.0)]


ROWS = _rows()


class PartialEcho(Echo):
    """Copies private records at a known rate, but never the spared ones."""

    spared: tuple[str, ...] = ()

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Echo what is left when the spared are taken out."""
        kept = tuple(record for record in request.records if record.id not in self.spared)
        return super().generate(replace(request, records=kept))


PartialEcho.kind, PartialEcho.version = "partial echo", 1


@dataclass(frozen=True)
class Outcome:
    """What one audit said. Figures of the copied-text proxy are those of scenario S1."""

    p: float | None
    crossfit_p: float | None
    auc: float
    tpr: float
    width: float
    epsilon_lower: float | None
    epsilon_claim: float | None
    named: int
    wrong: int
