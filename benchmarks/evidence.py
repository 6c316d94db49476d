"""One cell of evidence: 108 observations of 500 records, 60 targets, on 2 cores.

The peers are what one would write with the usual packages, pair by pair: rank-bm25, rouge-score,
difflib and sets for the lexical proxies; scikit-learn and scipy, an observation at a time, for the
others. Both sides run here, on as many processes; the peers on a random sample of pairs, since the
whole would take hours. Encoding is no part of either side. A cell's seconds are processor time
divided by two, which is what it takes on two cores that have nothing else to do.

    python benchmarks/evidence.py [--words 20 450] [--observations 108] [--pairs 2000]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import SequenceMatcher
from functools import cache, partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from rank_bm25 import BM25Okapi
from rouge_score.rouge_scorer import RougeScorer
from scipy.spatial.distance import cdist
from scipy.stats import multivariate_normal
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import IsolationForest
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.neighbors import LocalOutlierFactor
from threadpoolctl import threadpool_limits

from synthleak.core.runtime import available_cores
from synthleak.core.seeds import stream
from synthleak.core.text import char_grams, entities, fold, tokens
from synthleak.corpus.readers.demo import write_demo
from synthleak.encoders.encoder import Vectors, encoders
from synthleak.evidence.family import families
from synthleak.evidence.fast.grams import text_grams
from synthleak.evidence.fast.retrieval import retrieve
from synthleak.evidence.fast.words import words
from synthleak.evidence.observation import Observation, Targets
from synthleak.evidence.prior.canary import Canary
from synthleak.evidence.prior.domias import Domias
from synthleak.evidence.proxies.sequence_overlap import common_words
from synthleak.evidence.table import look

WORKERS = 2
RECORDS, TARGETS, RETRIEVED = 500, 60, 50
BOUNDS = {20: {"lexical": 15.0, "seconds": 60.0}, 450: {"lexical": 300.0, "seconds": 240.0}}
GIB = 3.0
PER_QUERY = 20

Measured = dict[str, Any]


@cache
def messages() -> list[str]:
    """The demo corpus, large enough that two long records seldom share a message."""
    return [record.text for record in write_demo(20_000, seed=1)]


@dataclass(frozen=True)
class Cell:
    """Sizes, from which all texts follow."""

    length: int
    targets: int

    def texts(self, *name: int | str) -> list[str]:
        """Write records of exactly this many words, the same for the same name."""
        rng = stream("benchmark", self.length, *name)
        needed = self.length // 8 + 1  # a message has at least 8 words
        picks = rng.integers(len(messages()), size=(RECORDS, needed))
        joined = (" ".join(messages()[i] for i in row) for row in picks)
        return [" ".join(text.split()[: self.length]) for text in joined]

    def asked(self) -> Targets:
        """Return the targets and the auxiliary records."""
        chosen = self.texts("targets")[: self.targets]
        return Targets(chosen, encode, self.texts("auxiliary"))

    def observation(self, number: int) -> Observation:
        """Return new encoded records, every other time with a target among them."""
        texts = self.texts("observation", number)
        if number % 2:
            texts[0] = self.texts("targets")[number % self.targets]
        observation = Observation(texts, encode)
        _ = observation.vectors
        return observation


def encode(texts: Sequence[str]) -> Vectors:
    """Encode with the default encoder."""
    return encoders.build("static", {}, key="kind", where=("encoders",)).encode(texts)


class Clock:
    """Seconds of processor time by name: other load on the machine does not enter."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()

    def time(self, name: str, work: Callable[[], Any]) -> Any:
        """Do the work and add its time to the name."""
        start = time.process_time()
        made = work()
        self.seconds[name] += time.process_time() - start
        return made


@cache
def prepared(cell: Cell) -> Targets:
    """Return the targets of a cell, with what is learned from them once per process."""
    targets, observation = cell.asked(), cell.observation(0)
    for entry in families:
        look(entry.plugin, targets, observation)
    Domias().look(targets, observation, None)
    return targets


