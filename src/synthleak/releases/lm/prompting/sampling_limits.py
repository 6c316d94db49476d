"""How many rows are sampled at once: what fits the device's memory, by arithmetic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.core.errors import GeneratorError
from synthleak.releases.lm.fleet.kv_cache import BLOCK, whole_blocks
from synthleak.releases.lm.fleet.memory import HEADROOM, MOST_ANSWERS, MOST_TEXTS, Shape

MOST_READ = 65_536
"""Tokens of prompts that are read together."""
MOST_LOGITS = 16_384
"""Rows whose next tokens are drawn together: beyond, logits only take memory."""


@dataclass(frozen=True)
class SamplingLimits:
    """How many rows are drawn, and how many tokens of prompts are read, at once.

    Logits of `logits` rows exist together. `memory` is shared by rows and their prompts, which
    take `row` and `prompt` bytes each.
    """

    rows: int
    tokens: int
    logits: int
    memory: int
    row: int
    prompt: int

    def fitting(self, prompt_of: NDArray[np.int64]) -> int:
        """Return how many of the first rows fit, whose prompts are these; at least one."""
        new = np.diff(prompt_of[: self.rows], prepend=-1) != 0
        taken = np.cumsum(self.row + self.prompt * new)
        return max(1, int(np.searchsorted(taken, self.memory, side="right")))


def plan_sampling(
    shape: Shape,
    memory: int,
    prompt: int,
    answer: int,
    most: int | None = None,
    *,
    copied: bool = True,
) -> SamplingLimits:
    """Plan by arithmetic what fits `memory`, for the longest prompt and answer.

    With `copied` every row has keys and values of its prompt, else a prompt has them once.
    """
    free = int(memory * HEADROOM) - shape.weights
    token = shape.bytes * (8 * shape.hidden + 3 * shape.inner) + 8 * shape.hidden
    tokens = min(MOST_READ, free // 4 // token)
    logits = max(1, min(MOST_LOGITS, free // 8 // shape.logits))
    left = free - tokens * token - logits * shape.logits
    # Where rows are chosen or room is made, one layer after another exists twice.
    layers = shape.layers + 1
    if copied:
        row, once = shape.layer(prompt + answer + BLOCK) * layers, 0
    else:
        # A step's states, products and results, besides keys and values.
        work = shape.bytes * (8 * shape.hidden + 4 * shape.keys + 4 * shape.inner)
        row = shape.layer(whole_blocks(answer)) * layers + work
        once = shape.layer(whole_blocks(prompt)) * layers
    if free <= 0 or left < row + once or tokens < prompt + answer:
        raise GeneratorError(
            f"the backbone and one text of {prompt + answer} tokens do not fit into"
            f" {memory * HEADROOM / 2**30:.1f} GiB",
            remedy="use a smaller backbone or max_tokens, or a larger device",
        )
    most = most or (MOST_TEXTS if copied else MOST_ANSWERS)
    return SamplingLimits(
        rows=int(min((left - once) // row, most)),
        tokens=int(tokens),
        logits=int(logits),
        memory=int(left),
        row=int(row),
        prompt=int(once),
    )
