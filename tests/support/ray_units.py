"""Units of work that workers of a Ray cluster can import."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from synthleak.core.errors import GeneratorError


def put(folder: Path, unit: int) -> int:
    (folder / str(unit)).write_text(str(os.getpid()))
    return 1


def fail_on_three(folder: Path, unit: int) -> int:
    if unit == 3:
        (folder.parent / "failed").touch()
        raise GeneratorError("no such model", "generator x", "install it")
    time.sleep(0.1)
    return put(folder, unit)


def die_at_first(folder: Path, unit: int) -> int:
    mark = folder.parent / f"died-{unit}"
    if unit in (2, 5) and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return put(folder, unit)


def die(folder: Path, unit: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 1


def hold_device(folder: Path, unit: int) -> int:
    device = os.environ["CUDA_VISIBLE_DEVICES"]
    held = folder / f"device-{device}"
    held.mkdir()  # fails if another fleet holds it
    time.sleep(0.3)
    held.rmdir()
    (folder / f"unit-{unit}-{device}-{os.getpid()}").touch()
    return 1


def note_and_wait(folder: Path, unit: int) -> int:
    put(folder, unit)
    time.sleep(60)
    return 1


def complain(reason: str, folder: Path) -> str | None:
    return reason


def wait_long_at_first(folder: Path, unit: int) -> int:
    mark = folder.parent / f"began-{unit}"
    if unit == 7 and not mark.exists():
        mark.write_text(str(os.getpid()))
        time.sleep(600)
    return put(folder, unit)
