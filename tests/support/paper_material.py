"""An invented study, to set every printed table from: made-up figures and hostile names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from synthleak.analyses import Unavailable
from synthleak.analyses.analysis import ATTRIBUTES
from synthleak.analyses.attributes import AttributeTest, CombinedRow, SelectionRow
from synthleak.analyses.cells import CellRow
from synthleak.analyses.consistency import ConsistencyRow
from synthleak.analyses.gaps import GapRow, MergedRow, RemovalRow
from synthleak.analyses.overviews import MetaRow
from synthleak.analyses.prior import ComparisonRow, PriorRow
from synthleak.analyses.vulnerability import VulnerabilityRow
from synthleak.corpus.statistics import Statistics
from synthleak.evidence import families
from synthleak.paper.tables.source import PoolLine, Source, rule_words

CORPORA = ("PsyTAR", "N2C2'08", "EurLex")
GENERATORS = ("DP-Gen", "EPSVec", "Aug-PE")
BUDGETS = (math.inf, 4.0, 2.0, 1.0, 0.5)
SCENARIOS = ("S1", "S2", "S3")
SELECTIONS = ("split80", "all", "containment_max S2", "cos_max S1")
POOLS = {"outlier": "outlier", "rare": "rare", "random0": "random", "random1": "random"}


def row(kind: type[Any], **values: Any) -> Any:
    """Fill a row; what is not given is 0, empty or None as its type allows."""
    defaults = {"str": "", "int": 0, "float": 0.0}
    made = {}
    for field in fields(kind):
        name = str(field.type)
        made[field.name] = None if name.endswith("| None") else defaults[name]
    return kind(**(made | values))


def view_of(rng: np.random.Generator) -> str:
    return str(rng.choice(["lexical", "embedding"]))


def cell_rows(corpora: Sequence[str], generators: Sequence[str]) -> list[CellRow]:
    rng = np.random.default_rng(1)
    return [
        row(
            CellRow,
            corpus=corpus,
            pool=pool,
            generator=generator,
            epsilon=epsilon,
            scenario=scenario,
            proxy="cos_max",
            view=view_of(rng),
            auc=float((0.8 if math.isinf(epsilon) else 0.56) + rng.uniform(0, 0.08)),
            auc_spread=0.01,
            tpr_at_fpr05=float(rng.uniform(0.02, 0.5)),
            null_auc95=0.612,
            null_tpr95=0.155,
            p_holm=0.001 if math.isinf(epsilon) else 0.7,
            crossfit_auc=0.55,
            crossfit_low=0.47,
            crossfit_high=0.63,
        )
        for generator in generators
        for corpus in corpora
        for pool in POOLS
        for epsilon in BUDGETS
        for scenario in SCENARIOS
    ]


def comparisons(corpora: Sequence[str], generators: Sequence[str]) -> list[ComparisonRow]:
    rng = np.random.default_rng(2)
    made = []
    for corpus in corpora:
        for pool in ("outlier", "rare"):
            for generator in generators:
                for epsilon in BUDGETS:
                    ours, canary, domias = rng.uniform(0.5, 0.8, 3).tolist()
                    made.append(
                        row(
                            ComparisonRow,
                            corpus=corpus,
                            pool=pool,
                            generator=generator,
                            epsilon=epsilon,
                            ours_auc=ours,
                            ours_tpr=0.2,
                            ours_proxy="cos_max",
                            ours_scenario="S1",
                            ours_p=0.01 if ours > 0.6 else 0.3,
                            canary_auc=canary,
                            canary_tpr=0.1,
                            canary_arm="nR",
                            canary_p=0.2,
                            domias_auc=domias,
                            domias_tpr=0.1,
                            domias_arm="pg",
                            domias_p=0.03,
                            delta=ours - max(canary, domias),
                        )
                    )
    return made


def analysis_rows(corpora: Sequence[str], generators: Sequence[str]) -> dict[str, list[Any]]:
    """Return the rows of every analysis that is printed, by its name."""
    rng = np.random.default_rng(3)
    found: dict[str, list[Any]] = {name: [] for name in ("control_gap", "vulnerability", "meta")}
    found["dp_removal"] = []
    found |= {name: [] for name in ("attributes", "attributes_combined", "selection_rules")}
    found["consistency"] = []
    for generator in generators:
        for corpus in corpora:
            for pool in ("outlier", "rare"):
                names = {"corpus": corpus, "pool": pool, "generator": generator}
                for epsilon in BUDGETS:
                    s10 = float(rng.uniform(0.2, 0.7))
                    found["vulnerability"].append(
                        row(
                            VulnerabilityRow,
                            **names,
                            epsilon=epsilon,
                            qualifying=35,
                            positive_share=float(rng.uniform(0.3, 0.9)),
                            s10=s10,
                            paper_qualifying=34,
                            paper_positive_share=0.6,
                            paper_s10=s10 / 2,
                            s10_p_null=0.01 if s10 > 0.4 else 0.4,
                            concentrated="yes" if s10 > 0.6 else "no",
                        )
                    )
                    for scenario in (*SCENARIOS, "all"):
                        found["control_gap"].append(gap(rng, scenario, epsilon, names))
                    if math.isfinite(epsilon):
                        found["dp_removal"].append(removal(rng, epsilon, names))
                    for scenario in SCENARIOS:
                        found["meta"].append(fused(rng, scenario, epsilon, names))
                found["attributes"] += [
                    row(
                        AttributeTest,
                        **names,
                        block=pool,
                        attribute=name,
                        records=35,
                        rho=float(rng.normal(0, 0.2)),
                        p_holm=0.9,
                        floor=0.33,
                        selected_on="†" if (pool, name) == ("outlier", "outlierness") else "",
                    )
                    for name in ATTRIBUTES
                ]
                found["consistency"] += [
                    row(
                        ConsistencyRow,
                        across="generators",
                        corpus=corpus,
                        pool=pool,
                        block=pool,
                        one=generators[0],
                        other=generator,
                        records=35,
                        rho=float(rng.normal(0, 0.2)),
                        null_low=-0.3,
                        null_high=0.3,
                        p_holm=1.0,
                    )
                ] * (generator != generators[0])
        for selection in SELECTIONS:
            found["selection_rules"].append(
                row(
                    SelectionRow,
                    generator=generator,
                    selection=selection,
                    tests=90,
                    largest_move=None if selection == "split80" else 0.4,
                )
            )
            found["attributes_combined"] += [
                row(
                    CombinedRow,
                    selection=selection,
                    generator=generator,
                    block="random",
                    corpus="all",
                    attribute=name,
                    pools=12,
                    records=337,
                    rho=float(rng.normal(0, 0.1)),
                    p_holm=float(rng.uniform(0, 0.2)),
                )
                for name in ATTRIBUTES
            ]
    for name in ("attributes", "attributes_combined"):
        found[f"{name}_paper"] = found[name]
    return found


def gap(rng: np.random.Generator, scenario: str, epsilon: float, names: dict[str, str]) -> GapRow:
    difference = float(rng.normal(0, 0.05))
    made: GapRow = row(
        GapRow,
        **names,
        epsilon=epsilon,
        scenario=scenario,
        controls=2,
        control_pools="random0, random1",
        auc=0.6 + difference,
        view=view_of(rng),
        auc_spread=0.009,
        control_auc=0.6,
        control_view=view_of(rng),
        control_spread=0.005,
        gap=difference,
        gap_spread=0.011,
        crossfit_auc=0.55 + difference,
        control_crossfit=0.55,
        crossfit_gap=difference,
        low=difference - 0.06,
        high=difference + 0.06,
        p_holm=0.5,
        flagged="yes" if scenario == "all" and abs(difference) > 0.06 else "no",
    )
    return made


def removal(rng: np.random.Generator, epsilon: float, names: dict[str, str]) -> RemovalRow:
    removed, usual = rng.uniform(0.1, 0.3, 2).tolist()
    made: RemovalRow = row(
        RemovalRow,
        **names,
        epsilon=epsilon,
        scenario="all",
        removed=removed,
        removed_low=removed - 0.05,
        removed_high=removed + 0.05,
        controls=2,
        control_removed=usual,
        difference=removed - usual,
        low=removed - usual - 0.07,
        high=removed - usual + 0.07,
        p_holm=0.01 if abs(removed - usual) > 0.1 else 0.6,
        best_removed=removed,
        best_control_removed=usual,
        best_difference=removed - usual,
    )
    return made


def fused(
    rng: np.random.Generator, scenario: str, epsilon: float, names: dict[str, str]
) -> MetaRow:
    delta = float(rng.normal(-0.05, 0.04))
    made: MetaRow = row(
        MetaRow,
        **names,
        epsilon=epsilon,
        scenario=scenario,
        auc=0.6 + delta,
        auc_spread=0.01,
        tpr_at_fpr05=0.05,
        oracle_auc=0.6,
        oracle_proxy="cos_max",
        oracle_view=view_of(rng),
        oracle_delta=delta,
        outcome="win" if delta > 0 else "loss",
    )
    return made


def merged_rows(corpus: str, generator: str) -> list[MergedRow]:
    return [
        row(
            MergedRow,
            corpus=corpus,
            pool="outlier+random0",
            generator=generator,
            epsilon=epsilon,
            scenario="S2",
            pool_auc=0.7,
            measure=measure,
            first="outlier",
            second="random0",
            first_value=0.6,
            second_value=0.6 - delta,
            delta=delta,
            low=delta - 0.1,
            high=delta + 0.1,
            null_low=-0.1,
            null_high=0.1,
            p=0.02,
            own_first=0.6,
            own_second=0.55,
            own_delta=0.05,
            own_low=-0.05,
            own_high=0.15,
        )
        for epsilon, measure, delta in (
            (math.inf, "auc", 0.066),
            (math.inf, "tpr_at_fpr05", 0.378),
            (4.0, "auc", 0.127),
            (4.0, "tpr_at_fpr05", 0.04),
        )
    ]


SETTINGS: dict[str, dict[str, Any]] = {
    "outlier": {"percentile": 99.0, "lof": 10},
    "rare": {"max_frequency": 10},
    "random": {},
}


def invented(
    corpora: Sequence[str] = CORPORA,
    generators: Sequence[str] = GENERATORS,
    without: Sequence[str] = (),
) -> Source:
    """Return a whole invented study, less the analyses that are left out."""
    found = analysis_rows(corpora, generators)

    def rows(name: str) -> Sequence[Any]:
        if name in without or name not in found:
            raise Unavailable(f"needs {name}")
        return found[name]

    statistics = Statistics(5102, 12, 0, 0, 7, 38, 1.3, 5, 14.2, 12.0, 15.0, 40.0, 1940)
    return Source(
        cells=tuple(cell_rows(corpora, generators)),
        corpora=dict.fromkeys(corpora, statistics),
        pools=tuple(
            PoolLine(corpus, pool, rule, rule_words(rule, SETTINGS[rule]), "static", 60)
            for corpus in corpora
            for pool, rule in POOLS.items()
        ),
        rows=rows,
        comparison=tuple(comparisons(corpora, generators)),
        prior=(
            row(PriorRow, family="canary", arm="nR", view="lexical"),
            row(PriorRow, family="domias", arm="pg", view="embedding"),
        ),
        adjudicated=tuple(merged_rows(corpora[0], generators[0])),
        families=tuple(families),
    )
