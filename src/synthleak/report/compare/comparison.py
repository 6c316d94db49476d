"""Audits side by side, and where their figures may be subtracted (`synthleak compare`).

A difference is given only between cells that ask the same question: same records in the pool, same
game, same attacker. Where something differs it is named, and no difference is given.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from synthleak.analyses.cells import power_of
from synthleak.analyses.gaps import WHOLE, combine
from synthleak.metrics.null import holm
from synthleak.report.figures.figure import named
from synthleak.report.verdict import headline

if TYPE_CHECKING:
    from synthleak.analyses.cell_data import CellData
    from synthleak.audit.result import Audit


@dataclass(frozen=True)
class AuditLine:
    """One audit: what was audited, and what it says."""

    audit: str
    corpus: str
    records: int
    design: str
    adjacency: str
    instances: int
    cells: int
    found: int
    strongest: str
    auc: float | None
    ceiling: float | None
    headline: str


@dataclass(frozen=True)
class CellLine:
    """One cell of one audit: its cross-fitted AUC, its power and its claim."""

    audit: str
    pool: str
    generator: str
    epsilon: float
    auc: float | None
    low: float | None
    high: float | None
    ceiling: float | None
    p_holm: float | None
    power: float | None
    claim: str
    epsilon_lower: float | None
    verdict: str


@dataclass(frozen=True)
class DifferenceLine:
    """The second audit's cell minus the first's, where both ask the same question.

    `paired` says whether both played the same plan, so that draws of instances are shared.
    """

    pool: str
    first: str
    first_cell: str
    second: str
    second_cell: str
    difference: float
    low: float
    high: float
    p: float
    p_holm: float | None
    paired: bool


@dataclass(frozen=True)
class Compared:
    """Audits side by side. `reasons` say what cannot be compared, `cautions` what to mind."""

    audits: tuple[AuditLine, ...]
    cells: tuple[CellLine, ...]
    differences: tuple[DifferenceLine, ...]
    reasons: tuple[str, ...]
    cautions: tuple[str, ...]


def compare(audits: Sequence[tuple[str, Audit]]) -> Compared:
    """Put audits side by side; the first is what the others are compared with."""
    first_name, first = audits[0]
    differences: list[DifferenceLine] = []
    reasons: list[str] = []
    cautions: list[str] = []
    for name, audit in audits[1:]:
        barred = list(_barred(first, audit))
        reasons += [f"{name} and {first_name}: {reason}" for reason in barred]
        pools, other = _pools(first, audit)
        if not barred:
            reasons += [f"{name} and {first_name}: {reason}" for reason in other]
            for pool in pools:
                differences += _differences((first_name, first), (name, audit), pool)
        cautions += [f"{name} and {first_name}: {c}" for c in _cautions(first, audit)]
    adjusted = holm([line.p for line in differences])
    return Compared(
        audits=tuple(_audit(name, audit) for name, audit in audits),
        cells=tuple(line for name, audit in audits for line in _cells(name, audit)),
        differences=tuple(
            replace(line, p_holm=p) for line, p in zip(differences, adjusted, strict=True)
        ),
        reasons=tuple(reasons),
        cautions=tuple(dict.fromkeys(cautions)),
    )


def _audit(name: str, audit: Audit) -> AuditLine:
    game = audit.setup.spec.game
    known = {
        cell: figures.crossfit
        for cell, figures in audit.figures.items()
        if figures.crossfit is not None
    }
    top = max(known, key=lambda cell: known[cell].value, default=None)
    plan = next(iter(audit.setup.plans.values()))
    return AuditLine(
        audit=name,
        corpus=audit.setup.corpus.name,
        records=len(audit.setup.corpus),
        design=plan.design,
        adjacency=plan.adjacency,
        instances=game.instances,
        cells=len(audit.figures),
        found=sum(_found(verdict.words) for verdict in audit.verdicts.values()),
        strongest="" if top is None else named(top),
        auc=None if top is None else known[top].value,
        ceiling=None if top is None else known[top].null,
        headline=headline(audit),
    )


def _found(words: str) -> bool:
    return words.endswith("leak found")


def _cells(name: str, audit: Audit) -> Iterator[CellLine]:
    for cell, figures in audit.figures.items():
        fitted = figures.crossfit
        powers = [power_of(figures, row, len(audit.figures)) for row in figures.rows]
        known = [power for power in powers if power is not None]
        claim = audit.claim(cell)
        yield CellLine(
            audit=name,
            pool=cell.pool,
            generator=cell.generator,
            epsilon=cell.epsilon,
            auc=None if fitted is None else fitted.value,
            low=None if fitted is None else fitted.low,
            high=None if fitted is None else fitted.high,
            ceiling=None if fitted is None else fitted.null,
            p_holm=audit.verdicts[cell].p_holm,
            power=max(known) if len(known) == len(powers) else None,
            claim=f"({claim.epsilon:g}, {claim.delta:.1g})" if claim.promises else "none",
            epsilon_lower=None if figures.epsilon is None else figures.epsilon.lower,
            verdict=audit.verdicts[cell].words,
        )


def _barred(first: Audit, second: Audit) -> Iterator[str]:
    """Yield what makes all figures of two audits incomparable."""
    one, other = first.setup, second.setup
    if one.corpus.fingerprint != other.corpus.fingerprint:
        yield f"other corpus ({one.corpus.name}, {other.corpus.name}): no figure can be compared"
        return
    for key in ("design", "adjacency"):
        mine, theirs = getattr(one.spec.game, key), getattr(other.spec.game, key)
        if mine != theirs:
            yield f"other {key} ({mine}, {theirs}): another game is played"
    if one.plugins.encoder.identity() != other.plugins.encoder.identity():
        yield "other encoder: the attackers differ"
    if [f.name for f in one.plugins.families] != [f.name for f in other.plugins.families]:
        yield "other proxies: the attackers differ"


def _pools(first: Audit, second: Audit) -> tuple[list[str], list[str]]:
    """Return the pools that both audits ask about alike, and why others are left out."""
    shared, reasons = [], []
    for name, plan in first.setup.plans.items():
        other = second.setup.plans.get(name)
        if other is None:
            reasons.append(f"no pool {name} in the second")
        elif set(plan.targets) != set(other.targets):
            reasons.append(f"pool {name} holds other records: pools are comparable to themselves")
        elif (plan.nominal, plan.release_size) != (other.nominal, other.release_size):
            reasons.append(
                f"pool {name}: other sizes (N = {plan.nominal} and {other.nominal}, releases of"
                f" {plan.release_size} and {other.release_size})"
            )
        else:
            shared.append(name)
    reasons += [
        f"no pool {name} in the first"
        for name in second.setup.plans
        if name not in first.setup.plans
    ]
    return shared, reasons


def _cautions(first: Audit, second: Audit) -> Iterator[str]:
    """Yield what a reader of both should mind: unequal power above all."""
    one, other = _largest_power(first), _largest_power(second)
    if one is not None and other is not None and abs(one - other) >= 0.02:
        yield (
            f"power differs: an AUC below {one:.2f} would often be missed in the first, below"
            f" {other:.2f} in the second; “none found” says less where that is larger"
        )
    if first.setup.corpus.fingerprint == second.setup.corpus.fingerprint and any(
        plan.fingerprint != second.setup.plans[name].fingerprint
        for name, plan in first.setup.plans.items()
        if name in second.setup.plans
    ):
        yield "other plans (seed or instances): differences are not paired"


def _largest_power(audit: Audit) -> float | None:
    found = [
        power
        for figures in audit.figures.values()
        for row in figures.rows
        if (power := power_of(figures, row, len(audit.figures))) is not None
        and math.isfinite(power)
    ]
    return max(found) if found else None


def _differences(
    first: tuple[str, Audit], second: tuple[str, Audit], pool: str
) -> Iterator[DifferenceLine]:
    for one, other in _matched(_played(first[1], pool), _played(second[1], pool)):
        made = combine([(1.0, other), (-1.0, one)], WHOLE)
        if made is None or one.scenarios != other.scenarios:
            continue
        low, high = made.interval()
        yield DifferenceLine(
            pool=pool,
            first=first[0],
            first_cell=named(one.cell, pool=False),
            second=second[0],
            second_cell=named(other.cell, pool=False),
            difference=made.value,
            low=low,
            high=high,
            p=made.p,
            p_holm=None,
            paired=one.plan.fingerprint == other.plan.fingerprint and one.seed == other.seed,
        )


def _played(audit: Audit, pool: str) -> list[CellData]:
    return [cell_data for cell_data in audit.cell_data if cell_data.cell.pool == pool]


def _matched(
    one: Sequence[CellData], other: Sequence[CellData]
) -> Iterator[tuple[CellData, CellData]]:
    """Yield the cells to subtract: same generator and budget, else same budget, else all pairs."""
    for key in (lambda p: (p.cell.generator, p.epsilon), lambda p: p.epsilon):
        pairs = [(a, b) for a in one for b in other if key(a) == key(b)]
        if pairs:
            yield from pairs
            return
    yield from ((a, b) for a in one for b in other)
