"""Runs one program, and ends all that it started (docs/security.md).

The generator `command` starts this file as a script, with nothing but the standard library: it
stands between a run and a program. When the program ends, when it is told to (SIGTERM), or when
the run is killed, every process that the program left behind is killed with it, also those that
went into the background. Exit code and signal are those of the program; if it cannot be started,
the number of the error is printed.

    python supervisor.py RUN FOLDER MEMORY PROGRAM ARGUMENT... < TRAINING-FILE

RUN is the process that waits for the program, FOLDER its private files, which go if the run is
gone, MEMORY the bytes that each process may hold (0: as many as there are). The training file comes
by standard input and lies in FOLDER while the program runs, and no longer.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType

_DEATH_SIGNAL, _SUBREAPER = 1, 36
"""Options of prctl(2): a signal when the parent ends; adopt orphaned descendants."""


TRAIN = "train.jsonl"


class Ended(BaseException):
    """The program is to end now."""


class RunIsGone(Ended):
    """The run was killed, so nobody else removes its private files."""


def supervise(run: int, folder: str, memory: int, argv: list[str]) -> int:
    """Run a program to its end; return its exit code, or its signal as a negative number."""
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGUSR1, _end_alone)
    control(_DEATH_SIGNAL, signal.SIGUSR1)
    control(_SUBREAPER, 1)
    gone = False
    try:
        _write_training(Path(folder, TRAIN))
        if os.getppid() != run:  # it was killed before there was a signal for that
            raise RunIsGone
        program = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            preexec_fn=lambda: _prepare(memory),  # noqa: PLW1509 - this process has one thread
        )
        return program.wait()
    except Ended as why:
        gone = isinstance(why, RunIsGone)
        return -signal.SIGTERM
    except OSError as error:
        print(error.errno, flush=True)
        return 1
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        end_children()
        with suppress(OSError):
            Path(folder, TRAIN).unlink(missing_ok=True)
        # A killed run remains the parent until the last of its threads has ended.
        if gone or os.getppid() != run:
            shutil.rmtree(folder, ignore_errors=True)


def _write_training(path: Path) -> None:
    """Write what comes by standard input, for the owner alone."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)


def control(option: int, value: int) -> None:
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _end(number: int, frame: FrameType | None) -> None:
    raise Ended


def _end_alone(number: int, frame: FrameType | None) -> None:
    raise RunIsGone


def _prepare(memory: int) -> None:
    """Limit the program before it starts: a dump of its memory would hold private text."""
    import resource

    control(_DEATH_SIGNAL, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
        resource.setrlimit(kind, (memory, memory))


def end_children() -> None:
    """Kill all descendants: those of a killed process become children of this one."""
    while True:
        for process in _children():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        try:
            if os.waitpid(-1, 0 if Path("/proc/self/stat").exists() else os.WNOHANG)[0] == 0:
                return  # without /proc the caller kills the process group
        except ChildProcessError:
            return


def _children() -> Iterator[int]:
    own = str(os.getpid())
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            if path.read_text(errors="replace").rpartition(")")[2].split()[1] == own:
                yield int(path.parent.name)


def main() -> None:
    run, folder, memory, *argv = sys.argv[1:]
    code = supervise(int(run), folder, int(memory), argv)
    if code < 0:
        with suppress(OSError, ValueError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main()
