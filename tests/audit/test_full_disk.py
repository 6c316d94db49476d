"""A disk that fills: one line, exit by `StoreError`, and the run goes on once there is room."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from synthleak import run
from synthleak.core.errors import StoreError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec

ONE = Runtime(workers=1)
SMALL = {"instances": 4, "records": 30, "rounds": 2, "candidates": 4}


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Let only so many bytes be written, as the operating system would."""
    left = [10**12]
    plain = os.fdopen

    class Narrow:
        """A file on a disk with little room."""

        def __init__(self, handle: int, mode: str) -> None:
            self.file = plain(handle, mode)

        def __enter__(self) -> Narrow:
            return self

        def __exit__(self, *error: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> None:
            self.file.write(data[: max(left[0], 0)])
            left[0] -= len(data)
            if left[0] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def flush(self) -> None:
            self.file.flush()

        def fileno(self) -> int:
            return self.file.fileno()

    monkeypatch.setattr(os, "fdopen", Narrow)
    yield left


@pytest.mark.parametrize("bytes_left", [0, 2_000, 40_000])
def test_a_run_on_a_full_disk_stops_cleanly_and_goes_on_later(
    tiny: Callable[..., LoadedSpec], tmp_path: Path, room: list[int], bytes_left: int
) -> None:
    spec = tiny(game=SMALL, generator=[{"kind": "echo"}], evidence={"families": ["cos"]})
    out = tmp_path / "run"
    room[0] = bytes_left
    with pytest.raises(StoreError) as caught:
        run(spec, out, runtime=ONE)
    assert "the disk is full; free some space and run again" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(out.rglob("*.part")) and not list(out.rglob(".*"))
    room[0] = 10**12
    audit = run(spec, out, runtime=ONE)
    fresh = run(spec, tmp_path / "fresh", runtime=ONE)
    assert audit.cells == fresh.cells
