"""DP-SGD for a fleet: Poisson batches, per-example clipping, fresh noise, a fixed normaliser.

All instances take the same number of steps, in lockstep; batches and noise come from each
instance's own seed. An instance's adapter does not depend on the other instances
(docs/method.md §5.2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.engine.progress import tell
from synthleak.core.seeds import derive, stream
from synthleak.releases.lm.fleet.adapters import Adapters
from synthleak.releases.lm.fleet.batches import (
    IGNORED,
    Example,
    Microbatch,
    PaddedExamples,
    plan_shapes,
)


@dataclass(frozen=True)
class TrainingConfig:
    """How every instance is trained; all of it is public, from N and the settings, not from D.

    `sigma` is the noise multiplier, 0 for none; `clip` is the largest norm of one example's
    gradient, None for no bound. `batch` is the *expected* batch and the normaliser of every step.
    With `persons` whole persons are drawn, and the gradients of a person's examples are added up
    before they are clipped (docs/design/claims.md).
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
    persons: bool = False


Owners = Sequence[NDArray[np.int64]]
"""For each set, the person that each example belongs to, numbered from 0."""


def drawn(
    examples: int, owner: NDArray[np.int64] | None, rate: float, coin: np.random.Generator
) -> NDArray[np.int64]:
    """Draw a Poisson batch: each example on its own, or each person with all examples."""
    if owner is None:
        return np.flatnonzero(coin.random(examples) < rate)
    persons = coin.random(int(owner.max(initial=-1)) + 1) < rate
    return np.flatnonzero(persons[owner])


MARGIN = 2**-6
"""How far below its bound a gradient is clipped, as a share of the bound.

It covers rounding in norms, factors and sums, and the effect of one more example on the last bits
of the others (docs/design/claim-dpsgd.md): the sum never changes by more than is accounted for.
"""


def clip_share(dtype: torch.dtype) -> float:
    """Return the share of the bound that gradients are clipped to; double needs no margin."""
    return 1.0 if dtype == torch.float64 else 1 - MARGIN


def weighted_sum(weight: Tensor, grads: Tensor) -> Tensor:
    """Return the sum of rows times their weights, computed in the type of the weights.

    A product of half-precision matrices is rounded to half precision unless another type is
    requested; where that is not supported, the rows are widened first.
    """
    if grads.dtype == weight.dtype:
        return torch.matmul(weight, grads)
    if grads.is_cuda and "dtype" in torch.ops.aten.mm.overloads():
        product: Tensor = torch.mm(weight[None].to(grads.dtype), grads, out_dtype=weight.dtype)
        return product[0]
    return torch.matmul(weight.to(grads.dtype).to(weight.dtype), grads.to(weight.dtype))


CHUNK = 4096
"""Tokens whose logits exist together.

The logits of a fleet's batch would not fit into memory: 40,000 tokens times a vocabulary of
128,000. They are computed chunk by chunk, together with the gradient.
"""


def loss_gradients(
    states: Tensor, head: Tensor, targets: Tensor, losses: Tensor | None = None, piece: int = CHUNK
) -> Tensor:
    """Return the gradient of each token's loss by its state; fill `losses` if given."""
    gradients = torch.empty_like(states)
    for start in range(0, len(states), piece):
        part = slice(start, start + piece)
        # Softmax sums in single precision at least, whatever the type of its input.
        probabilities = torch.softmax(torch.matmul(states[part], head.T), dim=1)
        right = targets[part, None]
        if losses is not None:
            losses[part] = -probabilities.gather(1, right).squeeze(1).clamp(min=1e-30).log()
        probabilities.scatter_add_(1, right, torch.full_like(right, -1, dtype=probabilities.dtype))
        torch.matmul(probabilities, head, out=gradients[part])
    return gradients


