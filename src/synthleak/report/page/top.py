"""The first screen: the verdict, a row for every decision, what to do next.

A decision is whether to publish what one generator makes at one ε. Its row shows the pool that
leaks most, in natural frequencies, with what could be missed and what was promised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synthleak.analyses.cell_data import CANARY, RANDOM
from synthleak.analyses.copies import exceeds_chance
from synthleak.analyses.gaps import WHOLE
from synthleak.core.cell import format_epsilon
from synthleak.core.verdict import BROKEN, CANNOT_SAY, FOUND, NONE_FOUND
from synthleak.report.page.material import Material
from synthleak.report.page.names import Said
from synthleak.report.page.numbers import per_hundred

ORDER = (BROKEN, FOUND, NONE_FOUND, CANNOT_SAY)
"""Verdicts, the worst first."""
COLUMNS, GAP = 25, 12
"""Dots in a line, and how far apart they are."""


@dataclass(frozen=True)
class Decision:
    """One generator at one ε: what is said of it, by the cell that leaks most.

    `pools` counts its cells, and `leaking` those with a leak; `row` is a row of `cells` of the cell
    shown, `power` the one with the largest AUC that could be missed; `records` counts the records
    that could be named. `dots` are the paths of a hundred dots by kind. Cells of canaries are
    `written`: they are nobody's and have a row of their own. A leak is `weak` if no record can be
    named and no more are recognised than by chance: only all records together show it. `copies`
    says that members are copied more than by chance.
    """

    said: Said
    name: str
    pools: int
    leaking: int
    row: int
    power: int | None
    records: int
    advice: str
    dots: Mapping[str, str]
    written: bool = False
    weak: bool = False
    copies: bool = False


def top(material: Material, said: Sequence[Said]) -> dict[str, Any]:
    """Return the content of the first screen."""
    kinds = {one.kind for one in said}
    rows = decisions(material, said)
    return {
        "kind": next(kind for kind in ORDER if kind in kinds),
        "decisions": rows,
        "promises": any(_promises(material, one) for one in rows),
        "replaced": any(_is_replaced(material, one) for one in rows),
        "controls": controls(material, said),
        "claims": _claims(material),
        "next": _next(material, said),
    }


def decisions(material: Material, said: Sequence[Said]) -> list[Decision]:
    """Return a row for every generator and ε, and one for its canaries, in the order of cells."""
    cells, records = material.places("cells"), material.places("records")
    grouped: dict[tuple[str, bool], list[Said]] = {}
    for one in said:
        grouped.setdefault((one.decision, _is_written(material, one)), []).append(one)
    made = []
    for (name, written), group in grouped.items():
        shown = strongest(material, group)
        places = cells[shown.cell]
        made.append(
            Decision(
                said=shown,
                name=name,
                pools=len(group),
                leaking=sum(one.leaks for one in group),
                row=places[0],
                power=_power(material, places),
                records=len(records.get(shown.cell, ())),
                advice=_advice(material, shown),
                dots={}
                if shown.kind == CANNOT_SAY
                else _dots_of(material.summary["cells"][shown.place]["crossfit_tpr"]),
                written=written,
                weak=_is_weak(material, shown, places[0]),
                copies=_copies_exceed(material, shown),
            )
        )
    return made


def _is_weak(material: Material, shown: Said, place: int) -> bool:
    """Say whether a leak shows in all records together and in no single one."""
    row, rate = (
        material.rows("cells")[place],
        material.summary["cells"][shown.place]["crossfit_tpr"],
    )
    if shown.kind != FOUND or row.named != 0 or exceeds_chance(row.copied_p) or rate is None:
        return False
    return rate["null"] is not None and rate["value"] <= rate["null"]


def _copies_exceed(material: Material, shown: Said) -> bool:
    """Say whether the release of a cell copies more members than chance would."""
    return exceeds_chance(material.rows("cells")[material.places("cells")[shown.cell][0]].copied_p)


def _is_written(material: Material, one: Said) -> bool:
    """Say whether the records of a cell are canaries (docs/method.md §13)."""
    return material.facts.rules.get(one.cell.pool) == CANARY


def strongest(material: Material, said: Sequence[Said]) -> Said:
    """Return the cell with the worst verdict and, of those, the largest deployable AUC.

    A leak that shows in single records comes before one that shows in all of them together.
    """
    cells = material.places("cells")

    def strength(one: Said) -> tuple[int, bool, bool, float]:
        fitted = material.summary["cells"][one.place]["crossfit"]
        single = one.leaks and not _is_weak(material, one, cells[one.cell][0])
        value = fitted["value"] if fitted else -math.inf
        return -ORDER.index(one.kind), one.leaks, single, value

    return max(said, key=strength)


def _power(material: Material, places: Sequence[int]) -> int | None:
    """Return the row with the largest AUC that could be missed; None where one is unknown."""
    powers = [material.rows("cells")[place].power_auc for place in places]
    if any(power is None or not math.isfinite(power) for power in powers):
        return None
    return places[powers.index(max(powers))]


def _promises(material: Material, one: Decision) -> bool:
    """Say whether there is a promise or a bound to show."""
    cell = material.summary["cells"][one.said.place]
    return cell["claim"]["epsilon"] != "inf" or cell["epsilon_bound"] is not None


def _is_replaced(material: Material, one: Decision) -> bool:
    """Say whether a promise is about adding or removing a record, and the game replaces one."""
    row, claim = material.rows("cells")[one.row], material.summary["cells"][one.said.place]["claim"]
    return bool(claim["epsilon"] != "inf" and row.adjacency != claim["adjacency"])


def dots(recognised: int, limit: int) -> dict[str, str]:
    """Return the paths of a hundred dots: recognised beyond chance, within it, not recognised.

    >>> {kind: path.count("M") for kind, path in dots(72, 11).items()}
    {'beyond': 61, 'chance': 11, 'missed': 28}
    >>> {kind: path.count("M") for kind, path in dots(7, 11).items()}
    {'beyond': 0, 'chance': 7, 'missed': 93}
    """
    within = min(recognised, limit)
    ends = (0, recognised - within, recognised, 100)
    drawn = [
        f"M{GAP // 2 + GAP * (dot % COLUMNS)} {GAP // 2 + GAP * (dot // COLUMNS)}h0"
        for dot in range(100)
    ]
    kinds = zip(("beyond", "chance", "missed"), ends, ends[1:], strict=False)
    return {kind: "".join(drawn[start:end]) for kind, start, end in kinds}


def _dots_of(rate: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the dots of a rate with its chance limit; none without a rate."""
    if rate is None:
        return {}
    limit = 1.0 if rate["null"] is None else rate["null"]
    return dots(int(per_hundred(rate["value"])), int(per_hundred(limit)))


