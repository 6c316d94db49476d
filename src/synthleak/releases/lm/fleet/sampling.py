"""Sampling by the library's pass, with adapters or without: many rows decode together.

The token of a row at position t depends on its own `uniforms[t]` alone, which comes from the seed
of its instance; the rest of the batch only affects rounding. Decoding is temperature, then top-k,
then top-p.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from synthleak.core.seeds import stream
from synthleak.releases.lm.fleet.adapters import Adapters

if TYPE_CHECKING:
    from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone


Tokens = tuple[int, ...]

COMPACT_EVERY, COMPACT_BELOW = 8, 0.75
"""After how many steps to look for finished texts, and which share of unfinished ones is worth it
to copy what is kept of them."""


class Sampler:
    """Samples the texts of a fleet."""

    def __init__(
        self, shared: SharedBackbone, adapters: Adapters, decoding: Decoding, *, texts_at_once: int
    ) -> None:
        self._shared = shared
        self._adapters = adapters
        self._decoding = decoding
        self._at_once = texts_at_once

    def sample(
        self,
        prompts: Sequence[Sequence[Tokens]],
        seeds: Sequence[int],
        advance: Callable[[int], None] = lambda texts: None,
    ) -> list[list[Tokens]]:
        """Return a continuation for every prompt: `prompts[i]` are those of instance i."""
        each = len(prompts[0])
        if any(len(of_instance) != each for of_instance in prompts):
            raise ValueError("every instance of a fleet samples equally many texts")
        uniforms = np.stack(
            [
                stream(seed, "tokens").random((each, self._decoding.longest), dtype=np.float32)
                for seed in seeds
            ]
        )
        texts: list[list[Tokens]] = [[()] * each for _ in prompts]
        per_round = max(1, self._at_once // len(prompts))
        for start in range(0, each, per_round):
            part = slice(start, min(start + per_round, each))
            drawn = self._round([of_instance[part] for of_instance in prompts], uniforms[:, part])
            for row, tokens in enumerate(drawn):
                instance, position = divmod(row, part.stop - start)
                texts[instance][start + position] = tuple(tokens[tokens >= 0].tolist())
            advance(len(drawn))
        return texts

    @torch.no_grad()
    def _round(
        self, prompts: Sequence[Sequence[Tokens]], uniforms: NDArray[np.float32]
    ) -> NDArray[np.int64]:
        """Return the tokens of every text, instance by instance, and -1 beyond its end."""
        flat = list(chain.from_iterable(prompts))
        decoder = CopiedPrompts(self._shared, adapters=self._adapters)
        decoder.read(flat, np.arange(len(flat)), self._decoding.longest)
        of_texts = uniforms.reshape(len(flat), -1)
        head = self._shared.backbone.head
        rows = Rows(decoder, of_texts, self._decoding, head, instances=len(prompts))
        drawn = rows.draw_all()
        return np.where(np.isin(drawn, self._decoding.end), -1, drawn)


class ActiveVectors:
    """What is added after each layer now: `vectors[row, l]`, or nothing."""

    vectors: Tensor | None = None


class Decoder(Protocol):
    """Reads the tokens of many rows, and keeps what was read."""

    hidden: Tensor
    """The last states of every row."""

    every: int
    below: float
    """How often to look for finished rows, and which share of unfinished ones is worth a `keep`."""

    def read(
        self, prompts: Sequence[Tokens], of: NDArray[np.int64], longest: int, tokens_at_once: int
    ) -> None:
        """Read prompts, the longest first, some tokens at once.

        Row r continues `of[r]`, in order; `longest` is how many tokens may follow.
        """

    def step(self, tokens: Tensor) -> None:
        """Read one more token of every row."""

    def keep(self, rows: Tensor) -> None:
        """Keep these rows alone, in this order."""


class CopiedPrompts:
    """Rows of any decoder: each has a copy of its prompt's keys and values."""

    def __init__(
        self,
        shared: SharedBackbone,
        *,
        adapters: Adapters | None = None,
        steer: ActiveVectors | None = None,
        vectors: Tensor | None = None,
    ) -> None:
        self._shared, self._active, self._vectors = shared, steer or ActiveVectors(), vectors
        self._serving = nullcontext if adapters is None else adapters.serving
        self.every, self.below = COMPACT_EVERY, COMPACT_BELOW

    def read(
        self,
        prompts: Sequence[Tokens],
        of: NDArray[np.int64],
        longest: int,
        tokens_at_once: int = sys.maxsize,
    ) -> None:
        every, seen, positions = left_padded(prompts, self._shared.device)
        at_once = max(1, tokens_at_once // every.shape[1])
        hidden, caches = [], []
        for start in range(0, len(prompts), at_once):
            part = slice(start, start + at_once)
            self._active.vectors = None if self._vectors is None else self._vectors[part]
            cache = DynamicCache()
            with self._serving():
                read = self._shared.step(every[part], seen[part], positions[part], cache)
            hidden.append(read[0])
            caches.append(cache)
        rows = torch.from_numpy(of).to(every.device)
        self._cache = _joined(caches)
        self._cache.batch_select_indices(rows)
        self._vectors = None if self._vectors is None else self._vectors[rows]
        self.hidden, self._mask = torch.cat(hidden)[rows], seen[rows]
        self._positions = positions[rows, -1:]

    def step(self, tokens: Tensor) -> None:
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], dim=1)
        self._positions = self._positions + 1
        self._active.vectors = self._vectors
        with self._serving():
            self.hidden, _ = self._shared.step(
                tokens[:, None], self._mask, self._positions, self._cache
            )

    def keep(self, rows: Tensor) -> None:
        self._cache.batch_select_indices(rows)
        self._mask, self._positions = self._mask[rows], self._positions[rows]
        self._vectors = None if self._vectors is None else self._vectors[rows]


