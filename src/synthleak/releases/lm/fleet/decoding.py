"""Decoding: temperature, then top-k, then top-p."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Decoding:
    """How tokens are drawn, and where a text ends.

    A text has at least `least` tokens: 1 forbids empty texts.
    """

    end: tuple[int, ...]
    longest: int
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 0.9
    least: int = 0


GROUP = 64
"""Tokens of the vocabulary in a group, in the search for the largest logits.

The tokens of a group are far apart in memory, so that all groups are read in parallel along it,
which is fast.
"""


def largest_logits(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return each row's k largest values and their places, the largest first.

    They lie within the k groups whose maxima are largest, so only those are searched: one pass over
    a large vocabulary instead of several.
    """
    groups = logits.shape[1] // GROUP
    if groups < 2 * k:
        values, places = logits.topk(k, dim=1)
        return values, places
    grouped = logits[:, : groups * GROUP].unflatten(1, (GROUP, groups))
    chosen = grouped.amax(dim=1).topk(k, dim=1).indices
    inside = grouped.gather(2, chosen[:, None].expand(-1, GROUP, -1)).flatten(1)
    left = logits[:, groups * GROUP :]
    values, places = (torch.cat([inside, left], dim=1) if left.shape[1] else inside).topk(k, dim=1)
    within = places.clamp(max=inside.shape[1] - 1)
    member = torch.div(within, k, rounding_mode="floor")
    tokens = member * groups + chosen.gather(1, within - member * k)
    # What no group holds follows all groups.
    beyond = places + (groups * GROUP - inside.shape[1])
    return values, torch.where(places < inside.shape[1], tokens, beyond)


def sample_tokens(
    logits: Tensor,
    uniforms: Tensor,
    decoding: Decoding,
    length: int,
    largest: Callable[[Tensor, int], tuple[Tensor, Tensor]] = largest_logits,
) -> Tensor:
    """Return a token for each row of logits; `uniforms[r]` in [0, 1) alone decides which.

    `length` is the number of tokens that each text already has; `largest` finds the largest
    logits. Logits of forbidden tokens are overwritten: a copy for a fleet would take gigabytes.
    """
    if length < decoding.least and decoding.end:
        logits.index_fill_(1, torch.tensor(decoding.end, device=logits.device), -torch.inf)
    best, tokens = largest(logits, min(decoding.top_k, logits.shape[1]))
    share = torch.softmax(best.float() / decoding.temperature, dim=1)
    # A token is kept while those before it add up to less than p: the first is always kept, a
    # forbidden one never.
    kept = (share.cumsum(dim=1) - share < decoding.top_p) & (share > 0)
    mass = (share * kept).cumsum(dim=1)
    pick = torch.searchsorted(mass, (uniforms * mass[:, -1])[:, None], right=True)
    last = kept.sum(dim=1, keepdim=True) - 1
    return tokens.gather(1, torch.minimum(pick, last)).squeeze(1)
