"""Folds for cross-fitting: 20 times 5, whole groups in one fold (docs/method.md §8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.types import Ints, Rng, Singles

REPEATS = 20
FOLDS = 5


@dataclass(frozen=True)
class Deployable:
    """The cross-fitted AUC and TPR at 5% FPR per group of signals, and perhaps assignment."""

    auc: Floats
    tpr: Floats


def fold_count(*sizes: int) -> int:
    """Return how many folds sides with these numbers of units allow; fewer than 2 means none."""
    return min(FOLDS, *sizes)


def split_folds(
    units: int, folds: int, rng: Rng, repeats: int = REPEATS, group: Ints | None = None
) -> Singles:
    """Return `inside[unit, repeat, fold]`: 1 where the unit is evaluated, each once per repeat.

    Units of one `group` share a fold: a proxy chosen on one record of a person would otherwise be
    evaluated on another.
    """
    if group is not None:
        names, place = np.unique(group, return_inverse=True)
        return split_folds(len(names), folds, rng, repeats)[place]
    base = np.arange(units) % folds
    fold = np.stack([rng.permutation(base) for _ in range(repeats)], axis=1)
    inside: Singles = (fold[:, :, None] == np.arange(folds)).astype(np.float32)
    return inside
