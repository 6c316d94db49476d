"""Slow, obvious versions of what EPSVec does with hidden states."""

from __future__ import annotations

import math
from typing import Any

import torch


def mean_state(
    model: Any, prompt: tuple[int, ...], text: tuple[int, ...], layer: int
) -> list[float]:
    """Return the mean over the tokens of one text of what comes out of one layer."""
    with torch.no_grad():
        states = model(
            input_ids=torch.tensor([[*prompt, *text]]), output_hidden_states=True
        ).hidden_states[layer + 1][0]
    rows = states[len(prompt) :].tolist()
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def difference(a: list[float], b: list[float]) -> list[float]:
    """Return a - b."""
    return [x - y for x, y in zip(a, b, strict=True)]


def norm(a: list[float]) -> float:
    """Return the length of a vector."""
    return math.sqrt(sum(x * x for x in a))


def mean(vectors: list[list[float]]) -> list[float]:
    """Return the mean vector."""
    return [sum(column) / len(vectors) for column in zip(*vectors, strict=True)]


def clipped_sum(states: list[list[float]], centre: list[float], bound: float) -> list[float]:
    """Return the sum of differences to a centre, each brought to a norm of at most `bound`."""
    total = [0.0] * len(centre)
    for state in states:
        d = difference(state, centre)
        factor = min(1.0, bound / norm(d)) if norm(d) > 0 else 1.0
        total = [t + factor * x for t, x in zip(total, d, strict=True)]
    return total
