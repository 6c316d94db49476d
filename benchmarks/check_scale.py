"""`synthleak check` on large files: time, and memory of all its processes together.

    python benchmarks/check_scale.py [--records 10000] [--synthetic 10000] [--workers 2]

Records are invented messages of 30 words. The bounds on 2 cores: 10,000 members, holdout and
synthetic records within 4 minutes and 4 GiB; 100,000 synthetic records within 4 minutes and 5 GiB,
1,000,000 within 45 minutes and 12 GiB.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from check_level import commit
from synthleak.corpus.readers.demo import Demo

RESULTS = Path(__file__).parent / "results"
WORDS = 30
COPIED = 0.05


def texts(count: int, seed: int) -> list[str]:
    """Return invented texts of 30 words."""
    words: list[str] = []
    while len(words) < WORDS * count:
        for record in Demo(size=20_000, seed=seed).read():
            words += record.text.split()
        seed += 1
    return [" ".join(words[WORDS * place : WORDS * (place + 1)]) for place in range(count)]


def write(path: Path, rows: list[str]) -> None:
    path.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows), encoding="utf-8")


def memory(root: int) -> int:
    """Return the proportional memory of a process and its descendants, in bytes."""
    family, children = [root], {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(status.parent.name))
    for process in family:
        family += children.get(process, [])
    total = 0
    for process in family:
        try:
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in rollup.splitlines() if "Pss:" in line[:4])
    return total * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--synthetic", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    made = texts(2 * asked.records + asked.synthetic, seed=1)
    members, holdout = made[: asked.records], made[asked.records : 2 * asked.records]
    release = made[2 * asked.records :]
    copies = members[: int(COPIED * asked.records)]
    release[: len(copies)] = copies
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, rows in (("members", members), ("holdout", holdout), ("release", release)):
            write(folder / f"{title}.jsonl", rows)
        command = [sys.executable, "-m", "synthleak", "check", "--random-split"]
        for title in ("members", "holdout", "release"):
            command += [f"--{title}", str(folder / f"{title}.jsonl")]
        command += ["--out", str(folder / "run"), "--workers", str(asked.workers)]
        began, peak = time.perf_counter(), 0
        running = subprocess.Popen(command)
        while running.poll() is None:
            peak = max(peak, memory(running.pid))
            time.sleep(0.3)
        took = time.perf_counter() - began
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        if running.returncode:
            sys.exit(running.returncode)
        said = json.loads((folder / "run/results/summary.json").read_text(encoding="utf-8"))
    result: dict[str, Any] = {
        "members": asked.records,
        "holdout": asked.records,
        "synthetic": asked.synthetic,
        "words": WORDS,
        "workers": asked.workers,
        "seconds": round(took, 1),
        "cpu_seconds": round(spent.ru_utime + spent.ru_stime, 1),
        "peak_gib": round(peak / 2**30, 2),
        "neighbours": "of targets exact; of texts among a sample of 4,096",
        "headline": said["headline"],
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_average": [round(x, 1) for x in os.getloadavg()],
    }
    print(json.dumps(result, indent=1))
    RESULTS.mkdir(exist_ok=True)
    day = result["date"]
    path = RESULTS / f"check-scale-{asked.synthetic}-{day}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
