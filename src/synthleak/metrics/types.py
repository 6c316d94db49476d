"""Types of arrays that the metrics share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Singles = NDArray[np.float32]
Signals = NDArray[np.int64]
"""Places of signals in a score table."""
Groups = Sequence[Signals]
"""The signals of each scenario, and all of them at the end."""
Rng = np.random.Generator
