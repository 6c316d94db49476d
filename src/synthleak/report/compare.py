"""Audits side by side, and where their figures may be subtracted (`synthleak compare`).

A difference is given only between cells that ask the same question: same records in the pool, same
game, same attacker. Where something differs it is named, and no difference is given.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

import synthleak
from synthleak.analyses.gaps import WHOLE, Difference, combine, holm_levels
from synthleak.core.cell import LEVEL, format_epsilon
from synthleak.report.figures import figure as fig
from synthleak.report.figures.figure import Figure, Rows, runtime_script, runtime_style
from synthleak.report.page import MARKS
from synthleak.report.results import CellResult, Results
from synthleak.report.tables import declared_of
from synthleak.report.verdict import PHRASES, headline, standing
from synthleak.report.writing import asset, embedded, filled

if TYPE_CHECKING:
    from synthleak.analyses.analysis import CellData


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
    standing: str

    @property
    def badge(self) -> str:
        label: str = PHRASES["label"][self.standing]
        return label

    @property
    def mark(self) -> str:
        return MARKS[self.standing]


@dataclass(frozen=True)
class DifferenceLine:
    """The second audit's cell minus the first's, where both ask the same question.

    `paired` says whether both played the same plan, so that draws of instances are shared. The
    interval has the level of Holm's test: it excludes 0 where p_holm is at most 0.05.
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

    @property
    def result(self) -> str:
        """What the test says: `less leaks`, `more leaks` or `no difference shown`."""
        if self.p_holm is None or self.p_holm > LEVEL:
            return SAME
        return LESS if self.difference < 0 else MORE


LESS, MORE, SAME = "less leaks", "more leaks", "no difference shown"


@dataclass(frozen=True)
class Compared:
    """Audits side by side. `reasons` say what cannot be compared, `cautions` what to mind.

    `conclusion` says in a sentence what the differences show.
    """

    conclusion: str
    audits: tuple[AuditLine, ...]
    cells: tuple[CellLine, ...]
    differences: tuple[DifferenceLine, ...]
    reasons: tuple[str, ...]
    cautions: tuple[str, ...]

    def __str__(self) -> str:
        return self.conclusion


def compare(audits: Sequence[tuple[str, Results]]) -> Compared:
    """Put audits side by side; the first is what the others are compared with."""
    first_name, first = audits[0]
    subtracted: list[tuple[DifferenceLine, Difference]] = []
    reasons: list[str] = []
    cautions: list[str] = []
    concluded: list[str] = []
    for name, audit in audits[1:]:
        barred = list(_barred(first, audit))
        reasons += [f"{name} and {first_name}: {reason}" for reason in barred]
        pools, other = _pools(first, audit)
        if not barred:
            reasons += [f"{name} and {first_name}: {reason}" for reason in other]
            for pool in pools:
                found = list(_differences((first_name, first), (name, audit), pool))
                subtracted += found
                if not found:
                    reasons.append(f"{name} and {first_name}: {_no_interval(audit, pool)}")
        cautions += [f"{name} and {first_name}: {c}" for c in _cautions(first, audit)]
    adjusted = holm_levels([difference.p for _, difference in subtracted])
    differences = []
    for (line, difference), (p, level) in zip(subtracted, adjusted, strict=True):
        low, high = difference.interval(level or LEVEL)
        differences.append(replace(line, low=low, high=high, p_holm=p))
    for name, _ in audits[1:]:
        concluded.append(_concluded(name, first_name, [d for d in differences if d.second == name]))
    if differences and any(_repeats(one) for _, audit in audits for one in audit.cells):
        concluded.append("Copies and disclosures are not part of this: see what each says.")
    return Compared(
        conclusion=" ".join(concluded),
        audits=tuple(_audit(name, audit) for name, audit in audits),
        cells=tuple(line for name, audit in audits for line in _cells(name, audit)),
        differences=tuple(differences),
        reasons=tuple(reasons),
        cautions=tuple(dict.fromkeys(cautions)),
    )


def _repeats(one: CellResult) -> bool:
    """Say whether private records, or parts of them, stand in a cell's releases beyond chance."""
    return any(kept is not None and kept.exceed for kept in (one.copies, one.disclosures))


def _no_interval(audit: Results, pool: str) -> str:
    """Say why cells of a pool that both audits share are not subtracted."""
    if audit.check is not None:
        return "each check has one release, so that no interval of a difference is known"
    return f"pool {pool}: too few instances, or other attackers, for the interval of a difference"


def _concluded(name: str, first: str, differences: Sequence[DifferenceLine]) -> str:
    """Say in a sentence what the differences of two audits show."""
    if not differences:
        return f"{name} and {first} cannot be subtracted: read each by itself."
    parts = []
    for result in (LESS, MORE):
        there = sum(line.result == result for line in differences)
        if there:
            parts.append(f"{result} in {there} of {len(differences)} comparisons")
    said = ", and ".join(parts) or SAME
    return f"{name} against {first}: {said}."


def _audit(name: str, audit: Results) -> AuditLine:
    strongest = max(audit.cells, key=attrgetter("strength"))
    fitted = strongest.deployable
    plan = next(iter(audit.plans.values()))
    return AuditLine(
        audit=name,
        corpus=audit.corpus["name"],
        records=audit.corpus["records"],
        design=plan.design,
        adjacency=plan.adjacency,
        instances=audit.game.instances,
        cells=len(audit.cells),
        found=sum(one.verdict.leaks for one in audit.cells),
        strongest="" if fitted is None else strongest.name,
        auc=None if fitted is None else fitted.value,
        ceiling=None if fitted is None else fitted.null,
        headline=headline(audit.cells, declared_of(audit)),
    )