def _advice(material: Material, shown: Said) -> str:
    """Answer whether to publish."""
    cell = material.summary["cells"][shown.place]
    if shown.kind == NONE_FOUND:
        if _copies_exceed(material, shown):
            return "Not yet: remove the rows that copy members, and check again."
        claim = cell["claim"]
        if claim["epsilon"] == "inf" or claim["void"]:
            return "Undecided: no leak was found, but no ε is promised either."
        return f"Only if ε = {format_epsilon(claim['epsilon'])} is enough."
    if shown.kind == FOUND and _is_written(material, shown):
        return "No person leaks here, but a record as unusual could."
    return PUBLISH[shown.kind]


PUBLISH = {
    BROKEN: "No. The promised ε does not hold.",
    FOUND: "No, not as anonymous data.",
    CANNOT_SAY: "Undecided: this audit cannot tell.",
}
"""Whether to publish, where the verdict alone decides."""


def controls(material: Material, said: Sequence[Said]) -> dict[str, Any] | None:
    """Compare selected pools with random records; None for a check, which has no such controls.

    `flagged` are the rows of `control_gap` in which selected records leak more, `leaking` the
    decisions with a leak of random records.
    """
    if "check" in material.summary:
        return None
    random = [one for one in said if material.facts.rules.get(one.cell.pool) == RANDOM]
    rows = [
        (place, row)
        for place, row in enumerate(material.rows("control_gap"))
        if row.scenario == WHOLE and row.crossfit_gap is not None
    ]
    return {
        "audited": bool(random),
        "compared": len(rows),
        "flagged": [place for place, row in rows if row.flagged == "yes" and row.crossfit_gap > 0],
        "leaking": list(dict.fromkeys(one.decision for one in random if one.leaks)),
    }


