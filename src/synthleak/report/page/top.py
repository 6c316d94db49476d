"""The top of the page: the verdict, the strongest cell in natural frequencies, what to do next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from synthleak.core.verdict import BROKEN, CANNOT_SAY, FOUND, NONE_FOUND, WORDS
from synthleak.report.page.material import Material
from synthleak.report.page.names import Said

ORDER = (BROKEN, FOUND, NONE_FOUND, CANNOT_SAY)
"""Verdicts, the worst first."""


def top(material: Material, said: Sequence[Said]) -> dict[str, Any]:
    """Return the content of the top."""
    counts = {kind: sum(one.kind == kind for one in said) for kind in ORDER}
    worst = next(kind for kind in ORDER if counts[kind])
    return {
        "kind": worst,
        "words": WORDS[worst].capitalize(),
        "count": counts[worst],
        "of": len(said),
        "strongest": _strongest(material, said),
        "power": _power(material),
        "claims": _claims(material),
        "next": [step for kind in ORDER if counts[kind] for step in NEXT[kind]],
    }


def _strongest(material: Material, said: Sequence[Said]) -> Said | None:
    """Return the cell with the largest cross-fitted AUC, among those with a leak if there are."""
    fitted = [one for one in said if material.summary["cells"][one.place]["crossfit"]]
    if not fitted:
        return None
    return max(
        fitted,
        key=lambda one: (one.leaks, material.summary["cells"][one.place]["crossfit"]["value"]),
    )


def _power(material: Material) -> tuple[int, int] | None:
    """Return the rows of `cells` with the smallest and the largest AUC that would be found."""
    known = [
        (row.power_auc, place)
        for place, row in enumerate(material.rows("cells"))
        if row.power_auc is not None and math.isfinite(row.power_auc)
    ]
    return (min(known)[1], max(known)[1]) if known else None


def _claims(material: Material) -> list[tuple[str, int]]:
    """Return one cell for every different promise: generator and place in the summary."""
    seen: dict[tuple[str, Any, Any, Any], int] = {}
    for place, cell in enumerate(material.summary["cells"]):
        claim = cell["claim"]
        key = (cell["generator"], str(claim["epsilon"]), claim["delta"], claim["void"])
        seen.setdefault(key, place)
    return [(key[0], place) for key, place in seen.items()]


NEXT: dict[str, tuple[str, ...]] = {
    "broken": (
        "Withdraw the privacy claim. A lower bound on ε lies above what was promised, which an"
        " intact mechanism allows in at most 5 of 100 such tests: look for noise that is reused,"
        " a normaliser or class sizes taken from the private data, or shuffled batches accounted"
        " as Poisson sampling. Repeat the audit with another seed to confirm.",
    ),
    "found": (
        "Do not give out a release made this way as if it were anonymous: it reveals, better"
        " than chance, who was in the data. Treat it as personal data.",
        "See below who is hit. Take those records out, or give them a stronger mechanism, and audit"
        " the new generator as a whole: other records may then stand out.",
        "Try a smaller ε, more records behind each release, or smaller releases; then put the two"
        " audits side by side with “synthleak compare”.",
    ),
    "none": (
        "Where none was found, report it with its power: “none found”, and the smallest leak that"
        " would have been noticed. It does not show that nothing leaks.",
        "If that smallest leak is too large for you, play more instances or the design “cohort”;"
        " “synthleak plan power” says how many it takes.",
        "Base what you promise data subjects on the accounted privacy guarantee, not on an audit"
        " that found nothing; and audit the records that you worry about most (pool rules ids,"
        " labels, where).",
    ),
    "cannot": (
        "Where nothing can be said, look at the reason in the cell: releases that are all alike"
        " show nothing, and too few trials cannot tell chance from a leak. Fix the cause and"
        " run again.",
    ),
}
