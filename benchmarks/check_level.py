"""False alarms of `synthleak check`, and how often it finds copies.

    python benchmarks/check_level.py [--corpus FILE] [--splits 200] [--plants 40]

Level: a release that is independent of members and holdout, over many random splits; false alarms
must not be significantly above 5%. Power: 5% of 1,000 members copied once into a release of 1,000
records, word for word, or with word order and words changed; and 1% of them, to see the limit.
Evidence, calibration, choice and permutations are those of a check; without --corpus the invented
messages are used.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from synthleak.analyses.copies import find_copies
from synthleak.calibration import calibrate
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.core.text import tokens
from synthleak.corpus.readers.demo import Demo
from synthleak.encoders.builtin.static import Static
from synthleak.evidence.observation import Observation, Targets
from synthleak.evidence.table import Evidence, chosen_families, look
from synthleak.metrics.blind import UNFAIR, blind_test
from synthleak.metrics.exposure import member_p_values
from synthleak.metrics.membership import assignment_of, auc, redraw_assignments
from synthleak.metrics.null import min_p_test
from synthleak.metrics.scored_cell import comparison_of
from synthleak.plan.given import GivenSplit
from synthleak.plan.plan import Plan, Trials
from synthleak.pools.pool import Given, Pool

RESULTS = Path(__file__).parent / "results"
SIDE, RELEASED, KNOWN = 1000, 1000, 500
COPIED, FEW_COPIED = 50, 10
GAME = GameSection(design="given")
REDRAWS = 499


def corpus_texts(path: Path | None) -> list[str]:
    if path is None:
        return [record.text for record in Demo(size=6000, seed=3).read()]
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return list(dict.fromkeys(json.loads(line)["text"] for line in file))


@dataclass(frozen=True)
class Ground:
    """Records to split, texts to release, and a reference, all drawn from one corpus."""

    records: list[str]
    others: list[str]
    reference: list[str]


def ground(texts: Sequence[str], draw: int) -> Ground:
    order = stream("level", "ground", draw).permutation(len(texts))
    cuts = np.cumsum([2 * SIDE, RELEASED, KNOWN])
    parts = [[texts[i] for i in part] for part in np.split(order, cuts)[:3]]
    return Ground(*parts)


def observe(made: Ground, observations: Sequence[Sequence[str]]) -> Evidence:
    encode = Static().encode
    families = chosen_families("all")
    targets = Targets(made.records, encode)
    values = [
        np.concatenate([look(member, targets, seen) for member in families], axis=1)
        for seen in (Observation(texts, encode) for texts in observations)
    ]
    return Evidence(np.stack(values), tuple(p for member in families for p in member.proxies))


def p_values(
    evidence: Evidence, members: Sequence[np.ndarray], name: tuple[int | str, ...]
) -> list[float]:
    """Return p of the cell for each split of the same records, as `assess` computes it.

    Uniform splits of the same records have the same redraws, so these are drawn once.
    """
    plan = plan_of(evidence, members[0])
    scores = calibrate(evidence, plan.baselines)
    values = np.concatenate([table.values[:1] for table in scores], axis=2)
    assignments = [assignment_of(Trials.of_coins(member[None]), len(member)) for member in members]
    assignments += redraw_assignments(GivenSplit(), plan, GAME, stream(*name, "redraws"), REDRAWS)
    found = comparison_of(GivenSplit(), plan, values).statistics(assignments).values
    observed, null = np.split(found, [len(members)], axis=1)
    tests = [
        min_p_test(np.concatenate([observed[:, [split]], null], axis=1))
        for split in range(len(members))
    ]
    return [1.0 if test is None else test.p for test in tests]


def plan_of(evidence: Evidence, member: np.ndarray) -> Plan:
    count = len(member)
    pool = Pool(
        name="all",
        targets=tuple(range(count)),
        origins=("all",) * count,
        candidates=tuple(np.flatnonzero(member).tolist()),
        auxiliary=(count,) if len(evidence.values) > 1 else (),
        given=Given(tuple(member.tolist()), tuple(range(count)), coins=False),
    )
    return GivenSplit().draw(pool, GAME, 1)


def level(texts: Sequence[str], splits: int, releases: int) -> dict[str, Any]:
    """Split the same records many times; the releases are independent of all of them."""
    alarms, done = 0, 0
    for draw in range(releases):
        made = ground(texts, draw)
        evidence = observe(made, [made.others, made.reference])
        rng = stream("level", "splits", draw)
        fair = np.arange(2 * SIDE) < SIDE
        members = [rng.permutation(fair) for _ in range(splits // releases)]
        alarms += sum(p <= 0.05 for p in p_values(evidence, members, ("level", draw)))
        done += len(members)
        print(f"  independent: {alarms} alarms in {done} splits", flush=True)
    limit = int(binom.ppf(0.999, done, 0.05))
    return {
        "splits": done,
        "releases": releases,
        "false_alarms": int(alarms),
        "rate": alarms / done,
        "limit_99.9": limit,
        "holds": bool(alarms <= limit),
    }


def blind(texts: Sequence[str], splits: int) -> dict[str, Any]:
    """Test uniform splits for exchangeability: how many are rejected at a level of 1%."""
    began, values = time.perf_counter(), []
    for draw in range(splits):
        made, rng = ground(texts, draw), stream("level", "blind", draw)
        member = rng.permutation(np.arange(2 * SIDE) < SIDE)
        labels, apart = [()] * len(member), range(len(member))
        values.append(blind_test(made.records, labels, member, apart, rng).p)
    return {
        "splits": splits,
        "stopped": sum(p <= UNFAIR for p in values),
        "at_or_below_0.05": sum(p <= 0.05 for p in values),
        "seconds": round(time.perf_counter() - began),
        "commit": commit(),
    }


def power(
    texts: Sequence[str], plants: int, change: Callable[[str, Any], str], copied: int
) -> dict[str, Any]:
    """Copy some of 1,000 members, changed, into a release of 1,000."""
    found, ranked, exact, aucs = 0, [], [], []
    for draw in range(plants):
        made = ground(texts, 1000 + draw)
        rng = stream("level", "plant", draw)
        member = rng.permutation(np.arange(2 * SIDE) < SIDE)
        planted = rng.permutation(np.flatnonzero(member))[:copied]
        copies = [change(made.records[place], rng) for place in planted]
        release = [*copies, *made.others[copied:]]
        evidence = observe(made, [release, made.reference])
        found += p_values(evidence, [member], ("power", draw))[0] <= 0.05
        scores = calibrate(evidence, plan_of(evidence, member).baselines)
        every = np.concatenate([table.values[0] for table in scores], axis=1)
        first = member_p_values(every, member, rng)[0][:copied]
        ranked.append(len(set(first.tolist()) & set(planted.tolist())) / copied)
        names = [proxy.name for proxy in evidence.proxies]
        listed = find_copies(
            made.records,
            release,
            evidence.values[0, :, names.index("jaccard_max")],
            member,
            np.arange(len(member)),
            rng,
        )
        exact.append(len({c.target for c in listed.found} & set(planted.tolist())) / copied)
        aucs.append(float(auc(every[member], every[~member]).max()))
        print(f"  {found} found of {draw + 1}", flush=True)
    return {
        "copied": copied,
        "plants": plants,
        "found": int(found),
        "power": found / plants,
        "of_planted_ranked_first": float(np.mean(ranked)),
        "of_planted_listed_as_copies": float(np.mean(exact)),
        "best_auc_in_hindsight": float(np.mean(aucs)),
    }


def paraphraser(texts: Sequence[str], share: float) -> Callable[[str, Any], str]:
    """Return a function that replaces this share of words by similar ones and reorders the rest.

    Near words are those with the nearest vectors among the corpus's own words. Then the text is cut
    in two or three, and the parts change places.
    """
    counts: dict[str, int] = {}
    for text in texts:
        for word in tokens(text):
            counts[word] = counts.get(word, 0) + 1
    words = sorted(
        (w for w, n in counts.items() if n >= 3 and w.isalpha()), key=lambda w: -counts[w]
    )
    vectors = Static().encode(words)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    place = {word: number for number, word in enumerate(words)}
    near = {}

    def other(word: str) -> str:
        if word not in place:
            return word
        if word not in near:
            close = vectors @ vectors[place[word]]
            close[place[word]] = -1
            near[word] = words[int(close.argmax())]
        return near[word]

    def change(text: str, rng: np.random.Generator) -> str:
        made = [other(w) if rng.random() < share else w for w in tokens(text)]
        cuts = np.sort(rng.permutation(np.arange(1, max(len(made), 2)))[:2])
        parts = np.split(np.array(made, dtype=object), cuts)
        return " ".join(word for part in parts[::-1] for word in part)

    return change


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, help="JSON Lines with a field text")
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--plants", type=int, default=20)
    parser.add_argument("--part", choices=["level", "power", "blind"], help="this part only")
    asked = parser.parse_args()
    began = time.perf_counter()
    texts = corpus_texts(asked.corpus)
    kinds: dict[str, Callable[[str, Any], str]] = {
        "copied word for word": lambda text, rng: text,
        "paraphrased: order and 1 word in 4": paraphraser(texts, 0.25),
        "paraphrased: order and 1 word in 2": paraphraser(texts, 0.5),
    }
    with threadpool_limits(limits=1):
        result: dict[str, Any] = {
            "corpus": asked.corpus.name if asked.corpus else "demo",
            "members": SIDE,
            "holdout": SIDE,
            "release": RELEASED,
            "reference": KNOWN,
            "copied": COPIED,
        }
        if asked.part in (None, "blind"):
            result["blind test of fair splits"] = blind(texts, asked.splits)
            print(result["blind test of fair splits"], flush=True)
        if asked.part in (None, "level"):
            result["independent release"] = level(texts, asked.splits, asked.releases)
            print(result["independent release"], flush=True)
        wanted = [(COPIED, name) for name in kinds] + [(FEW_COPIED, name) for name in kinds]
        for copied, name in wanted if asked.part in (None, "power") else ():
            title = f"{copied} of {SIDE} {name}"
            result[title] = power(texts, asked.plants, kinds[name], copied)
            print(title, result[title], flush=True)
    result |= {
        "seconds": round(time.perf_counter() - began),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"check-level-{result['corpus'].partition('.')[0]}-{result['date']}.json"
    if asked.part and path.exists():
        # Date and commit stay those of the whole.
        result |= json.loads(path.read_text(encoding="utf-8")) | {
            key: value for key, value in result.items() if isinstance(value, dict)
        }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


def commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


if __name__ == "__main__":
    main()
