"""Training examples, and how those of a step are split into microbatches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.releases.lm.fleet.loss import IGNORED


@dataclass(frozen=True)
class Example:
    """One training text: tokens, and how many of them are only the prompt."""

    tokens: tuple[int, ...]
    prompt: int


@dataclass(frozen=True)
class Block:
    """The end of a microbatch in descending lengths, and the rows and tokens it is padded to."""

    end: int
    rows: int
    width: int


Cut = Callable[[NDArray[np.int64]], list[Block]]
"""Splits descending lengths into blocks."""

PASS_TOKENS = 16_384
"""Tokens of one recorded pass: enough to fill a GPU (measured with SmolLM2 on an H200)."""

FLOOR = 2_048
"""Tokens that a recorded pass is padded to: below that its many small kernels take as long."""


@dataclass(frozen=True)
class Shapes:
    """The shapes that a step is computed in.

    The order of summation in kernels depends on the shape, so one record must not decide the shape
    of another (design/claim-dpsgd.md). A text is padded to the narrowest of `widths` that it fits,
    whatever the others are; `widths` come from public settings, and the last is the longest that a
    text may be. The rows of a block depend on the number of texts of its width; with `floor` they
    are padded to that many tokens and rounded, since every shape is recorded once.
    """

    widths: tuple[int, ...]
    tokens: int
    examples: int
    floor: int = 0

    def cut(self, lengths: NDArray[np.int64]) -> list[Block]:
        """Split descending lengths into blocks of one width, within `tokens` and `examples`.

        >>> shapes = Shapes((16, 32, 64), tokens=4096, examples=100, floor=512)
        >>> for block in shapes.cut(np.array([60] * 70 + [9] * 3)):
        ...     print(block)
        Block(end=64, rows=64, width=64)
        Block(end=70, rows=8, width=64)
        Block(end=73, rows=32, width=16)
        """
        blocks, start = [], 0
        counts = np.bincount(np.searchsorted(self.widths, lengths), minlength=len(self.widths))
        for width, count in zip(reversed(self.widths), counts[::-1].tolist(), strict=True):
            stop = start + count
            while start < stop:
                rows = self._rows(width, stop - start)
                start = min(start + rows, stop)
                blocks.append(Block(start, rows, width))
        return blocks

    def _rows(self, width: int, wanted: int) -> int:
        most = max(1, min(self.tokens // width, self.examples))
        return min(most, max(self.floor // width, rounded(wanted)) if self.floor else wanted)


def plan_shapes(
    longest: int, expected: float, *, tokens: int, examples: int, recorded: bool
) -> Shapes:
    """Plan the shapes of `expected` texts of at most `longest` tokens, from public numbers only.

    Recorded passes are padded to the floor, so few texts get few widths.

    >>> plan_shapes(64, 104 * 16, tokens=65536, examples=2496, recorded=True).widths
    (16, 20, 24, 28, 32, 40, 48, 56, 64)
    >>> plan_shapes(64, 16, tokens=65536, examples=24, recorded=True).widths
    (64,)
    """
    if not recorded:
        return Shapes(_ladder(longest, 4), tokens, examples)
    passes = expected * longest / 2 / FLOOR
    ladders = [_ladder(longest, steps) for steps in (4, 2, 1)]
    widths = next((some for some in ladders if len(some) <= passes), (longest,))
    return Shapes(widths, min(tokens, PASS_TOKENS), examples, FLOOR)


def _ladder(longest: int, steps: int) -> tuple[int, ...]:
    """Return widths up to the longest, from 16 in equal steps between powers of two."""
    powers = [16 << n for n in range(longest.bit_length())]
    rungs = {power + power * step // steps for power in powers for step in range(steps)}
    return (*sorted(rung for rung in rungs if rung < longest), longest)


def one_by_one(lengths: NDArray[np.int64]) -> list[Block]:
    """Split into single texts without padding."""
    return [Block(end, 1, length) for end, length in enumerate(lengths.tolist(), 1)]


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is not less than a number.

    >>> [power_of_two(n) for n in (1, 2, 3, 9)]
    [1, 2, 4, 16]
    """
    return 1 << (number - 1).bit_length()


def rounded(number: int) -> int:
    """Round a number up to one of eight steps between powers of two.

    >>> [rounded(n) for n in (1, 9, 27, 33, 60, 65, 200)]
    [4, 12, 28, 36, 60, 72, 208]
    """
    grain = max(4, power_of_two(number) >> 4)
    return -(-number // grain) * grain


@dataclass(frozen=True)
class Microbatch:
    """Examples that are computed together, sorted by instance.

    `tokens` and `labels` may have more rows than examples: empty ones at the end, without a label.
    `places` are those of the examples among all that were chosen, instance by instance.
    """

    instances: NDArray[np.int64]
    tokens: Tensor
    labels: Tensor
    places: NDArray[np.int64]


class PaddedExamples:
    """All examples of a fleet, padded once and kept on the device.

    Padding is on the right. A decoder only attends to earlier tokens, so no text sees the padding
    after it, and padding has no label: it changes no loss and no gradient. The end token is an
    ordinary label, so that the model learns to stop. The last row is empty, to fill microbatches.
    `longest` is the largest width of a microbatch, whatever the examples are.
    """

    def __init__(
        self, sets: Sequence[Sequence[Example]], device: torch.device, longest: int = 1
    ) -> None:
        examples = [example for members in sets for example in members]
        self._first = np.cumsum([0, *(len(members) for members in sets)])
        self._lengths = np.array([len(example.tokens) for example in examples], dtype=np.int64)
        self._empty = len(examples)
        longest = int(self._lengths.max(initial=longest))
        tokens = np.zeros((len(examples) + 1, longest), dtype=np.int64)
        labels = np.full((len(examples) + 1, longest), IGNORED, dtype=np.int64)
        for row, example in enumerate(examples):
            length, first = len(example.tokens), max(example.prompt, 1)
            tokens[row, :length] = example.tokens
            labels[row, first - 1 : length - 1] = example.tokens[first:]
        self._tokens = torch.from_numpy(tokens).to(device)
        self._labels = torch.from_numpy(labels).to(device)

    def microbatches(self, chosen: Sequence[NDArray[np.int64]], cut: Cut) -> Iterator[Microbatch]:
        """Split a step's examples into microbatches of similar length."""
        rows = np.concatenate([p + first for p, first in zip(chosen, self._first, strict=False)])
        instances = np.repeat(np.arange(len(chosen)), [len(p) for p in chosen])
        order = np.argsort(-self._lengths[rows], kind="stable")
        start = 0
        for block in cut(self._lengths[rows[order]]):
            part = np.sort(order[start : block.end])
            wanted = np.full(block.rows, self._empty)
            wanted[: len(part)] = rows[part]
            picked = torch.from_numpy(wanted).to(self._tokens.device)
            yield Microbatch(
                instances[part],
                self._tokens[picked, : block.width],
                self._labels[picked, : block.width],
                part,
            )
            start = block.end
