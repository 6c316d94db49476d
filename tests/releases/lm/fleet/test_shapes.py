"""Shapes of microbatches: public numbers and a text's own length decide how wide it is padded."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from synthleak.releases.lm.fleet.batches import Example, PaddedExamples, Shapes, plan_shapes  # noqa: E402

LONGEST = 64


def shapes(expected: float, *, recorded: bool = True) -> Shapes:
    return plan_shapes(LONGEST, expected, tokens=65_536, examples=2_000, recorded=recorded)


def width_of(some: Shapes, lengths: list[int], text: int) -> int:
    """Return the width of the block that holds the text of this length."""
    falling = np.array(sorted([*lengths, text], reverse=True))
    place = int(np.flatnonzero(falling == text)[0])
    return next(block.width for block in some.cut(falling) if place < block.end)


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("expected", [4, 320, 1664])
def test_padding_of_a_text_does_not_depend_on_others(expected: float, recorded: bool) -> None:
    some = shapes(expected, recorded=recorded)
    rng = np.random.default_rng(1)
    for text in (1, 9, 16, 17, 30, 63, 64):
        batches = [rng.integers(1, LONGEST + 1, n).tolist() for n in (0, 1, 5, 300, 3000)]
        assert len({width_of(some, others, text) for others in batches}) == 1


@pytest.mark.parametrize("recorded", [True, False])
def test_blocks_hold_every_text_and_fit(recorded: bool) -> None:
    rng = np.random.default_rng(2)
    for count in (0, 1, 3, 40, 1700):
        falling = np.sort(rng.integers(1, LONGEST + 1, count))[::-1]
        some = plan_shapes(LONGEST, 1664, tokens=5_000, examples=90, recorded=recorded)
        start = 0
        for block in some.cut(falling):
            assert start < block.end <= start + block.rows
            assert falling[start] <= block.width
            assert block.rows <= 90
            assert block.rows * block.width <= 5_000
            start = block.end
        assert start == count


def test_one_more_text_seldom_changes_the_rows() -> None:
    some = shapes(1664)
    rng = np.random.default_rng(3)
    changed = 0
    for _ in range(200):
        lengths = rng.integers(4, 40, rng.poisson(1664))
        before, after = (
            {(block.rows, block.width) for block in some.cut(np.sort(them)[::-1])}
            for them in (lengths, np.append(lengths, 21))
        )
        changed += before != after
    assert changed < 30


def test_small_batches_have_one_shape() -> None:
    some = plan_shapes(LONGEST, 16, tokens=65_536, examples=24, recorded=True)
    rng = np.random.default_rng(4)
    seen = {
        (block.rows, block.width)
        for count in range(1, 40)
        for block in some.cut(np.sort(rng.integers(1, LONGEST + 1, count))[::-1])
    }
    assert seen == {(24, 64)}


@pytest.mark.parametrize("longest", [4, 8, 16, 17, 100, 512, 3000])
def test_the_widest_is_the_longest_text(longest: int) -> None:
    for recorded in (True, False):
        some = plan_shapes(longest, 1664, tokens=longest, examples=9, recorded=recorded)
        assert some.widths[-1] == longest
        assert list(some.widths) == sorted(set(some.widths))
        (block,) = some.cut(np.array([longest]))
        assert (block.rows, block.width) == (1, longest)


def test_microbatches_are_as_wide_as_planned() -> None:
    prepared = PaddedExamples([[Example((5, 6, 2), 1)]], torch.device("cpu"), LONGEST)
    (microbatch,) = prepared.microbatches([np.arange(1)], Shapes((LONGEST,), 4096, 10, 512).cut)
    assert microbatch.tokens.shape == (8, LONGEST)
    assert microbatch.labels.shape == (8, LONGEST)
