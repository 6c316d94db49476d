"""`synthleak check` beside what people use on text otherwise: who finds what, and in what time.

    python benchmarks/check.py [--corpus FILE] [--repeats 8] [--peers PYTHON]

The same members, holdout and release go to each. SDMetrics runs from its package where the Python
that --peers names has it (on 16 principal components: it takes numbers, no text); mostlyai-qa and
NeMo Safe-Synthesizer need torch and models at import and Canary's Echo a cloud, so that these and
DOMIAS are computed by their definitions, on the vectors of the encoder static:

- distance to closest record (SDMetrics, mostlyai-qa): share of synthetic records that lie nearer to
  a member than to any held-out record;
- 1-NN cosine (NeMo Safe-Synthesizer): a record is called a member if its nearest synthetic record
  is nearer than a threshold; 36 attacks are graded by precision and accuracy, 1 (poor) to 3;
- DOMIAS: density of the release over that of a reference, kernel estimate on 32 principal axes;
- Canary's Echo: log-probability under a bigram model of the release.

None of them tests: grades and shares come without a null. To compare like with like, each figure is
also tested at 5% against permuted splits, as ours is; that is the column `found`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

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
from synthleak.encoders.shelf.static import Static
from synthleak.evidence.kernel import log_densities, principal
from synthleak.evidence.observation import Observation, Targets
from synthleak.evidence.whole_model import ngram_logprob
from synthleak.metrics.nulls import p_value
from synthleak.metrics.roc import auc
from synthleak.seeds import stream

RESULTS = Path(__file__).parent / "results"
PERMUTATIONS = 499
SDMETRICS = """
import sys, time, json
import numpy as np, pandas as pd
from sdmetrics.single_table import DCROverfittingProtection
data = np.load(sys.argv[1])
frames = [pd.DataFrame(data[k], columns=[f"c{i}" for i in range(data[k].shape[1])]) for k in "msh"]
columns = {name: {"sdtype": "numerical"} for name in frames[0]}
metadata = {"tables": {"t": {"columns": columns}}}
began = time.perf_counter()
tables = [{"t": frame} for frame in frames]
made = DCROverfittingProtection.compute_breakdown(*tables[:2], frames[2], metadata, "t")
made["seconds"] = time.perf_counter() - began
print(json.dumps(made))
"""


def by_records(scores: np.ndarray, member: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Test a score per record: AUC of members against holdout, permuted."""
    ranks = scores.argsort().argsort().astype(np.float64)

    def value(inside: np.ndarray) -> float:
        return float(ranks[inside].mean())

    null = np.array([value(rng.permutation(member)) for _ in range(PERMUTATIONS)])
    return {
        "figure": float(auc(scores[member], scores[~member])),
        "p": p_value(value(member), null),
    }


