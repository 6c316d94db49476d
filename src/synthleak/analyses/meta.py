"""The meta-classifier against the best single proxy (docs/method.md §10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from synthleak.analyses.analysis import Study, Unavailable, analysis
from synthleak.analyses.cell_data import CellData
from synthleak.core.cell import CellColumns
from synthleak.metrics.null import SLACK


@dataclass(frozen=True)
class MetaRow(CellColumns):
    """A row of `meta.csv`: the meta-classifier of a scenario beside the best single proxy.

    `oracle_…` is the best proxy in hindsight, `crossfit_auc` the one chosen on other instances;
    `features` (0 for all) and `penalty` are what most folds chose. `outcome` compares with the
    oracle: `win`, `tie` or `loss`.
    """

    scenario: str
    auc: float
    auc_spread: float
    tpr_at_fpr05: float
    oracle_auc: float
    oracle_proxy: str
    oracle_view: str
    oracle_delta: float
    crossfit_auc: float | None
    crossfit_delta: float | None
    features: int
    penalty: float
    records: int
    outcome: str


@analysis(
    "meta",
    version=1,
    row=MetaRow,
    opt_in=True,
    shown="pool generator epsilon scenario auc oracle_auc oracle_delta crossfit_delta "
    "features penalty outcome",
)
def meta(study: Study) -> Sequence[MetaRow]:
    """Whether a logistic regression over all proxies beats the best single one (takes minutes)."""
    rows = [row for cell in study.cell_data for row in _rows(cell)]
    if not rows:
        raise Unavailable("takes minutes: run it with `synthleak analyse DIR --only meta`")
    return rows


def _rows(cell: CellData) -> Iterator[MetaRow]:
    if cell.meta is None:
        return
    for fused, best in zip(cell.meta, cell.measurements.rows, strict=True):
        oracle = cell.signals[best.signal]
        delta = fused.auc - best.auc.value
        chosen = None if best.crossfit is None else best.crossfit.value
        yield MetaRow(
            **cell.cell.columns,
            scenario=fused.scenario,
            auc=fused.auc,
            auc_spread=fused.auc_spread,
            tpr_at_fpr05=fused.tpr,
            oracle_auc=best.auc.value,
            oracle_proxy=oracle.proxy,
            oracle_view=oracle.view,
            oracle_delta=delta,
            crossfit_auc=chosen,
            crossfit_delta=None if chosen is None else fused.auc - chosen,
            features=fused.features,
            penalty=fused.penalty,
            records=fused.records,
            outcome="tie" if abs(delta) < SLACK else "win" if delta > 0 else "loss",
        )