def _joined(caches: list[Any]) -> Any:
    """Join the caches of microbatches, layer by layer, freeing each on the way."""
    whole = caches[0]
    for number, layer in enumerate(whole.layers if len(caches) > 1 else ()):
        layers = [cache.layers[number] for cache in caches]
        layer.keys = torch.cat([part.keys for part in layers])
        layer.values = torch.cat([part.values for part in layers])
        for part in layers[1:]:
            part.keys = part.values = None
    return whole


class Rows:
    """The texts that are being drawn; all of the `instances` have equally many, one after another.

    The logits of `at_once` rows exist together.
    """

    def __init__(
        self,
        decoder: Decoder,
        uniforms: NDArray[np.float32],
        how: Decoding,
        head: Tensor,
        *,
        at_once: int = sys.maxsize,
        instances: int = 1,
    ) -> None:
        device, count = head.device, len(uniforms)
        self._decoder, self._how, self._head = decoder, how, head
        self._at_once, self._instances = min(at_once, count), instances
        self._ends = torch.zeros(len(head), dtype=torch.bool, device=device)
        self._ends[list(how.end)] = True
        self._uniforms = torch.from_numpy(uniforms).to(device)
        self._row = torch.arange(count, device=device)
        self._alive = torch.ones(count, dtype=torch.bool, device=device)
        self._drawn = torch.full(uniforms.shape, -1, dtype=torch.int32, device=device)

    def draw_all(self) -> NDArray[np.int32]:
        """Return the tokens of every row with what ended it, and -1 beyond."""
        for t in range(self._how.longest):
            last = self.draw(t)
            # Every row is written, -1 for none: selecting rows would make the host wait.
            self._drawn[self._row, t] = torch.where(self._alive, last, -1).int()
            self._alive &= ~self._ends[last]
            if t + 1 == self._how.longest:
                break
            if (t + 1) % self._decoder.every == 0:
                rows = self._unfinished()
                if not len(rows):
                    break
                if len(rows) <= self._decoder.below * len(last):
                    last = last[rows]
                    self._keep(rows)
            self._decoder.step(last)
        return np.asarray(self._drawn.cpu().numpy())

    def draw(self, t: int) -> Tensor:
        """Return the next token of every row, the t-th of its text."""
        drawn = []
        for start in range(0, len(self._row), self._at_once):
            part = slice(start, start + self._at_once)
            logits = torch.matmul(self._decoder.hidden[part], self._head.T)
            uniforms = self._uniforms[part, t]
            drawn.append(sample_tokens(logits, uniforms, self._how, t))
        return torch.cat(drawn)

    def _unfinished(self) -> Tensor:
        """Return the rows to keep: equally many of every instance, the unfinished first."""
        alive = self._alive.view(self._instances, -1)
        most = int(alive.sum(dim=1).max())
        order = torch.argsort(alive.int(), dim=1, descending=True, stable=True)[:, :most]
        first = torch.arange(self._instances, device=order.device)[:, None] * alive.shape[1]
        return (order + first).flatten()

    def _keep(self, rows: Tensor) -> None:
        self._decoder.keep(rows)
        self._uniforms, self._row = self._uniforms[rows], self._row[rows]
        self._alive = self._alive[rows]


