"""Overviews of a study: counts and averages over its cells, proxies and pools (docs/method.md §10).

`pools` in a row says which cells are counted: those of `selected` pools, of `controls`, or `all`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import numpy as np
from numpy.typing import NDArray

from synthleak.analyses.analysis import (
    EVERY,
    NO_CELL,
    POOLS,
    CellData,
    Signal,
    Study,
    Unavailable,
    analysis,
)
from synthleak.analyses.cells import columns_of
from synthleak.analyses.prior import OURS, ComparisonRow
from synthleak.core.cell import LEVEL, Cell, CellColumns
from synthleak.evidence.observation import Floats
from synthleak.metrics.null import SLACK


@dataclass(frozen=True)
class ViewRow:
    """A row of `views.csv`: in how many cells of a generator and scenario each view is best."""

    generator: str
    scenario: str
    cells: int
    lexical: int
    embedding: int
    pools: str = EVERY


@analysis("views", version=2, row=ViewRow, shown="pools generator scenario cells lexical embedding")
def views(study: Study) -> Sequence[ViewRow]:
    """How often the best proxy of a cell is lexical or embedding, by generator and scenario."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for pools in POOLS:
        for row in study.cells:
            if pools in study.groups(row.corpus, row.pool):
                counts.setdefault((pools, row.generator, row.scenario), Counter())[row.view] += 1
    return [
        ViewRow(generator, scenario, count.total(), count["lexical"], count["embedding"], pools)
        for (pools, generator, scenario), count in counts.items()
    ]


@dataclass(frozen=True)
class ScalingRow:
    """A row of `scenario_scaling.csv`: one step, for one view and one kind of proxy.

    `proxy` is `best` or `median` (of a view, or of `any`), or `crossfit`: the deployable AUC.
    The interval is over cells; cells that share a plan are not independent.
    """

    generator: str
    step: str
    view: str
    proxy: str
    cells: int
    change: float
    low: float | None
    high: float | None
    pools: str = EVERY


@dataclass(frozen=True)
class _CellAucs(CellColumns):
    """The AUCs of a cell: `of[view, proxy][scenario]`."""

    of: dict[tuple[str, str], dict[str, float]]


def _mean_interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the mean, and its 95% normal interval where there are two values or more."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None, None
    reach = 1.96 * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return mean, mean - reach, mean + reach


@analysis(
    "scenario_scaling",
    version=2,
    row=ScalingRow,
    shown="pools generator step view proxy cells change low high",
)
def scenario_scaling(study: Study) -> Sequence[ScalingRow]:
    """How much AUC an attacker gains at each step: change of the best and the median proxy."""
    scenarios = sorted({row.scenario for row in study.cells})
    if len(scenarios) < 2:
        raise Unavailable("needs two scenarios or more")
    rows = []
    for pools, generator, cells in study.grouped(_aucs_by_cell(study)):
        for one, other in combinations(scenarios, 2):
            for view, proxy in dict.fromkeys(key for cell in cells for key in cell.of):
                known = [cell.of.get((view, proxy), {}) for cell in cells]
                changes = [aucs[other] - aucs[one] for aucs in known if {one, other} <= set(aucs)]
                if changes:
                    step, spread = f"{one} to {other}", _mean_interval(changes)
                    count = len(changes)
                    rows.append(ScalingRow(generator, step, view, proxy, count, *spread, pools))
    return rows


def _aucs_by_cell(study: Study) -> list[_CellAucs]:
    """Return best and median AUC per view and scenario, and the deployable AUC, of each cell."""
    by_cell: dict[Cell, dict[tuple[str, str], list[float]]] = {}
    for row in study.proxies:
        aucs = by_cell.setdefault(Cell.of(row), defaultdict(list))
        aucs[row.view, row.scenario].append(row.auc)
        aucs["any", row.scenario].append(row.auc)
    crossfit = {(Cell.of(row), row.scenario): row.crossfit_auc for row in study.cells}
    cells = []
    for cell, aucs in by_cell.items():
        of: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for (view, scenario), values in aucs.items():
            of[view, "best"][scenario] = max(values)
            of[view, "median"][scenario] = median(values)
            deployable = crossfit.get((cell, scenario))
            if deployable is not None:
                of["any", "crossfit"][scenario] = deployable
        cells.append(_CellAucs(**cell.columns, of=of))
    return cells


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
        return np.asarray(
            np.divide(total, counts, out=np.full(total.shape, np.nan), where=counts > 0)
        )


