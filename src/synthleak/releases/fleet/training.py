"""DP-SGD for a fleet: Poisson batches, per-example clipping, fresh noise, a fixed normaliser.

All instances take the same number of steps, in lockstep; who is in a batch, and the noise, come
from each instance's own seed. An instance's adapter does not depend on its company (METHOD §5.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.releases.fleet.adapters import Adapters, Mixed
from synthleak.releases.fleet.loss import IGNORED, example_losses
from synthleak.seeds import derive, stream


@dataclass(frozen=True)
class Example:
    """One training text: tokens, and how many of them are only the prompt."""

    tokens: tuple[int, ...]
    prompt: int


@dataclass(frozen=True)
class Course:
    """How every instance is trained. All of it is public: from N and the settings, never from D.

    `sigma` is the noise multiplier, 0 for none; `clip` is the largest norm of one example's
    gradient, None for no bound. `batch` is the *expected* batch and the normaliser of every step.
    """

    steps: int
    rate: float
    batch: float
    learning_rate: float
    clip: float | None = 1.0
    sigma: float = 0.0
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    tiny: float = 1e-8


class Trainer:
    """Trains the adapters of a fleet."""

    def __init__(
        self,
        decoder: Callable[[Tensor], Tensor],
        head: Tensor,
        adapters: Adapters,
        course: Course,
        *,
        tokens_at_once: int,
        examples_at_once: int,
    ) -> None:
        self._decoder = decoder
        self._head = head
        self._adapters = adapters
        self._course = course
        self._at_once = (tokens_at_once, examples_at_once)
        self._first = torch.zeros_like(adapters.master)
        self._second = torch.zeros_like(adapters.master)

    def train(
        self,
        sets: Sequence[Sequence[Example]],
        seeds: Sequence[int],
        advance: Callable[[int], None] = lambda steps: None,
    ) -> None:
        """Train one adapter per set; `seeds[i]` decides the batches and the noise of instance i."""
        course, device = self._course, self._adapters.master.device
        library = Library(sets, device)
        coins = [stream(seed, "batches") for seed in seeds]
        noise = [torch.Generator(device).manual_seed(derive(seed, "noise")) for seed in seeds]
        for step in range(1, course.steps + 1):
            chosen = [
                np.flatnonzero(coin.random(len(examples)) < course.rate)
                for examples, coin in zip(sets, coins, strict=True)
            ]
            total = self.clipped_sum(library, chosen)
            self.noise(total, noise)
            self.update(total, step)
            advance(1)

    def noise(self, total: Tensor, generators: Sequence[torch.Generator]) -> None:
        """Add noise to each instance's sum, from its own generator."""
        spread = self._course.sigma * (self._course.clip or 0.0)
        if spread:
            for row, generator in zip(total, generators, strict=True):
                row.add_(torch.empty_like(row).normal_(0.0, spread, generator=generator))

    def clipped_sum(self, library: Library, chosen: Sequence[NDArray[np.int64]]) -> Tensor:
        """Return each instance's sum of clipped per-example gradients, zero for an empty batch.

        `chosen[i]` are positions in set i.
        """
        total = torch.zeros_like(self._adapters.master)
        for part in library.portions(chosen, *self._at_once):
            self._add(part, total)
        return total

    def _add(self, part: Portion, total: Tensor) -> None:
        company = Mixed(torch.from_numpy(part.instances).to(total.device))
        with self._adapters.collecting(company) as grads, torch.enable_grad():
            hidden = self._decoder(part.tokens)
            losses = example_losses(hidden, self._head, part.labels)
            losses.sum().backward()  # type: ignore[no-untyped-call]
        weight = self._weights(grads)
        present, starts = np.unique(part.instances, return_index=True)
        ends = [*starts[1:].tolist(), len(part.instances)]
        for instance, start, end in zip(present.tolist(), starts.tolist(), ends, strict=True):
            total[instance] += torch.matmul(weight[start:end], grads[start:end])

    def _weights(self, grads: Tensor) -> Tensor:
        """Return the factor that brings each example's gradient to norm `clip` at most.

        In half precision the factor is lowered by more than its rounding, so that rounding can
        never lift a clipped gradient above the bound that the accountant was told.
        """
        clip = self._course.clip
        if clip is None:
            return torch.ones(len(grads), dtype=grads.dtype, device=grads.device)
        norms = torch.linalg.vector_norm(grads, dim=1)
        margin = 1.0 if grads.dtype in (torch.float32, torch.float64) else 1 - 2**-6
        return (clip * margin / norms.clamp(min=1e-30)).clamp(max=margin)

    def update(self, total: Tensor, step: int) -> None:
        """Take one AdamW step with all instances at once, by the sum over the expected batch."""
        course, master = self._course, self._adapters.master
        gradient = total.div_(course.batch)
        fast, slow = course.betas
        self._first.lerp_(gradient, 1 - fast)
        self._second.mul_(slow).addcmul_(gradient, gradient, value=1 - slow)
        master.mul_(1 - course.learning_rate * course.weight_decay)
        scale = math.sqrt(1 - slow**step)
        spread = self._second.sqrt().div_(scale).add_(course.tiny)
        master.addcdiv_(self._first, spread, value=-course.learning_rate / (1 - fast**step))
        self._adapters.publish()


