"""The verdict in words: what a reader may conclude, and what not."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from synthleak.audit import Audit


def headline(audit: Audit) -> str:
    """Say in one sentence what the strongest figure is and how far it carries."""
    top = max(audit.cells, key=lambda row: row.auc)
    signals = len({(row.proxy, row.scenario) for row in audit.proxies})
    budget = "without privacy" if math.isinf(top.epsilon) else f"at ε = {top.epsilon:g}"
    return (
        f"Strongest figure: AUC {top.auc:.2f} and TPR {top.tpr_at_fpr05:.0%} at 5% FPR"
        f" ({top.generator} {budget}, pool {top.pool}, attacker {top.scenario}, {top.proxy})."
        f" It is the best of {signals} signals on {top.n_positive} members, and the best of many"
        " lies above 0.5 even when nothing leaks: compare it with a null generator before you"
        " conclude anything."
    )
