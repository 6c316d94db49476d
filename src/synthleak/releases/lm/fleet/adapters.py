"""Adapters: one small set of LoRA matrices per instance, all on one frozen backbone.

Every example carries the number of its instance, and a linear layer multiplies it by that
instance's matrices. The backward pass leaves the gradient of *each example* behind, not their sum,
because DP-SGD clips examples one by one (docs/method.md §5.2). `tests/releases/lm/fleet` compares
this with a naive loop.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Pair = tuple[Tensor, Tensor]
"""A and B of one layer."""


@dataclass(frozen=True)
class Slot:
    """Where one layer's matrices lie in an instance's row of the flat buffers."""

    inputs: int
    outputs: int
    start: int
    rank: int

    @property
    def middle(self) -> int:  # where A ends and B begins
        return self.start + self.rank * self.inputs

    @property
    def end(self) -> int:
        return self.middle + self.rank * self.outputs

    def split(self, flat: Tensor) -> Pair:
        """Return views of A [n, rank, inputs] and B [n, outputs, rank] in rows of a buffer."""
        a = flat[:, self.start : self.middle].unflatten(1, (self.rank, self.inputs))
        b = flat[:, self.middle : self.end].unflatten(1, (self.outputs, self.rank))
        return a, b


class Adapters:
    """The adapters of a fleet: `master[i]` holds all matrices of instance i in full precision.

    `live` is the copy that the layers multiply by. A row depends on its own seed only.
    """

    def __init__(
        self,
        layers: Sequence[FleetLinear],
        seeds: Sequence[int],
        *,
        rank: int,
        scale: float,
        full: torch.dtype = torch.float32,
    ) -> None:
        self.scale = scale
        self.rank = rank
        self.slots: list[Slot] = []
        end = 0
        for layer in layers:
            self.slots.append(Slot(layer.inputs, layer.outputs, end, rank))
            end = self.slots[-1].end
        weight = layers[0].weight
        self.master = torch.zeros(len(seeds), end, dtype=full, device=weight.device)
        for row, seed in zip(self.master, seeds, strict=True):
            self._start(row, torch.Generator(weight.device).manual_seed(seed))
        self.live = self.master.to(weight.dtype)
        self.served: list[Pair] = []
        self.collected: list[Pair] = []

    def _start(self, row: Tensor, generator: torch.Generator) -> None:
        """Start A uniform and B at zero, so that an adapter begins as no change at all."""
        for slot in self.slots:
            bound = 1 / math.sqrt(slot.inputs)
            row[slot.start : slot.middle].uniform_(-bound, bound, generator=generator)

    @property
    def size(self) -> int:
        """The number of trained values per instance."""
        return self.master.shape[1]

    def publish(self) -> None:
        """Let the layers see what the optimiser changed."""
        self.live.copy_(self.master)

    @contextmanager
    def serving(self, instances: Tensor | None = None) -> Iterator[None]:
        """Multiply each example of a batch by the matrices of its own instance.

        `instances[e]` says whose example e is; each gets a copy of its matrices, once for all
        layers. Without it all instances come in order with equally many examples, and the examples
        of one are a larger product, without a copy.
        """
        served = self.live if instances is None else self.live.index_select(0, instances)
        self.served = [slot.split(served) for slot in self.slots]
        try:
            yield
        finally:
            self.served = []

    @contextmanager
    def collecting(self, grads: Tensor, instances: Tensor | None = None) -> Iterator[None]:
        """Serve a batch, and collect the gradient of each example in its row of `grads`."""
        self.collected = [slot.split(grads) for slot in self.slots]
        try:
            with self.serving(instances):
                yield
        finally:
            self.collected = []


def _by_matrix(x: Tensor, matrices: Tensor) -> Tensor:
    """Join the examples [examples, tokens, d] that are multiplied by the same matrix."""
    return x.reshape(len(matrices), -1, x.shape[-1])


class _Adapted(torch.autograd.Function):
    """y = x Wᵀ + scale · (x Aᵀ) Bᵀ with W frozen; backward keeps each example's gradient apart."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: FleetLinear, adapters: Adapters) -> Tensor:
        y = torch.nn.functional.linear(x, layer.weight, layer.bias)
        a, b = adapters.served[layer.number]
        inner = torch.bmm(_by_matrix(x, a), a.mT)
        _by_matrix(y, b).baddbmm_(inner, b.mT, alpha=adapters.scale)
        ctx.save_for_backward(x, inner)
        ctx.layer, ctx.adapters = layer, adapters
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Pass the gradient on, and write each example's own into the fleet's buffer."""
        dy = grads[0].contiguous()
        x, inner = ctx.saved_tensors
        layer, adapters = ctx.layer, ctx.adapters
        a, b = adapters.served[layer.number]
        d_inner = torch.bmm(_by_matrix(dy, b), b).mul_(adapters.scale)
        dx = torch.matmul(dy, layer.weight)
        _by_matrix(dx, a).baddbmm_(d_inner, a)
        of_a, of_b = adapters.collected[layer.number]
        shape = (*x.shape[:2], a.shape[1])
        torch.bmm(d_inner.view(shape).mT, x, out=of_a)
        torch.bmm(dy.mT, inner.view(shape) * adapters.scale, out=of_b)
        return dx, None, None


class FleetLinear(nn.Module):
    """A frozen linear layer that a fleet's adapters may change per example."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self.outputs, self.inputs = weight.shape
        self.number = 0
        self.adapters: Adapters | None = None

    def forward(self, x: Tensor) -> Tensor:
        adapters = self.adapters
        if adapters is None or not adapters.served:
            return torch.nn.functional.linear(x, self.weight, self.bias)
        return _Adapted.apply(x, self, adapters)  # type: ignore[no-any-return]


