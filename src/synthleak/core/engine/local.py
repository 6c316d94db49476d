"""The local engine: units of work on the cores of this machine.

Workers share the context, read once by each, and a store; they return nothing but a count. So the
result cannot depend on their number or on the order in which they finish.
"""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from synthleak.core.engine.progress import Progress, listening
from synthleak.core.errors import UserError
from synthleak.core.private_files import end_on_signals, private_folder, shared_bytes
from synthleak.core.threads import single_threaded

Context = TypeVar("Context")
Unit = TypeVar("Unit")
Task = Callable[[Context, Unit], int]
"""Does one unit, puts what it made into the context's store, and returns how many steps it was."""

_ATTEMPTS = 2
_QUIET = "ignore:resource_tracker:UserWarning"
"""joblib's tracker warns of folders that it lists and we removed, once a run has ended early."""
_LOOK_EVERY = 0.25
"""Seconds between two looks of a worker at whether its run is still there."""


def run_units(
    task: Task[Context, Unit],
    context: Context,
    units: Sequence[Unit],
    *,
    workers: int,
    progress: Progress,
    title: str,
    steps: int,
) -> None:
    """Do every unit once, on `workers` processes (or in this one if `workers` is 1)."""
    if not units:
        return
    with progress.stage(title, steps) as stage:
        if workers == 1:
            with listening(stage):
                for unit in units:
                    stage.advance(do_alone(task, context, unit))
            return
        _spread(task, context, units, workers, stage.advance)


def do_alone(task: Task[Context, Unit], context: Context, unit: Unit) -> int:
    """Do one unit with single-threaded linear algebra, so that sums always add in one order."""
    with single_threaded():
        return task(context, unit)


def _spread(
    task: Task[Context, Unit],
    context: Context,
    units: Sequence[Unit],
    workers: int,
    advance: Callable[[int], None],
) -> None:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    if _QUIET not in (said := os.environ.get("PYTHONWARNINGS", "")):
        os.environ["PYTHONWARNINGS"] = f"{said},{_QUIET}".lstrip(",")
    waiting = dict(enumerate(units))
    pickled = pickle.dumps((task, context), protocol=pickle.HIGHEST_PROTOCOL)
    with (
        private_folder() as folder,
        shared_bytes(Path(folder), pickled) as path,
        warnings.catch_warnings(),
    ):
        del pickled
        # A worker that has grown large is replaced: nothing that a user could act on.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given")
        for attempt in range(_ATTEMPTS):
            pool = Parallel(
                n_jobs=min(workers, len(waiting)),
                return_as="generator_unordered",
                batch_size=1,
                pre_dispatch="2*n_jobs",
                temp_folder=folder,
                max_nbytes=None,
            )
            jobs = [
                delayed(_in_worker)(path, folder, os.getpid(), index, unit)
                for index, unit in waiting.items()
            ]
            try:
                for index, count in pool(jobs):
                    del waiting[index]
                    advance(count)
                return
            except TerminatedWorkerError:
                if attempt + 1 == _ATTEMPTS:
                    raise UserError(
                        "a worker process was killed twice, most likely because memory ran out",
                        remedy="run again with fewer --workers; finished work is kept",
                    ) from None


def _in_worker(path: str, folder: str, caller: int, index: int, unit: Any) -> tuple[int, int]:
    if os.getpid() != caller:  # a single unit is done in the caller's process
        end_on_signals()
        _end_with_run(caller, folder)
    task, context = _context(path, folder)
    # Workers have one core each; this process keeps all for what it does itself.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # What a killed worker leaves behind may be private: it goes with the folder.
    usual, tempfile.tempdir = tempfile.tempdir, folder
    try:
        return index, do_alone(task, context, unit)
    finally:
        tempfile.tempdir = usual


@lru_cache(maxsize=1)
def _end_with_run(run: int, folder: str) -> None:
    """End this worker soon after its run was killed, and remove the private files that they share.

    It would go on, beside the next run, with what that one does again.
    """

    def watch() -> None:
        while os.getppid() == run:
            time.sleep(_LOOK_EVERY)
        shutil.rmtree(folder, ignore_errors=True)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


@lru_cache(maxsize=1)
def _context(path: str, folder: str) -> tuple[Task[Any, Any], Any]:
    """Read the context once; the folder tells it from that of another stage."""
    task, context = pickle.loads(Path(path).read_bytes())
    return task, context
