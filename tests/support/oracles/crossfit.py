"""Cross-fitting by loops: pick the best signal on the units outside a fold, score it inside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from support.oracles.nulls import auc


def fold_auc(
    values: np.ndarray,
    members: Sequence[int],
    others: Sequence[Sequence[int]],
    signal: int,
) -> float:
    """AUC of some members against all rounds of some other units (`others[unit][round]`)."""
    flat = [cell for unit in others for cell in unit]
    return auc(values[list(members), signal].tolist(), values[flat, signal].tolist())


def pool(
    values: np.ndarray,
    members: np.ndarray,
    others: np.ndarray,
    group: Sequence[int],
    rows: np.ndarray,
    columns: np.ndarray,
) -> tuple[float, float]:
    """(AUC, TPR at 5%) for folds given as `rows[member, repeat, fold]`, `columns[unit, ...]`."""
    aucs, rates = [], []
    for repeat, fold in np.ndindex(rows.shape[1:]):
        inside, beside = rows[:, repeat, fold] > 0, columns[:, repeat, fold] > 0
        scored = [
            fold_auc(values, members[~inside], others[:, ~beside].T.tolist(), s) for s in group
        ]
        best = group[int(np.argmax(np.round(scored, 9)))]
        aucs.append(fold_auc(values, members[inside], others[:, beside].T.tolist(), best))
        flat = values[others[:, beside].ravel(), best]
        reached = [(flat >= values[m, best]).mean() <= 0.05 + 1e-9 for m in members[inside]]
        rates.append(np.mean(reached))
    return float(np.mean(aucs)), float(np.mean(rates))


def record_auc(scores: np.ndarray, coins: np.ndarray) -> float:
    """AUC_x of one record, or nothing if its coins all agree."""
    if coins.all() or not coins.any():
        return float("nan")
    return auc(scores[coins].tolist(), scores[~coins].tolist())


def mean(shares: Sequence[float]) -> float:
    """The mean over records that compare something, or chance if none does."""
    known = [share for share in shares if not np.isnan(share)]
    return float(np.mean(known)) if known else 0.5


def records(
    values: np.ndarray, coins: np.ndarray, group: Sequence[int], inside: np.ndarray
) -> float:
    """Mean held-out AUC_x for folds over instances, `inside[instance, fold]`."""
    held = []
    targets = range(values.shape[1])
    for fold in inside.T > 0:
        level = [
            mean([record_auc(values[~fold, x, s], coins[~fold, x]) for x in targets]) for s in group
        ]
        best = group[int(np.argmax(np.round(level, 9)))]
        held.append(mean([record_auc(values[fold, x, best], coins[fold, x]) for x in targets]))
    return float(np.mean(held))
