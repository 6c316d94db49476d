"""From the promise to the release: what each attacker of a cell gains (docs/method.md §16).

The rungs are the most that the claim allows, an attacker who has the model behind the release (or
what its mechanism noised), and the attackers on the release. The model's rung has a verdict of its
own, "if the model were published", and no part in that on the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthleak.analyses.cells import CellRow, CellVerdict, columns_of
from synthleak.calibration import Scores, calibrate
from synthleak.core.cell import Cell, CellColumns
from synthleak.evidence.family import Proxy
from synthleak.evidence.observation import Floats
from synthleak.evidence.table import Evidence, by_person, person_proxies
from synthleak.metrics.epsilon import claim_roc
from synthleak.metrics.measurements import CellMeasurements
from synthleak.plan.plan import Baseline, Plan
from synthleak.releases.claim import Claim

CLAIM, MODEL = "claim", "model"
FPR = 0.05


@dataclass(frozen=True)
class ModelMeasurements:
    """The measurements of the model's rung, and what the claim on the cell allows at most."""

    measured: CellMeasurements
    signals: tuple[str, ...]
    allowed_auc: float
    allowed_tpr: float


@dataclass(frozen=True)
class LadderRow(CellColumns):
    """A row of `ladder.csv`: one rung of one cell, from the claim down to S1.

    `attacker_has` is what the rung `model` has beside the release: the model, or the noised votes.
    `auc` is that of all coins together. Chance limits and p are those of the rung's own search. The
    adjusted p, the bound on ε and the verdict of S1 to S3 are those of the cell, as in `cells.csv`.
    """

    rung: str
    attacker_has: str
    signal: str
    auc: float
    null_auc95: float | None
    tpr_at_fpr05: float
    null_tpr95: float | None
    p_value: float | None
    p_holm: float | None
    epsilon_lower: float | None
    epsilon_max: float | None
    epsilon_claim: float | None
    claim_p: float | None
    claim_p_holm: float | None
    verdict: str


def model_scores(
    values: Floats, plan: Plan, columns: Sequence[str], sizes: Sequence[int] | None = None
) -> Scores:
    """Return the signals of an attacker with the model: each column against the others, and as is.

    Against the others it is less the mean over all other models, whose coins are ignored: this
    removes how likely a text became whoever was in.

    Args:
        values: `[set, record, column]`; sets without a model are not looked at.
        plan: the plan that the sets are of.
        columns: what a generator calls the columns.
        sizes: the records of each target, where targets are persons.
    """
    proxies = tuple(
        Proxy(f"model_{column}", MODEL, "lexical", "difference", f"{column} of a record")
        for column in columns
    )
    if sizes is not None:
        values, proxies = by_person(values, sizes), person_proxies(proxies)
    has_model = np.array([item.form == "release" for item in plan.sets])
    others = np.tile(has_model, (values.shape[1], 1))
    baselines = [Baseline("against others", others)] if has_model.sum() > 1 else []
    tables = calibrate(Evidence(values, proxies), [*baselines, Baseline("", others & False)])
    named = [
        replace(proxy, name=f"{proxy.name} {table.scenario}".strip())
        for table in tables
        for proxy in table.proxies
    ]
    return Scores(MODEL, np.concatenate([table.values for table in tables], axis=2), tuple(named))


def allowed_by(claim: Claim, plan: Plan) -> tuple[float, float]:
    """Return the largest AUC, and TPR at 5% FPR, that a claim allows; 1 where nothing is claimed.

    Args:
        claim: what is promised of a target of the plan.
        plan: says how a missing target is made up for.
    """
    fpr = np.linspace(0, 1, 4001) ** 2
    tpr = claim_roc(claim, plan.adjacency, fpr)
    return float(np.trapezoid(tpr, fpr)), float(np.interp(FPR, fpr, tpr))


def ladder_rows(
    cell: Cell,
    model: ModelMeasurements,
    judged: CellVerdict,
    rows: Sequence[CellRow],
    attacker_has: str,
) -> list[LadderRow]:
    """Return the rungs of a cell, from the claim down to S1.

    Args:
        cell: the cell.
        model: its measurements with the model.
        judged: the verdict on them, adjusted over the cells that have a model.
        rows: what was measured of its releases, a row per scenario.
        attacker_has: what the scores of the model are made from, in words.
    """
    (best,), bound = model.measured.rows, model.measured.epsilon
    blank = dict.fromkeys(LadderRow.__dataclass_fields__)
    claim = {
        "rung": CLAIM,
        **columns_of(model, auc="allowed_auc", tpr_at_fpr05="allowed_tpr"),
        **columns_of(model.measured, "epsilon_claim"),
    }
    of_model = {
        "rung": MODEL,
        "attacker_has": attacker_has,
        "signal": model.signals[best.signal],
        **columns_of(best.pooled, auc="value", null_auc95="null"),
        **columns_of(best.tpr, tpr_at_fpr05="value", null_tpr95="null"),
        **columns_of(model.measured, "epsilon_claim", p_value="p"),
        **columns_of(bound, epsilon_lower="lower", epsilon_max="largest", claim_p="p"),
        **columns_of(judged, "p_holm claim_p_holm", verdict="words"),
    }
    same = "null_tpr95 tpr_at_fpr05 p_value p_holm epsilon_lower epsilon_max epsilon_claim"
    of_release = [
        {
            **columns_of(row, f"{same} claim_p claim_p_holm verdict", rung="scenario"),
            **columns_of(row, signal="proxy", auc="pooled_auc", null_auc95="null_pooled95"),
        }
        for row in reversed(rows)
    ]
    words = {"attacker_has": "", "signal": "", "verdict": ""}
    return [
        LadderRow(**{**blank, **words, **cell.columns, **rung})
        for rung in (claim, of_model, *of_release)
    ]