def _correlations(study: Study) -> list[_Correlations]:
    """Correlate the proxies of every scenario, over all records and releases of each cell."""

    def correlate() -> list[_Correlations]:
        rhos: dict[tuple[str, tuple[Signal, ...]], list[Floats]] = {}
        for cell in study.cell_data:
            for scenario, signals, rho in _of_cell(cell):
                rhos.setdefault((scenario, signals), []).append(rho)
        scenarios = sorted(rhos, key=lambda key: key[0])
        return [_Correlations(*key, np.stack(rhos[key])) for key in scenarios]

    if not study.cell_data:
        raise Unavailable(NO_CELL)
    return study.once("proxy correlations", correlate)


def _of_cell(cell: CellData) -> Iterator[tuple[str, tuple[Signal, ...], Floats]]:
    from scipy.special import ndtr

    shares = ndtr(cell.scores()).reshape(-1, len(cell.signals)).T
    # Twice the centred ranks: whole numbers, whose products add up without rounding anywhere.
    ranks = np.rint(2 * shares.shape[1] * shares) - shares.shape[1]
    length = np.sqrt((ranks**2).sum(axis=1))
    length[length == 0] = np.nan
    for scenario in cell.scenarios:
        places = [i for i, signal in enumerate(cell.signals) if signal.scenario == scenario]
        signals = tuple(cell.signals[place] for place in places)
        lengths = length[places]
        yield scenario, signals, ranks[places] @ ranks[places].T / np.outer(lengths, lengths)


@analysis("proxy_correlations", version=2, row=CorrelationRow)
def proxy_correlations(study: Study) -> Sequence[CorrelationRow]:
    """How far any two proxies rank records and releases alike, per scenario."""
    rows = []
    for correlations in _correlations(study):
        mean = correlations.mean
        for (a, one), (b, other) in combinations(enumerate(correlations.signals), 2):
            rho = correlations.rho[:, a, b]
            values = rho[np.isfinite(rho)]
            if len(values):
                row = CorrelationRow(
                    scenario=correlations.scenario,
                    one=one.proxy,
                    other=other.proxy,
                    views=one.view if one.view == other.view else "across",
                    cells=len(values),
                    rho=float(mean[a, b]),
                    low=float(values.min()),
                    high=float(values.max()),
                )
                rows.append(row)
    if not rows:
        raise Unavailable("needs two proxies that vary")
    return rows