def _cells(name: str, audit: Results) -> Iterator[CellLine]:
    for one in audit.cells:
        fitted, claim, bound = one.deployable, one.claim, one.measurements.epsilon
        yield CellLine(
            audit=name,
            pool=one.cell.pool,
            generator=one.cell.generator,
            epsilon=one.cell.epsilon,
            auc=None if fitted is None else fitted.value,
            low=None if fitted is None else fitted.low,
            high=None if fitted is None else fitted.high,
            ceiling=None if fitted is None else fitted.null,
            p_holm=one.judged.p_holm,
            power=one.power,
            claim=f"({format_epsilon(claim.epsilon)}, {claim.delta:.1g})"
            if claim.promises
            else "none",
            epsilon_lower=None if bound is None else bound.lower,
            verdict=str(one.verdict),
            standing=standing(one),
        )


def _barred(one: Results, other: Results) -> Iterator[str]:
    """Yield what makes all figures of two audits incomparable."""
    if one.fingerprint != other.fingerprint:
        names = f"{one.corpus['name']}, {other.corpus['name']}"
        yield f"other corpus ({names}): no figure can be compared"
        return
    for key in ("design", "adjacency"):
        mine, theirs = getattr(one.game, key), getattr(other.game, key)
        if mine != theirs:
            yield f"other {key} ({mine}, {theirs}): another game is played"
    for key, mine in one.attackers.items():
        if mine != other.attackers[key]:
            yield f"other {key}: the attackers differ"


def _pools(first: Results, second: Results) -> tuple[list[str], list[str]]:
    """Return the pools that both audits ask about alike, and why others are left out."""
    shared, reasons = [], []
    for name, plan in first.plans.items():
        other = second.plans.get(name)
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
    reasons += [f"no pool {name} in the first" for name in second.plans if name not in first.plans]
    return shared, reasons


def _cautions(first: Results, second: Results) -> Iterator[str]:
    """Yield what a reader of both should mind: unequal power above all."""
    one, other = _largest_power(first), _largest_power(second)
    if one is not None and other is not None and abs(one - other) >= 0.02:
        yield (
            f"power differs: an AUC below {one:.2f} would often be missed in the first, below"
            f" {other:.2f} in the second; finding none says less where that is larger"
        )
    if first.fingerprint == second.fingerprint and any(
        plan.fingerprint != second.plans[name].fingerprint
        for name, plan in first.plans.items()
        if name in second.plans
    ):
        yield "other plans (seed or instances): differences are not paired"


def _largest_power(audit: Results) -> float | None:
    powers = [
        power
        for one in audit.cells
        for power in one.powers
        if power is not None and math.isfinite(power)
    ]
    return max(powers) if powers else None


def _differences(
    first: tuple[str, Results], second: tuple[str, Results], pool: str
) -> Iterator[tuple[DifferenceLine, Difference]]:
    for one, other in _matched(_played(first[1], pool), _played(second[1], pool)):
        difference = combine([(1.0, other), (-1.0, one)], WHOLE)
        if difference is None or one.scenarios != other.scenarios:
            continue
        low, high = difference.interval()
        line = DifferenceLine(
            pool=pool,
            first=first[0],
            first_cell=one.cell.mechanism,
            second=second[0],
            second_cell=other.cell.mechanism,
            difference=difference.value,
            low=low,
            high=high,
            p=difference.p,
            p_holm=None,
            paired=one.plan.fingerprint == other.plan.fingerprint and one.seed == other.seed,
        )
        yield line, difference


def _played(audit: Results, pool: str) -> list[CellData]:
    return [cell_data for cell_data in audit.study.cell_data if cell_data.cell.pool == pool]


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


MOUNT = """
for (const box of document.querySelectorAll("[data-figure]")) {
  const spec = JSON.parse(document.getElementById(box.dataset.figure).textContent);
  synthleakFigure(box, spec);
}
"""


def render_comparison(compared: Compared) -> bytes:
    """Return the page."""
    figure = compared_figure(compared)
    return filled(
        "compare.html",
        c=compared,
        version=synthleak.__version__,
        figure=figure,
        spec=None if figure is None else _json_in_script(figure.for_page()),
        **embedded([runtime_script(), MOUNT], runtime_style() + asset("page.css")),
    )


def _json_in_script(spec: Any) -> Markup:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(spec, ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))


def compared_figure(compared: Compared) -> Figure | None:
    """Show every cell of every audit: figure, interval and chance limit, a panel per pool."""
    known = [line for line in compared.cells if line.auc is not None]
    if not known:
        return None
    names = [line.audit for line in compared.audits]
    pools = list(dict.fromkeys(line.pool for line in known))
    data: Rows = [
        {
            "o": line.pool,
            "n": line.audit,
            "c": f"{line.generator}, ε = {format_epsilon(line.epsilon)}",
            "a": fig.short(line.auc),
            "l": fig.short(line.low),
            "h": fig.short(line.high),
            "t": fig.short(line.ceiling),
            "w": line.verdict,
        }
        for line in known
    ]
    panel, said = fig.drawn("compared", names), "; ".join(map(_said, known))
    return fig.figure("compared", data, panel, heads=pools, said=said)


def _said(line: CellLine) -> str:
    return (
        f"{line.audit}, pool {line.pool}, {line.generator} at ε = {format_epsilon(line.epsilon)}"
        f" {line.auc:.3f}"
    )
