"""Examples, and how a step's examples are cut into portions that are computed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.releases.fleet.loss import IGNORED


@dataclass(frozen=True)
class Example:
    """One training text: tokens, and how many of them are only the prompt."""

    tokens: tuple[int, ...]
    prompt: int


@dataclass(frozen=True)
class Block:
    """Where a portion ends in falling lengths, and the rows and tokens that it is padded to."""

    end: int
    rows: int
    width: int


Cut = Callable[[Sequence[int], int, int], list[Block]]
"""(falling lengths, most tokens, most examples) -> blocks."""

PORTION_COST = 10_000
"""What a portion costs beside its tokens, in tokens: launching all kernels of a pass."""


def cut_lengths(lengths: Sequence[int], tokens_at_once: int, examples_at_once: int) -> list[Block]:
    """Cut falling lengths so that padding and launches together cost least.

    >>> [block.end for block in cut_lengths([60] * 1000 + [10] * 1000, 1_000_000, 1_000_000)]
    [1000, 2000]
    >>> cut_lengths([60, 10, 10], 1_000_000, 1_000_000)
    [Block(end=3, rows=3, width=60)]
    """
    falls = [i for i in range(1, len(lengths)) if lengths[i] < lengths[i - 1]]
    stops = [0, *falls, len(lengths)] if lengths else [0]
    best: list[tuple[float, list[int]]] = [(0.0, [])]
    for end in stops[1:]:
        options = []
        for (cost, cuts), start in zip(best, stops, strict=False):
            fits = max(1, min(tokens_at_once // lengths[start], examples_at_once))
            inner = [*range(start + fits, end, fits), end]
            spent = len(inner) * PORTION_COST + (end - start) * lengths[start]
            options.append((cost + spent, [*cuts, *inner]))
        best.append(min(options, key=lambda option: option[0]))
    ends = best[-1][1]
    return [
        Block(end, end - start, lengths[start])
        for start, end in zip([0, *ends], ends, strict=False)
    ]


PASS_TOKENS = 16_384
"""Tokens of one recorded pass: enough to fill a GPU (measured with SmolLM2 on an H200)."""

SHORT = 16
"""Shorter texts do not make a pass larger in examples: each has a gradient of its own."""


def cut_shapes(lengths: Sequence[int], tokens_at_once: int, examples_at_once: int) -> list[Block]:
    """Cut falling lengths into few different shapes, since every shape is recorded once.

    Widths are rounded up by an eighth at most; how many rows a full portion has depends on
    its width alone, and the last portion may be a half, a quarter, … of one.

    >>> for block in cut_shapes([60] * 300 + [9] * 400, 1_000_000, 1_000_000):
    ...     print(block)
    Block(end=273, rows=273, width=60)
    Block(end=546, rows=273, width=60)
    Block(end=700, rows=256, width=12)
    """
    blocks, start = [], 0
    while start < len(lengths):
        width = rounded(lengths[start])
        most = min(tokens_at_once, PASS_TOKENS) // max(width, SHORT)
        rows = max(1, min(most, examples_at_once))
        left = len(lengths) - start
        while rows // 2 >= left:
            rows //= 2
        start = min(start + rows, len(lengths))
        blocks.append(Block(start, rows, width))
    return blocks


def rounded(length: int) -> int:
    """Round a length up to one of eight steps between powers of two.

    >>> [rounded(n) for n in (1, 9, 27, 33, 60, 65, 200)]
    [4, 12, 28, 36, 60, 72, 208]
    """
    grain = max(4, (1 << (length - 1).bit_length()) >> 4)
    return -(-length // grain) * grain


@dataclass(frozen=True)
class Portion:
    """Examples that are computed together, sorted by instance.

    `tokens` and `labels` may have more rows than examples: empty ones at the end, without a label.
    """

    instances: NDArray[np.int64]
    tokens: Tensor
    labels: Tensor


class Library:
    """All examples of a fleet, padded once and kept on the device.

    Padding stands on the right. A decoder looks back only, so no text sees the padding after it,
    and padding has no label: it changes no loss and no gradient. The end token is an ordinary
    label, so that the model learns to stop. The last row is empty: it fills up portions.
    """

    def __init__(self, sets: Sequence[Sequence[Example]], device: torch.device) -> None:
        examples = [example for members in sets for example in members]
        self._first = np.cumsum([0, *(len(members) for members in sets)])
        self._lengths = np.array([len(example.tokens) for example in examples], dtype=np.int64)
        self._empty = len(examples)
        longest = int(self._lengths.max(initial=1))
        tokens = np.zeros((len(examples) + 1, longest), dtype=np.int64)
        labels = np.full((len(examples) + 1, longest), IGNORED, dtype=np.int64)
        for row, example in enumerate(examples):
            length, first = len(example.tokens), max(example.prompt, 1)
            tokens[row, :length] = example.tokens
            labels[row, first - 1 : length - 1] = example.tokens[first:]
        self._tokens = torch.from_numpy(tokens).to(device)
        self._labels = torch.from_numpy(labels).to(device)

    def portions(
        self,
        chosen: Sequence[NDArray[np.int64]],
        tokens_at_once: int,
        examples_at_once: int,
        cut: Cut = cut_lengths,
    ) -> Iterator[Portion]:
        """Cut a step's examples into portions that fit, the long with the long."""
        rows = np.concatenate([p + first for p, first in zip(chosen, self._first, strict=False)])
        instances = np.repeat(np.arange(len(chosen)), [len(p) for p in chosen])
        order = np.argsort(-self._lengths[rows], kind="stable")
        start = 0
        for block in cut(self._lengths[rows[order]].tolist(), tokens_at_once, examples_at_once):
            part = np.sort(order[start : block.end])
            wanted = np.full(block.rows, self._empty)
            wanted[: len(part)] = rows[part]
            picked = torch.from_numpy(wanted).to(self._tokens.device)
            yield Portion(
                instances[part],
                self._tokens[picked, : block.width],
                self._labels[picked, : block.width],
            )
            start = block.end