@analysis("proxy_groups", version=1, row=GroupRow)
def proxy_groups(study: Study) -> Sequence[GroupRow]:
    """Which proxies are equivalent (rank correlation 0.95 or more), and how often each wins."""
    wins = Counter((row.scenario, row.proxy) for row in study.cells)
    cells = Counter(row.scenario for row in study.cells)
    rows = []
    for correlations in _correlations(study):
        groups = linked(correlations.mean >= EQUIVALENT)
        sizes = Counter(groups)
        rows += [
            GroupRow(
                scenario=signal.scenario,
                proxy=signal.proxy,
                view=signal.view,
                group=group + 1,
                size=sizes[group],
                wins=wins[signal.scenario, signal.proxy],
                cells=cells[signal.scenario],
            )
            for signal, group in zip(correlations.signals, groups, strict=True)
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


@dataclass(frozen=True)
class ScoreboardRow:
    """A row of `prior_attacks.csv`: ours against `canary`, `domias` or the `better` of them.

    Ours is the best of many more signals and so wins by chance alone: `ours_found` and
    `rival_found` count the cells in which each is significant at 5% under its own null.
    """

    generator: str
    rival: str
    cells: int
    wins: int
    ties: int
    losses: int
    mean_delta: float | None
    largest_loss: float | None
    ours_found: int
    rival_found: int
    pools: str = EVERY


@analysis(
    "prior_attacks",
    version=2,
    row=ScoreboardRow,
    shown="pools generator rival cells wins ties losses mean_delta largest_loss ours_found "
    "rival_found",
)
def prior_attacks(study: Study) -> Sequence[ScoreboardRow]:
    """In how many cells ours beats, ties or loses to the prior attacks, each at its best."""
    if not study.comparison:
        raise Unavailable("needs prior attacks: the spec leaves them out (prior = [])")
    scoreboard = []
    for pools, generator, rows in study.grouped(study.comparison):
        for rival in ("better", "canary", "domias"):
            compared = [(row, delta) for row in rows if (delta := _delta(row, rival)) is not None]
            if not compared:
                continue
            deltas = [delta for _, delta in compared]
            losses = [delta for delta in deltas if delta < 0]
            rivals = ("canary", "domias") if rival == "better" else (rival,)
            line = ScoreboardRow(
                generator=generator,
                rival=rival,
                cells=len(compared),
                wins=sum(delta > 0 for delta in deltas),
                ties=sum(delta == 0 for delta in deltas),
                losses=len(losses),
                mean_delta=sum(deltas) / len(deltas),
                largest_loss=min(losses, default=None),
                ours_found=sum(_significant(row, OURS) for row, _ in compared),
                rival_found=sum(_significant(row, *rivals) for row, _ in compared),
                pools=pools,
            )
            scoreboard.append(line)
    return scoreboard


def _delta(row: ComparisonRow, rival: str) -> float | None:
    if rival == "better":
        return row.delta
    auc = row.canary_auc if rival == "canary" else row.domias_auc
    return None if auc is None else row.ours_auc - auc


def _significant(row: ComparisonRow, *methods: str) -> bool:
    p_values = [getattr(row, f"{method}_p") for method in methods]
    return any(p is not None and p <= LEVEL for p in p_values)


@dataclass(frozen=True)
class MetaRow(CellColumns):
    """A row of `meta.csv`: the meta-classifier of a scenario beside the best single proxy."""

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
    rows = [row for cell in study.cell_data for row in _meta_rows(cell)]
    if not rows:
        raise Unavailable("takes minutes: run it with `synthleak analyse DIR --only meta`")
    return rows


def _meta_rows(cell: CellData) -> Iterator[MetaRow]:
    if cell.meta is None:
        return
    for fused, best in zip(cell.meta, cell.measurements.rows, strict=True):
        delta = fused.auc - best.auc.value
        chosen = None if best.crossfit is None else best.crossfit.value
        yield MetaRow(
            **cell.cell.columns,
            **columns_of(fused, "scenario auc auc_spread features penalty records"),
            tpr_at_fpr05=fused.tpr,
            oracle_auc=best.auc.value,
            **columns_of(cell.signals[best.signal], oracle_proxy="proxy", oracle_view="view"),
            oracle_delta=delta,
            crossfit_auc=chosen,
            crossfit_delta=None if chosen is None else fused.auc - chosen,
            outcome="tie" if abs(delta) < SLACK else "win" if delta > 0 else "loss",
        )


@dataclass(frozen=True)
class OverlapRow:
    """A row of `pool_overlap.csv`: two pools of a corpus, and the records in both."""

    corpus: str
    pool: str
    other: str
    records: int
    other_records: int
    shared: int
    share_of_smaller: float


@analysis("pool_overlap", version=1, row=OverlapRow)
def pool_overlap(study: Study) -> Sequence[OverlapRow]:
    """How many records two pools of a corpus share."""
    pools = {(cell.pool.corpus, cell.pool.name): cell.pool for cell in study.cell_data}
    rows = [
        OverlapRow(
            corpus=one.corpus,
            pool=one.name,
            other=other.name,
            records=len(one.records),
            other_records=len(other.records),
            shared=(shared := len(set(one.records) & set(other.records))),
            share_of_smaller=shared / min(len(one.records), len(other.records)),
        )
        for one, other in combinations(pools.values(), 2)
        if one.corpus == other.corpus
    ]
    if not rows:
        raise Unavailable("needs two pools of one corpus")
    return rows