def _claims(material: Material) -> list[tuple[str, int]]:
    """Return one cell for every different way to promise an ε: generator and place."""
    seen: dict[tuple[str, Any, Any], int] = {}
    for place, cell in enumerate(material.summary["cells"]):
        claim = cell["claim"]
        if claim["epsilon"] != "inf":
            seen.setdefault((cell["generator"], claim["void"], claim["accountant"]), place)
    return [(key[0], place) for key, place in seen.items()]


def _next(material: Material, said: Sequence[Said]) -> list[str]:
    """Return what to do, the worst verdict's steps first; a leak of canaries has its own step."""
    written = [one for one in said if one.kind == FOUND and _is_written(material, one)]
    kinds = {one.kind for one in said if one not in written}
    if "check" not in material.summary:
        steps = [step for kind in ORDER if kind in kinds for step in NEXT[kind]]
        if NONE_FOUND in kinds:
            steps += [
                f"Audit again with {encoder} as the encoder of the evidence, as {name} has it:"
                " whoever has that encoder can see far more than was tried here."
                for name, encoder in material.facts.differing_encoders.items()
            ]
        return [*steps, *[CANARIES_LEAK] * bool(written)]
    steps = [step for kind in ORDER if kind in kinds for step in AFTER_CHECK[kind]]
    if material.rows("nearest") or any(_copies_exceed(material, one) for one in said):
        steps.insert(kinds.isdisjoint({NONE_FOUND, CANNOT_SAY}), REMOVE)
    return steps


NEXT: dict[str, tuple[str, ...]] = {
    BROKEN: (
        "Withdraw the promised ε where it is broken. Of 100 audits of intact mechanisms at most 5"
        " say so: look for noise that is reused, a normaliser or class sizes taken"
        " from the private data, or shuffled batches accounted as Poisson sampling. Repeat the"
        " audit with another seed to confirm.",
    ),
    FOUND: (
        "Treat releases with a leak (●) as personal data: they reveal, better than chance, who was"
        " in the private data.",
        "See below who is hit. Try a smaller ε, more records behind each release or smaller"
        " releases, or leave those records out; then audit again, since other records may now"
        " stand out, and put both audits side by side with “synthleak compare”.",
    ),
    NONE_FOUND: (
        "Where none was found (○), report that together with what could be missed. It does not"
        " show that nothing leaks: base what you promise data subjects on the accounted ε.",
        "To notice smaller leaks, play more instances or the design “cohort”; “synthleak plan"
        " power” says how many it takes. Audit the records that you worry about most (pool rules"
        " ids, labels, where).",
    ),
    CANNOT_SAY: (
        "Where nothing can be said (?), look at the reason in the cell: releases that are all alike"
        " show nothing, and too few trials cannot tell chance from a leak. Fix the cause and"
        " run again.",
    ),
}
CANARIES_LEAK = (
    "Canaries leak: they are nobody’s records, but they show what this generator does to a record"
    " that is as unusual. Look at the pools of real records beside them, and try a smaller ε."
)
REMOVE = (
    "Remove the synthetic rows listed under “Who leaks” and check again. The second check is more"
    " lenient than the first, since these members and this holdout chose the rows: use a holdout of"
    " other records if you can."
)
AFTER_CHECK: dict[str, tuple[str, ...]] = {
    BROKEN: (
        "Withdraw the stated ε: the release shows more than it allows, as an intact mechanism does"
        " in at most 5 of 100 such tests.",
    ),
    FOUND: (
        "Do not publish this release as anonymous: treat it as personal data.",
        "The next release of this generator may leak as well: audit the generator itself with"
        " “synthleak run” if you can run it.",
    ),
    NONE_FOUND: (
        "Report “none found” together with what could be missed. It does not show that nothing"
        " leaks. More members and more held-out records would show smaller leaks.",
    ),
    CANNOT_SAY: (
        "Nothing can be said: the reason stands beside the verdict. Fix the cause and check again.",
    ),
}