def closest(distance: np.ndarray, member: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Test the share of synthetic records that are nearer to a member; `distance[text, record]`."""

    def share(inside: np.ndarray) -> float:
        near, far = distance[:, inside].min(axis=1), distance[:, ~inside].min(axis=1)
        return float((near < far).mean() + (near == far).mean() / 2)

    null = np.array([share(rng.permutation(member)) for _ in range(PERMUTATIONS)])
    return {"figure": share(member), "p": p_value(share(member), null)}


def grade(distance: np.ndarray, member: np.ndarray, rng: np.random.Generator) -> float:
    """Return NeMo's mean grade of 36 attacks: 4 thresholds on 9 shares of the records."""
    order = rng.permutation(len(member))
    grades = []
    for threshold in (0.4, 0.3, 0.2, 0.1):
        for share in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
            some = order[: int(len(order) * share)]
            called, truth = distance[some] < threshold, member[some]
            precision = round(float(truth[called].mean()) if called.any() else 0.0, 1)
            accuracy = round(float((called == truth).mean()), 1)
            grades.append(_grade(precision, accuracy))
    return round(float(np.mean(grades)), 2)


def _grade(precision: float, accuracy: float) -> float:
    low, high = min(precision, accuracy), max(precision, accuracy)
    if high <= 0.5:
        return 3.0
    if high <= 0.8:
        return 2.5 if low <= 0.5 else 2.0
    return 1.5 if low <= 0.8 else 1.0


def timed(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    began = time.process_time()
    made = make()
    return made | {"cpu_seconds": time.process_time() - began}


def rivals(
    records: Sequence[str], release: Sequence[str], reference: Sequence[str], member: np.ndarray
) -> dict[str, dict[str, Any]]:
    encode, rng = Static().encode, stream("rivals", len(release))
    own, theirs, known = (encode(list(t)).astype(np.float64) for t in (records, release, reference))
    unit = [v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-9) for v in (own, theirs)]
    cosine = 1 - (unit[0] @ unit[1].T).max(axis=1)

    def domias() -> dict[str, Any]:
        basis = principal(known, 32)
        parts = [basis.reduce(v) for v in (theirs, known, own)]
        ratio = log_densities(parts[0], parts[2])[:, 1] - log_densities(parts[1], parts[2])[:, 1]
        return by_records(ratio, member, rng)

    def canary() -> dict[str, Any]:
        log_p = ngram_logprob(Targets(records, encode), Observation(release, encode), 2)
        return by_records(log_p, member, rng)

    return {
        "distance to closest record": timed(lambda: closest(cdist(theirs, own), member, rng)),
        "1-NN cosine": timed(
            lambda: by_records(-cosine, member, rng) | {"grade": grade(cosine, member, rng)}
        ),
        "DOMIAS": timed(domias),
        "Canary's n-gram": timed(canary),
    }


def sdmetrics(python: str, records: Sequence[str], release: Sequence[str], member: Any) -> Any:
    """Run SDMetrics' own DCR score on principal components, in the Python that has it."""
    encode = Static().encode
    own, theirs = encode(list(records)), encode(list(release))
    basis = principal(own.astype(np.float64), 16)
    parts = {"m": own[member], "s": theirs, "h": own[~member]}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "vectors.npz"
        np.savez(path, **{key: basis.reduce(value) for key, value in parts.items()})
        done = subprocess.run(
            [python, "-c", SDMETRICS, str(path)], capture_output=True, text=True, check=False
        )
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()[-200:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, help="JSON Lines with a field text")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--peers", help="a Python that has sdmetrics")
    asked = parser.parse_args()
    texts = corpus_texts(asked.corpus)
    change = paraphraser(texts, 0.25)
    situations: dict[str, tuple[int, Callable[[str, Any], str]]] = {
        "independent": (0, lambda text, rng: text),
        "5% copied": (50, lambda text, rng: text),
        "5% paraphrased": (50, change),
        "1% copied": (10, lambda text, rng: text),
    }
    table: dict[str, Any] = {}
    with threadpool_limits(limits=1):
        for title, (copied, how) in situations.items():
            found: dict[str, list[dict[str, Any]]] = {}
            for draw in range(asked.repeats):
                made, rng = ground(texts, 5000 + draw), stream("peers", title, draw)
                member = rng.permutation(np.arange(2 * SIDE) < SIDE)
                planted = rng.permutation(np.flatnonzero(member))[:copied]
                copies = [how(made.records[place], rng) for place in planted]
                release = [*copies, *made.others[copied:]]

                def ours(made: Any = made, release: Any = release, member: Any = member) -> Any:
                    evidence = observe(made, [release, made.reference])
                    return {"figure": None, "p": p_values(evidence, [member], ("peers",))[0]}

                results = {"synthleak check": timed(ours)}
                results |= rivals(made.records, release, made.reference, member)
                for name, result in results.items():
                    found.setdefault(name, []).append(result)
                if draw == 0 and asked.peers:
                    own = sdmetrics(asked.peers, made.records, release, member)
                    table.setdefault("SDMetrics from its package", {})[title] = own
            table[title] = {name: summary(rows) for name, rows in found.items()}
            print(title, json.dumps(table[title], indent=1), flush=True)
    result = {
        "corpus": asked.corpus.name if asked.corpus else "demo",
        "members": SIDE,
        "holdout": SIDE,
        "release": RELEASED,
        "reference": KNOWN,
        "repeats": asked.repeats,
        "situations": table,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"check-peers-{result['date']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Average over repeats; `found` counts p ≤ 0.05."""
    made: dict[str, Any] = {
        "found": sum(row["p"] <= 0.05 for row in rows),
        "of": len(rows),
        "cpu_seconds": round(float(np.mean([row["cpu_seconds"] for row in rows])), 2),
    }
    for key in ("figure", "grade"):
        if rows[0].get(key) is not None:
            made[key] = round(float(np.mean([row[key] for row in rows])), 3)
    return made


if __name__ == "__main__":
    main()
