"""The tables that every audit writes: the best proxy per scenario, every proxy, every record.

Every number is shown next to what chance alone would give (docs/method.md §8; docs/metrics.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from synthleak.core.cell import Cell, CellColumns
from synthleak.core.spec_sections import GameSection
from synthleak.core.verdict import CANNOT_SAY, LEVEL, TOO_FEW, Verdict, judge_cell
from synthleak.evidence.family import Proxy
from synthleak.metrics.estimate import Estimate
from synthleak.metrics.measurements import (
    CellMeasurements,
    ScenarioMeasurements,
    SignalMeasurements,
)
from synthleak.metrics.null import holm
from synthleak.metrics.power import smallest_found
from synthleak.metrics.rounds import RoundMeasurements
from synthleak.metrics.statistics.table import AUC, BY_NAME
from synthleak.plan.plan import Plan

if TYPE_CHECKING:
    from synthleak.analyses.copies import Copies


@dataclass(frozen=True)
class ProxyRow(CellColumns):
    """A row of `proxies.csv`: one proxy in one scenario of one cell."""

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
    auc_ceiling: float | None
    tail: float | None
    tail_ceiling: float | None
    tail1: float | None
    tail1_ceiling: float | None
    tail02: float | None
    tail02_ceiling: float | None


@dataclass(frozen=True)
class CellRow(CellColumns):
    """A row of `cells.csv`: the best proxy of one scenario of one cell, with its nulls."""

    scenario: str
    proxy: str
    view: str
    auc: float
    auc_spread: float
    tpr_at_fpr05: float
    n_positive: int
    n_negative: int
    auc_low: float | None
    auc_high: float | None
    null_auc95: float | None
    null_tpr95: float | None
    p_value: float | None
    p_cell: float | None
    p_holm: float | None
    crossfit_auc: float | None
    crossfit_low: float | None
    crossfit_high: float | None
    crossfit_tpr: float | None
    crossfit_p: float | None
    power_auc: float | None
    epsilon_lower: float | None
    epsilon_max: float | None
    epsilon_claim: float | None
    delta_claim: float | None
    adjacency: str
    design: str
    verdict: str
    null_crossfit95: float | None
    null_crossfit_tpr95: float | None
    crossfit_records_low: float | None
    crossfit_records_high: float | None
    pooled_auc: float
    null_pooled95: float | None
    deciding_scenario: str
    deciding_proxy: str
    deciding_statistic: str
    deciding_value: float | None
    deciding_ceiling: float | None
    copied_members: int | None = None
    copied_holdout: int | None = None
    copied_p: float | None = None
    named: int | None = None
    unit: str = "record"
    epsilon_claim_record: float | None = None
    look: int = 1
    looks: int = 1
    instances: int = 1
    claim_p: float | None = None
    claim_p_holm: float | None = None
    verbatim_members: int | None = None
    verbatim_holdout: int | None = None
    cannot_say: str = ""


@dataclass(frozen=True)
class RecordRow(CellColumns):
    """A row of `records.csv`: one record of a pool in one cell, by the cell's best proxy.

    `auc`, `p_value` and `q_value` are filled where a record is compared with itself (`cohort`).
    `v` is empty where the record was in no release, or in all; `v_rank` counts from the largest.
    In a check `proxy` is the signal that scores the record, and `nearest_row` the most similar
    row of the release, from 1, with its Jaccard `similarity` (character 5-grams). `copies` counts
    the records of the target that stand there. `named` is "yes" where the record is named. Where
    the audit asks about persons, `record` is one.
    """

    record: str
    auc: float | None
    p_value: float | None
    q_value: float | None
    scenario: str = ""
    proxy: str = ""
    joined: int = 0
    absent: int = 0
    v: float | None = None
    v_rank: int | None = None
    top_tenth: str = ""
    v_paper: float | None = None
    nearest_row: int | None = None
    similarity: float | None = None
    copies: int | None = None
    named: str = ""


@dataclass(frozen=True)
class CellVerdict:
    """The verdict on a whole cell, with the p-values that it rests on."""

    p_holm: float | None
    verdict: Verdict
    claim_p_holm: float | None = None

    @property
    def words(self) -> str:
        """The verdict as tables write it."""
        return str(self.verdict)


def judge(cells: Sequence[CellMeasurements], looks: int = 1) -> list[CellVerdict]:
    """Adjust p over cells by Holm, that of claims over the cells that make one; judge each cell.

    Where not even an AUC of 1 would be found 4 times in 5, that none was found says nothing. At
    each of several `looks` the level is smaller.
    """
    adjusted = holm([cell.p for cell in cells])
    claims = holm([None if cell.epsilon is None else cell.epsilon.p for cell in cells])

    def reason(cell: CellMeasurements, p: float | None) -> str | None:
        blind = all(power_of(cell, row, len(cells) * looks) is None for row in cell.rows)
        return cell.reason or (TOO_FEW if blind and p is not None and p > LEVEL else None)

    return [
        CellVerdict(
            p,
            judge_cell(
                p,
                reason(cell, p),
                claim,
                cell.epsilon_claim,
                None if cell.epsilon is None else cell.epsilon.lower,
            ),
            claim,
        )
        for p, claim, cell in zip(adjusted, claims, cells, strict=True)
    ]


def power_of(cell: CellMeasurements, row: ScenarioMeasurements, tests: int) -> float | None:
    """Return the smallest AUC of a row's proxy that is found 4 times in 5.

    `tests` is what the level is shared by: the cells of Holm, times the looks.
    """
    if cell.null is None:
        return None
    return smallest_found(row.centre, row.scale, cell.null.critical(LEVEL / tests))


def evaluate(
    cell: Cell,
    proxies: Sequence[Proxy],
    rounds: Sequence[RoundMeasurements],
    plan: Plan,
    measured: CellMeasurements,
    judged: CellVerdict,
    cells: int,
    copies: Copies | None = None,
    unit: str = "record",
    claim_as_stated: float | None = None,
    game: GameSection | None = None,
) -> tuple[list[CellRow], list[ProxyRow]]:
    """Write the measurements of a cell as rows; Holm adjusts for `cells` cells.

    `copies` are those in the release of a check; a game has none. Where targets are persons and the
    claim is about records, `claim_as_stated` is its ε for one record. `game` is that of the cell,
    as far as its look.
    """
    looks = 1 if game is None else game.number_of_looks
    signals = iter(measured.signals)
    details = [
        _proxy_row(cell, row.scenario, proxy, next(signals), measured.statistics, means, column)
        for row, means in zip(measured.rows, rounds, strict=True)
        for column, proxy in enumerate(proxies)
    ]
    deciding = None if measured.deciding is None else details[measured.deciding.signal]
    rows = [
        replace(
            _cell_row(
                details[row.signal], plan, measured, row, judged, cells * looks, deciding, copies
            ),
            unit=unit,
            epsilon_claim_record=claim_as_stated,
            look=1 if game is None or looks == 1 else len(game.blocks),
            looks=looks,
            instances=int(plan.trials.set.max()) + 1,
        )
        for row in measured.rows
    ]
    return rows, details


def _proxy_row(
    cell: Cell,
    scenario: str,
    proxy: Proxy,
    signal: SignalMeasurements,
    statistics: Sequence[str],
    rounds: RoundMeasurements,
    column: int,
) -> ProxyRow:
    return ProxyRow(
        **cell.columns,
        scenario=scenario,
        proxy=proxy.name,
        family=proxy.family,
        view=proxy.view,
        auc=signal.auc,
        auc_spread=float(rounds.auc_spread[column]),
        tpr_at_fpr05=float(rounds.tpr[column]),
        tpr_spread=float(rounds.tpr_spread[column]),
        n_positive=rounds.n_positive,
        n_negative=rounds.n_negative,
        auc_ceiling=signal.auc_ceiling,
        **_tails(signal, statistics),
    )


def _tails(signal: SignalMeasurements, statistics: Sequence[str]) -> dict[str, Any]:
    """Return the statistics beside the AUC with their chance limits, by column."""
    found: dict[str, Any] = dict.fromkeys(
        f"{item.column}{end}"
        for item in BY_NAME.values()
        if item.name != AUC.name
        for end in ("", "_ceiling")
    )
    for name, value, ceiling in zip(statistics, signal.values, signal.ceilings, strict=True):
        if name != AUC.name:
            found |= {BY_NAME[name].column: value, f"{BY_NAME[name].column}_ceiling": ceiling}
    return found


def _cell_row(
    best: ProxyRow,
    plan: Plan,
    measured: CellMeasurements,
    row: ScenarioMeasurements,
    judged: CellVerdict,
    tests: int,
    deciding: ProxyRow | None,
    copies: Copies | None,
) -> CellRow:
    nothing = Estimate(value=0.0, n=0, method="")
    fitted, rate = row.crossfit or nothing, row.crossfit_tpr or nothing
    bound = measured.epsilon
    members, holdout = copies.copied if copies else (None, None)
    exact_members, exact_holdout = copies.verbatim if copies else (None, None)
    return CellRow(
        **Cell.of(best).columns,
        scenario=best.scenario,
        proxy=best.proxy,
        view=best.view,
        auc=best.auc,
        auc_spread=best.auc_spread,
        tpr_at_fpr05=best.tpr_at_fpr05,
        n_positive=best.n_positive,
        n_negative=best.n_negative,
        auc_low=row.auc.low,
        auc_high=row.auc.high,
        null_auc95=row.auc.null,
        null_tpr95=row.tpr.null,
        p_value=row.auc.p,
        p_cell=measured.p,
        p_holm=judged.p_holm,
        crossfit_auc=fitted.value if row.crossfit else None,
        crossfit_low=fitted.low,
        crossfit_high=fitted.high,
        crossfit_tpr=rate.value if row.crossfit_tpr else None,
        crossfit_p=fitted.p,
        power_auc=power_of(measured, row, tests),
        epsilon_lower=bound.lower if bound else None,
        epsilon_max=bound.largest if bound else None,
        epsilon_claim=measured.epsilon_claim,
        delta_claim=bound.delta if bound else None,
        adjacency=plan.adjacency,
        design=plan.design,
        verdict=judged.words,
        null_crossfit95=fitted.null,
        null_crossfit_tpr95=rate.null,
        crossfit_records_low=row.records_low,
        crossfit_records_high=row.records_high,
        pooled_auc=row.pooled.value,
        null_pooled95=row.pooled.null,
        deciding_scenario=deciding.scenario if deciding else "",
        deciding_proxy=deciding.proxy if deciding else "",
        deciding_statistic=measured.deciding.statistic if measured.deciding else "",
        deciding_value=measured.deciding.value if measured.deciding else None,
        deciding_ceiling=measured.deciding.ceiling if measured.deciding else None,
        copied_members=members,
        copied_holdout=holdout,
        copied_p=copies.p_all if copies else None,
        named=measured.named,
        claim_p=bound.p if bound else None,
        claim_p_holm=judged.claim_p_holm,
        verbatim_members=exact_members,
        verbatim_holdout=exact_holdout,
        cannot_say=(judged.verdict.reason or "") if judged.verdict.kind == CANNOT_SAY else "",
    )
