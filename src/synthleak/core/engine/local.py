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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from synthleak.core.engine.engine import Engine, engines
from synthleak.core.engine.progress import Progress, listening
from synthleak.core.errors import UserError
from synthleak.core.private_files import (
    ENDING_SIGNALS,
    end_on_signals,
    private_folder,
    shared_bytes,
)
from synthleak.core.runtime import (
    ONE_CORE,
    Resources,
    Runtime,
    available_cores,
    single_threaded,
)

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
    units: Iterable[Unit],
    *,
    runtime: Runtime,
    resources: Resources = ONE_CORE,
    progress: Progress,
    title: str,
    steps: int | None = None,
) -> None:
    """Do every unit once, on as many processes as there are workers (in this one, if it is one).

    `steps` are those of all units together; one each, if it is not given.
    """
    listed = list(units)
    workers = 1 if resources.alone else min(runtime.workers, len(listed))
    if not listed:
        return
    with progress.stage(title, len(listed) if steps is None else steps) as stage:
        if workers == 1:
            with listening(stage):
                for unit in listed:
                    with single_threaded():
                        steps_done = task(context, unit)
                    stage.advance(steps_done)
            return
        _spread(task, context, listed, workers, stage.advance)


def _spread(
    task: Task[Context, Unit],
    context: Context,
    units: Sequence[Unit],
    workers: int,
    advance: Callable[[int], None],
) -> None:
    from joblib import Parallel, delayed
    from joblib.externals.loky.process_executor import TerminatedWorkerError

    if _QUIET not in (filters := os.environ.get("PYTHONWARNINGS", "")):
        os.environ["PYTHONWARNINGS"] = f"{filters},{_QUIET}".lstrip(",")
    waiting = dict(enumerate(units))
    pickled = pickle.dumps((task, context), protocol=pickle.HIGHEST_PROTOCOL)
    with (
        private_folder() as private,
        shared_bytes(Path(private).absolute(), pickled) as path,
        _quiet_end(),
        warnings.catch_warnings(),
    ):
        del pickled
        folder = str(Path(private).absolute())
        # A worker that has grown large is replaced: nothing that a user could act on.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs were given")
        warnings.filterwarnings("ignore", r"\d+ tasks (have been|which were)")  # of an early end
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
                delayed(_in_worker)(path, folder, (os.getpid(), Path.cwd()), index, unit)
                for index, unit in waiting.items()
            ]
            results: Any = None
            try:
                with _interrupts_held():
                    results = pool(jobs)
                for index, count in results:
                    del waiting[index]
                    advance(count)
                return
            except TerminatedWorkerError:
                if attempt + 1 == _ATTEMPTS:
                    raise UserError(
                        "a worker process was killed twice, most likely because memory ran out",
                        remedy="run again with fewer --workers; finished work is kept",
                    ) from None
            finally:
                if results is not None:
                    results.close()  # workers end before what they read does


@contextmanager
def _quiet_end() -> Iterator[None]:
    """Keep a thread of joblib from printing how it missed units that were called off.

    Ended before it has handed out all units, it looks for them in vain, after its workers ended.
    """
    usual = threading.excepthook

    def unless_ended(failed: threading.ExceptHookArgs) -> None:
        flags = getattr(failed.thread, "executor_flags", None)
        if not getattr(flags, "shutdown", False):
            usual(failed)

    threading.excepthook = unless_ended
    try:
        yield
    finally:
        threading.excepthook = usual


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while workers start: it would interrupt their imports with a traceback.

    They start with it held, and take it in `_in_worker`. The trackers of their resources would let
    it through as they start, so they start first. Any other thread of this process may take a
    signal all the same, and its handler would interrupt joblib halfway: the handler waits too.
    """
    from multiprocessing import resource_tracker

    from joblib.externals.loky.backend import resource_tracker as tracker_of_loky

    resource_tracker.ensure_running()
    tracker_of_loky.ensure_running()
    arrived: list[int] = []
    handlers: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
        handlers = {number: handler for number, handler in handlers.items() if callable(handler)}
    held = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for number in handlers:
            signal.signal(number, lambda number, _: arrived.append(number))
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in arrived[:1]:
            signal.raise_signal(number)


def _in_worker(
    path: str, folder: str, caller: tuple[int, Path], index: int, unit: Any
) -> tuple[int, int]:
    caller_id, directory = caller
    if os.getpid() != caller_id:  # a single unit is done in the caller's process
        # It may have been started by an earlier run, in the directory of that time.
        os.chdir(directory)
        end_on_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        _end_with_run(caller_id, folder)
    task, context = _context(path, folder)
    with one_core(folder):
        return index, task(context, unit)


@contextmanager
def one_core(folder: str) -> Iterator[None]:
    """Do work of a worker: on one core, with temporary files in a private folder.

    What a killed worker leaves behind may be private: it goes with the folder.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    usual, tempfile.tempdir = tempfile.tempdir, folder
    try:
        with single_threaded():
            yield
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


@engines.place("local", version=1)
class Local(Engine):
    """The cores of this machine."""

    run_units = staticmethod(run_units)

    def workers(self, runtime: Runtime) -> int:
        """Return how many units are done at once: no more than there are cores."""
        return min(runtime.workers, available_cores())
