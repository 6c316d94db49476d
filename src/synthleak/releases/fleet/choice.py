"""Which token comes next: temperature, then the k likeliest, then those that make up p."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Decoding:
    """How tokens are drawn, and where a text ends."""

    end: tuple[int, ...]
    longest: int
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 0.9


def choose(logits: Tensor, chance: Tensor, decoding: Decoding) -> Tensor:
    """Return a token for each row of logits; `chance[r]` in [0, 1) alone decides which."""
    best, tokens = logits.topk(min(decoding.top_k, logits.shape[1]), dim=1)
    share = torch.softmax(best.float() / decoding.temperature, dim=1)
    # A token stays while those before it have not yet made up p: the first always stays.
    kept = share.cumsum(dim=1) - share < decoding.top_p
    mass = (share * kept).cumsum(dim=1)
    pick = torch.searchsorted(mass, (chance * mass[:, -1])[:, None], right=True)
    last = kept.sum(dim=1, keepdim=True) - 1
    return tokens.gather(1, torch.minimum(pick, last)).squeeze(1)
