"""How an audit runs: on which engine and how many workers, and whether it waits for its turn.

Nothing here may enter a key or a seed: the same audit on other hardware is the same audit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from synthleak.core.engine.engine import engines
from synthleak.core.errors import SpecError
from synthleak.core.spec import RuntimeSection


def available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """Where and how fast an audit runs, never what it finds.

    Args:
        workers: how many processes work at once; by default one a core.
        wait: whether to wait for another run in the same folder; else it is an error.
        engine: `local`, or `ray`, or that of an installed plug-in.
        address: of the engine's cluster, `host:port`; none starts Ray on this machine, with
            `workers` CPUs.

    Raises:
        SpecError: if `workers` is below 1, the engine is unknown, or an address belongs to none.
    """

    workers: int = field(default_factory=available_cores)
    wait: bool = False
    engine: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        if self.workers < 1:
            raise SpecError(f"workers = {self.workers}", "--workers", "use a whole number from 1")
        engine = engines.get(self.engine, "--engine").plugin
        if self.address is not None and not engine.takes_address:
            raise SpecError(
                "an address belongs to a Ray cluster", "--address", "add --engine ray, or remove it"
            )

    @classmethod
    def of(cls, section: RuntimeSection, **chosen: Any) -> Runtime:
        """Return how a spec runs.

        Args:
            section: the `[runtime]` section of the spec.
            chosen: arguments of `Runtime`; those that are not None stand over the section.
        """
        wanted = {**section.model_dump(), **{k: v for k, v in chosen.items() if v is not None}}
        if chosen.get("engine") not in (None, section.engine) and chosen.get("address") is None:
            wanted["address"] = None  # that of the spec belongs to the spec's engine
        return cls(**{key: value for key, value in wanted.items() if value is not None})


@dataclass(frozen=True)
class Resources:
    """What one unit of work needs: a stage or a generator says so, and a cluster provides it.

    Where no machine of the cluster has a GPU, a unit that wants one gets a machine for itself.
    """

    cpus: float = 1.0
    gpus: float = 0.0
    memory: int = 0
    """Bytes; 0: not said."""
    alone: bool = False
    """Whether one process of a machine does all units like this, as it holds a device."""


ONE_CORE = Resources()
FLEET = Resources(gpus=1.0, alone=True)
"""A fleet of language models holds a device."""


@contextmanager
def single_threaded() -> Iterator[None]:
    """Use one thread for linear algebra, so that the same bytes come out on every machine."""
    with _libraries(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """Return the libraries with threads; a library comes with a module, so modules are counted."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
