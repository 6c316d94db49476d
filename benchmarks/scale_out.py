"""What a Ray cluster changes (nothing in the tables) and costs: three machines on this one.

    python benchmarks/scale_out.py same       tables of local, Ray, and Ray with a bucket as store
    python benchmarks/scale_out.py faults     ten workers and two machines killed in a run
    python benchmarks/scale_out.py overhead   units of one second, locally and on Ray
    python benchmarks/scale_out.py tiny       100,000 tiny units: pace and memory
    python benchmarks/scale_out.py speedup    one worker and two on the evidence stage
    python benchmarks/scale_out.py costs      what a unit and a request to the store cost

Each part is kept under its name in results/ray-2026-11-16.json. Machines are `raylet`s with ports
and processes of their own; the bucket is served by SeaweedFS.
"""

from __future__ import annotations

import json
import os
import platform
import random
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "ray-2026-11-16.json"
sys.path.append(str(ROOT / "tests"))

import psutil  # noqa: E402

from support.bucket import BUCKET, bucket  # noqa: E402
from support.ray_cluster import add_node, ray_cluster  # noqa: E402
from support.scale_units import nap, nothing  # noqa: E402
from synthleak import Runtime, parse_spec, run  # noqa: E402
from synthleak.audit.stages import set_up  # noqa: E402
from synthleak.audit.steps.work import OBSERVATIONS, make_missing_releases  # noqa: E402
from synthleak.core.engine import local, on_ray  # noqa: E402
from synthleak.core.engine.on_ray import session  # noqa: E402
from synthleak.core.engine.progress import Lines, Silent, Stage  # noqa: E402
from synthleak.core.locations import Url  # noqa: E402
from synthleak.core.runtime import Resources, single_threaded  # noqa: E402
from synthleak.core.spec import LoadedSpec, Spec  # noqa: E402
from synthleak.core.store import FolderStore, UrlStore  # noqa: E402

WORKERS_KILLED = 10
TINY, NAPS = int(os.environ.get("TINY_UNITS", "100000")), 40


def audit_spec(instances: int = 10) -> Spec:
    return parse_spec(
        {
            "seed": 5,
            "corpus": {"reader": "demo", "size": 400},
            "encoders": {"pools": "hashing", "evidence": "hashing"},
            "pool": [{"name": "outlier", "rule": "outlier", "percentile": 90, "size": 12}],
            "game": {"instances": instances, "records": 60},
            "generator": [{"kind": "ngram", "epsilon": [float("inf"), 4]}],
        }
    )


def tables(folder: Path | Url) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "results").iterdir()}


@contextmanager
def in_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="scale-out-") as name:
        yield Path(name)


def same() -> dict[str, Any]:
    """Compare the tables of three runs of one spec byte by byte."""
    spec = audit_spec()
    with in_folder() as folder:
        run(spec, folder / "local", runtime=Runtime(workers=2), progress=Silent())
        expected = tables(folder / "local")
        (folder / "weed").mkdir()
        with bucket(folder / "weed") as access:
            os.environ.update(access)
            with ray_cluster([{}, {}, {}]) as cluster:
                how = Runtime(engine="ray", address=cluster.address)
                run(spec, folder / "ray", runtime=how, progress=Lines())
                run(spec, f"s3://{BUCKET}/ray", runtime=how, progress=Lines())
                in_bucket = tables(Url(f"s3://{BUCKET}/ray"))
        return {
            "machines": 3,
            "tables": len(expected),
            "ray_identical": tables(folder / "ray") == expected,
            "ray_in_bucket_identical": in_bucket == expected,
        }


