"""Time and memory of reading, encoding and pooling 100,000 records of 30 words.

The bound is 2 minutes and 3 GiB on 2 cores, for the default encoder and the slowest rule (LOF
compares every pair of records). The records are two messages of the demo corpus joined and cut.

    python benchmarks/corpus.py [--records 100000] [--words 30]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from synthleak.core.runtime import available_cores
from synthleak.core.store import MemoryStore
from synthleak.corpus.corpus import Corpus, assemble, readers
from synthleak.corpus.readers.demo import write_demo
from synthleak.encoders.encoder import encode_once, encoders
from synthleak.pools.pool import Pool
from synthleak.pools.selection import PoolOrder, rules, select_all

SECONDS, GIB = 120.0, 3.0
POOLS: list[dict[str, Any]] = [
    {"name": "outlier", "rule": "outlier", "percentile": 99, "lof": 10},
    {"name": "rare", "rule": "rare", "max_frequency": 10},
    {"name": "random", "rule": "random", "match": "outlier", "draws": 3},
]
T = TypeVar("T")


def write_corpus(path: Path, records: int, words: int) -> None:
    """Write records of exactly this many words, all different."""
    heads = list(write_demo(records, seed=1))
    tails = write_demo(records, seed=2)
    with path.open("w", encoding="utf-8") as file:
        for head, tail in zip(heads, tails, strict=True):
            text = " ".join(f"{head.text} {tail.text} {head.text}".split()[:words])
            row = {"id": head.id, "text": text, "labels": head.labels, **head.meta}
            file.write(json.dumps(row) + "\n")


def pool_all(corpus: Corpus, store: MemoryStore, vectors: Callable[[], Any]) -> dict[str, Pool]:
    """Select every pool as an audit does."""
    orders = []
    for position, settings in enumerate(POOLS):
        rest = {key: value for key, value in settings.items() if key not in ("name", "rule")}
        rule = rules.build(settings["rule"], rest, key="rule", where=("pool", position))
        orders.append(PoolOrder(settings["name"], rule, f"pool[{position}]"))
    return select_all(orders, corpus, vectors, {}, auxiliary=0.5, seed=1, store=store)


def measure(records: int, words: int) -> dict[str, Any]:
    """Time each stage, and measure the memory of all."""
    seconds: dict[str, float] = {}
    cpu: dict[str, float] = {}

    def timed(stage: str, work: Callable[[], T]) -> T:
        start, busy = time.perf_counter(), time.process_time()
        made = work()
        seconds[stage] = round(time.perf_counter() - start, 2)
        cpu[stage] = round(time.process_time() - busy, 2)
        return made

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        write_corpus(path, records, words)
        reader = readers.build("jsonl", {"path": str(path)}, key="reader", where=("corpus",))
        corpus = timed("read", lambda: assemble(reader))
    store = MemoryStore()
    encoder = encoders.build("static", {}, key="kind", where=("encoders",))
    texts = [record.text for record in corpus.records]
    vectors = timed("encode", lambda: encode_once(encoder, texts, store))
    pools = timed("pool", lambda: pool_all(corpus, store, lambda: vectors))
    return {
        "records": len(corpus),
        "words": words,
        "seconds": seconds,
        "total_seconds": round(sum(seconds.values()), 2),
        "cpu_seconds": cpu,
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "pools": {name: len(pool.targets) for name, pool in pools.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--words", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    found = measure(options.records, options.words)
    found |= {
        "bound": {"seconds": SECONDS, "gib": GIB},
        "machine": {"cores": available_cores(), "load": os.getloadavg()[0]},
        "python": platform.python_version(),
    }
    for stage, value in found["seconds"].items():
        print(f"{stage:>8} {value:8.1f} s   {found['cpu_seconds'][stage]:.1f} s of CPU")
    print(
        f"   total {found['total_seconds']:8.1f} s   {found['total_seconds'] / SECONDS:.2f} of it"
    )
    print(f"  memory {found['peak_gib']:8.2f} GiB {found['peak_gib'] / GIB:.2f} of it")
    day = datetime.now(UTC).date().isoformat()
    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / f"corpus-{day}.json"
    target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
