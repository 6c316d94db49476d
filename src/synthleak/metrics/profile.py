"""The profile of a cell: V(x) under every signal, its two bands, and draws for differences.

This is the heavy part of the analyses (METHOD §8, §10), made once per cell beside its figures and
kept in the store; what is then asked of records, pools, budgets and generators is read from it.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.observation import Floats

PROFILE_VERSION = 1


@dataclass(frozen=True)
class Profile:
    """What a cell says of its records. Columns are signals in the order of the cell's figures.

    `v[signal, target]` (NaN where a record does not qualify) and `v_candidate`, the paper's
    variant; `joined` and `absent` count the releases behind V per target. `split_auc[signal]` is
    the level on the 80% of instances that the conservative rule may choose by. `best` is the best
    signal of the whole cell. `no_leak` and `even_leak` hold the shape of V in redraws, as
    `[redraw, (positive, s10, absolute)]`. `reliability[signal]` is NaN where a record has too few
    releases to halve. `resampled[group, draw]` is the deployable AUC in bootstrap draws, one group
    per scenario and the whole cell last: cells of one plan share their draws of instances, so
    differences between them are paired draw by draw.
    """

    v: Floats
    v_candidate: Floats
    joined: NDArray[np.int64]
    absent: NDArray[np.int64]
    split_auc: Floats
    best: int
    no_leak: Floats
    even_leak: Floats
    reliability: Floats
    resampled: Floats

    def to_bytes(self) -> bytes:
        """Write the profile for the store."""
        buffer = io.BytesIO()
        np.savez(buffer, **{field.name: getattr(self, field.name) for field in fields(self)})
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Profile:
        """Read a profile from the store."""
        with np.load(io.BytesIO(data), allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        return cls(**{**arrays, "best": int(arrays["best"])})