class Remembering(Lines):
    """Keeps what is said."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)
        super().say(line)


def faults() -> dict[str, Any]:
    """Kill workers and machines while an audit runs, and compare its tables."""
    spec = audit_spec(instances=12)
    with in_folder() as folder:
        run(spec, folder / "local", runtime=Runtime(workers=2), progress=Silent())
        progress, killed = Remembering(), {"workers": 0, "machines": 0}
        with ray_cluster([{}, {}, {}]) as cluster:
            ended, store = threading.Event(), folder / "ray" / "store"
            chaos = threading.Thread(target=kill, args=(cluster, store, killed, ended), daemon=True)
            chaos.start()
            how = Runtime(engine="ray", address=cluster.address)
            run(spec, folder / "ray", runtime=how, progress=progress)
            ended.set()
            chaos.join()
        return {
            "workers_killed": killed["workers"],
            "machines_killed": killed["machines"],
            "identical": tables(folder / "ray") == tables(folder / "local"),
            "said": [line for line in progress.said if "lost" in line],
        }


def kill(cluster: Any, store: Path, killed: dict[str, int], ended: threading.Event) -> None:
    """Kill a worker that has a unit whenever something was made since the last kill.

    After the third and the sixth a machine is killed as well, and another one joins.
    """
    rng, seen = random.Random(0), 0
    while killed["workers"] < WORKERS_KILLED and not ended.wait(0.5):
        made = sum(1 for path in store.rglob("*") if path.is_file())
        if made < seen + 4 or not (busy := busy_workers(cluster)):
            continue
        seen = made
        rng.choice(busy).kill()
        killed["workers"] += 1
        if killed["workers"] in (3, 6):
            cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
            killed["machines"] += 1
            add_node(cluster)


def busy_workers(cluster: Any) -> list[psutil.Process]:
    """Return the processes of this very cluster that do a unit."""
    found = []
    for node in cluster.list_all_nodes():
        for started in node.all_processes.get("raylet", []):
            try:
                below = psutil.Process(started.process.pid).children(recursive=True)
                found += [p for p in below if " ".join(p.cmdline()).startswith("ray::_do")]
            except psutil.Error:
                continue
    return found


def timed(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def on_cluster(task: Any, units: Any, how: Runtime, steps: int, progress: Any = None) -> None:
    on_ray.run_units(
        *(task, None, units),
        runtime=how,
        resources=Resources(),
        progress=progress or Silent(),
        title="units",
        steps=steps,
    )


def overhead() -> dict[str, Any]:
    """Let two workers do units that take a second each, without using the processor."""

    def locally() -> None:
        local.run_units(
            *(nap, None, list(range(NAPS))),
            runtime=Runtime(workers=2),
            progress=Silent(),
            title="units",
            steps=NAPS,
        )

    locally()  # processes have started
    here = timed(locally)
    with ray_cluster([{}, {}]) as cluster:
        how = Runtime(engine="ray", address=cluster.address)
        with session(how):
            on_cluster(nap, range(4), how, 4)
            there = timed(lambda: on_cluster(nap, range(NAPS), how, NAPS))
    return {
        "units": NAPS,
        "workers": 2,
        "seconds_local": round(here, 2),
        "seconds_ray": round(there, 2),
        "more_than_local": round(there / here - 1, 4),
        "load_average": os.getloadavg()[0],
    }


def tiny() -> dict[str, Any]:
    """Schedule tiny units, and see how many are under way and what the process holds."""
    done = 0
    most = 0
    memory: list[int] = []

    class Counting(Stage):
        def advance(self, steps: int = 1) -> None:
            nonlocal done
            done += steps

    class Counter(Silent):
        def stage(self, title: str, total: int) -> Stage:
            return Counting()

    def units() -> Iterator[int]:
        nonlocal most
        for number in range(TINY):
            most = max(most, number - done)
            if number % (TINY // 20) == 0:
                memory.append(psutil.Process().memory_info().rss)
            yield number

    with ray_cluster([{"num_cpus": 2}]) as cluster:
        how = Runtime(engine="ray", address=cluster.address)
        with session(how):
            on_cluster(nothing, range(100), how, 100)
            seconds = timed(lambda: on_cluster(nothing, units(), how, TINY, Counter()))
    return {
        "units": TINY,
        "done": done,
        "seconds": round(seconds, 1),
        "units_per_second": round(TINY / seconds),
        "most_under_way": most,
        "mb_at_10_percent": memory[2] // 10**6,
        "mb_at_end": memory[-1] // 10**6,
        "load_average": os.getloadavg()[0],
    }


def speedup() -> dict[str, Any]:
    """Observe the releases of an audit with one worker and with two, locally and on Ray."""
    spec = parse_spec(
        {
            "seed": 5,
            "corpus": {"reader": "demo", "size": 1200},
            "pool": [{"name": "outlier", "rule": "outlier", "percentile": 90, "size": 40}],
            "game": {"instances": 240, "records": 250},
            "generator": [{"kind": "echo"}],
        }
    )
    found: dict[str, Any] = {"cores": os.cpu_count()}
    with in_folder() as folder:
        base = FolderStore(folder / "base")
        setup = set_up(LoadedSpec(spec), base)
        make_missing_releases(setup, Runtime(workers=2), Silent())

        def observe(name: str, how: Runtime) -> float:
            store = FolderStore(folder / name)
            for one in base.list(""):
                store.put(one, base.get(one))
            return timed(
                lambda: OBSERVATIONS.make(replace(setup, store=store), how, Silent()) and None
            )

        observe("warm", Runtime(workers=2))
        took = {n: observe(f"local-{n}", Runtime(workers=n)) for n in (1, 2)}
        found["local"] = {"seconds": took, "times": round(took[1] / took[2], 2)}
        took = {}
        for cpus in (1, 2):
            with ray_cluster([{}] * cpus) as cluster:
                how = Runtime(engine="ray", address=cluster.address)
                with session(how):
                    observe(f"ray-warm-{cpus}", how)
                    took[cpus] = observe(f"ray-{cpus}", how)
        found["ray"] = {"seconds": took, "times": round(took[1] / took[2], 2)}
    return found | {"load_average": os.getloadavg()[0]}


def costs() -> dict[str, Any]:
    """Measure processor time of units one by one, bytes of what they keep, and requests."""
    spec = audit_spec(instances=12)
    found: dict[str, Any] = {}
    with in_folder() as folder:
        store = FolderStore(folder / "store")
        setup = set_up(LoadedSpec(spec), store)
        from synthleak.audit.steps import work

        for stage in (work.RELEASES, work.OBSERVATIONS, work.PRIOR_ATTACKS, *work.MEASUREMENTS):
            units = list(stage.missing(setup))
            before, began = usage(folder), time.process_time()
            for unit in units:
                with single_threaded():
                    stage.task(setup, unit)
            steps = sum(work._steps(unit) for unit in units)
            files, size = (b - a for a, b in zip(before, usage(folder), strict=True))
            found[stage.title] = {
                "steps": steps,
                "cpu_seconds_each": (time.process_time() - began) / steps,
                "bytes_each": size / steps,
                "objects_each": files / steps,
            }
        found["shape"] = {"records": 60, "targets": 12}
        (folder / "weed").mkdir()
        with bucket(folder / "weed") as access:
            os.environ.update(access)
            remote = UrlStore(Url(f"s3://{BUCKET}/requests"))
            data = os.urandom(2000)
            found["requests_ms"] = {
                "put": 5 * timed(lambda: [remote.put(f"a/{n}", data) for n in range(200)] and None),
                "get": 5 * timed(lambda: [remote.get(f"a/{n}") for n in range(200)] and None),
                "list_200": 1000 * timed(lambda: list(remote.list("a/")) and None),
            }
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return found


def usage(folder: Path) -> tuple[int, int]:
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


PARTS = {part.__name__: part for part in (same, faults, overhead, tiny, speedup, costs)}


def main() -> None:
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for name in sys.argv[1:] or PARTS:
        import ray

        kept[name] = PARTS[name]()
        kept |= {
            "date": datetime.now(UTC).date().isoformat(),
            "python": platform.python_version(),
            "ray": ray.__version__,
            "cores": os.cpu_count(),
        }
        print(name, json.dumps(kept[name], indent=1))
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
