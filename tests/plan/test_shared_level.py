"""The level of a pool that shares releases with one that leaks: a short form of the benchmark."""

from __future__ import annotations

from support.scripts import BENCHMARKS, script

level = script("shared_level", BENCHMARKS)


def test_a_pool_beside_one_that_leaks_keeps_its_level() -> None:
    assert level.share_found(60, shared=True, redraws=99) <= level.limit(60)


def test_a_pool_beside_one_that_leaks_is_found_if_it_leaks_too() -> None:
    assert level.share_found(10, shared=True, leak=2.0, redraws=99) >= 0.8
