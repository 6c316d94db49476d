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
from typing import Any, Protocol

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
    def middle(self) -> int:
        """Where A ends and B begins."""
        return self.start + self.rank * self.inputs

    @property
    def end(self) -> int:
        """Where B ends."""
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
        self.layout: BatchLayout | None = None
        self._served: list[Pair] = []
        self._collected: list[Pair] = []

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
    def serving(self, layout: BatchLayout) -> Iterator[None]:
        """Multiply each example of a batch by the matrices of its own instance."""
        served = layout.pick(self.live)
        self.layout, self._served = layout, [slot.split(served) for slot in self.slots]
        try:
            yield
        finally:
            self.layout, self._served = None, []

    @contextmanager
    def collecting(self, layout: BatchLayout, grads: Tensor | None = None) -> Iterator[Tensor]:
        """Serve a batch, and collect per-example gradients into the buffer that is given back."""
        if grads is None:
            grads = self.live.new_empty(layout.size, self.size)
        self._collected = [slot.split(grads) for slot in self.slots]
        try:
            with self.serving(layout):
                yield grads
        finally:
            self._collected = []

    def pair(self, number: int) -> Pair:
        """Return the A and B that the batch is multiplied by in one layer."""
        return self._served[number]

    def gradients(self, number: int) -> Pair:
        """Return where one layer leaves the gradients of each example's A and B."""
        return self._collected[number]


class BatchLayout(Protocol):
    """Which instance each example of a batch belongs to."""

    @property
    def size(self) -> int:
        """The number of examples."""

    def pick(self, live: Tensor) -> Tensor:
        """Return the rows to multiply by, from those of all instances."""

    def fold(self, x: Tensor) -> Tensor:
        """Lay a batch [examples, tokens, d] out as `pick`'s rows expect it."""


@dataclass(frozen=True)
class MixedLayout:
    """Any example anywhere: `instances[e]` says whose. Each gets a copy of its matrices."""

    instances: Tensor

    @property
    def size(self) -> int:
        """The number of examples."""
        return len(self.instances)

    def pick(self, live: Tensor) -> Tensor:
        """Copy the row of each example's instance, once for all layers."""
        return live.index_select(0, self.instances)

    def fold(self, x: Tensor) -> Tensor:
        """Leave the batch as it is: one product per example."""
        return x


@dataclass(frozen=True)
class EvenLayout:
    """All instances in order, `each` examples apiece: one larger product per instance, no copy."""

    instances: int
    each: int

    @property
    def size(self) -> int:
        """The number of examples."""
        return self.instances * self.each

    def pick(self, live: Tensor) -> Tensor:
        """Take the rows as they are."""
        return live

    def fold(self, x: Tensor) -> Tensor:
        """Join the examples of an instance."""
        return x.reshape(self.instances, -1, x.shape[-1])


class _Adapted(torch.autograd.Function):
    """y = x Wᵀ + scale · (x Aᵀ) Bᵀ with W frozen; backward keeps each example's gradient apart."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: FleetLinear, adapters: Adapters) -> Tensor:
        """Multiply, and remember what the gradients need."""
        layout = adapters.layout
        assert layout is not None
        y = torch.nn.functional.linear(x, layer.weight, layer.bias)
        a, b = adapters.pair(layer.number)
        inner = torch.bmm(layout.fold(x), a.mT)
        layout.fold(y).baddbmm_(inner, b.mT, alpha=adapters.scale)
        ctx.save_for_backward(x, inner)
        ctx.layer, ctx.adapters, ctx.layout = layer, adapters, layout
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Pass the gradient on, and write each example's own into the fleet's buffer."""
        dy = grads[0].contiguous()
        x, inner = ctx.saved_tensors
        layer, adapters, layout = ctx.layer, ctx.adapters, ctx.layout
        a, b = adapters.pair(layer.number)
        d_inner = torch.bmm(layout.fold(dy), b).mul_(adapters.scale)
        dx = torch.matmul(dy, layer.weight)
        layout.fold(dx).baddbmm_(d_inner, a)
        of_a, of_b = adapters.gradients(layer.number)
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
        """Multiply by the frozen weight, and by the adapters that are being served."""
        adapters = self.adapters
        if adapters is None or adapters.layout is None:
            return torch.nn.functional.linear(x, self.weight, self.bias)
        return _Adapted.apply(x, self, adapters)  # type: ignore[no-any-return]


def convert(model: nn.Module, *, keep: Sequence[nn.Module]) -> list[FleetLinear]:
    """Replace every linear layer of a model, but those in `keep` (the output layer), in place."""
    layers: list[FleetLinear] = []
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if any(child is kept for kept in keep):
                continue
            made = _converted(child)
            if made is not None:
                made.number = len(layers)
                layers.append(made)
                setattr(parent, name, made)
    return layers


def _converted(layer: nn.Module) -> FleetLinear | None:
    if isinstance(layer, nn.Linear):
        return FleetLinear(layer.weight.data, None if layer.bias is None else layer.bias.data)
    if type(layer).__name__ == "Conv1D":  # GPT-2's linear layer, weights the other way round
        weight, bias = layer.get_parameter("weight"), layer.get_parameter("bias")
        return FleetLinear(weight.data.T.contiguous(), bias.data)
    return None