def ours(cell: Cell, number: int) -> Measured:
    """Observe with every family; shared structures are timed separately."""
    targets, observation, clock = prepared(cell), cell.observation(number), Clock()
    clock.time("shared: fold, tokens", lambda: (observation.folded, observation.tokens))
    clock.time("shared: numbered words", lambda: words(targets, observation))
    clock.time("shared: retrieval", lambda: retrieve(targets, observation))
    clock.time("shared: named 5-grams", lambda: next(iter(text_grams(targets, observation)), None))
    for entry in families:
        clock.time(entry.name, partial(look, entry.plugin, targets, observation))
    prior = Clock()
    prior.time("canary", lambda: Canary().look(targets, observation, None))
    prior.time("domias", lambda: Domias().look(targets, observation, None))
    return {"seconds": clock.seconds, "prior": prior.seconds, **memory()}


def floor(cell: Cell, number: int) -> Measured:
    """Time the least work: each text read, and each pair compared in compiled code, once."""
    targets, observation, clock = prepared(cell), cell.observation(number), Clock()
    texts, vectors = observation.texts, observation.vectors
    clock.time("fold, tokens", lambda: [(fold(text), tokens(text)) for text in texts])
    clock.time("entities", lambda: [entities(text) for text in texts])
    retrieve(targets, observation)
    clock.time("rapidfuzz", lambda: common_words(targets, observation))
    clock.time("one matrix product", lambda: vectors @ vectors.T)
    return {"seconds": clock.seconds}


