"""The meta-classifier: logistic regression on all proxies of a scenario (docs/method.md §10).

Five folds of records: a record is scored, on every release, by a model that never saw a trial of
it, neither as a member nor as a candidate. How many proxies the model may use and how strong its
ridge is are chosen by five folds more within the other records. All rounds train one model, a
non-member weighing as many rounds as it was drawn in: the rounds share their members, and one model
per round would only see fewer non-members.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product

import numpy as np

from synthleak.calibration import Scores
from synthleak.evidence.family import Proxy
from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment, assignment_of
from synthleak.metrics.comparison import comparison_of
from synthleak.metrics.rounds import round_measurements
from synthleak.metrics.types import Bools, Ints, Rng
from synthleak.plan.plan import Design, Plan

META_VERSION = 1
FOLDS = 5
FEATURES = (5, 8, 12, 0)
"""How many proxies a model may use; 0 for all."""
PENALTIES = (0.01, 0.1, 1.0, 10.0)
FUSION = Proxy("meta", "meta", "lexical", "difference", "all proxies fused")

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


def dump_meta(made: Sequence[MetaMeasurements]) -> bytes:
    """Write the figures of a cell for the store."""
    return json.dumps([asdict(row) for row in made]).encode()


def load_meta(data: bytes) -> tuple[MetaMeasurements, ...]:
    """Read the figures of a cell from the store."""
    return tuple(MetaMeasurements(**row) for row in json.loads(data))


@dataclass(frozen=True)
class Rows:
    """Trials to learn from: features, truth, what each weighs, and which record it is about."""

    x: Floats
    member: Bools
    weight: Floats
    record: Ints

    def take(self, which: Bools) -> Rows:
        """Return some of the trials."""
        return Rows(self.x[which], self.member[which], self.weight[which], self.record[which])

    @property
    def both(self) -> bool:
        """Whether there are members and non-members to tell apart."""
        return bool(self.member.any() and not self.member.all())


def fuse(scenario: str, scores: Floats, design: Design, plan: Plan, rng: Rng) -> MetaMeasurements:
    """Fit the meta-classifier to `scores[set, target, proxy]` of one scenario, and evaluate it."""
    targets = len(plan.targets)
    rows = learning_rows(scores, assignment_of(plan.trials, targets))
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
    found = round_measurements(Scores(scenario, table[..., None], (FUSION,)), plan.trials)
    level = (
        comparison_of(design, plan, table[..., None])
        .statistics([assignment_of(plan.trials, targets)])
        .auc
    )
    features, penalty = Counter(choices).most_common(1)[0][0]
    return MetaMeasurements(
        scenario=scenario,
        auc=float(level[0, 0]),
        auc_spread=float(found.auc_spread[0]),
        tpr=float(found.tpr[0]),
        features=features,
        penalty=penalty,
        records=len(np.unique(rows.record)),
    )


def learning_rows(scores: Floats, assignment: Assignment) -> Rows:
    """Return the trials of an assignment, a non-member that several rounds drew only once."""
    targets, flat = scores.shape[1], scores.reshape(-1, scores.shape[2])
    others, drawn = np.unique(assignment.others, return_counts=True)
    cells = np.concatenate([assignment.members, others])
    member = np.repeat([True, False], [len(assignment.members), len(others)])
    weight = np.concatenate([np.ones(len(assignment.members)), drawn / len(assignment.others)])
    return Rows(flat[cells], member, weight, cells % targets)


def _folds(targets: int, rng: Rng) -> list[Ints]:
    return np.array_split(rng.permutation(targets), min(FOLDS, targets))


def _choose(rows: Rows, rng: Rng) -> Choice:
    """Return what has the best mean AUC over inner folds of records; on ties, the simplest."""
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
            gained += [weighted_auc(fit(training, choice)(held.x), held) for choice in choices]
    return choices[int(gained.round(9).argmax())]


class Model:
    """A fitted meta-classifier: standardises, takes its proxies, and returns log-odds."""

    def __init__(self, centre: Floats, scale: Floats, used: Ints, linear: Floats):
        self._centre, self._scale, self._used, self._linear = centre, scale, used, linear

    def __call__(self, x: Floats) -> Floats:
        """Return the log-odds of membership."""
        made: Floats = ((x - self._centre) / self._scale)[:, self._used] @ self._linear[1:]
        made += self._linear[0]
        return made


def fit(rows: Rows, choice: Choice) -> Model:
    """Fit a class-balanced, standardised logistic regression on the proxies that differ most."""
    from sklearn.linear_model import LogisticRegression

    features, penalty = choice
    weight = balanced(rows)
    share = weight / weight.sum()
    centre = share @ rows.x
    scale = np.sqrt(share @ (rows.x - centre) ** 2)
    scale[scale < 1e-9] = 1.0
    x = (rows.x - centre) / scale
    if not rows.both:
        return Model(centre, scale, np.arange(x.shape[1]), np.zeros(x.shape[1] + 1))
    used = np.sort(np.argsort(-_separation(x, rows, weight), kind="stable")[: features or None])
    made = LogisticRegression(C=penalty, solver="newton-cholesky", max_iter=50)
    made.fit(x[:, used], rows.member, sample_weight=weight)
    return Model(centre, scale, used, np.concatenate([made.intercept_, made.coef_[0]]))


def balanced(rows: Rows) -> Floats:
    """Return weights that balance members and non-members and keep the total."""
    weight = rows.weight.copy()
    for side in (rows.member, ~rows.member):
        if side.any():
            weight[side] *= rows.weight.sum() / 2 / weight[side].sum()
    return weight


def _separation(x: Floats, rows: Rows, weight: Floats) -> Floats:
    """Return how far the classes lie apart in each proxy, in units of their spread within."""
    means, within = [], np.zeros(x.shape[1])
    for side in (rows.member, ~rows.member):
        share = weight[side] / weight[side].sum()
        means.append(share @ x[side])
        within += share @ (x[side] - means[-1]) ** 2
    apart: Floats = np.abs(means[0] - means[1]) / np.sqrt(within + 1e-12)
    return apart


def weighted_auc(scores: Floats, rows: Rows) -> float:
    """Return the chance that a member outscores a non-member drawn by weight, ties counting half.

    >>> rows = Rows(np.zeros((3, 1)), np.array([True, False, False]), np.ones(3), np.arange(3))
    >>> weighted_auc(np.array([1.0, 0.0, 1.0]), rows)
    0.75
    """
    others = np.argsort(scores[~rows.member], kind="stable")
    ordered = scores[~rows.member][others]
    mass = np.concatenate([[0.0], np.cumsum(rows.weight[~rows.member][others])])
    members = scores[rows.member]
    below = mass[np.searchsorted(ordered, members, side="left")]
    upto = mass[np.searchsorted(ordered, members, side="right")]
    return float(np.average((below + upto) / 2 / mass[-1], weights=rows.weight[rows.member]))
