"""Which proxies agree: their rank correlations, and groups of equivalent proxies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from synthleak.analyses.analysis import NO_CELL, Study, Unavailable, analysis
from synthleak.analyses.cell_data import CellData, Signal
from synthleak.evidence.observation import Floats

EQUIVALENT = 0.95


@dataclass(frozen=True)
class CorrelationRow:
    """A row of `proxy_correlations.csv`: two proxies of a scenario, over all scores of a cell.

    `rho` is the mean over cells, `low` and `high` the range; `views` is `lexical`, `embedding` or
    `across`.
    """

    scenario: str
    one: str
    other: str
    views: str
    cells: int
    rho: float
    low: float
    high: float


@dataclass(frozen=True)
class GroupRow:
    """A row of `proxy_groups.csv`: a proxy, its group of equivalent ones, and how often it wins.

    Mean rank correlations of 0.95 or more link the proxies of a group; `wins` counts the cells in
    which this proxy is the best of its scenario.
    """

    scenario: str
    proxy: str
    view: str
    group: int
    size: int
    wins: int
    cells: int


@dataclass(frozen=True)
class _Correlations:
    """The proxies of one scenario, and their rank correlations as `[cell, proxy, proxy]`."""

    scenario: str
    signals: tuple[Signal, ...]
    rho: Floats

    @property
    def mean(self) -> Floats:
        """The mean over the cells in which both proxies vary; NaN where there is none."""
        counts = np.isfinite(self.rho).sum(axis=0)
        total = np.nan_to_num(self.rho).sum(axis=0)
        mean: Floats = np.divide(total, counts, out=np.full(total.shape, np.nan), where=counts > 0)
        return mean


def _correlations(study: Study) -> list[_Correlations]:
    """Correlate the proxies of every scenario, over all records and releases of each cell."""

    def correlate() -> list[_Correlations]:
        found: dict[str, dict[tuple[Signal, ...], list[Floats]]] = {}
        for cell in study.cell_data:
            for scenario, signals, rho in _of_cell(cell):
                found.setdefault(scenario, {}).setdefault(signals, []).append(rho)
        return [
            _Correlations(scenario, signals, np.stack(cells))
            for scenario, by_signals in sorted(found.items())
            for signals, cells in by_signals.items()
        ]

    if not study.cell_data:
        raise Unavailable(NO_CELL)
    return study.once("proxy correlations", correlate)


def _of_cell(cell: CellData) -> Iterator[tuple[str, tuple[Signal, ...], Floats]]:
    from scipy.special import ndtr

    # The normal distribution function turns normal scores back into ranks, up to a factor.
    ranks = ndtr(cell.scores()).reshape(-1, len(cell.signals)).T
    ranks -= ranks.mean(axis=1, keepdims=True)
    length = np.linalg.norm(ranks, axis=1, keepdims=True)
    varies = length[:, 0] > 1e-9
    units = np.divide(ranks, length, out=np.full_like(ranks, np.nan), where=varies[:, None])
    for scenario in cell.scenarios:
        own = [i for i, signal in enumerate(cell.signals) if signal.scenario == scenario]
        yield scenario, tuple(cell.signals[i] for i in own), units[own] @ units[own].T


@analysis("proxy_correlations", version=1, row=CorrelationRow)
def proxy_correlations(study: Study) -> Sequence[CorrelationRow]:
    """How far any two proxies rank records and releases alike, per scenario."""
    rows = []
    for found in _correlations(study):
        mean = found.mean
        for (a, one), (b, other) in combinations(enumerate(found.signals), 2):
            values = found.rho[:, a, b][np.isfinite(found.rho[:, a, b])]
            if len(values):
                rows.append(
                    CorrelationRow(
                        scenario=found.scenario,
                        one=one.proxy,
                        other=other.proxy,
                        views=one.view if one.view == other.view else "across",
                        cells=len(values),
                        rho=float(mean[a, b]),
                        low=float(values.min()),
                        high=float(values.max()),
                    )
                )
    if not rows:
        raise Unavailable("needs two proxies that vary")
    return rows


@analysis("proxy_groups", version=1, row=GroupRow)
def proxy_groups(study: Study) -> Sequence[GroupRow]:
    """Which proxies are equivalent (rank correlation 0.95 or more), and how often each wins."""
    wins = Counter((row.scenario, row.proxy) for row in study.cells)
    cells = Counter(row.scenario for row in study.cells)
    rows = []
    for found in _correlations(study):
        groups = linked(found.mean >= EQUIVALENT)
        sizes = Counter(groups)
        rows += [
            GroupRow(
                scenario=found.scenario,
                proxy=signal.proxy,
                view=signal.view,
                group=group + 1,
                size=sizes[group],
                wins=wins[found.scenario, signal.proxy],
                cells=cells[found.scenario],
            )
            for signal, group in zip(found.signals, groups, strict=True)
        ]
    return rows


def linked(links: NDArray[np.bool_]) -> list[int]:
    """Number the connected groups, in the order of their first members.

    >>> linked(np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]], dtype=bool))
    [0, 1, 0]
    """
    from scipy.sparse.csgraph import connected_components

    labels: list[int] = connected_components(links, directed=False)[1].tolist()
    return labels
