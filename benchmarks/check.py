"""`synthleak check` beside other tools for text: what each finds, and how long it takes.

    python benchmarks/check.py [--corpus FILE] [--repeats 8] [--peers PYTHON]...

The same members, holdout and release go to each, as texts or as vectors of the encoder static.
--peers names a Python that has the other tools (or NAME=PYTHON, once for each): their own functions
run there (`_peers.py`), once per release, for their measure and time. `_definitions.py` computes
each measure by its definition, which is compared with the package's value, and adds the test: each
measure is compared with permuted splits at 5%, as ours is; that is the column `found`. The result
says how a peer without a package was computed, and why.

- SDMetrics: share of synthetic records nearer to a member, on 16 principal components;
- mostlyai-qa: the same in all dimensions and six groups of them, the largest; and its report's way
  with a column of texts, with the share of identical ones;
- NeMo Safe-Synthesizer: the grade of 36 attacks by the distance to the nearest synthetic text, and
  the distance itself;
- DOMIAS: density of the release over that of a reference, on 32 principal components;
- Canary's Echo: log-probability under a bigram model of the release.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from threadpoolctl import threadpool_limits

import _definitions as definitions
from _ask import NAMES, Peer, Row, lay_out, peers_of
from _definitions import Case
from check_level import (
    KNOWN,
    RELEASED,
    SIDE,
    commit,
    corpus_texts,
    ground,
    observe,
    p_values,
    paraphraser,
)
from synthleak.analyses.copies import find_copies
from synthleak.core.seeds import stream
from synthleak.metrics.membership import auc

RESULTS = Path(__file__).parent / "results"


def timed(make: Callable[[], Row]) -> Row:
    began = time.process_time()
    made = make()
    return made | {"cpu_seconds": time.process_time() - began}


def ours(case: Case, made: Any) -> dict[str, Row]:
    """Return our verdict, and the test of our list of copies."""
    copies: Row = {}

    def verdict() -> Row:
        evidence = observe(made, [case.release, case.reference])
        names = [proxy.name for proxy in evidence.proxies]
        overlap = evidence.values[0, :, names.index("jaccard_max")]
        places, rng = np.arange(len(case.member)), stream("peers", "copies")
        found = find_copies(case.records, case.release, overlap, case.member, places, rng)
        copies.update(figure=sum(found.verbatim) + sum(found.near), p=found.p_all)
        return {"p": p_values(evidence, [case.member], ("peers",))[0]}

    checked = timed(verdict)
    return {"synthleak check": checked, "synthleak check, its list of copies": copies}


def peer_rows(case: Case, answers: dict[str, Row | None]) -> dict[str, Row]:
    """Return each peer's measure by definition, tested, beside the value of its package."""
    member, rng = case.member, stream("rivals", len(case.release))
    own, theirs, _ = case.vectors
    mostly, domias = answers.get("mostlyai") or {}, answers.get("domias")
    groups = [slice(None), *mostly.get("groups", ())]
    cosine = definitions.cosine_distance(case)

    def records(score: Callable[[Case], np.ndarray], package: Row | None) -> Row:
        """Test the package's own scores where it has any; how do ours rank the records?"""
        values = score(case)
        if package is None:
            return definitions.by_records(values, member, rng)
        scores = np.empty(len(member))
        scores[np.argsort(~member, kind="stable")] = package["scores"]
        made = definitions.by_records(scores, member, rng)
        definition = float(auc(values[member], values[~member]))
        return made | {
            "by_definition": definition,
            "rank_correlation": spearmanr(scores, values).statistic,
        }

    made = {
        "SDMetrics": timed(lambda: definitions.ranged(case, rng)),
        "mostlyai-qa on our vectors": timed(
            lambda: definitions.closest([(theirs[:, g], own[:, g]) for g in groups], member, rng)
        ),
        "NeMo, grade": timed(lambda: definitions.graded(cosine, member, rng)),
        "NeMo, distance": timed(lambda: definitions.by_records(-cosine, member, rng)),
        "DOMIAS": timed(lambda: records(definitions.density_ratio, domias)),
        "Canary's n-gram": timed(
            lambda: definitions.by_records(definitions.bigrams(case), member, rng)
        ),
    }
    if canary := answers.get("canary"):
        again = records(definitions.bigrams, canary)
        made["Canary's n-gram, model of NLTK"] = again | {"package": canary}
    if mostly:
        released, *sides = (np.array(part) for part in mostly["report_vectors"])
        placed = np.empty((len(member), released.shape[1]))
        placed[np.argsort(~member, kind="stable")] = np.vstack(sides)
        report = mostly["report"]
        share = timed(lambda: definitions.closest([(released, placed)], member, rng))
        same = timed(lambda: definitions.identical(released, placed, member, rng))
        made["mostlyai-qa, its report"] = share | {"package": report}
        figure = {"figure": report["identical_to_members"]}
        made["mostlyai-qa, its report's identical texts"] = same | {"package": report | figure}
    beside = {"SDMetrics": "sdmetrics", "mostlyai-qa on our vectors": "mostlyai"}
    beside |= {"NeMo, grade": "nemo", "DOMIAS": "domias"}
    for row, name in beside.items():
        made[row]["package"] = answers.get(name)
    return made


