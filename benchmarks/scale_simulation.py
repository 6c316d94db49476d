"""A million releases, simulated unit by unit with measured costs: what it takes, what gives first.

    python benchmarks/scale_simulation.py

Costs come from results/ray-2026-11-16.json (units and requests on a core of the machine that it was
measured on) and studies/paper/results/timings.csv (fleets on an H200). Every unit is an event: it
waits for the process that leads the run to hand it out, then for a free core or GPU, makes its
requests, and may be lost with its machine and be done again. Conclusions: docs/scale-out.md.
"""

from __future__ import annotations

import csv
import heapq
import json
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).parent / "results"
TIMINGS = Path(__file__).parents[1] / "studies/paper/results/timings.csv"
RELEASES, RECORDS = 1_000_000, 100
CELL = 104
"""Releases of a cell: those of the measured fleet."""
PRICES = {
    "cpu_hour": 0.02,
    "gpu_hour": 4.0,
    "put_1000": 0.005,
    "get_1000": 0.0004,
    "gb_month": 0.023,
}
"""US dollars: spot CPUs, rented H200s and list prices of S3, as of 2026; put in your own."""
SPOT_HOURS = 20.0
"""Mean hours until a core or a GPU is taken away with its machine."""
REQUEST_SECONDS = 0.03
"""Of a request to a bucket in another building; loopback was measured faster."""


@dataclass(frozen=True)
class Stage:
    """Units of one kind: what one takes, keeps and asks of the store."""

    title: str
    units: int
    seconds: float
    bytes: float
    puts: float
    gets: float
    gpu: bool = False


@dataclass
class Outcome:
    """What a stage took in all."""

    title: str
    units: int
    hours: float
    busy: float
    lost: int
    waited_for_leader: float


def seconds_of_a_cell() -> float:
    """Return the median time of a fleet that makes a cell of GoEmotions by DP-SGD."""
    with TIMINGS.open(encoding="utf-8", newline="") as file:
        return median(
            float(row["seconds"])
            for row in csv.DictReader(file)
            if row["spec"] == "goemotions-dpsgd" and int(row["releases"]) == CELL
        )


def stages(costs: dict[str, Any], fleet: float) -> list[Stage]:
    """Return the stages of the audit, from what was measured."""
    cells = RELEASES // CELL
    looked, attacked = costs["observations"], costs["prior attacks"]
    scale = RECORDS / costs["shape"]["records"]
    made = costs["releases"]
    measured = [costs["measurements"], costs["measurements of prior attacks"]]
    return [
        Stage(
            "releases",
            cells,
            fleet,
            made["bytes_each"] * scale * CELL,
            2 * CELL,
            0,
            gpu=True,
        ),
        Stage(
            "observations",
            RELEASES,
            looked["cpu_seconds_each"] * scale,
            looked["bytes_each"],
            looked["objects_each"],
            1,
        ),
        Stage(
            "prior attacks",
            RELEASES,
            attacked["cpu_seconds_each"] * scale,
            attacked["bytes_each"],
            attacked["objects_each"],
            2,
        ),
        Stage(
            "measurements",
            cells,
            sum(one["cpu_seconds_each"] for one in measured),
            sum(one["bytes_each"] for one in measured),
            sum(one["objects_each"] for one in measured),
            CELL * (1 + looked["objects_each"] + attacked["objects_each"]),
        ),
    ]


def simulate(stage: Stage, places: int, pace: float, rng: random.Random) -> Outcome:
    """Do the units of a stage on `places` cores or GPUs; `pace` units a second are handed out.

    Times vary by a fifth; a place is lost after a random time, with the unit that it has.
    """
    seconds = stage.seconds + REQUEST_SECONDS * (stage.puts + stage.gets)
    ends = [_taken(rng) for _ in range(places)]
    free = [(0.0, place) for place in range(places)]
    leader = busy = waited = finished = 0.0
    lost, waiting = 0, stage.units
    while waiting:
        at, place = heapq.heappop(free)
        leader = max(leader + 1 / pace, at)  # handed out one after another
        waited += leader - at
        took = seconds * rng.uniform(0.8, 1.2)
        if leader + took > ends[place]:  # the machine goes first: another comes a little later
            lost += 1
            back = max(ends[place], leader) + 120
            ends[place] = back + _taken(rng)
            heapq.heappush(free, (back, place))
            continue
        waiting -= 1
        busy += took
        finished = max(finished, leader + took)
        heapq.heappush(free, (leader + took, place))
    return Outcome(
        stage.title, stage.units, finished / 3600, busy / (places * finished), lost, waited / 3600
    )


def _taken(rng: random.Random) -> float:
    return rng.expovariate(1 / (SPOT_HOURS * 3600))


def plans(all_stages: list[Stage], pace: float) -> Iterator[dict[str, Any]]:
    """Yield what clusters of several sizes take, with time and money."""
    for cores, gpus in ((256, 8), (1024, 32)):
        rng = random.Random(cores)
        done = [simulate(stage, gpus if stage.gpu else cores, pace, rng) for stage in all_stages]
        puts = sum(stage.puts * stage.units for stage in all_stages)
        gets = sum(stage.gets * stage.units for stage in all_stages)
        gigabytes = sum(stage.bytes * stage.units for stage in all_stages) / 1e9
        gpu_hours = sum(o.hours * gpus for o, s in zip(done, all_stages, strict=True) if s.gpu)
        cpu_hours = sum(o.hours * cores for o, s in zip(done, all_stages, strict=True) if not s.gpu)
        money = {
            "gpus": gpu_hours * PRICES["gpu_hour"],
            "cpus": cpu_hours * PRICES["cpu_hour"],
            "requests": puts / 1000 * PRICES["put_1000"] + gets / 1000 * PRICES["get_1000"],
            "a_month_of_storage": gigabytes * PRICES["gb_month"],
        }
        yield {
            "cores": cores,
            "gpus": gpus,
            "hours": round(sum(outcome.hours for outcome in done), 1),
            "stages": [
                {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(o).items()}
                for o in done
            ],
            "objects_million": round(puts / 1e6, 1),
            "gigabytes": round(gigabytes, 1),
            "dollars": {name: round(value) for name, value in money.items()},
        }


def main() -> None:
    kept = json.loads((RESULTS / "ray-2026-11-16.json").read_text(encoding="utf-8"))
    pace = kept["tiny"]["units_per_second"]
    found = {
        "releases": RELEASES,
        "records_each": RECORDS,
        "units_per_second": pace,
        "prices": PRICES,
        "plans": list(plans(stages(kept["costs"], seconds_of_a_cell()), pace)),
    }
    print(json.dumps(found, indent=1))
    path = RESULTS / "scale-simulation-2026-11-16.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
