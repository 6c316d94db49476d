"""The slopes of `benchmarks/growth.py`, on times that are known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.scripts import BENCHMARKS, script

script("_machine", BENCHMARKS)
script("_stages", BENCHMARKS)
script("check_level", BENCHMARKS)
growth = script("growth", BENCHMARKS)


def test_slopes_are_exponents_of_growth() -> None:
    sizes = [100.0, 200.0, 400.0]
    costs = [
        growth.Cost(5.0 + (n / 100) ** 2, {"fixed": 5.0, "squared": (n / 100) ** 2}, 17.0)
        for n in sizes
    ]
    found = growth.along("corpus", sizes, costs)
    assert found["stage_slopes_last"] == pytest.approx({"fixed": 0.0, "squared": 2.0})
    assert found["slope_last"] == pytest.approx(1.2224, abs=1e-4)  # log2(21 / 9)
    assert 0 < found["slope"] < found["slope_last"]


def test_records_are_joined_from_messages() -> None:
    size = replace(growth.TINY, corpus=50, text_length=3)
    single, joined = growth.records(replace(size, corpus=150, text_length=1)), growth.records(size)
    assert len(joined) == 50 and len({row["id"] for row in joined}) == 50
    assert joined[1]["text"] == " ".join(row["text"] for row in single[3:6])
    assert joined[1]["labels"] == single[3]["labels"]


@pytest.mark.parametrize("axis", growth.DOUBLINGS)
def test_an_axis_doubles_and_leaves_the_rest(axis: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def cost(size: object) -> object:
        sizes.append(size)
        return growth.Cost(1.0, {}, 17.0 * size.text_length)

    monkeypatch.setattr(growth, "cost", cost)
    found = growth.measure(axis, growth.BASE, 2)
    start = 17 if axis == "text_length" else getattr(growth.BASE, axis)
    assert found["sizes"] == [start, 2 * start, 4 * start]
    own = {axis: getattr(growth.BASE, axis)}
    assert [replace(size, **own) for size in sizes] == [growth.BASE] * 3
