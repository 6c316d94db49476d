"""The first screen: the verdict, a row for every decision, what to do next.

A decision is whether to publish what one generator makes at one ε. Its row shows the pool that
leaks most, in natural frequencies, and what was promised; p, AUC and ε stand under “How we know”.
The words are in `templates/words.html`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthleak.analyses.analysis import RANDOM
from synthleak.analyses.cells import STRONG_LEAK, TRACE
from synthleak.analyses.copies import exceeds_chance
from synthleak.analyses.gaps import WHOLE
from synthleak.core.cell import BROKEN, CANNOT_SAY, FOUND, NONE_FOUND, format_epsilon
from synthleak.metrics.measurements import Estimate
from synthleak.report.page import MARKS, Page, Said
from synthleak.report.verdict import (
    PHRASES,
    STANDINGS,
    quiet_up_to,
    settled_by,
    size_line,
    standing,
    worst,
)
from synthleak.report.writing import HOW, words_in


@dataclass(frozen=True)
class Decision:
    """One generator at one ε: what is said of it, by the cell that leaks most.

    `pools` counts its cells, and `leaking` those with a leak; `row` is a row of `cells` of the cell
    shown, `power` the one with the largest AUC that could be missed; `records` counts the records
    that could be named. `dots` says how many of a hundred dots are of a kind; there are none where
    nothing can be said, nor where members are `few`, which is then their number. Cells of canaries
    are `written`: they are nobody's and have a row of their own. `standing` is one of
    `verdict.STANDINGS`, and `settled` what would settle it where it is not final. `copies` says
    that members are copied more than by chance, and `disclosed` that more can be read of them.
    `sizes` says up to how many texts nothing was
    found, where releases were looked at in several sizes.
    """

    said: Said
    name: str
    pools: int
    leaking: int
    row: int
    power: int | None
    records: int
    dots: Mapping[str, int]
    few: int | None
    written: bool
    standing: str
    settled: str | None
    copies: bool
    disclosed: bool
    sizes: str | None = None

    @property
    def label(self) -> str:
        label: str = PHRASES["label"][self.standing]
        return label

    @property
    def mark(self) -> str:
        return MARKS[self.standing]


def first_screen(page: Page) -> dict[str, Any]:
    """Return what the sentences of `words.html` are filled from."""
    shown = worst(page.results.cells)
    top = standing(shown)
    rows = decisions(page)
    budgets: dict[str, list[str]] = {}
    for cell in page.cells:
        budgets.setdefault(cell.generator, []).append(format_epsilon(cell.epsilon))
    return {
        "top": {
            "standing": top,
            "mark": MARKS[top],
            "settled": settled_by(shown),
            "decisions": rows,
            "promises": any(_promises(page, one) for one in rows),
            "replaced": any(_is_replaced(page, one) for one in rows),
            "controls": controls(page),
            "claims": _claims(page),
            "next": next_steps(page),
        },
        "generators": {name: list(dict.fromkeys(shown)) for name, shown in budgets.items()},
    }


def decisions(page: Page) -> list[Decision]:
    """Return a row for every generator and ε, and one for its canaries, in the order of cells."""
    cells, records = page.places("cells"), page.places("records")
    grouped: dict[tuple[str, bool], list[Said]] = {}
    for one in page.verdicts:
        grouped.setdefault((one.decision, _is_written(page, one)), []).append(one)
    rows = []
    for (name, written), group in grouped.items():
        result = worst(page.results.cells[one.place] for one in group)
        shown = next(one for one in group if one.cell == result.cell)
        places = cells[shown.cell]
        blank = shown.kind == CANNOT_SAY or result.few is not None
        measured = result.measurements
        drawn = _dots_of(measured.crossfit_tpr)
        if page.given and shown.leaks and measured.named:
            drawn = dots(round(100 * measured.named / len(measured.records)), 0)
        rows.append(
            Decision(
                said=shown,
                name=name,
                pools=len(group),
                leaking=sum(one.leaks for one in group),
                row=places[0],
                power=_power(page, places),
                records=len(records.get(shown.cell, ())),
                dots={} if blank else drawn,
                few=result.few,
                written=written,
                standing=standing(result),
                settled=settled_by(result),
                copies=exceeds_chance(page.rows("cells")[places[0]].copied_p),
                disclosed=exceeds_chance(page.rows("cells")[places[0]].disclosed_p),
                sizes=size_line(result),
            )
        )
    return rows


def _printed(page: Page, place: int) -> bool:
    """Say whether what releases copy or disclose of members is more than chance gives."""
    row = page.rows("cells")[place]
    return exceeds_chance(row.copied_p) or exceeds_chance(row.disclosed_p)


def _is_written(page: Page, one: Said) -> bool:
    """Say whether the records of a cell are canaries (docs/method.md §13)."""
    return page.results.cells[one.place].canaries


def _power(page: Page, places: Sequence[int]) -> int | None:
    """Return the row with the largest AUC that could be missed; None where one is unknown."""
    powers = [page.rows("cells")[place].power_auc for place in places]
    if any(power is None or not math.isfinite(power) for power in powers):
        return None
    return places[powers.index(max(powers))]


def _promises(page: Page, one: Decision) -> bool:
    """Say whether there is a promise or a bound to show."""
    result = page.results.cells[one.said.place]
    return not math.isinf(result.claim.epsilon) or result.measurements.epsilon is not None


def _is_replaced(page: Page, one: Decision) -> bool:
    """Say whether a promise is about adding or removing a record, and the game replaces one."""
    row, claim = page.rows("cells")[one.row], page.results.cells[one.said.place].claim
    return bool(not math.isinf(claim.epsilon) and row.adjacency != claim.adjacency)


def dots(recognised: int, limit: int) -> dict[str, int]:
    """Count a hundred dots: recognised beyond chance, within it, not recognised.

    >>> dots(72, 11), dots(7, 11)["beyond"]
    ({'beyond': 61, 'chance': 11, 'missed': 28}, 0)
    """
    within = min(recognised, limit)
    return {"beyond": recognised - within, "chance": within, "missed": 100 - recognised}


def _dots_of(rate: Estimate | None) -> dict[str, int]:
    """Return the dots of a rate with its chance limit; none without a rate."""
    if rate is None:
        return {}
    shown = (rate.value, 1.0 if rate.null is None else rate.null)
    return dots(*(int(HOW["per_hundred"](share)) for share in shown))


def controls(page: Page) -> dict[str, Any] | None:
    """Compare selected pools with random records; None for a check, which has no such controls.

    `flagged` are the rows of `control_gap` in which selected records leak more, `leaking` the
    decisions with a leak of random records.
    """
    if page.given:
        return None
    random = [one for one in page.verdicts if page.facts.rules.get(one.cell.pool) == RANDOM]
    rows = [
        (place, row)
        for place, row in enumerate(page.rows("control_gap"))
        if row.scenario == WHOLE and row.crossfit_gap is not None
    ]
    return {
        "audited": bool(random),
        "compared": len(rows),
        "flagged": [place for place, row in rows if row.flagged == "yes" and row.crossfit_gap > 0],
        "leaking": list(dict.fromkeys(one.decision for one in random if one.leaks)),
    }


def _claims(page: Page) -> list[tuple[str, int]]:
    """Return one cell for every different way to promise an ε: generator and place."""
    seen: dict[tuple[str, Any, Any], int] = {}
    for place, one in enumerate(page.results.cells):
        if not math.isinf(one.claim.epsilon):
            key = (one.cell.generator, one.claim.void, one.claim.accountant)
            seen.setdefault(key, place)
    return [(key[0], place) for key, place in seen.items()]


def next_steps(page: Page) -> list[str]:
    """Return what to do, the worst verdict's steps first; a leak of canaries has its own step."""
    words = words_in("words.html")
    canaries = [one for one in page.verdicts if one.kind == FOUND and _is_written(page, one)]
    kinds = {row.standing for row in decisions(page) if row.said not in canaries}
    by_kind = words.AFTER_CHECK if page.given else words.AFTER_GAME
    steps = [step for kind in STANDINGS if kind in kinds for step in by_kind[kind]]
    steps = list(dict.fromkeys(steps))
    quiet = {quiet_up_to(one) for one in page.results.cells if one.verdict.leaks}
    if quiet and None not in quiet:
        steps.insert(1, words.publish_less(f"{min(filter(None, quiet)):,}"))
    if not page.given:
        if NONE_FOUND in kinds:
            other_encoders = page.facts.differing_encoders.items()
            steps += [words.other_encoder(name, encoder) for name, encoder in other_encoders]
        return [*steps, *[words.CANARIES_LEAK] * bool(canaries)]
    printed = any(_printed(page, places[0]) for places in page.places("cells").values())
    if (page.rows("nearest") or printed) and BROKEN not in kinds:
        steps.insert(not kinds.isdisjoint({BROKEN, STRONG_LEAK, TRACE}), words.REMOVE)
    return steps
