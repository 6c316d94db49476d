"""Steering vectors: clipped sums of hidden-state differences, noised, brought to unit length.

A group is one class of one instance. All its texts continue the same exemplar prompt. Bounds and
means come from generated texts alone; private texts enter through the clipped sum and nowhere else
(docs/method.md §5.2, docs/design/claim-epsvec.md).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.seeds import stream
from synthleak.releases.lm.fleet.sampling import Tokens
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone
from synthleak.releases.lm.prompt_decoders import decoder_layers


@dataclass(frozen=True)
class PromptedText:
    """A prompt and the text that continues it; the mean is over the tokens of the text.

    `max_tokens` is how many tokens a text may have: what is longer was cut.
    """

    prompt: Tokens
    text: Tokens
    max_tokens: int


log = logging.getLogger(__name__)

AT_ONCE = {"cuda": 512, "cpu": 16}
"""Texts that are read together: enough for the device, and few where a batch is filled up."""
BLOCK = 16
"""Widths are multiples of this: few shapes, and so few batches to fill up."""


class _Enough(Exception):  # noqa: N818 - nothing went wrong
    """The last layer that is wanted has been passed."""


def mean_states(
    shared: SharedBackbone,
    texts: Sequence[PromptedText],
    layers: Sequence[int],
    tokens_at_once: int,
) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
    """Yield (rows, states [rows, layers, d]) until every text was read.

    What a text's states are must not depend on how many or how long the others are, or a record
    would move the states of others by rounding. So texts are read in shapes that its prompt and the
    room for a text decide, both public; a batch that is not full is filled up. Padding stands on
    the right, where a decoder that looks back never sees it.
    """
    context = shared.backbone.context
    widths = np.array(
        [min(context, _whole(len(t.prompt) + t.max_tokens)) for t in texts], dtype=np.int64
    )
    for width in np.unique(widths)[::-1].tolist():
        waiting = np.flatnonzero(widths == width)
        height = max(1, min(AT_ONCE.get(shared.device.type, 64), tokens_at_once // width))
        while len(waiting):
            rows = waiting[:height]
            try:
                states = _read(shared, [texts[row] for row in rows], (height, width), layers)
            except torch.OutOfMemoryError:
                if height == 1:
                    raise
                height //= 2
                log.warning("out of device memory: continuing with %d texts at once", height)
            else:
                yield rows, states[: len(rows)]
                waiting = waiting[height:]
                continue
            torch.cuda.empty_cache()  # the failed batch is freed only now


def _whole(tokens: int) -> int:
    return -(-tokens // BLOCK) * BLOCK


def _read(
    shared: SharedBackbone,
    texts: Sequence[PromptedText],
    shape: tuple[int, int],
    layers: Sequence[int],
) -> Tensor:
    tokens = np.zeros(shape, dtype=np.int64)
    weight = np.zeros(shape, dtype=np.float64)
    for row, item in enumerate(texts):
        first, end = len(item.prompt), len(item.prompt) + len(item.text)
        tokens[row, :end] = item.prompt + item.text
        weight[row, first:end] = 1 / max(len(item.text), 1)
    device = shared.device
    share = torch.from_numpy(weight).to(device)
    with torch.no_grad(), _taking(shared, layers, share) as found, suppress(_Enough):
        shared.backbone.model.base_model(
            input_ids=torch.from_numpy(tokens).to(device), use_cache=False
        )
    return torch.stack([found[layer] for layer in layers], dim=1)


@contextmanager
def _taking(
    shared: SharedBackbone, layers: Sequence[int], share: Tensor
) -> Iterator[dict[int, Tensor]]:
    """Take the weighted mean of what comes out of each layer, and stop after the last of them."""
    means: dict[int, Tensor] = {}

    def take(layer: int) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            states = output[0] if isinstance(output, tuple) else output
            wide = states.double() if states.dtype == torch.float64 else states.float()
            means[layer] = torch.einsum("btd,bt->bd", wide, share.to(wide.dtype))
            if layer == max(layers):
                raise _Enough

        return hook

    modules = decoder_layers(shared)
    hooks = [modules[layer].register_forward_hook(take(layer)) for layer in layers]
    try:
        yield means
    finally:
        for hook in hooks:
            hook.remove()


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
