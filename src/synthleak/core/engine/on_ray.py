"""The Ray engine: the units of the local engine, on all machines of a Ray cluster.

Units are made one by one as workers become free, so a million of them never sit in memory. A unit
that was lost with its worker or machine is done again, with the reason; one that fails for a reason
of its own fails the run once those that have begun have ended. Workers return a count and put what
they make into the store, so nothing that is computed depends on where, or how often, it was done.
Ray's own retries are not used: they say neither how often a unit was lost nor why.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import signal
import socket
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import synthleak
from synthleak.core.engine.engine import Engine, engines
from synthleak.core.engine.local import Context, Task, Unit, one_core
from synthleak.core.engine.progress import Progress
from synthleak.core.errors import ContractError, SynthleakError, UserError, import_extra
from synthleak.core.private_files import ENDING_SIGNALS, private_home, sweep_homes
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
    machines = nodes(ray)
    if not wanted.gpus or any(node.get("GPU") for node in machines):
        return wanted
    fewest = int(min((node["CPU"] for node in machines), default=1.0))
    return Resources(cpus=float(max(1, fewest)), memory=wanted.memory)


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
    capacity: int = 0
    """How many units fit on the cluster at once, when it was `looked` at."""
    looked: float = 0.0

    def do_all(self, units: Iterator[Any], advance: Callable[[int], None]) -> None:
        """Do all units, or raise what one of them raised once those under way have ended."""
        failure: Exception | None = None
        progressed = time.monotonic()
        waiting, more = map(_Flight, units), True
        while True:
            while failure is None and (more or self.again) and self._has_room():
                flight = self.again.popleft() if self.again else next(waiting, None)
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
            before = self.losses.copy()
            for ref in done:
                steps, error = self._collect(ref)
                failure = failure or error
                if steps:
                    advance(steps)
            for reason, count in (self.losses - before).items():
                lost = "1 unit was" if count == 1 else f"{count} units were"
                self.say(f"{self.title}: {lost} lost ({reason}); done again")
        if self.losses:
            why = "; ".join(f"{reason}: {count}" for reason, count in sorted(self.losses.items()))
            self.say(f"{self.title}: {self.losses.total()} units were lost and done again ({why})")
        if failure is not None:
            raise failure

    def _has_room(self) -> bool:
        wanted = self.resources
        if time.monotonic() - self.looked > LOOK_EVERY:
            kind, share = ("GPU", wanted.gpus) if wanted.gpus else ("CPU", wanted.cpus)
            fits = (int(node.get(kind, 0.0) / share + 1e-9) for node in nodes(self.ray))
            self.capacity, self.looked = max(1, sum(fits)), time.monotonic()
        if wanted.gpus:
            while self.fleets < self.capacity:
                self.idle.append(self._new_fleet())
            return bool(self.idle)
        return len(self.flying) < max(16, IN_FLIGHT * self.capacity)

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

    def _collect(self, ref: Any) -> tuple[int, Exception | None]:
        """Return the steps of a finished unit, or why it failed; a lost one is put back."""
        flight = self.flying.pop(ref)
        try:
            steps, data = self.ray.get(ref)
        except self.ray.exceptions.RayTaskError as error:  # the worker could not even start it
            return 0, ContractError(f"a unit of {self.title} failed ({type(error.cause).__name__})")
        except self.ray.exceptions.RayError as error:
            self._drop(flight)
            reason = _reason(error)
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
    if re.search("node (has died|died|was terminated)", str(error), re.IGNORECASE):
        return "its machine died"
    return known.get(name, name)


def _do(whole: list[Any], unit: Any) -> tuple[int, bytes | None]:
    """Do one unit in a worker. An error is returned: what Ray raises would be written to logs."""
    import ray

    _sweep_once()
    try:
        task, context = _context(whole[0].hex(), lambda: ray.get(whole[0]))
        with private_home() as home, one_core(str(home)):
            return task(context, unit), None
    except ray.exceptions.RayError:
        raise  # the context was lost with its machine
    except Exception as error:
        return 0, _portable(error)


class _Fleet:
    """A process that holds a device; what it loads stays there from unit to unit."""

    def do(self, whole: list[Any], unit: Any) -> tuple[int, bytes | None]:
        return _do(whole, unit)


def _portable(error: Exception) -> bytes:
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
        return data
    except Exception:
        return pickle.dumps(SynthleakError(f"{type(error).__name__} in a worker"))


_sweep_once = cache(sweep_homes)
_last: dict[str, tuple[Any, Any]] = {}


def _context(key: str, load: Callable[[], bytes]) -> tuple[Any, Any]:
    """Return the context of a stage, read once by each worker."""
    if key not in _last:
        _last.clear()
        task, context, limits = pickle.loads(load())
        os.environ.update(limits)
        _last[key] = task, context
    return _last[key]


STORE_BYTES = 512_000_000
"""Shared memory of a Ray that this process starts: it holds the context, once a machine."""
CONNECT_SECONDS = 10.0


@contextmanager
def session(runtime: Runtime) -> Iterator[Any]:
    """Connect to the cluster of a run, or start Ray here, until the outermost session ends."""
    ray = import_extra("ray", extra="ray", by="the engine ray")
    if ray.is_initialized():
        yield ray
        return
    address = runtime.address or os.environ.get("RAY_ADDRESS") or "local"
    limits = {"num_cpus": runtime.workers, "object_store_memory": STORE_BYTES}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with _own_signals(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            _knock(address)
            ray.init(
                address=address,
                namespace="synthleak",
                include_dashboard=False if address == "local" else None,
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                **(limits if address == "local" else {}),
            )
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise UserError(
                f"no Ray cluster can be reached ({reason[0][:200]})",
                f"--address {address}",
                "start one with `ray start --head`, and check that versions of Ray are equal",
            ) from None
    try:
        with _quiet(ray):
            yield ray
    finally:
        with _own_signals():
            ray.shutdown()


@contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    """Keep what Ray says of dead workers from standard output, where `--json` may be read."""
    module: Any = getattr(ray._private, "worker", None)
    before = getattr(module, "print_to_stdstream", None)
    if before is None:  # another version of Ray
        yield
        return
    module.print_to_stdstream = lambda *said, **how: None
    try:
        yield
    finally:
        module.print_to_stdstream = before


def _knock(address: str) -> None:
    """Raise an OSError if nobody listens at `host:port`: Ray itself would try for many minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep our handlers of signals: Ray would put its own in their place."""
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(ValueError):  # not in the main thread: nothing was changed either
                signal.signal(number, handler)


def nodes(ray: Any) -> list[dict[str, float]]:
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [node for node in alive if node.get("CPU")]


def ask_every_node(
    runtime: Runtime, question: Callable[[Context], str | None], of: Context
) -> None:
    """Ask every machine something before work starts; the first complaint fails the run.

    All need this very version of synthleak, which is asked of each as well.
    """
    with session(runtime) as ray:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        data = ray.put(pickle.dumps((question, of), protocol=pickle.HIGHEST_PROTOCOL))
        task = ray.remote(_answer)
        waiting = {}
        for node in ray.nodes():
            if node["Alive"] and node["Resources"].get("CPU"):
                there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                on_node = task.options(num_cpus=0, max_retries=0, scheduling_strategy=there)
                waiting[on_node.remote([data])] = node["NodeManagerHostname"]
        for answer, name in waiting.items():
            try:
                version, complaint = ray.get(answer)
            except ray.exceptions.RayTaskError as error:
                version, complaint = synthleak.__version__, f"it cannot start ({type(error.cause)})"
            except ray.exceptions.RayError:
                continue  # it has just gone: its units would be done elsewhere
            if version != synthleak.__version__:
                complaint = f"it has synthleak {version}, and this is {synthleak.__version__}"
            if complaint is not None:
                raise UserError(
                    complaint, f"the machine {name} of the Ray cluster", "see docs/scale-out.md"
                )


def _answer(data: list[Any]) -> tuple[str, str | None]:
    import ray

    question, of = pickle.loads(ray.get(data[0]))
    return synthleak.__version__, question(of)


@engines.place("ray", version=1)
class OnRay(Engine):
    """All machines of a Ray cluster (docs/scale-out.md)."""

    takes_address = True
    session = staticmethod(session)
    ask = staticmethod(ask_every_node)
    run_units = staticmethod(run_units)

    def workers(self, runtime: Runtime) -> int:
        """Return the number of CPUs of the cluster."""
        with session(runtime) as ray:
            return max(1, int(ray.cluster_resources().get("CPU", 1)))
