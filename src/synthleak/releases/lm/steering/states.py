"""Mean hidden states of many texts, each after its own prompt, read together."""

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

from synthleak.releases.lm.fleet.sampling import Tokens
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone
from synthleak.releases.lm.steering.hooks import decoder_layers


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
    found: dict[int, Tensor] = {}

    def take(layer: int) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            states = output[0] if isinstance(output, tuple) else output
            wide = states.double() if states.dtype == torch.float64 else states.float()
            found[layer] = torch.einsum("btd,bt->bd", wide, share.to(wide.dtype))
            if layer == max(layers):
                raise _Enough

        return hook

    modules = decoder_layers(shared)
    hooks = [modules[layer].register_forward_hook(take(layer)) for layer in layers]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
