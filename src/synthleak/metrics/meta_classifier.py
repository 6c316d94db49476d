"""The meta-classifier: logistic regression on all proxies of a scenario (docs/method.md §10.8).

Each record is scored, on every release, by a model that never saw a trial of it. All rounds train
one model, in which a non-member is weighted by the number of rounds that drew it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.membership import Assignment, assignment_of, round_measurements
from synthleak.metrics.scored_cell import comparison_of
from synthleak.metrics.types import Bools, Ints, Rng
from synthleak.plan.plan import Design, Plan

META_VERSION = 1
FOLDS = 5
FEATURES = (5, 8, 12, 0)
"""How many proxies a model may use; 0 for all."""
PENALTIES = (0.01, 0.1, 1.0, 10.0)

Choice = tuple[int, float]


@dataclass(frozen=True)
class MetaMeasurements:
    """The meta-classifier in one scenario, and the settings that most of its folds chose.

    `features` is the number of proxies it was allowed (0 for all), `penalty` the C of its ridge.
    """

    scenario: str
    auc: float
    auc_spread: float
    tpr: float
    features: int
    penalty: float
    records: int


@dataclass(frozen=True)
class Rows:
    """Trials to learn from: features, membership, weight and record of each."""

    x: Floats
    member: Bools
    weight: Floats
    record: Ints

    def take(self, which: Bools) -> Rows:
        return Rows(self.x[which], self.member[which], self.weight[which], self.record[which])

    @property
    def both(self) -> bool:
        """Whether there are members and non-members to tell apart."""
        return bool(self.member.any() and not self.member.all())


def fuse(scenario: str, scores: Floats, design: Design, plan: Plan, rng: Rng) -> MetaMeasurements:
    """Fit the meta-classifier to `scores[set, target, proxy]` of one scenario, and evaluate it."""
    targets = len(plan.targets)
    observed = assignment_of(plan.trials, targets)
    rows = learning_rows(scores, observed)
    table = np.zeros(scores.shape[:2])
    choices: list[Choice] = []
    for fold in _folds(targets, rng):
        inside = np.isin(rows.record, fold)
        training = rows.take(~inside)
        choice = _choose(training, rng)
        choices.append(choice)
        model = fit(training, choice)
        flat = scores[:, fold].reshape(-1, scores.shape[2])
        table[:, fold] = model(flat).reshape(len(scores), -1)
    rounds = round_measurements(table[..., None], observed)
    level = comparison_of(design, plan, table[..., None]).statistics([observed]).auc
    features, penalty = Counter(choices).most_common(1)[0][0]
    return MetaMeasurements(
        scenario=scenario,
        auc=float(level[0, 0]),
        auc_spread=float(rounds.auc_spread[0]),
        tpr=float(rounds.tpr[0]),
        features=features,
        penalty=penalty,
        records=len(np.unique(rows.record)),
    )


def learning_rows(scores: Floats, assignment: Assignment) -> Rows:
    """Return the trials of an assignment; a non-member drawn in several rounds is one row."""
    targets, flat = scores.shape[1], scores.reshape(-1, scores.shape[2])
    others, drawn = np.unique(assignment.others, return_counts=True)
    entries = np.concatenate([assignment.members, others])
    member = np.repeat([True, False], [len(assignment.members), len(others)])
    weight = np.concatenate([np.ones(len(assignment.members)), drawn / len(assignment.others)])
    return Rows(flat[entries], member, weight, entries % targets)


def _folds(targets: int, rng: Rng) -> list[Ints]:
    return np.array_split(rng.permutation(targets), min(FOLDS, targets))


def _choose(rows: Rows, rng: Rng) -> Choice:
    """Return the setting with the best mean AUC over inner folds; on ties, the simplest."""
    from sklearn.metrics import roc_auc_score

    records = np.unique(rows.record)
    choices = [
        (features, penalty)
        for features, penalty in product(FEATURES, PENALTIES)
        if features < rows.x.shape[1]
    ]
    gained = np.zeros(len(choices))
    for fold in _folds(len(records), rng):
        inside = np.isin(rows.record, records[fold])
        training, held = rows.take(~inside), rows.take(inside)
        if training.both and held.both:
            gained += [
                roc_auc_score(held.member, fit(training, choice)(held.x), sample_weight=held.weight)
                for choice in choices
            ]
    return choices[int(gained.round(9).argmax())]


def fit(rows: Rows, choice: Choice) -> Callable[[Floats], Floats]:
    """Fit a class-balanced, standardised logistic regression on the most separating proxies.

    Returns the function from features to log-odds of membership.
    """
    from sklearn.linear_model import LogisticRegression

    features, penalty = choice
    weight = balanced(rows)
    share = weight / weight.sum()
    centre = share @ rows.x
    scale = np.sqrt(share @ (rows.x - centre) ** 2)
    scale[scale < 1e-9] = 1.0
    x = (rows.x - centre) / scale
    if not rows.both:
        return lambda x: np.zeros(len(x))
    used = np.sort(np.argsort(-_separation(x, rows, weight), kind="stable")[: features or None])
    fitted = LogisticRegression(C=penalty, solver="newton-cholesky", max_iter=50)
    fitted.fit(x[:, used], rows.member, sample_weight=weight)

    def log_odds(x: Floats) -> Floats:
        return np.asarray(((x - centre) / scale)[:, used] @ fitted.coef_[0] + fitted.intercept_)

    return log_odds


def balanced(rows: Rows) -> Floats:
    """Return weights that balance members and non-members and keep the total."""
    weight = rows.weight.copy()
    for side in (rows.member, ~rows.member):
        if side.any():
            weight[side] *= rows.weight.sum() / 2 / weight[side].sum()
    return weight


def _separation(x: Floats, rows: Rows, weight: Floats) -> Floats:
    """Return how far apart the class means are in each proxy, in units of the spread within."""
    means, within = [], np.zeros(x.shape[1])
    for side in (rows.member, ~rows.member):
        share = weight[side] / weight[side].sum()
        means.append(share @ x[side])
        within += share @ (x[side] - means[-1]) ** 2
    return np.asarray(np.abs(means[0] - means[1]) / np.sqrt(within + 1e-12))
