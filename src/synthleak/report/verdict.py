"""The verdict in words: what a reader may conclude, and what not (docs/method.md §8)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from synthleak.core.verdict import CANNOT_SAY
from synthleak.metrics.statistics.table import BY_NAME
from synthleak.report.results import CellResult

COUNTED = "under add/remove this may be no more than the number of records"
"""Said where an instance without the target has a record less."""


def sentence(result: CellResult) -> str:
    """Say in one sentence what was found in a cell, what decided it, and what an attacker gains."""
    behind = details(result)
    return f"{result.verdict}: {behind}" if behind else str(result.verdict)


def details(result: CellResult) -> str:
    """Say what stands behind a verdict: what decided it, the deployable figure, the power."""
    verdict, fitted, power = result.verdict, result.deployable, result.power
    if verdict.kind == CANNOT_SAY:
        return ""
    figure = ""
    if fitted is not None:
        span = "" if fitted.low is None else f"{fitted.low:.2f} to {fitted.high:.2f}; "
        figure = (
            f"an attacker who fixed the method in advance reaches AUC {fitted.value:.2f}"
            f" ({span}{_limit(fitted.null)})"
        )
    if verdict.leaks:
        why = decided(result)
        parts = [f"decided by {why}" if why else "", figure, COUNTED if result.counted else ""]
    elif power is not None and math.isfinite(power):
        parts = [f"a single signal's AUC below {power:.2f} would often be missed", figure]
    else:
        parts = ["what would be missed is unknown", figure]
    return "; ".join(part for part in parts if part)


def decided(result: CellResult) -> str | None:
    """Name the signal and the statistic that decided the verdict on a cell; None if nothing did."""
    row = result.rows[0]
    if row.deciding_value is None:
        return None
    title, limit = BY_NAME[row.deciding_statistic].title, _limit(row.deciding_ceiling)
    where = f"{row.deciding_proxy} in {row.deciding_scenario}"
    return f"{title} of {where} ({row.deciding_value:.2f}, {limit})"


def _limit(ceiling: float | None) -> str:
    return "no chance limit" if ceiling is None else f"chance limit {ceiling:.2f}"


def headline(results: Sequence[CellResult], declared: str | None = None) -> str:
    """Say what an audit found: how many cells, the strongest of them, and what does not follow.

    `declared` is what was declared of the split of a check.
    """
    kinds: dict[str, list[CellResult]] = {"found": [], "none": [], "cannot": []}
    for one in results:
        kinds[one.verdict.kind].append(one)
    broken = [one.cell.name for one in results if one.verdict.bound is not None]
    whole = _cells(len(results))
    parts = []
    if broken:
        parts.append(f"CLAIM BROKEN in {_cells(len(broken))}: {'; '.join(broken)}.")
    if kinds["found"]:
        top = max(kinds["found"], key=_strength)
        parts.append(
            f"Leak found in {len(kinds['found'])} of {whole}, most in {top.cell.name}:"
            f" {details(top)}."
        )
    if kinds["none"]:
        top = max(kinds["none"], key=_strength)
        parts.append(
            f"None found at this power in {len(kinds['none'])} of {whole}; in {top.cell.name}"
            f" {details(top)}. Finding nothing does not prove that nothing leaks."
        )
    if kinds["cannot"]:
        reason = kinds["cannot"][0].verdict.reason
        parts.append(f"Nothing can be said of {_cells(len(kinds['cannot']))}: {reason}.")
    elif declared == "unstated":
        parts.append(
            "This holds if members and holdout are a uniform random split, made before the release:"
            " nobody has declared that."
        )
    return " ".join(parts)


def _strength(result: CellResult) -> float:
    return -math.inf if result.deployable is None else result.deployable.value


def _cells(count: int) -> str:
    return f"{count} cell{'s' * (count != 1)}"