def summary(rows: Sequence[Row]) -> Row:
    """Average over releases; `found` counts p ≤ 0.05, `package` is what the package itself says."""
    made: Row = {"found": sum(row["p"] <= 0.05 for row in rows), "of": len(rows)}
    for key in ("figure", "cpu_seconds", "rank_correlation"):
        if key in rows[0]:
            made[key] = mean(row[key] for row in rows)
    if package := [row["package"] for row in rows if row.get("package")]:
        made["package_cpu_seconds"] = mean(answer["cpu_seconds"] for answer in package)
        figures = [row["package"].get("figure", row["figure"]) for row in rows]
        defined = [row.get("by_definition", row["figure"]) for row in rows]
        made["package_figures"] = [round(figure, 4) for figure in figures]
        made["largest_difference"] = round(float(np.abs(np.subtract(figures, defined)).max()), 6)
        if "grade" in package[0]:
            made["package_grades"] = [answer["grade"] for answer in package]
    return made


def mean(values: Iterable[float]) -> float:
    return round(float(np.mean(list(values))), 3)


def measure(texts: Sequence[str], repeats: int, peers: dict[str, Peer]) -> dict[str, Any]:
    situations: dict[str, tuple[int, Callable[[str, Any], str]]] = {
        "independent": (0, lambda text, rng: text),
        "5% copied": (50, lambda text, rng: text),
        "5% paraphrased": (50, paraphraser(texts, 0.25)),
        "1% copied": (10, lambda text, rng: text),
    }
    table: dict[str, Any] = {}
    for title, (copied, how) in situations.items():
        found: dict[str, list[Row]] = {}
        for draw in range(repeats):
            made, rng = ground(texts, 5000 + draw), stream("peers", title, draw)
            member = rng.permutation(np.arange(2 * SIDE) < SIDE)
            planted = rng.permutation(np.flatnonzero(member))[:copied]
            copies = [how(made.records[place], rng) for place in planted]
            release = [*copies, *made.others[copied:]]
            case = Case(made.records, release, made.reference, member)
            with tempfile.TemporaryDirectory() as name:
                lay_out(case, Path(name))
                answers = {peer: own.ask(Path(name)) for peer, own in peers.items()}
            for row, result in (ours(case, made) | peer_rows(case, answers)).items():
                found.setdefault(row, []).append(result)
            print(f"{title}: {draw + 1} of {repeats}", flush=True)
        table[title] = {name: summary(rows) for name, rows in found.items()}
        print(json.dumps(table[title], indent=1), flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, help="JSON Lines with a field text")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--peers", action="append", default=[], help="[NAME=]PYTHON that has them")
    asked, started = parser.parse_args(), commit()
    peers = peers_of(asked.peers)
    missing = dict.fromkeys(NAMES, "by its definition, because no Python was named that has it")
    sources = missing | {name: peer.source for name, peer in peers.items()}
    print(json.dumps(sources, indent=1), flush=True)
    with threadpool_limits(limits=1):
        table = measure(corpus_texts(asked.corpus), asked.repeats, peers)
    result = {
        "corpus": asked.corpus.name if asked.corpus else "demo",
        "members": SIDE,
        "holdout": SIDE,
        "release": RELEASED,
        "reference": KNOWN,
        "repeats": asked.repeats,
        "peers": sources,
        "import_cpu_seconds": {
            name: peer.about["import_cpu_seconds"] for name, peer in peers.items() if peer.about
        },
        "situations": table,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": started,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"check-peers-{result['date']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
