"""The meta-classifier against the best single proxy (docs/method.md §10)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from synthleak.analyses.analysis import Study, Unavailable, analysis
from synthleak.analyses.cell_data import CellData
from synthleak.metrics.null import SLACK


@dataclass(frozen=True)
class MetaRow:
    """A row of `meta.csv`: all proxies of a scenario fused, beside the best single one.

    `oracle_…` is the best proxy in hindsight, `crossfit_auc` the one chosen on other instances;
    `features` (0 for all) and `penalty` are what most folds chose. `outcome` compares with the
    oracle: `win`, `tie` or `loss`.
    """

    corpus: str
    pool: str
    generator: str
    epsilon: float
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
    shown=(
        "pool",
        "generator",
        "epsilon",
        "scenario",
        "auc",
        "oracle_auc",
        "oracle_delta",
        "crossfit_delta",
        "features",
        "penalty",
        "outcome",
    ),
)
def meta(study: Study) -> Sequence[MetaRow]:
    """Whether a logistic regression over all proxies beats the best single one (takes minutes)."""
    fused = [cell for cell in study.cell_data if cell.meta is not None]
    if not fused:
        raise Unavailable("takes minutes: ask for it with `synthleak analyse DIR --only meta`")
    return [row for cell in fused for row in _rows(cell)]


def _rows(cell: CellData) -> Iterator[MetaRow]:
    for made, best in zip(cell.meta or (), cell.measurements.rows, strict=True):
        oracle = cell.signals[best.signal]
        delta = made.auc - best.auc.value
        chosen = None if best.crossfit is None else best.crossfit.value
        yield MetaRow(
            **asdict(cell.cell),
            scenario=made.scenario,
            auc=made.auc,
            auc_spread=made.auc_spread,
            tpr_at_fpr05=made.tpr,
            oracle_auc=best.auc.value,
            oracle_proxy=oracle.proxy,
            oracle_view=oracle.view,
            oracle_delta=delta,
            crossfit_auc=chosen,
            crossfit_delta=None if chosen is None else made.auc - chosen,
            features=made.features,
            penalty=made.penalty,
            records=made.records,
            outcome="tie" if abs(delta) < SLACK else "win" if delta > 0 else "loss",
        )
