"""How an audit's CPU time grows with instances, corpus, private and synthetic records, pool, words.

Whole audits on one core, from one size (`BASE`) along one axis at a time. A log-log slope of 1 is
linear; below 1, a fixed part (the accountant, the redraws of a cell, the report) weighs in. The
slope over the last doubling has less of that, and so have the slopes of single stages.

    python benchmarks/growth.py            # about 6 minutes; writes results/growth-DATE.json
    python benchmarks/growth.py --only pool text_length
    python benchmarks/growth.py --tiny     # two small sizes an axis, about a minute; writes nothing
"""

from __future__ import annotations

import argparse
import io
import json
import platform
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from _machine import processor
from _stages import StageTimes
from check_level import commit
from synthleak import Runtime, parse_spec, run
from synthleak.corpus.readers.demo import Demo

RESULTS = Path(__file__).parent / "results"
SHOWN = 0.5
"""Seconds from which a stage's slope is shown: a shorter one is mostly its fixed part."""


@dataclass(frozen=True)
class Size:
    """What an audit's time may depend on."""

    instances: int
    corpus: int
    private: int
    synthetic: int
    pool: int
    text_length: int  # messages of the demo that make one record


BASE = Size(instances=24, corpus=2000, private=200, synthetic=200, pool=40, text_length=1)
TINY = Size(instances=4, corpus=500, private=50, synthetic=50, pool=20, text_length=1)
DOUBLINGS = {
    "instances": 3,
    "corpus": 3,
    "private": 2,
    "synthetic": 3,
    "pool": 2,
    "text_length": 3,
}


@dataclass(frozen=True)
class Cost:
    """CPU seconds of an audit, and of its stages; `words` is the mean of its corpus."""

    cpu: float
    stages: dict[str, float]
    words: float


def records(size: Size) -> list[dict[str, Any]]:
    """Return invented records whose texts are messages of the demo, joined."""
    made = list(Demo(size=size.corpus * size.text_length).read())
    parts = [made[i : i + size.text_length] for i in range(0, len(made), size.text_length)]
    return [
        {"id": part[0].id, "text": " ".join(r.text for r in part), "labels": list(part[0].labels)}
        for part in parts
    ]


@cache
def cost(size: Size) -> Cost:
    """Run an audit of this size."""
    rows = records(size)
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus.jsonl"
        corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        spec = parse_spec(
            {
                "corpus": {"reader": "jsonl", "path": str(corpus)},
                "pool": [
                    {"name": "outlier", "rule": "outlier", "percentile": 90, "size": size.pool}
                ],
                "game": {
                    "instances": size.instances,
                    "records": size.private,
                    "release_size": size.synthetic,
                },
                "generator": [
                    {"kind": "ngram", "epsilon": [4], "max_words": 60 * size.text_length}
                ],
            }
        )
        watch = StageTimes(io.StringIO(), time.process_time)
        start = time.process_time()
        with threadpool_limits(1):
            run(spec, Path(folder) / "run", runtime=Runtime(workers=1), progress=watch)
        spent = time.process_time() - start
    words = float(np.mean([len(row["text"].split()) for row in rows]))
    stages = {**watch.seconds, "other": spent - sum(watch.seconds.values())}
    return Cost(spent, stages, words)


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the exponent of growth: of a straight line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def along(axis: str, sizes: Sequence[float], costs: Sequence[Cost]) -> dict[str, Any]:
    """Return the slopes along an axis, in total, over the last doubling and of each stage."""
    totals = [found.cpu for found in costs]
    shown = [name for name, took in costs[-1].stages.items() if took >= SHOWN]
    return {
        "axis": axis,
        "sizes": list(sizes),
        "cpu_seconds": totals,
        "slope": slope(sizes, totals),
        "slope_last": slope(sizes[-2:], totals[-2:]),
        "stage_slopes_last": {
            name: slope(sizes[-2:], [max(c.stages.get(name, 0.0), 1e-3) for c in costs[-2:]])
            for name in shown
        },
        "stages": [found.stages for found in costs],
    }


def measure(axis: str, base: Size, doublings: int) -> dict[str, Any]:
    """Run audits that double along an axis."""
    sizes = [replace(base, **{axis: getattr(base, axis) * 2**k}) for k in range(doublings + 1)]
    costs = [cost(size) for size in sizes]
    length = axis == "text_length"
    places = [
        c.words if length else float(getattr(s, axis)) for s, c in zip(sizes, costs, strict=True)
    ]
    return along(axis, places, costs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--only", nargs="+", choices=[*DOUBLINGS], default=[*DOUBLINGS])
    options = parser.parse_args()
    base = TINY if options.tiny else BASE
    cost(replace(TINY, instances=2))  # imports and the accountant's tables are paid for once
    found: dict[str, Any] = {}
    for axis in options.only:
        row = found[axis] = measure(axis, base, 1 if options.tiny else DOUBLINGS[axis])
        pairs = zip(row["sizes"], row["cpu_seconds"], strict=True)
        stages = row["stage_slopes_last"].items()
        print(
            f"{axis}: slope {row['slope']:.2f}, last doubling {row['slope_last']:.2f} (",
            ", ".join(f"{name} {value:.2f}" for name, value in stages),
            "); ",
            ", ".join(f"{size:.4g}: {seconds:.1f} s" for size, seconds in pairs),
            sep="",
            flush=True,
        )
    if options.tiny:
        return
    result = {
        "base": asdict(base),
        "axes": found,
        "seconds": "of the processor, one thread, one worker",
        "processor": processor(),
        "python": platform.python_version(),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
    }
    path = RESULTS / f"growth-{result['date']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
