"""Whether a selected pool is worse off than ordinary records: the gap to its random controls."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GapRow:
    """A row of `control_gap.csv`: a selected pool minus its random controls in one scenario.

    `scenario` is `all` for the figure of the whole cell. `auc` … `gap_spread` are the paper's:
    best proxies in hindsight, the control's chosen on all its draws together, and
    1.96·√(se² + se²) over rounds. `crossfit…` … `p_value` are of the deployable figures, with a
    bootstrap over instances on both sides that chooses anew. `flagged` says whether the interval at
    Holm's level, `holm_low` to `holm_high`, excludes 0; it is empty where the row is not counted.
    """

    corpus: str
    pool: str
    generator: str
    epsilon: float
    scenario: str
    controls: int
    control_pools: str
    auc: float
    view: str
    auc_spread: float | None
    control_auc: float
    control_view: str
    control_spread: float | None
    gap: float
    gap_spread: float | None
    crossfit_auc: float | None
    control_crossfit: float | None
    crossfit_gap: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_holm: float | None
    holm_low: float | None
    holm_high: float | None
    flagged: str
