"""DP-SGD for a packed fleet: the steps of `training.py`, several times faster on a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.releases.lm.fleet.batches import Example
from synthleak.releases.lm.fleet.packed_model import PackedModel
from synthleak.releases.lm.fleet.packs import Pack, Packer
from synthleak.releases.lm.fleet.training import Owners, Trainer, TrainingConfig


@dataclass(frozen=True)
class _Recording:
    """A graph and the pack that it reads."""

    graph: torch.cuda.CUDAGraph
    pack: Pack


class PackedTrainer(Trainer):
    """Trains the adapters of a fleet on texts that are packed end to end.

    A pass launches some hundred kernels. On a GPU, the second pack of a shape is recorded as a
    graph, and later packs of that shape are one launch.
    """

    def __init__(
        self,
        packed: PackedModel,
        config: TrainingConfig,
        *,
        longest: int,
        tokens_at_once: int,
        recorded: bool | None = None,
    ) -> None:
        self._packed = packed
        self._adapters = packed.adapters
        self._config = config
        self.longest = longest
        self._at_once = tokens_at_once
        master = packed.adapters.master
        self._recorded = master.is_cuda if recorded is None else recorded
        self._first = torch.zeros_like(master)
        self._second = torch.zeros_like(master)
        self._total = torch.zeros_like(master)
        self._compiled = False
        self._seen: set[tuple[int, int]] = set()
        self._recordings: dict[tuple[int, int], _Recording] = {}

    def prepare(self, sets: Sequence[Sequence[Example]]) -> Any:
        """Return the examples, ready for packing."""
        return Packer(
            sets,
            self._total.device,
            longest=self.longest,
            rate=self._config.rate,
            at_once=self._at_once,
        )

    def clipped_sum(self, prepared: Any, chosen: Sequence[NDArray[np.int64]]) -> Tensor:
        """Return each instance's sum of clipped gradients; the next call overwrites it."""
        self._total.zero_()
        return self._with_sums(prepared, chosen)

    def noised_sum(
        self,
        prepared: Any,
        chosen: Sequence[NDArray[np.int64]],
        generators: Sequence[torch.Generator],
        owners: Owners | None = None,
    ) -> Tensor:
        """Return each instance's clipped sum on top of its noise, which is drawn first."""
        assert owners is None, "packs know norms of texts, not of persons"
        spread = self._config.sigma * (self._config.clip or 0.0)
        if not spread:
            return self.clipped_sum(prepared, chosen)
        for row, generator in zip(self._total, generators, strict=True):
            row.normal_(0.0, spread, generator=generator)
        return self._with_sums(prepared, chosen)

    def _with_sums(self, prepared: Packer, chosen: Sequence[NDArray[np.int64]]) -> Tensor:
        for pack in prepared.packs(chosen):
            self._pass(pack)
        return self._total

    def _pass(self, pack: Pack) -> None:
        shape = pack.shape
        if shape[0] > self._packed.room:
            self._recordings.clear()
            self._packed.make_room(shape[0])
        if not self._recorded or shape not in self._seen:
            self._seen.add(shape)
            self._compile(pack)
            self._add_pack(pack)
            return
        if shape not in self._recordings:
            self._recordings[shape] = self._record(pack)
        recording = self._recordings[shape]
        for place, part in zip(recording.pack.parts(), pack.parts(), strict=True):
            place.copy_(part)
        recording.graph.replay()

    def _compile(self, pack: Pack) -> None:
        """Compile all kernels before the first pass, several at a time."""
        if self._recorded and not self._compiled:
            with self._packed.launches.compiling():
                self._add_pack(pack)
            self._compiled = True

    def _record(self, pack: Pack) -> _Recording:
        places = Pack(*(part.clone() for part in pack.parts()))
        pool = next((kept.graph.pool() for kept in self._recordings.values()), None)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool):
            self._add_pack(places)
        return _Recording(graph, places)

    def _add_pack(self, pack: Pack) -> None:
        factors = partial(self.factors, dtype=self._adapters.live.dtype)
        self._packed.add(pack, None if self._config.clip is None else factors, self._total)

    def update(self, total: Tensor, step: int) -> None:
        """Take one AdamW step with all instances at once, as the plain trainer does."""
        from synthleak.releases.lm.fleet import kernels

        config, adapters = self._config, self._adapters
        fast, slow = config.betas
        size = 1024
        kernels.adamw[(-(-total.numel() // size),)](
            total,
            adapters.master,
            self._first,
            self._second,
            adapters.live,
            total.numel(),
            1 / config.batch,
            1 - config.learning_rate * config.weight_decay,
            1 - fast,
            slow,
            1 - slow,
            math.sqrt(1 - slow**step),
            config.learning_rate / (1 - fast**step),
            config.tiny,
            BN=size,
        )
