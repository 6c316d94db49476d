"""A Ray cluster of several machines, all of them here: each has processes and ports of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STORE_BYTES = 80_000_000


@contextmanager
def ray_cluster(nodes: Sequence[dict[str, float]]) -> Iterator[Any]:
    """Start a machine per entry of `nodes`, the first as head; all end with the context."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, dict.fromkeys(paths)))
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        for node in nodes:
            add_node(cluster, **node)
        yield cluster
    finally:
        if ray.is_initialized():
            ray.shutdown()
        cluster.shutdown()


def add_node(cluster: Any, **resources: float) -> Any:
    """Start one more machine."""
    return cluster.add_node(
        object_store_memory=STORE_BYTES,
        include_dashboard=False,
        **{"num_cpus": 1, **resources},
    )
