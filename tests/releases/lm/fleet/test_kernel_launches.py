"""Launches on several streams: in order with what comes before and after. Kernels: test_packed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from synthleak.releases.lm.fleet.packed_model import Launches  # noqa: E402


class Stream:
    """A stream that notes what is launched on it and which streams it waited for."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def wait_stream(self, other: Stream) -> None:
        self.done.append((other, len(other.done)))


def test_streams_wait_for_what_came_before_and_are_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main, current = Stream(), []
    current.append(main)

    @contextmanager
    def on(stream: Stream) -> Iterator[None]:
        current.append(stream)
        yield
        current.pop()

    monkeypatch.setattr(torch.cuda, "current_stream", lambda: current[-1])
    monkeypatch.setattr(torch.cuda, "stream", on)
    launches: Any = Launches.__new__(Launches)
    launches._layers, launches._streams = list("abcde"), [Stream(), Stream()]
    main.done.append("before")
    for layer, own in launches._spread([1, 2, 3, 4, 5]):
        current[-1].done.append((layer, own))
    first, second = launches._streams
    assert current == [main]
    assert first.done == [(main, 1), ("a", 1), ("c", 3), ("e", 5)]
    assert second.done == [(main, 1), ("b", 2), ("d", 4)]
    assert main.done == ["before", (first, 4), (second, 3)]
    launches._streams = []
    assert list(launches._spread([1, 2, 3, 4, 5])) == list(zip("abcde", range(1, 6), strict=True))
