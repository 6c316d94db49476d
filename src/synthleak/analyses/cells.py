"""The two tables that every audit leaves: the best proxy per scenario, and every proxy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synthleak.calibration.scenarios import Scores
from synthleak.metrics.rounds import best_proxy, round_figures
from synthleak.plan.plan import Trials


@dataclass(frozen=True)
class Cell:
    """One combination that is audited: its name in every table."""

    corpus: str
    pool: str
    generator: str
    epsilon: float


@dataclass(frozen=True)
class ProxyRow:
    """A row of `proxies.csv`: one proxy in one scenario of one cell."""

    corpus: str
    pool: str
    generator: str
    epsilon: float
    scenario: str
    proxy: str
    family: str
    view: str
    auc: float
    auc_spread: float
    tpr_at_fpr05: float
    tpr_spread: float
    n_positive: int
    n_negative: int


@dataclass(frozen=True)
class CellRow:
    """A row of `cells.csv`: the best proxy of one scenario of one cell."""

    corpus: str
    pool: str
    generator: str
    epsilon: float
    scenario: str
    proxy: str
    view: str
    auc: float
    auc_spread: float
    tpr_at_fpr05: float
    n_positive: int
    n_negative: int


def evaluate(
    cell: Cell, scores: Sequence[Scores], trials: Trials
) -> tuple[list[CellRow], list[ProxyRow]]:
    """Bring scores and labels together: here, and only here."""
    rows, details = [], []
    for scenario in scores:
        figures = round_figures(scenario, trials)
        listed = [
            ProxyRow(
                corpus=cell.corpus,
                pool=cell.pool,
                generator=cell.generator,
                epsilon=cell.epsilon,
                scenario=scenario.scenario,
                proxy=proxy.name,
                family=proxy.family,
                view=proxy.view,
                auc=float(figures.auc[position]),
                auc_spread=float(figures.auc_spread[position]),
                tpr_at_fpr05=float(figures.tpr[position]),
                tpr_spread=float(figures.tpr_spread[position]),
                n_positive=figures.n_positive,
                n_negative=figures.n_negative,
            )
            for position, proxy in enumerate(scenario.proxies)
        ]
        details += listed
        rows.append(_as_cell_row(listed[best_proxy(figures)]))
    return rows, details


def _as_cell_row(row: ProxyRow) -> CellRow:
    return CellRow(**{name: getattr(row, name) for name in CellRow.__dataclass_fields__})
