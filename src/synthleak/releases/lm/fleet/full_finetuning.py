"""Full fine-tuning: every weight is trained, one instance and one example at a time.

The slow, simple form of DP-SGD, as an option. There is no fleet: a hundred copies of all weights do
not fit into memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.seeds import derive, stream
from synthleak.releases.lm.fleet.batches import Example, PaddedExamples, one_by_one
from synthleak.releases.lm.fleet.loss import IGNORED
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone
from synthleak.releases.lm.fleet.training import TrainingConfig, clip_share, drawn


@contextmanager
def trained_in_full(
    shared: SharedBackbone,
    examples: Sequence[Example],
    seed: int,
    config: TrainingConfig,
    owner: NDArray[np.int64] | None = None,
) -> Iterator[None]:
    """Train all weights on one set; put the frozen ones back afterwards."""
    weights = list(shared.backbone.model.parameters())
    frozen = [weight.detach().clone() for weight in weights]
    try:
        _train(shared, weights, examples, seed, config, owner)
        yield
    finally:
        with torch.no_grad():
            for weight, before in zip(weights, frozen, strict=True):
                weight.requires_grad_(False).copy_(before)
                weight.grad = None


def _train(
    shared: SharedBackbone,
    weights: list[Tensor],
    examples: Sequence[Example],
    seed: int,
    config: TrainingConfig,
    owner: NDArray[np.int64] | None,
) -> None:
    wide = torch.float64 if weights[0].dtype == torch.float64 else torch.float32
    masters = [weight.detach().to(wide).clone() for weight in weights]
    optimiser = torch.optim.AdamW(
        masters,
        lr=config.learning_rate,
        betas=config.betas,
        eps=config.tiny,
        weight_decay=config.weight_decay,
    )
    prepared = PaddedExamples([examples], shared.device)
    coins = stream(seed, "batches")
    noise = torch.Generator(shared.device).manual_seed(derive(seed, "noise"))
    for weight in weights:
        weight.requires_grad_(True)
    for _ in range(config.steps):
        chosen = drawn(len(examples), owner, config.rate, coins)
        totals = clipped_total(shared, weights, prepared, chosen, config.clip, owner)
        spread = config.sigma * (config.clip or 0.0)
        for master, total in zip(masters, totals, strict=True):
            if spread:
                total.add_(torch.empty_like(total).normal_(0.0, spread, generator=noise))
            master.grad = total.to(wide).div_(config.batch)
        optimiser.step()
        with torch.no_grad():
            for weight, master in zip(weights, masters, strict=True):
                weight.copy_(master)


def clipped_total(
    shared: SharedBackbone,
    weights: Sequence[Tensor],
    prepared: PaddedExamples,
    chosen: NDArray[np.int64],
    clip: float | None,
    owner: NDArray[np.int64] | None = None,
) -> list[Tensor]:
    """Return the sum of clipped gradients of the chosen examples, one backward pass for each.

    With `owner` the gradients of one person's examples are added up before they are clipped.
    """
    wide = torch.float64 if weights[0].dtype == torch.float64 else torch.float32
    totals = [torch.zeros_like(weight, dtype=wide) for weight in weights]
    highest = clip_share(weights[0].dtype)

    def add(grads: Sequence[Tensor]) -> None:
        norm = math.sqrt(sum(float(grad.to(wide).square().sum()) for grad in grads))
        factor = 1.0 if clip is None else min(highest, clip * highest / max(norm, 1e-30))
        for total, grad in zip(totals, grads, strict=True):
            total.add_(grad.to(wide), alpha=factor)

    if owner is None:
        for grads in _gradients(shared, weights, prepared, chosen):
            add(grads)
        return totals
    for person in np.unique(owner[chosen]).tolist():
        own = [torch.zeros_like(total) for total in totals]
        for grads in _gradients(shared, weights, prepared, chosen[owner[chosen] == person]):
            for summed, grad in zip(own, grads, strict=True):
                summed.add_(grad.to(wide))
        add(own)
    return totals


def _gradients(
    shared: SharedBackbone,
    weights: Sequence[Tensor],
    prepared: PaddedExamples,
    chosen: NDArray[np.int64],
) -> Iterator[Sequence[Tensor]]:
    """Yield the gradient of each chosen example."""
    wide = torch.float64 if weights[0].dtype == torch.float64 else torch.float32
    for microbatch in prepared.microbatches([chosen], one_by_one):
        logits = shared.backbone.model(input_ids=microbatch.tokens, use_cache=False).logits[0]
        loss = torch.nn.functional.cross_entropy(
            logits.to(wide), microbatch.labels[0], ignore_index=IGNORED
        )
        yield torch.autograd.grad(loss, list(weights))
