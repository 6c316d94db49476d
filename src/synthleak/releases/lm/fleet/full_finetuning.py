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
from torch import Tensor

from synthleak.core.seeds import derive, stream
from synthleak.releases.lm.fleet.batches import Example, PaddedExamples, one_by_one
from synthleak.releases.lm.fleet.loss import IGNORED
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone
from synthleak.releases.lm.fleet.training import TrainingConfig, clip_share


@contextmanager
def trained_in_full(
    shared: SharedBackbone, examples: Sequence[Example], seed: int, config: TrainingConfig
) -> Iterator[None]:
    """Train all weights on one set; put the frozen ones back afterwards."""
    weights = list(shared.backbone.model.parameters())
    frozen = [weight.detach().clone() for weight in weights]
    try:
        _train(shared, weights, examples, seed, config)
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
        chosen = np.flatnonzero(coins.random(len(examples)) < config.rate)
        totals = clipped_total(shared, weights, prepared, chosen, config.clip)
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
    chosen: np.ndarray,
    clip: float | None,
) -> list[Tensor]:
    """Return the sum of clipped gradients of the chosen examples, one backward pass for each."""
    wide = torch.float64 if weights[0].dtype == torch.float64 else torch.float32
    totals = [torch.zeros_like(weight, dtype=wide) for weight in weights]
    for microbatch in prepared.microbatches([chosen], one_by_one):
        logits = shared.backbone.model(input_ids=microbatch.tokens, use_cache=False).logits[0]
        loss = torch.nn.functional.cross_entropy(
            logits.to(wide), microbatch.labels[0], ignore_index=IGNORED
        )
        grads = torch.autograd.grad(loss, list(weights))
        norm = math.sqrt(sum(float(grad.to(wide).square().sum()) for grad in grads))
        highest = clip_share(grads[0].dtype)
        factor = 1.0 if clip is None else min(highest, clip * highest / max(norm, 1e-30))
        for total, grad in zip(totals, grads, strict=True):
            total.add_(grad.to(wide), alpha=factor)
    return totals