def convert(model: nn.Module, *, keep: Sequence[nn.Module]) -> list[FleetLinear]:
    """Replace every linear layer of a model, but those in `keep` (the output layer), in place."""
    layers: list[FleetLinear] = []
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if any(child is kept for kept in keep):
                continue
            layer = _converted(child)
            if layer is not None:
                layer.number = len(layers)
                layers.append(layer)
                setattr(parent, name, layer)
    return layers


def _converted(layer: nn.Module) -> FleetLinear | None:
    if isinstance(layer, nn.Linear):
        return FleetLinear(layer.weight.data, None if layer.bias is None else layer.bias.data)
    if type(layer).__name__ == "Conv1D":  # GPT-2's linear layer, weights the other way round
        weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
        return FleetLinear(weight.data.T.contiguous(), bias.data)
    return None


def stacked(layers: Sequence[FleetLinear]) -> Tensor:
    """Stack weights into one matrix; each layer's weight becomes a view of its part.

    Weights that were stacked before stay where they are.
    """
    first = layers[0].weight.data
    if len(layers) == 1:
        return first
    sizes = [layer.weight.numel() for layer in layers]
    ends = [first.data_ptr() + first.element_size() * sum(sizes[:n]) for n in range(len(sizes))]
    shape = (sum(layer.outputs for layer in layers), layers[0].inputs)
    room = first.untyped_storage().nbytes() // first.element_size() - first.storage_offset()
    if [layer.weight.data_ptr() for layer in layers] == ends and room >= sum(sizes):
        return first.as_strided(shape, (shape[1], 1))
    weight = torch.cat([layer.weight.data for layer in layers])
    parts = weight.split([layer.outputs for layer in layers])
    for layer, part in zip(layers, parts, strict=True):
        layer.weight.data = part
    return weight


class FusedNorm(nn.Module):
    """Root-mean-square normalisation in one kernel where the library has one."""

    def __init__(self, weight: Tensor, tiny: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(weight, requires_grad=False)
        self.tiny = tiny

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.rms_norm(x, self.weight.shape, self.weight, self.tiny)


PLAIN_NORMS = ("LlamaRMSNorm", "MistralRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm")
"""Norms that multiply by their weight and do nothing else; others keep their own code."""


def fuse_norms(model: torch.nn.Module) -> None:
    """Replace plain norms by the library's own, in place: they are a tenth of a step."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child).__name__ in PLAIN_NORMS:
                weight = child.get_parameter("weight").data
                setattr(parent, name, FusedNorm(weight, float(child.variance_epsilon)))
