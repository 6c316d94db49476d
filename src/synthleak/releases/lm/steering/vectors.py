"""Steering vectors: clipped sums of hidden-state differences, noised, brought to unit length.

A group is one class of one instance. All its texts continue the same exemplar prompt. Bounds and
means come from generated texts alone; private texts enter through the clipped sum and nowhere else
(docs/method.md §5.2, design/claim-epsvec.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.seeds import stream
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone
from synthleak.releases.lm.steering.states import PromptedText, mean_states

MARGIN = 1 - 2**-18
"""What a clipped difference is lowered by, so that rounding cannot lift it above its bound."""


@dataclass(frozen=True)
class ReferenceStatistics:
    """What generated texts say: the mean of each group, and per instance how far texts scatter.

    `means[g, l]` is a vector; `spread[i, l]` the root mean square distance of a text from the mean
    of its group, `norms[i, l]` the root mean square norm of a state.
    """

    means: Tensor
    spread: Tensor
    norms: Tensor


def reference_statistics(
    shared: SharedBackbone,
    texts: Sequence[PromptedText],
    group: NDArray[np.int64],
    instance: NDArray[np.int64],
    layers: Sequence[int],
    tokens_at_once: int,
) -> ReferenceStatistics:
    """Read the generated texts; `group[t]` is the group of a text, `instance[g]` of a group whose.

    Every group has equally many texts.
    """
    groups, instances = len(instance), int(instance.max()) + 1
    each = len(texts) // groups
    hidden = int(shared.backbone.model.config.hidden_size)
    device = shared.device
    means = torch.zeros(groups, len(layers), hidden, dtype=torch.float64, device=device)
    squares = torch.zeros(groups, len(layers), dtype=torch.float64, device=device)
    for rows, states in mean_states(shared, texts, layers, tokens_at_once):
        where = torch.from_numpy(group[rows]).to(device)
        means.index_add_(0, where, states.double() / each)
        squares.index_add_(0, where, states.double().square().sum(dim=2))
    owner = torch.from_numpy(instance).to(device)
    within = squares - each * means.square().sum(dim=2)
    of_instance = torch.bincount(owner, minlength=instances).double()[:, None]
    zero = torch.zeros(instances, len(layers), dtype=torch.float64, device=device)
    free = of_instance * max(each - 1, 1)
    return ReferenceStatistics(
        means=means.float() if shared.backbone.head.dtype != torch.float64 else means,
        spread=(zero.index_add(0, owner, within.clamp(min=0)) / free).sqrt(),
        norms=(zero.index_add(0, owner, squares) / (of_instance * each)).sqrt(),
    )


def clipped_sums(
    shared: SharedBackbone,
    texts: Sequence[PromptedText],
    group: NDArray[np.int64],
    means: Tensor,
    bounds: Tensor | None,
    layers: Sequence[int],
    tokens_at_once: int,
) -> Tensor:
    """Return the sum over the private texts of each group of their clipped difference to its mean.

    `bounds[g, l]` is the largest norm of one difference, none for no bound. One text moves the sum
    of its own group by at most that, and no other: sums are in double precision, so that what the
    others add up to does not depend on it.
    """
    total = torch.zeros_like(means, dtype=torch.float64)
    for rows, states in mean_states(shared, texts, layers, tokens_at_once):
        where = torch.from_numpy(group[rows]).to(means.device)
        difference = states - means[where]
        if bounds is not None:
            norms = torch.linalg.vector_norm(difference, dim=2, dtype=torch.float64)
            share = (bounds[where] * MARGIN / norms.clamp(min=1e-30)).clamp(max=1)
            difference = difference * share.to(difference.dtype)[:, :, None]
        total.index_add_(0, where, difference.double())
    return total


def noise_of(seed: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the standard noise of one release: from its own seed, the same on every device."""
    return stream(seed, "vectors").standard_normal(shape, dtype=np.float32)


def unit_vectors(total: Tensor) -> Tensor:
    """Bring every vector to length 1, which removes the number of texts that it sums.

    A group without any private text and without noise has no direction: it stays zero.
    """
    norms = torch.linalg.vector_norm(total, dim=-1, keepdim=True)
    return torch.where(norms > 0, total / norms.clamp(min=1e-30), torch.zeros_like(total))
