"""Tiny specs that any test may change; not in a conftest, of which a tree may have several."""

from __future__ import annotations

from typing import Any


def tiny_spec(**changes: Any) -> dict[str, Any]:
    """Return a spec that runs in a second or two, with no more redraws than it has to make."""
    spec: dict[str, Any] = {
        "seed": 3,
        "corpus": {"reader": "demo", "size": 160},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": [{"name": "outlier", "rule": "outlier", "percentile": 92}],
        "game": {"instances": 12, "records": 30, "rounds": 4, "candidates": 5},
        "generator": [{"kind": "ngram", "epsilon": [float("inf"), 2]}],
        "evidence": {"families": ["cos", "bigram_logprob"]},
        "prior": [],
        "analyses": {"redraws": 0},
    }
    return spec | changes
