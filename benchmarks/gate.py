"""The recommended gate (docs/ci.md) on short texts: how often it stops releases that know nobody.

    python benchmarks/gate.py FILE [--releases 20]

FILE: texts as JSON Lines, gzipped, such as goemotions. Each release has 1,000 texts; 1,000 members
and 1,000 held-out records are drawn with it. Three kinds: `independent` of both; `copied`: 2% of
the members stand in it word for word; `reworded`: 5% of them do with their order changed and every
fourth word replaced by a similar one. The whole `synthleak.check` runs, and the gate is applied.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from check_level import RESULTS, commit, paraphraser
from names import check
from synthleak.audit.gate import RECOMMENDED, failing, parse_gate
from synthleak.core.seeds import stream

SIDE = 1000
KINDS = {"independent": 0.0, "copied": 0.02, "reworded": 0.05}


def stopped(texts: list[str], kind: str, draw: int, reword: Callable[[str, Any], str]) -> bool:
    """Say whether the gate stops a release.

    Args:
        texts: The corpus, repeated texts too: that is what short texts do.
        kind: What the release has of its members.
        draw: Which draw of members, holdout and release.
        reword: What changes a text, with a generator of random numbers.
    """
    order, rng = random.Random(draw).sample(texts, 3 * SIDE), stream("gate", kind, draw)
    members, holdout, release = (order[start : start + SIDE] for start in range(0, 3 * SIDE, SIDE))
    planted = members[: round(KINDS[kind] * SIDE)]
    if kind == "reworded":
        planted = [reword(text, rng) for text in planted]
    audit = check(members, holdout, [*planted, *release[len(planted) :]])
    return bool(failing(parse_gate(RECOMMENDED), audit.cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--releases", type=int, default=20)
    asked = parser.parse_args()
    began = time.perf_counter()
    with gzip.open(asked.file, "rt", encoding="utf-8") as file:
        texts = [json.loads(line)["text"] for line in file]
    reword = paraphraser(texts, 0.25)
    found: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for draw in range(asked.releases):
        for kind, draws in found.items():
            if stopped(texts, kind, draw, reword):
                draws.append(draw)
        print(draw, {kind: len(draws) for kind, draws in found.items()}, flush=True)
    result = {
        "corpus": asked.file.name.partition(".")[0],
        "gate": RECOMMENDED,
        "releases of each kind": asked.releases,
        "stopped": {kind: len(draws) for kind, draws in found.items()},
        "draws stopped": found,
        "seconds": round(time.perf_counter() - began),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    path = RESULTS / f"gate-{result['corpus']}-{result['date']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
