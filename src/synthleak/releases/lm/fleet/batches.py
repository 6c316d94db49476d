"""Training examples, and how those of a step are laid out: in padded microbatches, or in packs.

The plain pass computes microbatches of similar length. The packed pass computes packs: texts end to
end, without padding between them. A pack has a fixed number of rows, so that the batch does not
decide the shape that a text is computed in (docs/design/claim-dpsgd.md). The number is planned once
for all steps, a little above the mean tokens of a step (`SPARE`). A larger step has more packs of
the same size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

IGNORED = -100
"""The label of a token that is not trained."""


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
    of another (docs/design/claim-dpsgd.md). A text is padded to the narrowest of `widths` that it
    fits, whatever the others are; `widths` come from public settings, and the last is the longest
    that a text may be. The rows of a block depend on the number of texts of its width; with `floor`
    they are padded to that many tokens and rounded, since every shape is recorded once.
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
    widths = next((ladder for ladder in ladders if len(ladder) <= passes), (longest,))
    return Shapes(widths, min(tokens, PASS_TOKENS), examples, FLOOR)


def _ladder(longest: int, steps: int) -> tuple[int, ...]:
    """Return widths up to the longest, from 16 in equal steps between powers of two."""
    powers = [16 << n for n in range(longest.bit_length())]
    rungs = {power + power * step // steps for power in powers for step in range(steps)}
    return (*sorted(rung for rung in rungs if rung < longest), longest)


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is not less than a number.

    >>> [power_of_two(n) for n in (1, 2, 3, 9)]
    [1, 2, 4, 16]
    """
    return 1 << (number - 1).bit_length()


