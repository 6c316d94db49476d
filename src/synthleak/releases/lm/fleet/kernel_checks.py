"""Tests whether the kernels are right on this machine, before they are used.

Packed kernels compute a small step and a short text, those of a frozen Llama some answers; both are
compared with plain torch.
"""

from __future__ import annotations

import importlib.util
import logging
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from synthleak.releases.lm.fleet.adapters import Adapters
from synthleak.releases.lm.fleet.batches import Example, tile_rows
from synthleak.releases.lm.fleet.packed_fleet import KeyValueCache, PackedTrainer
from synthleak.releases.lm.fleet.packed_model import LONG, PackedModel
from synthleak.releases.lm.fleet.training import Trainer, TrainingConfig

if TYPE_CHECKING:
    from synthleak.releases.lm.fleet.frozen_llama import FrozenLlama
    from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone


log = logging.getLogger(__name__)

TOLERANCE = 0.1
"""Relative error: half precision alone gives a few hundredths, a wrong kernel about 1.

With SmolLM2 in bfloat16 on an H200, 0.027 was measured of answers. A NaN is a mistake too: no NaN
is below it, and the largest of several errors is a NaN if one is.
"""
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
        problem = _in_one_line(error)
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
    chosen = [np.arange(len(examples)) for examples in sets]
    config = TrainingConfig(steps=1, rate=1.0, batch=1.0, learning_rate=1.0, clip=1.0)
    limits = {"longest": longest, "tokens_at_once": 1024}
    packed = PackedTrainer(PackedModel(shared.backbone.model, adapters, longest), config, **limits)
    head = shared.backbone.head
    plain = Trainer(shared.decode, head, adapters, config, examples_at_once=4, **limits)
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
    where = torch.from_numpy(tiles).to(shared.device)
    for step in range(STEPS):
        states = cache.read(tokens[:, step], where, slot, step)
    with adapters.serving(slot.long()):
        return states, shared.decode(tokens)[:, -1]


def _in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".strip().partition("\n")[0]


def _gap(computed: Tensor, expected: Tensor) -> float:
    norms = torch.linalg.vector_norm((computed - expected).double(), dim=1)
    return float((norms / torch.linalg.vector_norm(expected.double(), dim=1)).max())


def check_and_use_kernels(llama: FrozenLlama) -> None:
    """Let a frozen Llama use the kernels, if this device can run them and they agree with torch."""
    fit = llama.heads.size in (32, 64, 128) and llama.embedding.dtype != torch.float64
    on_gpu = llama.embedding.device.type == "cuda"
    if not fit or not on_gpu or not importlib.util.find_spec("triton"):
        return
    problem = kernel_problem(llama)
    if problem:
        log.warning("the kernel of attention does not work here (%s): using torch", problem)
        return
    from synthleak.releases.lm.fleet import attention_kernels

    llama.kernels = attention_kernels


@torch.no_grad()
def kernel_problem(llama: FrozenLlama) -> str:
    """Compare the kernels with torch; say what is wrong with them, or nothing."""
    try:
        gap = _attention_gap(llama)
        return "" if gap < TOLERANCE else f"it is off by {gap:.0%}"
    except Exception as error:  # a kernel that does not compile or start can raise anything
        return _in_one_line(error)
    finally:
        llama.kernels = None


def _attention_gap(llama: FrozenLlama) -> float:
    """Return the largest relative error of the last states, in tiles of several sizes."""
    from synthleak.releases.lm.fleet import attention_kernels

    gaps = []
    for most in (1, 6, 30):
        llama.kernels = None
        expected = _answered(llama, most).double()
        llama.kernels = attention_kernels
        gap = torch.linalg.vector_norm(_answered(llama, most).double() - expected)
        gaps.append(float(gap / torch.linalg.vector_norm(expected)))
    return float(np.max(gaps))


def _answered(llama: FrozenLlama, most: int) -> Tensor:
    """Return the states of answers to prompts of several lengths, some dropped on the way."""
    count = len(llama.embedding)
    lengths = (70, 33, 32, 7, 1)
    prompts = [tuple((7 * n + i) % count for i in range(n)) for n in lengths]
    answers = np.maximum(1, most - np.arange(len(lengths)))
    prompt_of = np.repeat(np.arange(len(lengths)), answers)
    cache = llama.cache(llama.read(prompts, tokens_at_once=200), prompt_of, 4)
    tokens = torch.arange(len(prompt_of), device=llama.embedding.device) % count
    states = []
    for step in range(4):
        states.append(llama.step(tokens, cache))
        if step == 1:
            left = torch.arange(1, len(tokens), 2, device=tokens.device)
            cache.keep(left)
            tokens = tokens[left]
    return torch.cat(states)
