"""The tables that every audit writes: the best proxy per scenario, every proxy, every record.

Every number is shown next to what chance alone would give (docs/method.md §8; docs/results.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from synthleak.core.cell import (
    CANNOT_SAY,
    LEVEL,
    STRONG,
    TOO_FEW,
    Cell,
    CellColumns,
    Verdict,
    judge_cell,
)
from synthleak.core.spec import GameSection
from synthleak.evidence.family import Proxy
from synthleak.metrics.measurements import (
    CellMeasurements,
    ScenarioMeasurements,
    SignalMeasurements,
)
from synthleak.metrics.membership import RoundMeasurements
from synthleak.metrics.null import holm, smallest_found
from synthleak.metrics.verdict_statistics import AUC, BY_NAME
from synthleak.plan.plan import Plan

if TYPE_CHECKING:
    from synthleak.analyses.copies import Copies
    from synthleak.analyses.disclosures import Disclosures


@dataclass(frozen=True)
class ProxyRow(CellColumns):
    """A row of `proxies.csv`: one proxy in one scenario of one cell (docs/results.md)."""

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
    tail: float | None = None
    tail_ceiling: float | None = None
    tail1: float | None = None
    tail1_ceiling: float | None = None
    tail02: float | None = None
    tail02_ceiling: float | None = None


@dataclass(frozen=True)
class CellRow(CellColumns):
    """A row of `cells.csv`: the best proxy of one scenario of one cell (docs/results.md)."""

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
    release_size: int | None = None
    leaks_from: int | None = None
    grade: str = ""
    verbatim_rows: float | None = None
    disclosed: int | None = None
    disclosed_holdout: int | None = None
    disclosed_p: float | None = None


@dataclass(frozen=True)
class RecordRow(CellColumns):
    """A row of `records.csv`: one record of a pool in one cell (docs/results.md)."""

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
        return str(self.verdict)


def judge(cells: Sequence[CellMeasurements], looks: int = 1) -> list[CellVerdict]:
    """Adjust p over cells by Holm, that of claims over the cells that make one; judge each cell.

    Where not even an AUC of 0.9 would be found 4 times in 5, that none was found says nothing
    (docs/method.md §8.10). At each of several `looks` the level is smaller.
    """
    bounds = [cell.epsilon for cell in cells]
    adjusted = holm([cell.p for cell in cells])
    claims = holm([None if bound is None else bound.p for bound in bounds])
    verdicts = []
    for cell, bound, p, claim in zip(cells, bounds, adjusted, claims, strict=True):
        lower = None if bound is None else bound.lower
        reason = _why_none(cell, p, len(cells) * looks)
        verdict = judge_cell(p, reason, claim, cell.epsilon_claim, lower)
        verdicts.append(CellVerdict(p, verdict, claim))
    return verdicts


def judge_smaller(
    cells: Sequence[CellMeasurements], larger: Sequence[CellVerdict], looks: int = 1
) -> list[CellVerdict]:
    """Judge every cell as it is seen in smaller releases (docs/method.md §4.7).

    A leak counts at a size only if it was found at every larger one: sizes are tested in a fixed
    sequence, at no cost. What is private in a release is so in every part of it.

    Args:
        cells: The measurements of every cell at this size.
        larger: The verdicts on the same cells at the next larger size.
        looks: How many looks are declared.
    """
    verdicts = []
    adjusted = holm([cell.p for cell in cells])
    for cell, own_p, above in zip(cells, adjusted, larger, strict=True):
        p = None if own_p is None or above.p_holm is None else max(own_p, above.p_holm)
        reason = _why_none(cell, p, len(cells) * looks)
        verdicts.append(CellVerdict(p, judge_cell(p, reason)))
    return verdicts


STRONG_LEAK, TRACE = "strong", "trace"
BEYOND = 2
"""A strong leak gives away more than so many times what chance alone may."""


def grade_of(
    measured: CellMeasurements, verdict: Verdict, printed: Sequence[Copies | Disclosures | None]
) -> str:
    """Grade a leak by whether one release is enough to recognise single records (§8.10).

    Args:
        measured: The measurements of its cell.
        verdict: The verdict on it.
        printed: What its releases copy, and what they disclose.

    Returns:
        `strong` or `trace`; nothing where no leak was found.
    """
    if not verdict.leaks:
        return ""
    rate = measured.crossfit_tpr
    recognised = rate is None or rate.null is None or rate.value > BEYOND * rate.null
    alone = any(one.q <= LEVEL and one.auc >= STRONG for one in measured.records)
    readable = any(one.exceed for one in printed if one is not None)
    return STRONG_LEAK if recognised or alone or readable else TRACE


def _why_none(cell: CellMeasurements, p: float | None, tests: int) -> str | None:
    """Return why nothing can be said of a cell with this adjusted p; None if something can."""
    powers = [power_of(cell, row, tests) for row in cell.rows]
    blind = all(power is None or power > STRONG for power in powers)
    return cell.reason or (TOO_FEW if blind and p is not None and p > LEVEL else None)


def power_of(cell: CellMeasurements, row: ScenarioMeasurements, tests: int) -> float | None:
    """Return the smallest AUC of a row's proxy that is found 4 times in 5.

    `tests` is what the level is shared by: the cells of Holm, times the looks.
    """
    if cell.null is None:
        return None
    return smallest_found(row.centre, row.scale, cell.null.critical(LEVEL / tests))


def columns_of(item: object | None, names: str = "", **renamed: str) -> dict[str, Any]:
    """Return attributes of `item` as columns of a row; all are None where there is no item.

    `names` are attributes with a column of the same name, with spaces between them; `renamed`
    gives the attribute of other columns.
    """
    attributes = {name: name for name in names.split()} | renamed
    return {
        column: None if item is None else getattr(item, name) for column, name in attributes.items()
    }


def evaluate(
    cell: Cell,
    proxies: Sequence[Proxy],
    rounds: Sequence[RoundMeasurements],
    plan: Plan,
    measured: CellMeasurements,
    judged: CellVerdict,
    cells: int,
    copies: Copies | None = None,
    disclosures: Disclosures | None = None,
    unit: str = "record",
    claim_as_stated: float | None = None,
    game: GameSection | None = None,
    release_size: int | None = None,
    leaks_from: int | None = None,
) -> tuple[list[CellRow], list[ProxyRow]]:
    """Write the measurements of a cell as rows; Holm adjusts for `cells` cells.

    `copies` and `disclosures` are those of its releases. Where targets are persons and the
    claim is about records, `claim_as_stated` is its ε for one record. `game` is that of the cell,
    as far as its look. `release_size` is how many texts of a release were seen, and `leaks_from`
    the smallest size at which a leak was found.
    """
    looks = 1 if game is None else game.number_of_looks
    columns = [
        (row.scenario, means, column, proxy)
        for row, means in zip(measured.rows, rounds, strict=True)
        for column, proxy in enumerate(proxies)
    ]
    details = [
        ProxyRow(
            **cell.columns,
            scenario=scenario,
            proxy=proxy.name,
            family=proxy.family,
            view=proxy.view,
            auc=signal.auc,
            auc_spread=float(means.auc_spread[column]),
            tpr_at_fpr05=float(means.tpr[column]),
            tpr_spread=float(means.tpr_spread[column]),
            n_positive=means.n_positive,
            n_negative=means.n_negative,
            auc_ceiling=signal.auc_ceiling,
            **_tails(signal, measured.statistics),
        )
        for (scenario, means, column, proxy), signal in zip(columns, measured.signals, strict=True)
    ]
    deciding = None if measured.deciding is None else details[measured.deciding.signal]
    of_cell = _cell_columns(measured, judged, deciding, copies, disclosures)
    rows = [
        CellRow(
            **cell.columns,
            **of_cell,
            **_scenario_columns(details[row.signal], row),
            adjacency=plan.adjacency,
            design=plan.design,
            power_auc=power_of(measured, row, cells * looks),
            unit=unit,
            epsilon_claim_record=claim_as_stated,
            look=1 if game is None or looks == 1 else len(game.blocks),
            looks=looks,
            instances=int(plan.trials.set.max()) + 1,
            release_size=release_size,
            leaks_from=leaks_from,
        )
        for row in measured.rows
    ]
    return rows, details


def _tails(signal: SignalMeasurements, statistics: Sequence[str]) -> dict[str, Any]:
    """Return the statistics beside the AUC with their chance limits, by column."""
    columns: dict[str, Any] = {}
    for name, value, ceiling in zip(statistics, signal.values, signal.ceilings, strict=True):
        if name != AUC.name:
            column = BY_NAME[name].column
            columns |= {column: value, f"{column}_ceiling": ceiling}
    return columns


def _scenario_columns(best: ProxyRow, row: ScenarioMeasurements) -> dict[str, Any]:
    return {
        **columns_of(best, "scenario proxy view auc auc_spread tpr_at_fpr05 n_positive n_negative"),
        **columns_of(row.auc, auc_low="low", auc_high="high", null_auc95="null", p_value="p"),
        **columns_of(row.tpr, null_tpr95="null"),
        **columns_of(row.pooled, pooled_auc="value", null_pooled95="null"),
        **columns_of(
            row.crossfit,
            crossfit_auc="value",
            crossfit_low="low",
            crossfit_high="high",
            crossfit_p="p",
            null_crossfit95="null",
        ),
        **columns_of(row.crossfit_tpr, crossfit_tpr="value", null_crossfit_tpr95="null"),
        "crossfit_records_low": row.records_low,
        "crossfit_records_high": row.records_high,
    }


def _cell_columns(
    measured: CellMeasurements,
    judged: CellVerdict,
    deciding: ProxyRow | None,
    copies: Copies | None,
    disclosures: Disclosures | None,
) -> dict[str, Any]:
    copied, verbatim = (copies.copied, copies.verbatim) if copies else ((None, None),) * 2
    verdict = judged.verdict
    return {
        **columns_of(measured, "epsilon_claim named", p_cell="p"),
        **columns_of(judged, "p_holm claim_p_holm", verdict="words"),
        "cannot_say": (verdict.reason or "") if verdict.kind == CANNOT_SAY else "",
        "grade": grade_of(measured, verdict, (copies, disclosures)),
        **columns_of(
            measured.epsilon,
            epsilon_lower="lower",
            epsilon_max="largest",
            delta_claim="delta",
            claim_p="p",
        ),
        "deciding_scenario": deciding.scenario if deciding else "",
        "deciding_proxy": deciding.proxy if deciding else "",
        "deciding_statistic": measured.deciding.statistic if measured.deciding else "",
        **columns_of(measured.deciding, deciding_value="value", deciding_ceiling="ceiling"),
        **dict(zip(("copied_members", "copied_holdout"), copied, strict=True)),
        **dict(zip(("verbatim_members", "verbatim_holdout"), verbatim, strict=True)),
        **columns_of(copies, copied_p="p_all", verbatim_rows="rows"),
        **columns_of(disclosures, "disclosed", disclosed_holdout="by_chance", disclosed_p="p"),
    }
