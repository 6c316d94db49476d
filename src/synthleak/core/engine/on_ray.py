"""The Ray engine: the units of the local engine, on all machines of a Ray cluster.

Units are made one by one as workers become free, so a million of them never sit in memory. A unit
that was lost with its worker or machine is done again, with the reason; one that fails for a reason
of its own fails the run once those that have begun have ended. Workers return a count and put what
they make into the store, so nothing that is computed depends on where, or how often, it was done.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from synthleak.core.engine.local import Context, Task, Unit, do_alone
from synthleak.core.engine.progress import Progress
from synthleak.core.engine.ray_cluster import nodes, session, threads_of
from synthleak.core.errors import ContractError, SynthleakError, UserError
from synthleak.core.private_files import private_home, sweep_homes
from synthleak.core.runtime import Resources, Runtime

ATTEMPTS = 5
"""How often one unit may be lost before the run gives up."""
IN_FLIGHT = 4
"""Units that are handed to Ray for each that can be done at once: workers never wait for one."""
LOOK_EVERY, SAY_AFTER = 2.0, 60.0
"""Seconds between two looks at the size of the cluster; how long nothing may fit unsaid."""


def run_units(
    task: Task[Context, Unit],
    context: Context,
    units: Iterable[Unit],
    *,
    runtime: Runtime,
    resources: Resources,
    progress: Progress,
    title: str,
    steps: int,
) -> None:
    """Do every unit on the cluster; `units` is asked for the next one when a worker is free."""
    if not steps:
        return
    with session(runtime) as ray, progress.stage(title, steps) as stage:
        whole = ray.put(_packed(task, context))
        dispatch = _Dispatch(ray, whole, _fitted(ray, resources), title, progress.say)
        try:
            dispatch.do_all(iter(units), stage.advance)
        finally:
            dispatch.stop()


def _packed(task: Any, context: Any) -> bytes:
    """Pickle what all units share, and the limits that are set in this environment."""
    limits = {key: value for key, value in os.environ.items() if key.startswith("SYNTHLEAK_")}
    return pickle.dumps((task, context, limits), protocol=pickle.HIGHEST_PROTOCOL)


def _fitted(ray: Any, wanted: Resources) -> Resources:
    """Give a unit that wants a device a machine for itself, where no machine has a device."""
    if wanted.gpus and not any(node.get("GPU") for node in nodes(ray)):
        return Resources(cpus=float(threads_of(ray)), memory=wanted.memory)
    return wanted


@dataclass
class _Flight:
    """A unit on its way, how often it was lost before, and the fleet that has it, if any."""

    unit: Any
    lost: int = 0
    fleet: Any = None


@dataclass
class _Dispatch:
    """Hands units to the cluster, a few more than it can do at once, and counts what comes back."""

    ray: Any
    whole: Any
    resources: Resources
    title: str
    say: Callable[[str], None]
    flying: dict[Any, _Flight] = field(default_factory=dict)
    again: deque[_Flight] = field(default_factory=deque)
    idle: list[Any] = field(default_factory=list)
    fleets: int = 0
    losses: Counter[str] = field(default_factory=Counter)
    places: int = 0
    looked: float = 0.0

    def do_all(self, units: Iterator[Any], advance: Callable[[int], None]) -> None:
        """Do all units, or raise what one of them raised once those under way have ended."""
        failure: Exception | None = None
        progressed = time.monotonic()
        more = True
        while True:
            while failure is None and (more or self.again) and self._has_room():
                flight = self.again.popleft() if self.again else _next(units)
                if flight is None:
                    more = False
                    break
                self._submit(flight)
            if not self.flying:
                break
            done, _ = self.ray.wait(
                list(self.flying), num_returns=1, timeout=LOOK_EVERY, fetch_local=False
            )
            if not done and time.monotonic() - progressed > SAY_AFTER:
                progressed = time.monotonic() + 10 * SAY_AFTER
                self._say_what_is_missing()
            if done:
                rest = [ref for ref in self.flying if ref not in done]
                if rest:
                    done += self.ray.wait(rest, num_returns=len(rest), timeout=0)[0]
                progressed = time.monotonic()
            lost: Counter[str] = Counter()
            for ref in done:
                steps, error = self._collect(ref, lost)
                failure = failure or error
                if steps:
                    advance(steps)
            self._say_what_was_lost(lost)
        self._say_total()
        if failure is not None:
            raise failure

    def _has_room(self) -> bool:
        if time.monotonic() - self.looked > LOOK_EVERY:
            self.places, self.looked = self._count_places(), time.monotonic()
        if self.resources.gpus:
            while self.fleets < self.places:
                self.idle.append(self._new_fleet())
            return bool(self.idle)
        return len(self.flying) < max(16, IN_FLIGHT * self.places)

    def _count_places(self) -> int:
        """Return how many units fit on the cluster at once."""
        wanted = self.resources
        kind, share = ("GPU", wanted.gpus) if wanted.gpus else ("CPU", wanted.cpus)
        fits = (int(node.get(kind, 0.0) / share + 1e-9) for node in nodes(self.ray))
        return max(1, sum(fits))

    def _options(self) -> dict[str, Any]:
        memory = {"memory": self.resources.memory} if self.resources.memory else {}
        return {"num_cpus": self.resources.cpus, **memory}

    def _new_fleet(self) -> Any:
        """Start a process that holds a device, or a share of one, until the stage ends."""
        self.fleets += 1
        spread = self.ray.remote(_Fleet).options(
            **self._options(),
            num_gpus=self.resources.gpus,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )
        return spread.remote()

    def _submit(self, flight: _Flight) -> None:
        if self.resources.gpus:
            flight.fleet = self.idle.pop(0)
            ref = flight.fleet.do.remote([self.whole], flight.unit)
        else:
            task = self.ray.remote(_do).options(**self._options(), max_retries=0)
            ref = task.remote([self.whole], flight.unit)
        self.flying[ref] = flight

    def _collect(self, ref: Any, lost: Counter[str]) -> tuple[int, Exception | None]:
        """Return the steps of a finished unit, or why it failed; a lost one is put back."""
        flight = self.flying.pop(ref)
        try:
            steps, data = self.ray.get(ref)
        except self.ray.exceptions.RayTaskError as error:  # the worker could not even start it
            return 0, ContractError(f"a unit of {self.title} failed ({type(error.cause).__name__})")
        except self.ray.exceptions.RayError as error:
            self._drop(flight)
            reason = _reason(error)
            lost[reason] += 1
            self.losses[reason] += 1
            flight.lost += 1
            if flight.lost >= ATTEMPTS:
                return 0, UserError(
                    f"a unit of {self.title} was lost {ATTEMPTS} times ({reason})",
                    remedy="give its machines more memory, or use fewer at once;"
                    " finished work is kept",
                )
            self.again.append(flight)
            return 0, None
        if flight.fleet is not None:
            self.idle.append(flight.fleet)
        return steps, None if data is None else pickle.loads(data)

    def _drop(self, flight: _Flight) -> None:
        """Forget a fleet that has died; the next look starts another."""
        if flight.fleet is not None:
            with suppress(Exception):
                self.ray.kill(flight.fleet)
            self.fleets -= 1
            flight.fleet = None
            self.looked = 0.0

    def _say_what_was_lost(self, lost: Counter[str]) -> None:
        for reason, count in lost.items():
            units = "1 unit was" if count == 1 else f"{count} units were"
            self.say(f"{self.title}: {units} lost ({reason}); done again")

    def _say_total(self) -> None:
        if self.losses:
            why = "; ".join(f"{reason}: {count}" for reason, count in sorted(self.losses.items()))
            self.say(f"{self.title}: {self.losses.total()} units were lost and done again ({why})")

    def _say_what_is_missing(self) -> None:
        wanted = self.resources
        words = [f"{wanted.cpus:g} CPUs"] + [f"{wanted.gpus:g} GPUs"] * bool(wanted.gpus)
        words += [f"{wanted.memory / 2**30:.1f} GiB"] * bool(wanted.memory)
        fit = any(
            node.get("CPU", 0) >= wanted.cpus
            and node.get("GPU", 0) >= wanted.gpus
            and node.get("memory", 0) >= wanted.memory
            for node in nodes(self.ray)
        )
        if not fit:
            self.say(f"{self.title}: waiting for a machine with {', '.join(words)}")

    def stop(self) -> None:
        """Leave nothing running: workers that still have a unit are ended, and fleets."""
        for ref, flight in self.flying.items():
            with suppress(Exception):
                if flight.fleet is None:
                    self.ray.cancel(ref, force=True)
                else:
                    self.ray.kill(flight.fleet)
        for fleet in self.idle:
            with suppress(Exception):
                self.ray.kill(fleet)
        self.flying.clear()
        self.idle.clear()


def _next(units: Iterator[Any]) -> _Flight | None:
    for unit in units:
        return _Flight(unit)
    return None


def _reason(error: Exception) -> str:
    """Say in a few words why a unit was lost; messages of Ray are long."""
    name = type(error).__name__
    known = {
        "WorkerCrashedError": "its worker process died",
        "ActorDiedError": "its worker process died",
        "ActorUnavailableError": "its worker process died",
        "NodeDiedError": "its machine died",
        "LocalRayletDiedError": "its machine died",
        "OutOfMemoryError": "memory ran out",
    }
    text = str(error).lower()
    if any(words in text for words in ("node has died", "node died", "node was terminated")):
        return "its machine died"
    return known.get(name, name)


class _Fleet:
    """A process that holds a device; what it loads stays there from unit to unit."""

    def do(self, whole: list[Any], unit: Any) -> tuple[int, bytes | None]:
        """Do one unit."""
        return _do(whole, unit)


def _do(whole: list[Any], unit: Any) -> tuple[int, bytes | None]:
    """Do one unit in a worker. An error is returned: what Ray raises would be written to logs."""
    import ray

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    _sweep_once()
    try:
        task, context = _context(whole[0].hex(), lambda: ray.get(whole[0]))
        # What a killed worker leaves behind may be private: the next one removes it.
        with private_home() as home:
            usual, tempfile.tempdir = tempfile.tempdir, str(home)
            try:
                return do_alone(task, context, unit), None
            finally:
                tempfile.tempdir = usual
    except ray.exceptions.RayError:
        raise  # the context was lost with its machine
    except Exception as error:
        return 0, _portable(error)


def _portable(error: Exception) -> bytes:
    """Pickle an error for the process that leads the run."""
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
        return data
    except Exception:
        return pickle.dumps(SynthleakError(f"{type(error).__name__} in a worker"))


@lru_cache(maxsize=1)
def _sweep_once() -> None:
    sweep_homes()


_last: dict[str, tuple[Any, Any]] = {}


def _context(key: str, load: Callable[[], bytes]) -> tuple[Any, Any]:
    """Return the context of a stage, read once by each worker."""
    if key not in _last:
        _last.clear()
        task, context, limits = pickle.loads(load())
        os.environ.update(limits)
        _last[key] = task, context
    return _last[key]