def left_padded(prompts: Sequence[Tokens], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens, mask and positions of prompts, padded so that all continue together."""
    width = max(map(len, prompts))
    tokens = np.zeros((len(prompts), width), dtype=np.int64)
    mask = np.zeros_like(tokens)
    for row, prompt in enumerate(prompts):
        tokens[row, width - len(prompt) :] = prompt
        mask[row, width - len(prompt) :] = 1
    seen = torch.from_numpy(mask).to(device)
    return torch.from_numpy(tokens).to(device), seen, (seen.cumsum(dim=1) - 1).clamp(min=0)


@dataclass(frozen=True)
class Decoding:
    """How tokens are drawn, and where a text ends.

    A text has at least `least` tokens: 1 forbids empty texts.
    """

    end: tuple[int, ...]
    longest: int
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 0.9
    least: int = 0


GROUP = 64
"""Tokens of the vocabulary in a group, in the search for the largest logits.

The tokens of a group are far apart in memory, so that all groups are read in parallel along it,
which is fast.
"""


def largest_logits(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return each row's k largest values and their places, the largest first.

    They lie within the k groups whose maxima are largest, so only those are searched: one pass over
    a large vocabulary instead of several.
    """
    groups = logits.shape[1] // GROUP
    if groups < 2 * k:
        values, places = logits.topk(k, dim=1)
        return values, places
    grouped = logits[:, : groups * GROUP].unflatten(1, (GROUP, groups))
    chosen = grouped.amax(dim=1).topk(k, dim=1).indices
    inside = grouped.gather(2, chosen[:, None].expand(-1, GROUP, -1)).flatten(1)
    left = logits[:, groups * GROUP :]
    values, places = (torch.cat([inside, left], dim=1) if left.shape[1] else inside).topk(k, dim=1)
    within = places.clamp(max=inside.shape[1] - 1)
    member = torch.div(within, k, rounding_mode="floor")
    tokens = member * groups + chosen.gather(1, within - member * k)
    # What no group holds follows all groups.
    beyond = places + (groups * GROUP - inside.shape[1])
    return values, torch.where(places < inside.shape[1], tokens, beyond)


def sample_tokens(logits: Tensor, uniforms: Tensor, decoding: Decoding, length: int) -> Tensor:
    """Return a token for each row of logits; `uniforms[r]` in [0, 1) alone decides which.

    `length` is the number of tokens that each text already has. Logits of forbidden tokens are
    overwritten: a copy for a fleet would take gigabytes.
    """
    if length < decoding.least and decoding.end:
        logits.index_fill_(1, torch.tensor(decoding.end, device=logits.device), -torch.inf)
    best, tokens = largest_logits(logits, min(decoding.top_k, logits.shape[1]))
    share = torch.softmax(best.float() / decoding.temperature, dim=1)
    # A token is kept while those before it add up to less than p: the first is always kept, a
    # forbidden one never.
    kept = (share.cumsum(dim=1) - share < decoding.top_p) & (share > 0)
    mass = (share * kept).cumsum(dim=1)
    pick = torch.searchsorted(mass, (uniforms * mass[:, -1])[:, None], right=True)
    last = kept.sum(dim=1, keepdim=True) - 1
    return tokens.gather(1, torch.minimum(pick, last)).squeeze(1)
