"""How the cost of an audit grows with instances and with the corpus: it should be linearly.

Runs whole audits on one core and prints the log-log slope: 1 is linear, below 1 is linear with a
fixed part (imports, calibration, the redraws of a cell).
"""

from __future__ import annotations

import json
import platform
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from synthleak import Runtime, parse_spec, run

RESULTS = Path(__file__).parent / "results"


def seconds(instances: int, size: int, records: int) -> float:
    spec = parse_spec(
        {
            "corpus": {"reader": "demo", "size": size},
            "pool": [{"name": "outlier", "rule": "outlier", "percentile": 90, "size": 40}],
            "game": {"instances": instances, "records": records},
            "generator": [{"kind": "ngram", "epsilon": [float("inf"), 4]}],
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        run(spec, Path(folder) / "run", runtime=Runtime(workers=1))
        return time.perf_counter() - start


def slope(sizes: list[int], times: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def main() -> None:
    seconds(4, 500, 50)  # imports and calibration are paid for once
    instances = [24, 50, 100, 200]
    by_instances = [seconds(n, 1200, 200) for n in instances]
    # The corpus grows with everything in proportion: private sets and releases too.
    sizes = [1000, 2000, 4000]
    by_size = [seconds(20, n, n // 8) for n in sizes]
    result: dict[str, Any] = {
        "slope_instances": slope(instances, by_instances),
        "slope_corpus": slope(sizes, by_size),
        "instances": dict(zip(map(str, instances), by_instances, strict=True)),
        "corpus": dict(zip(map(str, sizes), by_size, strict=True)),
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "cores": 1,
    }
    print(f"slope in instances {result['slope_instances']:.2f}: {result['instances']}")
    print(f"slope in corpus size {result['slope_corpus']:.2f}: {result['corpus']}")
    path = RESULTS / f"growth-{result['date']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