def rounded(number: int, steps: int = 8, least: int = 4) -> int:
    """Round a number up to one of `steps` between powers of two, `least` or more apart.

    >>> [rounded(n) for n in (1, 9, 27, 33, 60, 65, 200)]
    [4, 12, 28, 36, 60, 72, 208]
    """
    grain = max(least, power_of_two(number) // (2 * steps))
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


ROWS = 64
"""Rows of a tile."""
EIGHTHS = 8
"""The labelled tokens of a pack are rounded up to eighths of it."""
SPARE = 1.75
"""Standard deviations above the mean tokens of a step that a pack has room for: with more, the rows
left empty in every step cost more than the steps that take another pack, with fewer the reverse."""
SPARE_TEXTS = 3.0
"""The same for the number of texts, whose unused places cost next to nothing."""


@dataclass(frozen=True)
class Pack:
    """Texts end to end, sorted by instance, then unused rows up to the size of all packs.

    Unused rows hold anything finite: no other row depends on them. `text` is the text of each
    token, `owner` the instance of each text; `offsets` and `spans` are where texts and instances
    begin; `tiles` come from `tile_rows`. `rows` are the labelled tokens, padded to a round number
    with tokens whose `share` in their text's mean loss is zero.
    """

    tokens: Tensor
    position: Tensor
    text: Tensor
    owner: Tensor
    tiles: Tensor
    offsets: Tensor
    spans: Tensor
    rows: Tensor
    targets: Tensor
    share: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers that decide the shape of every part, for one fleet."""
        return len(self.tokens), len(self.rows)

    def parts(self) -> list[Tensor]:
        return [getattr(self, field.name) for field in fields(self)]


def whole(tokens: float) -> int:
    """Round a number of tokens up to one of sixteen steps between powers of two.

    >>> [whole(n) for n in (1, 100, 1000, 36_000, 37_000)]
    [64, 128, 1024, 36864, 38912]
    """
    return rounded(max(1, math.ceil(tokens)), steps=16, least=ROWS)


def _usual(sizes: NDArray[np.int64], rate: float, spare: float = SPARE) -> float:
    """Return a total that a Poisson sample of these sizes seldom exceeds."""
    spread = math.sqrt(rate * (1 - rate) * float(np.square(sizes).sum()))
    return rate * float(sizes.sum()) + spare * spread


def tile_rows(counts: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Split rows into tiles [first row, end, instance]; instance i has `counts[i]` adjacent rows.

    There are as many tiles as `most` rows may need; some are empty.

    >>> tile_rows(np.array([80, 0, 5]), 128).tolist()
    [[0, 64, 0], [64, 80, 0], [80, 85, 2], [0, 0, 0], [0, 0, 0]]
    """
    parts = -(-counts // ROWS)
    tiles = np.zeros((-(-most // ROWS) + len(counts), 3), dtype=np.int64)
    instance = np.repeat(np.arange(len(counts)), parts)
    number = np.arange(len(instance)) - (np.cumsum(parts) - parts)[instance]
    start = (np.cumsum(counts) - counts)[instance]
    used = tiles[: len(instance)]
    used[:, 0] = start + number * ROWS
    used[:, 1] = np.minimum(used[:, 0] + ROWS, start + counts[instance])
    used[:, 2] = instance
    return tiles


class Packer:
    """All examples of a fleet, ready for packing.

    `rate` is the probability of drawing each, `at_once` the most tokens of a pack.
    """

    def __init__(
        self,
        sets: Sequence[Sequence[Example]],
        device: torch.device,
        *,
        longest: int,
        rate: float,
        at_once: int,
    ) -> None:
        examples = [example for members in sets for example in members]
        if any(len(example.tokens) > longest for example in examples):
            raise ValueError(f"a text has more than {longest} tokens")
        self._device = device
        self._instances = len(sets)
        self._first = np.cumsum([0, *(len(members) for members in sets)])
        self._lengths = np.array([len(example.tokens) for example in examples], dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self._lengths)])
        self._tokens = np.zeros(self._starts[-1], dtype=np.int64)
        self._targets = np.full(self._starts[-1], IGNORED, dtype=np.int64)
        for start, example in zip(self._starts.tolist(), examples, strict=False):
            end, first = start + len(example.tokens), max(example.prompt, 1)
            self._tokens[start:end] = example.tokens
            self._targets[start + first - 1 : end - 1] = example.tokens[first:]
        taken = _usual(self._lengths, rate)
        parts = max(1, math.ceil(taken / at_once))
        self.size = whole(taken / parts + longest)
        texts = _usual(np.ones_like(self._lengths), rate, SPARE_TEXTS)
        self._texts = math.ceil(texts / parts) + 1
        trained = np.array([len(e.tokens) - max(e.prompt, 1) for e in examples], dtype=np.int64)
        share = _usual(trained, rate) / max(taken, 1)
        self._labelled = min(EIGHTHS, math.ceil(share * EIGHTHS)) * (self.size // EIGHTHS)

    def packs(self, chosen: Sequence[NDArray[np.int64]]) -> Iterator[Pack]:
        """Pack a step's examples into as few packs as possible; `chosen[i]` are from set i."""
        rows = np.concatenate([p + first for p, first in zip(chosen, self._first, strict=False)])
        owner = np.repeat(np.arange(len(chosen)), [len(p) for p in chosen])
        ends, start = np.cumsum(self._lengths[rows]), 0
        while start < len(rows):
            full = int(ends[start - 1] if start else 0) + self.size
            stop = min(int(np.searchsorted(ends, full, side="right")), start + self._texts)
            yield self._pack(rows[start:stop], owner[start:stop])
            start = stop

    def _pack(self, rows: NDArray[np.int64], owner: NDArray[np.int64]) -> Pack:
        lengths = self._lengths[rows]
        n, used = self.size, int(lengths.sum())
        sizes = np.zeros(self._texts + 1, dtype=np.int64)  # the last text has no token
        sizes[: len(rows)] = lengths
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        text = np.full(n, self._texts)
        text[:used] = np.repeat(np.arange(len(rows)), lengths)
        position = np.zeros(n, dtype=np.int64)
        position[:used] = np.arange(used) - offsets[text[:used]]
        source = np.repeat(self._starts[rows], lengths) + position[:used]
        tokens, targets = np.zeros(n, dtype=np.int64), np.full(n, IGNORED, dtype=np.int64)
        tokens[:used], targets[:used] = self._tokens[source], self._targets[source]
        whose = np.zeros(self._texts + 1, dtype=np.int64)
        whose[: len(rows)] = owner
        counts = np.bincount(owner, lengths, self._instances).astype(np.int64)
        spans = np.concatenate([[0], np.cumsum(counts)])
        trained = targets != IGNORED
        share = trained / np.maximum(np.bincount(text, trained), 1)[text]
        wanted = self._labelled if trained.sum() <= self._labelled else n
        labelled = np.argsort(~trained, kind="stable")[:wanted]
        return Pack(
            tokens=self._there(tokens),
            position=self._there(position, np.int32),
            text=self._there(text),
            owner=self._there(whose, np.int32),
            tiles=self._there(tile_rows(counts, n), np.int32),
            offsets=self._there(offsets, np.int32),
            spans=self._there(spans, np.int32),
            rows=self._there(labelled),
            targets=self._there(targets[labelled].clip(min=0)),
            share=self._there(share[labelled], np.float32),
        )

    def _there(self, array: NDArray[Any], kind: type = np.int64) -> Tensor:
        """Copy to the device; the host does not wait for it."""
        tensor = torch.from_numpy(array.astype(kind))
        if self._device.type != "cuda":
            return tensor
        return tensor.pin_memory().to(self._device, non_blocking=True)
