"""Vectors rounded to bytes: which pairs can be near."""

from __future__ import annotations

from time import thread_time

import numpy as np
import pytest

from synthleak.core.seeds import stream
from synthleak.evidence.fast import rounded
from synthleak.evidence.fast.pairs import sort_by_length
from synthleak.evidence.fast.rounded import pays, product_of_bytes, round_units


def multiplied(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return rows.astype(np.int32) @ columns.astype(np.int32).T


def test_pairs_above_a_bound_are_found_and_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounded, "_GROUP", 30)
    rng = stream("rounded pairs")
    vectors = rng.normal(size=(200, 64)) * np.exp(rng.normal(size=(200, 1)))
    vectors[150:] = 0.5 * vectors[:50] + 0.1 * vectors[150:]
    vectors[7], vectors[9, 1:] = 0, 0  # no direction, and one coordinate only
    texts = sort_by_length(vectors.astype(np.float32))
    made = round_units(texts, multiplied)
    assert made is not None
    scale = np.maximum(texts.lengths, 1e-300)[:, None]
    exact = (texts.vectors / scale) @ (texts.vectors / scale).T
    a, b = slice(0, 90), slice(90, 200)
    for _ in range(20):
        left, right = (rng.uniform(-0.3, 0.9, size=size).astype(np.float32) for size in (90, 110))
        row, column, most = made.above(a, b, left, right)
        found = np.sort(row * 110 + column)
        over = exact[a, b] - np.minimum(left[:, None], right)
        assert np.isin(np.flatnonzero(over > 0), found).all()
        assert (over.reshape(-1)[found] > -0.06).all()
        assert np.array_equal(found, np.unique(found))
        assert (most >= exact[a, b][row, column]).all()


def test_no_product_is_off_by_more_than_was_left() -> None:
    texts = sort_by_length(stream("left").normal(size=(150, 40)))
    made = round_units(texts, multiplied)
    assert made is not None
    units = texts.vectors / texts.lengths[:, None]
    off = np.abs(multiplied(made.whole, made.whole) * made.step**2 - units @ units.T)
    most = made._off(made.left[:, None], made.left)
    assert (off <= most).all()
    assert most.max() < 0.1


def test_few_dimensions_are_not_rounded() -> None:
    assert round_units(sort_by_length(np.eye(8)), multiplied) is None


def test_a_product_of_bytes_must_be_exact_and_fast() -> None:
    known: list[np.ndarray] = []

    def quick(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        if not known:
            known.append(multiplied(rows, columns))
        return known[0]

    def slow(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        until = thread_time() + 0.05
        while thread_time() < until:
            pass
        return quick(rows, columns)

    def in_16_bits(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Add two products of an unsigned and a signed byte at a time, as some processors do."""
        total = -128 * columns.sum(axis=1, dtype=np.int32)
        for k in range(0, rows.shape[1], 2):
            pair = (rows[:, k : k + 2].astype(np.int32) + 128) @ columns[:, k : k + 2].T
            total = total + np.clip(pair, -(2**15), 2**15 - 1)
        return total

    some = stream("16 bits").integers(-40, 40, size=(9, 32)).astype(np.int8)
    assert np.array_equal(in_16_bits(some, some), multiplied(some, some))
    assert pays(quick, 32)
    assert not pays(slow, 32)
    assert not pays(in_16_bits, 32)


def test_no_product_of_bytes_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounded, "find_spec", lambda name: None)
    with product_of_bytes(64) as product:
        assert product is None


def test_torch_multiplies_bytes_and_keeps_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(rounded, "pays", lambda product, dimensions: True)
    before = torch.get_num_threads()
    rows, columns = stream("bytes").integers(-127, 128, size=(2, 70, 64)).astype(np.int8)
    with product_of_bytes(64) as product:
        assert product is not None
        assert torch.get_num_threads() == 1
        assert np.array_equal(product(rows, columns), multiplied(rows, columns))
    assert torch.get_num_threads() == before
