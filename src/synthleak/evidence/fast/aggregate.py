"""How a value per candidate becomes a value per target."""

from __future__ import annotations

import numpy as np

from synthleak.evidence.observation import Floats


def max_and_mean(values: Floats) -> Floats:
    """Return the largest and the mean value over each target's candidates, as two columns.

    >>> max_and_mean(np.array([[1.0, 0.0], [0.5, 0.5]]))
    array([[1. , 0.5],
           [0.5, 0.5]])
    """
    return np.stack([values.max(axis=1), values.mean(axis=1)], axis=1)