class _ChunkedLoss(torch.autograd.Function):
    """Each example's mean loss; the forward pass computes the gradients by hidden states too."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
        states, targets = hidden.flatten(0, 1), labels.flatten().clamp(min=0)
        losses = torch.empty(len(states), dtype=states.dtype, device=states.device)
        gradients = loss_gradients(states, head, targets, losses)
        trained = labels != IGNORED
        share = trained / trained.sum(dim=1, keepdim=True).clamp(min=1).to(torch.float64)
        ctx.save_for_backward(gradients.view_as(hidden).mul_(share[:, :, None].to(gradients.dtype)))
        total = (losses.view_as(labels).to(share.dtype) * share).sum(dim=1)
        return total.to(hidden.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (outer,) = grads
        (gradients,) = ctx.saved_tensors
        return gradients * outer[:, None, None].to(gradients.dtype), None, None


def example_losses(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
    """Return the mean loss of each example; `labels[e, t]` is what follows token t, or IGNORED.

    An example without a trained token has loss 0 and no gradient.
    """
    return _ChunkedLoss.apply(hidden, head, labels)  # type: ignore[no-any-return]


def progress_counter(doing: str, instances: int, total: int, unit: str) -> Callable[[int], None]:
    """Return a counter that tells how far a fleet is."""
    done = 0

    def advance(steps: int) -> None:
        nonlocal done
        done += steps
        tell(f"{doing} {instances:,} instances, {unit} {done:,} of {total:,}", done / total)

    return advance


class RecordedPasses:
    """Does work on tensors; with `recorded`, a shape that comes again is recorded as a CUDA graph.

    A pass launches hundreds of small kernels, and launching them from Python can take several times
    as long as they run; a graph is one launch. The next pass overwrites what a pass returned.
    """

    def __init__(self, *, recorded: bool) -> None:
        self.recorded = recorded
        self._seen: set[tuple[int, ...]] = set()
        self._graphs: dict[tuple[int, ...], tuple[torch.cuda.CUDAGraph, list[Tensor], Any]] = {}

    def __call__(
        self, work: Callable[..., Any], inputs: Sequence[Tensor], shape: tuple[int, ...]
    ) -> Any:
        """Do the work, always the same, on these inputs; `shape` decides the shape of each."""
        if not self.recorded or shape not in self._seen:
            self._seen.add(shape)
            return work(*inputs)
        if shape not in self._graphs:
            self._graphs[shape] = self._record(work, inputs)
        graph, places, output = self._graphs[shape]
        for place, tensor in zip(places, inputs, strict=True):
            place.copy_(tensor)
        graph.replay()
        return output

    def _record(
        self, work: Callable[..., Any], inputs: Sequence[Tensor]
    ) -> tuple[torch.cuda.CUDAGraph, list[Tensor], Any]:
        places = [tensor.clone() for tensor in inputs]
        pool = next((graph.pool() for graph, *_ in self._graphs.values()), None)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            output = work(*places)
        return graph, places, output

    def forget(self) -> None:
        """Drop what was recorded: buffers have moved."""
        self._graphs.clear()


class ExampleGradients:
    """The gradient of each example of a microbatch, through a backbone that serves adapters."""

    def __init__(
        self,
        decoder: Callable[[Tensor], Tensor],
        head: Tensor,
        adapters: Adapters,
        *,
        recorded: bool | None = None,
    ) -> None:
        self._decoder = decoder
        self._head = head
        self._adapters = adapters
        self.passes = RecordedPasses(
            recorded=adapters.live.is_cuda if recorded is None else recorded
        )
        self._gradients = adapters.live.new_empty(0, adapters.size)

    def __call__(self, part: Microbatch) -> Tensor:
        """Return the gradient of each row of a microbatch, examples first, until the next pass."""
        rows, width = part.tokens.shape
        instances = torch.zeros(rows, dtype=torch.long)
        instances[: len(part.instances)] = torch.from_numpy(part.instances)
        # Graphs that were recorded keep the buffer that they write to.
        if rows > len(self._gradients):
            self._gradients = self._gradients.new_empty(rows, self._adapters.size)
        inputs = part.tokens, part.labels, instances.to(part.tokens.device)
        return self.passes(self._pass, inputs, (rows, width))

    def _pass(self, tokens: Tensor, labels: Tensor, instances: Tensor) -> Tensor:
        grads = self._gradients[: len(tokens)]
        with self._adapters.collecting(grads, instances), torch.enable_grad():
            losses = example_losses(self._decoder(tokens), self._head, labels)
            losses.sum().backward()  # type: ignore[no-untyped-call]
        return grads


class Trainer:
    """Trains the adapters of a fleet on texts of at most `longest` tokens."""

    def __init__(
        self,
        decoder: Callable[[Tensor], Tensor],
        head: Tensor,
        adapters: Adapters,
        config: TrainingConfig,
        *,
        longest: int,
        tokens_at_once: int,
        examples_at_once: int,
    ) -> None:
        self._gradients = ExampleGradients(decoder, head, adapters)
        self._adapters = adapters
        self._config = config
        self.longest = longest
        self.shapes = plan_shapes(
            longest,
            config.batch * len(adapters.master),
            tokens=tokens_at_once,
            examples=examples_at_once,
            recorded=self._gradients.passes.recorded,
        )
        self._first = torch.zeros_like(adapters.master)
        self._second = torch.zeros_like(adapters.master)

    def train(
        self,
        sets: Sequence[Sequence[Example]],
        seeds: Sequence[int],
        advance: Callable[[int], None] = lambda steps: None,
        owners: Owners | None = None,
    ) -> None:
        """Train one adapter per set; `seeds[i]` decides the batches and the noise of instance i."""
        config, device = self._config, self._adapters.master.device
        prepared = self.prepare(sets)
        coins = [stream(seed, "batches") for seed in seeds]
        noise = [torch.Generator(device).manual_seed(derive(seed, "noise")) for seed in seeds]
        for step in range(1, config.steps + 1):
            chosen = [
                drawn(len(examples), None if owners is None else owners[i], config.rate, coin)
                for i, (examples, coin) in enumerate(zip(sets, coins, strict=True))
            ]
            total = self.noised_sum(prepared, chosen, noise, owners)
            self.update(total, step)
            advance(1)

    def prepare(self, sets: Sequence[Sequence[Example]]) -> PaddedExamples:
        return PaddedExamples(sets, self._adapters.master.device, self.longest)

    def noised_sum(
        self,
        prepared: PaddedExamples,
        chosen: Sequence[NDArray[np.int64]],
        generators: Sequence[torch.Generator],
        owners: Owners | None = None,
    ) -> Tensor:
        """Return each instance's clipped sum with its noise: all that a step uses of the data."""
        if owners is None:
            total = self.clipped_sum(prepared, chosen)
        else:
            total = self.clipped_sum_of_persons(prepared, chosen, owners)
        self.noise(total, generators)
        return total

    def noise(self, total: Tensor, generators: Sequence[torch.Generator]) -> None:
        spread = self._config.sigma * (self._config.clip or 0.0)
        if spread:
            for row, generator in zip(total, generators, strict=True):
                row.add_(torch.empty_like(row).normal_(0.0, spread, generator=generator))

    def clipped_sum(self, prepared: PaddedExamples, chosen: Sequence[NDArray[np.int64]]) -> Tensor:
        """Return each instance's sum of clipped per-example gradients, zero for an empty batch.

        `chosen[i]` are positions in set i.
        """
        total = torch.zeros_like(self._adapters.master)
        for part in prepared.microbatches(chosen, self.shapes.cut):
            self._add(part, total)
        return total

    def clipped_sum_of_persons(
        self, prepared: PaddedExamples, chosen: Sequence[NDArray[np.int64]], owners: Owners
    ) -> Tensor:
        """Return each instance's sum of clipped gradients, those of a person added up first.

        A person's examples may lie in different microbatches, so all persons of a step are summed
        before any is clipped.
        """
        total, wide = torch.zeros_like(self._adapters.master), self._adapters.master.dtype
        persons = [owner[places] for owner, places in zip(owners, chosen, strict=True)]
        instance = np.repeat(np.arange(len(chosen)), [len(numbers) for numbers in persons])
        key = np.stack([instance, np.concatenate(persons)]) if len(instance) else np.zeros((2, 0))
        present, person = np.unique(key, axis=1, return_inverse=True)
        sums = torch.zeros(present.shape[1], self._adapters.size, dtype=wide, device=total.device)
        dtype = wide
        for part in prepared.microbatches(chosen, self.shapes.cut):
            grads = self._gradients(part)[: len(part.places)]
            dtype = grads.dtype
            rows = torch.from_numpy(person.reshape(-1)[part.places]).to(total.device)
            sums.index_add_(0, rows, grads.to(wide))
        weight = torch.ones(len(sums), dtype=wide, device=total.device)
        if self._config.clip is not None:
            weight = self.factors(torch.linalg.vector_norm(sums, dim=1), dtype)
        to = torch.from_numpy(present[0].astype(np.int64)).to(total.device)
        return total.index_add_(0, to, sums.mul_(weight[:, None]))

    def _add(self, part: Microbatch, total: Tensor) -> None:
        grads = self._gradients(part)
        weight = self._weights(grads)
        present, starts = np.unique(part.instances, return_index=True)
        ends = [*starts[1:].tolist(), len(part.instances)]
        for instance, start, end in zip(present.tolist(), starts.tolist(), ends, strict=True):
            total[instance] += weighted_sum(weight[start:end], grads[start:end])

    def _weights(self, grads: Tensor) -> Tensor:
        """Return the factor that brings each example's gradient to norm `clip` at most."""
        wide = self._adapters.master.dtype
        if self._config.clip is None:
            return torch.ones(len(grads), dtype=wide, device=grads.device)
        return self.factors(torch.linalg.vector_norm(grads, dim=1, dtype=wide), grads.dtype)

    def factors(self, norms: Tensor, dtype: torch.dtype) -> Tensor:
        """Return the factors that clip gradients of these norms and this type to `clip`."""
        clip, highest = self._config.clip or 0.0, clip_share(dtype)
        return (clip * highest / norms.clamp(min=1e-30)).clamp(max=highest)

    def update(self, total: Tensor, step: int) -> None:
        """Take one AdamW step with all instances at once, by the sum over the expected batch."""
        config, master = self._config, self._adapters.master
        gradient = total.div_(config.batch)
        fast, slow = config.betas
        self._first.lerp_(gradient, 1 - fast)
        self._second.mul_(slow).addcmul_(gradient, gradient, value=1 - slow)
        master.mul_(1 - config.learning_rate * config.weight_decay)
        scale = math.sqrt(1 - slow**step)
        spread = self._second.sqrt().div_(scale).add_(config.tiny)
        master.addcdiv_(self._first, spread, value=-config.learning_rate / (1 - fast**step))
        self._adapters.publish()
