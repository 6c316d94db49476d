"""The machines of a Ray cluster: reaching them, counting them, and asking each a question."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import synthleak
from synthleak.core.engine.local import Context
from synthleak.core.errors import UserError, import_extra
from synthleak.core.runtime import Runtime

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
    here = {"num_cpus": runtime.workers, "object_store_memory": STORE_BYTES}
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
                **(here if address == "local" else {}),
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
    numbers = [getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP")]
    before = {number: signal.getsignal(number) for number in numbers if number is not None}
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(ValueError):  # not in the main thread: nothing was changed either
                signal.signal(number, handler)


def cpus_of(ray: Any) -> int:
    """Return how many CPUs the cluster has now."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def threads_of(ray: Any) -> int:
    """Return how many threads every machine of the cluster offers to a unit that uses several."""
    return max(1, int(min((node.get("CPU", 1.0) for node in nodes(ray)), default=1.0)))


def nodes(ray: Any) -> list[dict[str, float]]:
    """Return what every machine has that can do units."""
    found = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [node for node in found if node.get("CPU")]


def ask_every_node(
    runtime: Runtime, question: Callable[[Context], str | None], of: Context
) -> None:
    """Ask every machine something before work starts; the first complaint fails the run.

    All need this very version of synthleak, which is asked of each as well.
    """
    with session(runtime) as ray:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        data = ray.put(pickle.dumps((question, of), protocol=pickle.HIGHEST_PROTOCOL))
        asked = ray.remote(_answer)
        waiting = {}
        for node in ray.nodes():
            if node["Alive"] and node["Resources"].get("CPU"):
                place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                only_there = asked.options(num_cpus=0, max_retries=0, scheduling_strategy=place)
                answer = only_there.remote([data])
                waiting[answer] = node["NodeManagerHostname"]
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
