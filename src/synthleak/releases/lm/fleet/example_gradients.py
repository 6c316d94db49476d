"""The gradient of each example of a microbatch, recorded once per shape on a GPU.

A pass launches some thousand small kernels, and launching them from Python takes several times as
long as they run. A GPU records the pass of a shape as a graph when it comes for the second time,
and replays it as one launch from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from synthleak.releases.lm.fleet.adapters import Adapters, MixedLayout
from synthleak.releases.lm.fleet.batches import Microbatch
from synthleak.releases.lm.fleet.loss import example_losses


@dataclass(frozen=True)
class _Recording:
    """A graph and the places it reads from and writes to."""

    graph: torch.cuda.CUDAGraph
    tokens: Tensor
    labels: Tensor
    instances: Tensor
    grads: Tensor


class ExampleGradients:
    """Forward and backward through a backbone that serves adapters.

    What a pass gives back holds until the next one.
    """

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
        device = adapters.live.device
        self.recorded = device.type == "cuda" if recorded is None else recorded
        self._seen: set[tuple[int, ...]] = set()
        self._recordings: dict[tuple[int, ...], _Recording] = {}
        self._gradients = torch.empty(0, adapters.size, dtype=adapters.live.dtype, device=device)

    def __call__(self, part: Microbatch) -> Tensor:
        """Return the gradient of each row of a microbatch, examples first."""
        shape = tuple(part.tokens.shape)
        instances = torch.zeros(shape[0], dtype=torch.long)
        instances[: len(part.instances)] = torch.from_numpy(part.instances)
        instances = instances.to(part.tokens.device)
        if not self.recorded or shape not in self._seen:
            self._seen.add(shape)
            grads = self._buffer(shape[0])
            self._pass(part.tokens, part.labels, instances, grads)
            return grads
        if shape not in self._recordings:
            self._recordings[shape] = self._record(part.tokens, part.labels, instances)
        recording = self._recordings[shape]
        recording.tokens.copy_(part.tokens)
        recording.labels.copy_(part.labels)
        recording.instances.copy_(instances)
        recording.graph.replay()
        return recording.grads

    def _buffer(self, rows: int) -> Tensor:
        """Return a buffer for `rows` gradients; recorded graphs keep theirs."""
        if rows > len(self._gradients):
            self._gradients = self._gradients.new_empty(rows, self._adapters.size)
        return self._gradients[:rows]

    def _pass(self, tokens: Tensor, labels: Tensor, instances: Tensor, grads: Tensor) -> None:
        with self._adapters.collecting(MixedLayout(instances), grads), torch.enable_grad():
            hidden = self._decoder(tokens)
            losses = example_losses(hidden, self._head, labels)
            losses.sum().backward()  # type: ignore[no-untyped-call]

    def _record(self, tokens: Tensor, labels: Tensor, instances: Tensor) -> _Recording:
        places = tokens.clone(), labels.clone(), instances.clone(), self._buffer(len(tokens))
        pool = next((kept.graph.pool() for kept in self._recordings.values()), None)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            self._pass(*places)
        return _Recording(graph, *places)