PORTION_COST = 10_000
"""What a portion costs beside its tokens, in tokens: launching all kernels of a pass."""


def cut_lengths(lengths: Sequence[int], tokens_at_once: int, examples_at_once: int) -> list[int]:
    """Return where to cut falling lengths so that padding and launches together cost least.

    >>> cut_lengths([60] * 1000 + [10] * 1000, 1_000_000, 1_000_000)
    [1000, 2000]
    >>> cut_lengths([60, 10, 10], 1_000_000, 1_000_000)
    [3]
    """
    falls = [i for i in range(1, len(lengths)) if lengths[i] < lengths[i - 1]]
    stops = [0, *falls, len(lengths)] if lengths else [0]
    best: list[tuple[float, list[int]]] = [(0.0, [])]
    for end in stops[1:]:
        options = []
        for (cost, cuts), start in zip(best, stops, strict=False):
            fits = max(1, min(tokens_at_once // lengths[start], examples_at_once))
            inner = [*range(start + fits, end, fits), end]
            spent = len(inner) * PORTION_COST + (end - start) * lengths[start]
            options.append((cost + spent, [*cuts, *inner]))
        best.append(min(options, key=lambda option: option[0]))
    return best[-1][1]


@dataclass(frozen=True)
class Portion:
    """Examples that are computed together, sorted by instance."""

    instances: NDArray[np.int64]
    tokens: Tensor
    labels: Tensor


class Library:
    """All examples of a fleet, padded once and kept on the device.

    Padding stands on the right. A decoder looks back only, so no text sees the padding after it,
    and padding has no label: it changes no loss and no gradient. The end token is an ordinary
    label, so that the model learns to stop.
    """

    def __init__(self, sets: Sequence[Sequence[Example]], device: torch.device) -> None:
        examples = [example for members in sets for example in members]
        self._first = np.cumsum([0, *(len(members) for members in sets)])
        self._lengths = np.array([len(example.tokens) for example in examples], dtype=np.int64)
        longest = int(self._lengths.max(initial=1))
        tokens = np.zeros((len(examples), longest), dtype=np.int64)
        labels = np.full((len(examples), longest), IGNORED, dtype=np.int64)
        for row, example in enumerate(examples):
            length, first = len(example.tokens), max(example.prompt, 1)
            tokens[row, :length] = example.tokens
            labels[row, first - 1 : length - 1] = example.tokens[first:]
        self._tokens = torch.from_numpy(tokens).to(device)
        self._labels = torch.from_numpy(labels).to(device)

    def portions(
        self, chosen: Sequence[NDArray[np.int64]], tokens_at_once: int, examples_at_once: int
    ) -> Iterator[Portion]:
        """Cut a step's examples into portions that fit, the long with the long.

        Every portion pads to its longest text and costs a fixed number of launches: `cut_lengths`
        weighs the one against the other.
        """
        rows = np.concatenate([p + first for p, first in zip(chosen, self._first, strict=False)])
        instances = np.repeat(np.arange(len(chosen)), [len(p) for p in chosen])
        order = np.argsort(-self._lengths[rows], kind="stable")
        lengths = self._lengths[rows[order]]
        start = 0
        for end in cut_lengths(lengths.tolist(), tokens_at_once, examples_at_once):
            longest = int(lengths[start])
            part = np.sort(order[start:end])
            picked = torch.from_numpy(rows[part]).to(self._tokens.device)
            yield Portion(
                instances[part], self._tokens[picked, :longest], self._labels[picked, :longest]
            )
            start = end
