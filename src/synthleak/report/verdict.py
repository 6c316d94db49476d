"""The verdict in words: what a reader may conclude, and what not (docs/method.md §8)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from synthleak.core.verdict import decided_by, details
from synthleak.metrics.statistics import TITLES
from synthleak.report.results import CellResult


def sentence(result: CellResult) -> str:
    """Say in one sentence what was found in a cell, what decided it, and what an attacker gains."""
    behind = _behind(result)
    return f"{result.verdict}: {behind}" if behind else str(result.verdict)


def _behind(result: CellResult) -> str:
    fitted = result.deployable
    return details(
        result.verdict,
        decided=decided(result),
        counted=result.counted,
        auc=fitted.value if fitted else None,
        low=fitted.low if fitted else None,
        high=fitted.high if fitted else None,
        ceiling=fitted.null if fitted else None,
        power=result.power,
    )


def decided(result: CellResult) -> str | None:
    """Name the signal and the statistic that decided the verdict on a cell; None if nothing did."""
    row = result.rows[0]
    if row.deciding_value is None:
        return None
    return decided_by(
        TITLES[row.deciding_statistic],
        row.deciding_proxy,
        row.deciding_scenario,
        row.deciding_value,
        row.deciding_ceiling,
    )


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
            f" {_behind(top)}."
        )
    if kinds["none"]:
        top = max(kinds["none"], key=_strength)
        parts.append(
            f"None found at this power in {len(kinds['none'])} of {whole}; in {top.cell.name}"
            f" {_behind(top)}. Nothing found is no proof that nothing leaks."
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
