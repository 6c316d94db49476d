"""A Ray cluster of several machines, all of them here: each has processes and ports of its own."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

STORE_BYTES = 80_000_000
START_SECONDS = 240.0


@contextmanager
def ray_cluster(nodes: Sequence[dict[str, float]]) -> Iterator[Any]:
    """Start a machine per entry of `nodes`, the first as head; all end with the context."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - as the tests, not below
    os.environ["RAY_agent_register_timeout_ms"] = "240000"  # noqa: SIM112 - on a busy computer
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, dict.fromkeys(paths)))
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(shutdown_at_exit=False)  # it ends below, and machines may be added by threads
    try:
        for node in nodes:
            add_node(cluster, **node)
        yield cluster
    finally:
        if ray.is_initialized():
            ray.shutdown()
        cluster.shutdown()


def add_node(cluster: Any, **resources: float) -> Any:
    """Start one more machine; a busy computer gets more time for it than Ray's 30 seconds."""
    from ray._private import services

    with patch.object(services, "get_node", partial(_patiently, services.get_node)):
        return cluster.add_node(
            object_store_memory=STORE_BYTES,
            include_dashboard=False,
            include_log_monitor=False,
            no_monitor=True,  # nothing is scaled here
            **_free_ports(),
            **{"num_cpus": 1, **resources},
        )


def _free_ports() -> dict[str, int]:
    """Choose the ports of a machine's agents: else it waits for them, and gives up after 15 s."""
    names = ("dashboard_agent_listen_port", "metrics_agent_port", "metrics_export_port")
    ports = {}
    with ExitStack() as stack:
        for name in (*names, "runtime_env_agent_port"):
            held = stack.enter_context(socket.socket())
            held.bind(("", 0))
            ports[name] = held.getsockname()[1]
    return ports


def _patiently(get_node: Any, *which: Any, **more: Any) -> Any:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            return get_node(*which, **more)
        except RuntimeError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def machine_of(cluster: Any, worker: int) -> Any:
    """Return the machine that a worker process belongs to."""
    import psutil

    above = {process.pid for process in psutil.Process(worker).parents()}
    return next(
        node
        for node in cluster.list_all_nodes()
        if any(started.process.pid in above for started in node.all_processes["raylet"])
    )
