"""Sampling tokens from a frozen backbone: rows of any prompt, each from its own randomness.

No adapters are involved, so rows of all instances form one flat batch. A prompt is read once
however many rows continue it. The token of a row at position t depends on its own `uniforms[t]`;
the batch that it is in changes nothing but rounding.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.engine.progress import tell
from synthleak.core.errors import GeneratorError
from synthleak.releases.lm.fleet.decoding import Decoding, sample_tokens
from synthleak.releases.lm.fleet.kv_cache import BLOCK, new_cache, use_grouped_attention
from synthleak.releases.lm.fleet.memory import HEADROOM, MOST_TEXTS, MOST_TOKENS, Shape
from synthleak.releases.lm.fleet.sampling import Tokens
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, memory_of
from synthleak.releases.lm.steering.hooks import ActiveVectors, SteeringVectors, steering_hooks

log = logging.getLogger(__name__)

COMPACT_EVERY = 8
COMPACT_BELOW = 0.75


@dataclass(frozen=True)
class SamplingLimits:
    """How many rows are drawn, and how many tokens of prompts are read, at once."""

    rows: int
    tokens: int


def plan_sampling(
    shape: Shape, memory: int, longest: int, most: int | None = None
) -> SamplingLimits:
    """Plan by arithmetic what fits `memory`; `longest` is a prompt with its text."""
    free = int(memory * HEADROOM) - shape.weights
    token = shape.bytes * (8 * shape.hidden + 3 * shape.inner) + 8 * shape.hidden
    tokens = min(MOST_TOKENS, free // 4 // token)
    # Where rows are chosen or room is made, one layer after another exists twice.
    positions = longest + BLOCK
    row = shape.layer(positions) * (shape.layers + 1) + shape.logits
    rows = (free - tokens * token) // row
    if free <= 0 or rows < 1 or tokens < longest:
        raise GeneratorError(
            f"the backbone and one text of {longest} tokens do not fit into"
            f" {memory * HEADROOM / 2**30:.1f} GiB",
            remedy="use a smaller backbone or max_tokens, or a larger device",
        )
    return SamplingLimits(int(min(rows, most or MOST_TEXTS)), int(tokens))


class TokenSampler:
    """Samples continuations of prompts from the shared backbone."""

    def __init__(self, shared: SharedBackbone, *, rows: int | None = None) -> None:
        self._shared = shared
        self._most = rows
        use_grouped_attention(shared.backbone.model)

    def sample(
        self,
        prompts: Sequence[Tokens],
        of: NDArray[np.int64],
        uniforms: NDArray[np.float32],
        how: Decoding,
        steering: SteeringVectors | None = None,
        done: Callable[[list[int], list[Tokens]], None] = lambda rows, drawn: None,
    ) -> list[Tokens]:
        """Return a continuation of prompt `of[r]` for every row r, with what ended it.

        `done` is told of rows as they are finished, many at a time.
        """
        made: list[Tokens] = [()] * len(of)
        if not len(of):
            return made
        lengths = np.array([len(prompt) for prompt in prompts])
        longest = int(lengths[of].max()) + how.longest
        limits = plan_sampling(
            self._shared.shape(1), memory_of(self._shared.device), longest, self._most
        )
        # The long with the long, and the rows of one prompt together.
        order = np.lexsort((of, -lengths[of]))
        start, rows = 0, limits.rows
        while start < len(order):
            part = order[start : start + rows]
            try:
                drawn = self._batch(prompts, of[part], uniforms[part], how, steering, limits.tokens)
            except torch.OutOfMemoryError:
                if rows == 1:
                    raise
                rows = max(1, len(part) // 2)
                torch.cuda.empty_cache()
                log.warning("out of device memory: continuing with %d texts at once", rows)
                continue
            for row, tokens in zip(part.tolist(), drawn, strict=True):
                made[row] = tokens
            done(part.tolist(), drawn)
            start += len(part)
            tell(f"sampling texts, {start:,} of {len(order):,}", start / len(order))
        return made

    def _batch(
        self,
        prompts: Sequence[Tokens],
        of: NDArray[np.int64],
        uniforms: NDArray[np.float32],
        how: Decoding,
        steering: SteeringVectors | None,
        tokens_at_once: int,
    ) -> list[Tokens]:
        device, head = self._shared.device, self._shared.backbone.head
        used, local = np.unique(of, return_inverse=True)
        vectors = None if steering is None else steering.of(used, device, head.dtype)
        with torch.no_grad(), steering_hooks(self._shared, steering) as steer:
            asked = [prompts[p] for p in used]
            read = self._read(asked, how.longest, vectors, steer, tokens_at_once)
            rows = _Rows(read, torch.from_numpy(local).to(device), uniforms, how, vectors, head)
            while rows.go_on():
                steer.vectors = rows.vectors
                rows.hidden, _ = self._shared.step(
                    rows.last[:, None], rows.mask, rows.positions, rows.cache
                )
        return rows.texts()

    def _read(
        self,
        prompts: Sequence[Tokens],
        ahead: int,
        vectors: Tensor | None,
        steer: ActiveVectors,
        tokens_at_once: int,
    ) -> _Read:
        """Read prompts, padded on the left so that all continue together, a microbatch at a time.

        `ahead` is how many tokens may follow.
        """
        width = max(map(len, prompts))
        tokens = np.zeros((len(prompts), width), dtype=np.int64)
        mask = np.zeros((len(prompts), width), dtype=np.int64)
        for row, prompt in enumerate(prompts):
            tokens[row, width - len(prompt) :] = prompt
            mask[row, width - len(prompt) :] = 1
        device = self._shared.device
        every, seen = torch.from_numpy(tokens).to(device), torch.from_numpy(mask).to(device)
        positions = (seen.cumsum(dim=1) - 1).clamp(min=0)
        at_once = max(1, tokens_at_once // width)
        hidden, caches = [], []
        for start in range(0, len(prompts), at_once):
            part = slice(start, start + at_once)
            steer.vectors = None if vectors is None else vectors[part]
            cache = new_cache(ahead)
            hidden.append(self._shared.step(every[part], seen[part], positions[part], cache)[0])
            caches.append(cache)
        return _Read(torch.cat(hidden), _joined(caches, ahead), seen, positions[:, -1:].clone())


def _joined(caches: list[Any], ahead: int) -> Any:
    """Join the caches of microbatches, layer by layer, freeing each on the way."""
    if len(caches) == 1:
        return caches[0]
    whole = new_cache(ahead)
    for number in range(len(caches[0].layers)):
        layers = [cache.layers[number] for cache in caches]
        keys = torch.cat([layer.keys for layer in layers])
        values = torch.cat([layer.values for layer in layers])
        for layer in layers:
            layer.forget()
        whole.update(keys, values, number)
    return whole


@dataclass(frozen=True)
class _Read:
    """Prompts that were read: last states, memory, mask, and the position of the last token."""

    hidden: Tensor
    cache: Any
    mask: Tensor
    positions: Tensor


class _Rows:
    """The texts that are being drawn."""

    def __init__(
        self,
        read: _Read,
        of: Tensor,
        uniforms: NDArray[np.float32],
        how: Decoding,
        vectors: Tensor | None,
        head: Tensor,
    ) -> None:
        device = of.device
        self._how, self._head = how, head
        self._ends = torch.zeros(len(head), dtype=torch.bool, device=device)
        self._ends[list(how.end)] = True
        self.cache = read.cache
        self.cache.batch_select_indices(of)
        self.hidden, self.mask, self.positions = read.hidden[of], read.mask[of], read.positions[of]
        self.vectors = None if vectors is None else vectors[of]
        self.last = torch.zeros(len(of), dtype=torch.long, device=device)
        self._uniforms = torch.from_numpy(uniforms).to(device)
        self._row = torch.arange(len(of), device=device)
        self._alive = torch.ones(len(of), dtype=torch.bool, device=device)
        self._made = torch.full(uniforms.shape, -1, dtype=torch.int32, device=device)
        self._length = 0

    def go_on(self) -> bool:
        """Draw the next token of every row; say whether any text is unfinished."""
        t = self._length
        logits = torch.matmul(self.hidden, self._head.T)
        self.last = sample_tokens(logits, self._uniforms[:, t], self._how, t)
        self._made[self._row, t] = torch.where(self._alive, self.last, -1).int()
        self._alive &= ~self._ends[self.last]
        self._length += 1
        if self._length == self._how.longest:
            return False
        self.mask = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], dim=1)
        self.positions = self.positions + 1
        return self._length % COMPACT_EVERY != 0 or self._compact()

    def _compact(self) -> bool:
        """Drop finished rows where enough have finished; looking makes the host wait."""
        rows = self._alive.nonzero().squeeze(1)
        if len(rows) and len(rows) <= COMPACT_BELOW * len(self._alive):
            self.cache.batch_select_indices(rows)
            self.mask, self.positions, self.last = (
                self.mask[rows],
                self.positions[rows],
                self.last[rows],
            )
            self.vectors = None if self.vectors is None else self.vectors[rows]
            self._uniforms, self._row = self._uniforms[rows], self._row[rows]
            self._alive = self._alive[rows]
        return len(rows) > 0

    def texts(self) -> list[Tokens]:
        """Return what was drawn for every row."""
        return [tuple(made[made >= 0].tolist()) for made in self._made.cpu().numpy()]
