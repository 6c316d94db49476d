"""Tests whether the answer kernels are right on this machine: short answers, and some logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from synthleak.releases.lm.fleet.decoding import GROUP, largest_logits

if TYPE_CHECKING:
    from synthleak.releases.lm.fleet.frozen_llama import FrozenLlama

TOLERANCE = 0.1
"""Relative error: 0.027 was measured with SmolLM2 in bfloat16 on an H200, a mistake gives about 1.

A NaN is a mistake too: no NaN is below it, and `np.max` returns a NaN if one error is.
"""


@torch.no_grad()
def kernel_problems(llama: FrozenLlama) -> dict[str, str]:
    """Compare each kernel with torch; say what is wrong with it, or nothing."""
    found = {}
    for what, check in (("attention", _attention_gap), ("sampling", _largest_gap)):
        try:
            gap = check(llama)
            found[what] = "" if gap < TOLERANCE else f"it is off by {gap:.0%}"
        except Exception as error:  # a kernel that does not compile or start can raise anything
            found[what] = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
        finally:
            llama.kernels = llama.finder = None
    return found


def _attention_gap(llama: FrozenLlama) -> float:
    """Return the largest relative error of the last states, in tiles of several sizes."""
    from synthleak.releases.lm.fleet import answer_kernels

    gaps = []
    for most in (1, 6, 30):
        llama.kernels = None
        expected = _answered(llama, most).double()
        llama.kernels = answer_kernels
        gap = torch.linalg.vector_norm(_answered(llama, most).double() - expected)
        gaps.append(float(gap / torch.linalg.vector_norm(expected)))
    return float(np.max(gaps))


def _largest_gap(llama: FrozenLlama) -> float:
    """Return 0 if the largest of some logits are found, some of which are equal."""
    from synthleak.releases.lm.fleet import answer_kernels

    generator = torch.Generator().manual_seed(1)
    words = max(len(llama.embedding), 20 * GROUP) // GROUP * GROUP
    logits = torch.randn(9, words, generator=generator).bfloat16()
    logits[:3, :5] = -torch.inf
    logits[3] = 1.0
    logits[4] -= 10.0
    logits = logits.to(llama.embedding.device)
    k = min(50, words // GROUP // 2)
    expected, _ = largest_logits(logits, k)
    llama.finder = answer_kernels
    values, tokens = llama.largest_logits(logits, k)
    twice = tokens.sort(dim=1).values.diff(dim=1) == 0
    wrong = (values != expected) | (logits.gather(1, tokens) != values)
    return float(wrong.sum() + twice.sum())


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