def peers(cell: Cell, number: int, pairs: int) -> Measured:
    """Time the peers on one observation: index, queries, pairs, and the embedding proxies."""
    targets, observation, clock = prepared(cell), cell.observation(number), Clock()
    rng, texts = stream("benchmark", "pairs", number), list(observation.texts)
    index = clock.time("rank-bm25 index", lambda: BM25Okapi([tokens(text) for text in texts]))
    scorer, queries = RougeScorer(["rougeL"]), max(1, pairs // PER_QUERY)
    for _ in range(queries):
        target = targets.texts[rng.integers(len(targets))]
        scores = clock.time("rank-bm25 query", partial(index.get_scores, tokens(target)))
        chosen = [texts[i] for i in np.argsort(-scores)[:RETRIEVED]]
        clock.time("bigram model", partial(bigram_model, target, chosen))
        for place in rng.choice(RETRIEVED, PER_QUERY, replace=False):
            pair = target, chosen[place]
            clock.time("rouge-score", partial(scorer.score, *pair))
            clock.time("difflib", partial(longest_match, *pair))
            clock.time("sets", partial(per_pair_sets, *pair))
    clock.time("scikit-learn and scipy", lambda: library_embedding(targets, observation))
    return {"seconds": clock.seconds, "queries": queries, "pairs": PER_QUERY * queries}


def longest_match(target: str, text: str) -> int:
    """Longest common substring with difflib."""
    return SequenceMatcher(None, fold(target), fold(text), autojunk=False).find_longest_match().size


def per_pair_sets(target: str, text: str) -> tuple[float, ...]:
    """Containment, Jaccard, rare phrases (weights apart) and entities, by sets made on the spot."""
    own, theirs = char_grams(target), char_grams(text)
    pairs, others = set(pairwise(tokens(target))), set(pairwise(tokens(text)))
    spans, found = set(entities(target)), set(entities(text))
    return (
        len(own & theirs) / max(len(own), 1),
        len(own & theirs) / max(len(own | theirs), 1),
        len(pairs & others) / max(len(pairs), 1),
        2 * len(spans & found) / max(len(spans) + len(found), 1),
    )


def bigram_model(target: str, chosen: Sequence[str]) -> float:
    """Log p of a target under an add-1 bigram model of its candidates, with counters."""
    padded = [["<s>", *tokens(text), "</s>"] for text in chosen]
    pairs = Counter(pair for row in padded for pair in pairwise(row))
    contexts = Counter(word for row in padded for word in row[:-1])
    own = ["<s>", *tokens(target), "</s>"]
    size = len(set(own).union(*padded))
    logs = [np.log((pairs[pair] + 1) / (contexts[pair[0]] + size)) for pair in pairwise(own)]
    return float(sum(logs))


def library_embedding(targets: Targets, observation: Observation) -> None:
    """The fifteen embedding proxies for all targets at once, by one library call for each need."""
    own, theirs = targets.vectors, observation.vectors
    for table in (cosine_similarity(own, theirs), own @ theirs.T, -cdist(own, theirs)):
        np.sort(table, axis=1)
    np.sort(cosine_similarity(theirs), axis=1)
    cdist(np.unique(theirs, axis=0), theirs)
    fitted = LedoitWolf().fit(theirs)
    multivariate_normal(fitted.location_, fitted.covariance_).logpdf(own)
    cdist(own, theirs, "mahalanobis", VI=np.linalg.inv(fitted.covariance_))
    IsolationForest(random_state=0).fit(theirs).score_samples(own)
    LocalOutlierFactor(n_neighbors=20, novelty=True).fit(theirs).score_samples(own)


def memory() -> Measured:
    """Return the peak memory of this process so far."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"process": os.getpid(), "mib": most}


def alone(task: Callable[[Cell, int], Measured], cell: Cell, number: int) -> Measured:
    """Do a unit as the engine does: with single-threaded linear algebra."""
    with threadpool_limits(limits=1):
        return task(cell, number)


class Workers:
    """Two processes that keep what they derived from the targets."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(WORKERS, mp_context=get_context("fork"))

    def spread(
        self, task: Callable[[Cell, int], Measured], cell: Cell, numbers: Sequence[int]
    ) -> list[Measured]:
        """Do all units."""
        return list(self._pool.map(partial(alone, task, cell), numbers))

    def look(self, cell: Cell, observations: int) -> Measured:
        """Look at all observations; seconds are those of the busy processes, shared by two."""
        found = self.spread(ours, cell, range(observations))
        by_process = {item["process"]: item["mib"] for item in [*found, memory()]}
        return {
            "split": {name: value / WORKERS for name, value in total(found).items()},
            "prior": {name: value / WORKERS for name, value in total(found, "prior").items()},
            "gib": sum(by_process.values()) / 1024,
        }

    def look_as_peers(self, cell: Cell, observations: int, pairs: int) -> Measured:
        """Time the peers on a sample of pairs, and what the whole cell would take them."""
        found = self.spread(partial(peers, pairs=pairs // 4), cell, range(4))
        asked, drawn = (sum(item[key] for item in found) for key in ("queries", "pairs"))
        each = observations * cell.targets
        whole = {
            "rank-bm25 index": observations / len(found),
            "rank-bm25 query": each / asked,
            "bigram model": each / asked,
            "rouge-score": each * RETRIEVED / drawn,
            "difflib": each * RETRIEVED / drawn,
            "sets": each * RETRIEVED / drawn,
            "scikit-learn and scipy": observations / len(found),
        }
        seconds = total(found)
        split = {name: seconds[name] * times / WORKERS for name, times in whole.items()}
        return {"sampled_pairs": drawn, "split": split}


def total(found: Sequence[Measured], key: str = "seconds") -> Counter[str]:
    """Add up seconds by name."""
    return sum((Counter(item[key]) for item in found), Counter())


def lexical(split: dict[str, float]) -> float:
    """Return the seconds of the lexical proxies and of what they share."""
    other = {entry.name for entry in families if entry.plugin.view == "embedding"}
    return sum(
        value for name, value in split.items() if name not in {*other, "scikit-learn and scipy"}
    )


def measure(length: int, observations: int, pairs: int) -> Measured:
    """Measure one length of record: both sides, floor, growth."""
    cell, workers = Cell(length, TARGETS), Workers()
    cells = {count: replace(cell, targets=count) for count in (TARGETS // 4, TARGETS // 2, TARGETS)}
    for smaller in cells.values():
        workers.spread(ours, smaller, range(2 * WORKERS))  # learn the targets first, untimed
    mine = workers.look(cell, observations)
    theirs = workers.look_as_peers(cell, observations, pairs)
    read = total(workers.spread(floor, cell, range(8)))
    parts = (observations // 4, observations // 2)
    whole = sum(mine["split"].values())
    growth = {
        "observations": {
            **{n: sum(workers.look(cell, n)["split"].values()) for n in parts},
            observations: whole,
        },
        "targets": {
            count: sum(workers.look(asked, parts[0])["split"].values())
            for count, asked in cells.items()
        },
    }
    return {
        "words": length,
        "ratio_lexical": lexical(theirs["split"]) / lexical(mine["split"]),
        "ratio_all": sum(theirs["split"].values()) / whole,
        "seconds_lexical": lexical(mine["split"]),
        "seconds_all": whole,
        **mine,
        "floor": {name: value / 8 * observations / WORKERS for name, value in read.items()},
        "growth": growth,
        "peers": theirs,
        "bounds": BOUNDS.get(length),
    }


def show(found: Measured) -> None:
    """Print a measurement, the ratio first."""
    bounds = found["bounds"] or {"lexical": float("nan"), "seconds": float("nan")}
    print(f"\n{found['words']} words a record")
    print(f"  lexical proxies  {found['ratio_lexical']:8.1f} x  (bound {bounds['lexical']:.0f} x)")
    print(f"  all 32           {found['ratio_all']:8.1f} x")
    print(
        f"  a whole cell     {found['seconds_all']:8.1f} s  (aim {bounds['seconds']:.0f} s),"
        f" of which lexical {found['seconds_lexical']:.1f} s"
    )
    print(f"  memory           {found['gib']:8.2f} GiB (bound {GIB:.0f} GiB), all processes")
    print(f"  prior attacks    {sum(found['prior'].values()):8.1f} s  beside it")
    print("  where the time goes:")
    for name, value in sorted(found["split"].items(), key=lambda item: -item[1]):
        print(f"    {name:26}{value:8.2f} s")
    least = sum(found["floor"].values())
    parts = ", ".join(f"{name} {value:.2f}" for name, value in found["floor"].items())
    print(f"  floor            {least:8.1f} s  ({parts})")
    print(f"  the cell takes   {found['seconds_all'] / least:8.1f} x  its floor")
    for axis, points in found["growth"].items():
        line = ", ".join(f"{count}: {value:.2f} s" for count, value in sorted(points.items()))
        print(f"  growth in {axis}: {line}")
    print(f"  peers, whole cell, from {found['peers']['sampled_pairs']} sampled pairs:")
    for name, value in sorted(found["peers"]["split"].items(), key=lambda item: -item[1]):
        print(f"    {name:26}{value:8.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--words", type=int, nargs="+", default=[20, 450])
    parser.add_argument("--observations", type=int, default=108)
    parser.add_argument("--pairs", type=int, default=0, help="sampled; 0: 4,000 short or 240 long")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    results = []
    for length in options.words:
        pairs = options.pairs or (4000 if length < 100 else 240)
        results.append(measure(length, options.observations, pairs))
        show(results[-1])
    found = {
        "cell": {"observations": options.observations, "records": RECORDS, "targets": TARGETS},
        "results": results,
        "machine": {"cores": available_cores(), "workers": WORKERS, "load": os.getloadavg()[0]},
        "python": platform.python_version(),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    target = options.out / f"evidence-{datetime.now(UTC).date().isoformat()}.json"
    target.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
