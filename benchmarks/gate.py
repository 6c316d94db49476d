"""The recommended gate (docs/ci.md) on short texts: how often it stops releases that know nobody.

    OMP_NUM_THREADS=1 python benchmarks/gate.py FILE [--releases 20] [--first 0] [--workers 1]

FILE: texts as JSON Lines, gzipped, such as goemotions. Each release has 1,000 texts; 1,000 members
and 1,000 held-out records are drawn with it. Three kinds: `independent` of both; `copied`: 2% of
the members stand in it word for word; `reworded`: 5% of them do with their order changed and every
fourth word replaced by a similar one. The whole `synthleak.check` runs. What a gate may ask for is
kept of every check, so that other gates can be read off the same run. A run goes on where the FILE
of --out ends.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from itertools import product, repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from check_level import RESULTS, commit, paraphraser
from names import check
from synthleak.audit.gate import RECOMMENDED, failing, parse_gate
from synthleak.core.seeds import stream

SIDE = 1000
KINDS = {"independent": 0.0, "copied": 0.02, "reworded": 0.05}
GATES = (RECOMMENDED, RECOMMENDED.replace("p_holm <= 0.01", "leak_found"))
COLUMNS = ("p_holm", "copied_p", "disclosed_p", "claim_p_holm")


def texts_of(file: Path) -> list[str]:
    """Read a corpus, repeated texts too: that is what short texts do."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def checked(file: Path, kind: str, draw: int) -> dict[str, Any]:
    """Check one release.

    Args:
        file: The corpus.
        kind: What the release has of its members.
        draw: Which draw of members, holdout and release.

    Returns:
        What a gate may ask for, and the gates that stop the release.
    """
    texts = texts_of(file)
    order, rng = random.Random(draw).sample(texts, 3 * SIDE), stream("gate", kind, draw)
    members, holdout, release = (order[start : start + SIDE] for start in range(0, 3 * SIDE, SIDE))
    planted = members[: round(KINDS[kind] * SIDE)]
    if kind == "reworded":
        reword = paraphraser(texts, 0.25)
        planted = [reword(text, rng) for text in planted]
    (row,) = check(members, holdout, [*planted, *release[len(planted) :]]).cells
    return {
        "kind": kind,
        "draw": draw,
        **{column: getattr(row, column) for column in COLUMNS},
        "stopped by": [gate for gate in GATES if failing(parse_gate(gate), [row])],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--releases", type=int, default=20, help="of each kind")
    parser.add_argument("--first", type=int, default=0, help="the first draw")
    parser.add_argument("--workers", type=int, default=1, help="checks at a time")
    parser.add_argument("--out", type=Path, help="by default named after corpus and day")
    asked = parser.parse_args()
    began = time.perf_counter()
    draws = range(asked.first, asked.first + asked.releases)
    result: dict[str, Any] = {
        "corpus": asked.file.name.partition(".")[0],
        "releases of each kind": asked.releases,
        "draws": [draws[0], draws[-1]],
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "workers": asked.workers,
    }
    path = asked.out or RESULTS / f"gate-{result['corpus']}-{result['date']}.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    checks, before = kept.get("checks", []), kept.get("seconds", 0)
    done = {(one["kind"], one["draw"]) for one in checks}
    asked_for = [task for task in product(KINDS, draws) if task not in done]
    kinds, numbers = [kind for kind, _ in asked_for], [draw for _, draw in asked_for]
    with ProcessPoolExecutor(asked.workers, mp_context=get_context("spawn")) as workers:
        for one in workers.map(checked, repeat(asked.file), kinds, numbers):
            checks.append(one)
            print(one, flush=True)
            result["checks"] = checks
            result["stopped"] = {
                gate: dict(Counter(one["kind"] for one in checks if gate in one["stopped by"]))
                for gate in GATES
            }
            result["seconds"] = before + round(time.perf_counter() - began)
            path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
