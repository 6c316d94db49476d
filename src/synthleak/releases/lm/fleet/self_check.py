"""Tests whether the packed kernels are right on this machine: a small step, and a short text."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from synthleak.releases.lm.fleet.adapters import Adapters, MixedLayout
from synthleak.releases.lm.fleet.batches import Example
from synthleak.releases.lm.fleet.kernel_launches import LONG
from synthleak.releases.lm.fleet.packed_model import PackedModel
from synthleak.releases.lm.fleet.packed_sampling import KeyValueCache
from synthleak.releases.lm.fleet.packed_training import PackedTrainer
from synthleak.releases.lm.fleet.packs import tile_rows
from synthleak.releases.lm.fleet.training import Trainer, TrainingConfig

if TYPE_CHECKING:
    from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone

log = logging.getLogger(__name__)

TOLERANCE = 0.1
"""Relative error: half precision alone gives a few hundredths, a wrong kernel about 1."""
SHORT = 40
"""Tokens of a text that attention takes in small blocks."""
INSTANCES = 2
STEPS = 3


def packed_works(shared: SharedBackbone, rank: int) -> bool:
    """Say whether the packed pass agrees with the plain one, and log a line if it does not."""
    served = [layer.adapters for layer in shared.layers]
    try:
        adapters = _perturbed_adapters(shared, rank)
        gaps = {
            "training": _gap(*_sums(shared, adapters, SHORT)),
            "training on long texts": _gap(*_sums(shared, adapters, LONG + SHORT)),
            "reading": _gap(*_states(shared, adapters)),
        }
        wrong = [f"{gap:.0%} in {what}" for what, gap in gaps.items() if not gap < TOLERANCE]
        problem = f"it is off by {', '.join(wrong)}" if wrong else ""
    except Exception as error:  # a kernel that does not compile or start can raise anything
        problem = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
    finally:
        for layer, before in zip(shared.layers, served, strict=True):
            layer.adapters = before
    if problem:
        log.warning("the packed pass does not work here (%s): using the plain one", problem)
    return not problem


def _perturbed_adapters(shared: SharedBackbone, rank: int) -> Adapters:
    """Return adapters away from their start, where B is zero and half of the gradients vanish."""
    adapters = shared.adapters(range(INSTANCES), rank=rank, scale=2.0)
    generator = torch.Generator(shared.device).manual_seed(1)
    for slot in adapters.slots:
        slot.split(adapters.master)[1].normal_(0.0, 0.02, generator=generator)
    adapters.publish()
    return adapters


def _sums(shared: SharedBackbone, adapters: Adapters, longest: int) -> tuple[Tensor, Tensor]:
    """Return the clipped sums of some texts, packed and plain."""
    rng = np.random.default_rng(1)
    vocabulary = len(shared.backbone.head)
    sets = [
        [Example(tuple(rng.integers(0, vocabulary, n).tolist()), 2) for n in lengths]
        for lengths in ((5, longest), (23, longest - 7))
    ]
    chosen = [np.arange(len(own)) for own in sets]
    config = TrainingConfig(steps=1, rate=1.0, batch=1.0, learning_rate=1.0, clip=1.0)
    packed = PackedTrainer(
        PackedModel(shared.backbone.model, adapters, longest),
        config,
        longest=longest,
        tokens_at_once=1024,
    )
    plain = Trainer(
        shared.decode,
        shared.backbone.head,
        adapters,
        config,
        longest=longest,
        tokens_at_once=1024,
        examples_at_once=4,
    )
    computed = packed.clipped_sum(packed.prepare(sets), chosen)
    return computed, plain.clipped_sum(plain.prepare(sets), chosen)


@torch.no_grad()
def _states(shared: SharedBackbone, adapters: Adapters) -> tuple[Tensor, Tensor]:
    """Return the last states of a short text of each instance, read step by step and at once."""
    texts = INSTANCES
    tokens = torch.arange(texts * STEPS, device=shared.device).view(texts, STEPS)
    tiles = tile_rows(np.ones(texts, dtype=np.int64), texts).astype(np.int32)
    cache = KeyValueCache(PackedModel(shared.backbone.model, adapters, SHORT), texts, STEPS)
    slot = torch.arange(texts, dtype=torch.int32, device=shared.device)
    for step in range(STEPS):
        cache.read(tokens[:, step], torch.from_numpy(tiles).to(shared.device), slot, step)
    with adapters.serving(MixedLayout(slot.long())):
        return cache.states(texts), shared.decode(tokens)[:, -1]


def _gap(computed: Tensor, expected: Tensor) -> float:
    norms = torch.linalg.vector_norm((computed - expected).double(), dim=1)
    return float((norms / torch.linalg.vector_norm(expected.double(), dim=1)).max())
