"""Which proxies say the same: rank correlations, and groups that nobody could tell apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.analyses.analysis import Study, Unavailable, analysis
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
    """A row of `proxy_groups.csv`: the equivalent proxies of a scenario, and how often one wins.

    Proxies of a group are linked by mean rank correlations of 0.95 or more; `wins` counts the cells
    in which this proxy is the best of its scenario.
    """

    scenario: str
    proxy: str
    view: str
    group: int
    size: int
    wins: int
    cells: int


@dataclass(frozen=True)
class _Ladder:
    """The proxies of one scenario, and their rank correlations as `[cell, proxy, proxy]`."""

    scenario: str
    signals: tuple[Signal, ...]
    rho: Floats

    @property
    def mean(self) -> Floats:
        """The mean over the cells in which both proxies vary; NaN where there is none."""
        counts = np.isfinite(self.rho).sum(axis=0)
        total = np.nan_to_num(self.rho).sum(axis=0)
        made: Floats = np.divide(total, counts, out=np.full(total.shape, np.nan), where=counts > 0)
        return made


def _ladders(study: Study) -> list[_Ladder]:
    return study.once("proxy correlations", lambda: _correlate(study))


def _correlate(study: Study) -> list[_Ladder]:
    """Correlate the proxies of every scenario, over all records and releases of each cell."""
    found: dict[str, dict[tuple[Signal, ...], list[Floats]]] = {}
    for cell in study.cell_data:
        for scenario, signals, rho in _of_cell(cell):
            found.setdefault(scenario, {}).setdefault(signals, []).append(rho)
    return [
        _Ladder(scenario, signals, np.stack(cells))
        for scenario, by_signals in sorted(found.items())
        for signals, cells in by_signals.items()
    ]


def _of_cell(cell: CellData) -> list[tuple[str, tuple[Signal, ...], Floats]]:
    from scipy.special import ndtr

    # The normal distribution takes normal scores back to ranks, up to a factor.
    ranks = ndtr(cell.scores()).reshape(-1, len(cell.signals)).T
    ranks -= ranks.mean(axis=1, keepdims=True)
    length = np.linalg.norm(ranks, axis=1, keepdims=True)
    varies = length[:, 0] > 1e-9
    units = np.divide(ranks, length, out=np.full_like(ranks, np.nan), where=varies[:, None])
    made = []
    for scenario in cell.scenarios:
        own = [i for i, signal in enumerate(cell.signals) if signal.scenario == scenario]
        made.append((scenario, tuple(cell.signals[i] for i in own), units[own] @ units[own].T))
    return made


@analysis("proxy_correlations", version=1, row=CorrelationRow)
def proxy_correlations(study: Study) -> Sequence[CorrelationRow]:
    """How far any two proxies rank records and releases alike, per scenario."""
    if not study.cell_data:
        raise Unavailable("no cell was played")
    rows = []
    for ladder in _ladders(study):
        mean = ladder.mean
        for a, one in enumerate(ladder.signals):
            for b in range(a + 1, len(ladder.signals)):
                other = ladder.signals[b]
                values = ladder.rho[:, a, b][np.isfinite(ladder.rho[:, a, b])]
                if len(values):
                    rows.append(
                        CorrelationRow(
                            scenario=ladder.scenario,
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
    if not study.cell_data:
        raise Unavailable("no cell was played")
    wins = Counter((row.scenario, row.proxy) for row in study.cells)
    cells = Counter(row.scenario for row in study.cells)
    rows = []
    for ladder in _ladders(study):
        groups = linked(ladder.mean >= EQUIVALENT)
        sizes = Counter(groups)
        rows += [
            GroupRow(
                scenario=ladder.scenario,
                proxy=signal.proxy,
                view=signal.view,
                group=group + 1,
                size=sizes[group],
                wins=wins[ladder.scenario, signal.proxy],
                cells=cells[ladder.scenario],
            )
            for signal, group in zip(ladder.signals, groups, strict=True)
        ]
    return rows


def linked(links: NDArray[np.bool_]) -> list[int]:
    """Number the groups that links hold together, in the order of their first members.

    >>> linked(np.array([[1, 0, 1], [0, 1, 0], [1, 0, 1]], dtype=bool))
    [0, 1, 0]
    """
    group = [-1] * len(links)
    for start in range(len(links)):
        if group[start] >= 0:
            continue
        group[start], waiting = max(group) + 1, [start]
        while waiting:
            near = np.flatnonzero(links[waiting.pop()]).tolist()
            fresh = [place for place in near if group[place] < 0]
            for place in fresh:
                group[place] = group[start]
            waiting += fresh
    return group
