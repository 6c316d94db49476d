"""Disclosures in a check: false alarms, planted passages and identifiers found, and the time.

    python benchmarks/disclosures.py --corpus FILE [--releases 200] [--plants 40]

Level: releases that are independent of members and holdout. Sides of equal size, 1 to 9, near
duplicates over both sides, persons with several records that share a number, one person with a
fifth of the records, numbers from so few that many agree, texts of at most six words, and a release
five times as large.
Power: of 1,000 members (a third of the corpus where that is less) 3% have an identifier, and 2% a
passage of 8 words, inside texts of others. Everybody has an identifier of one of four kinds; each
plant is also tried without the other, a quarter as often, and passages of four times as many.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from check_level import RESULTS, commit
from check_scale import texts as invented
from synthleak.analyses.disclosures import OwnWords
from synthleak.audit.setup import Setup
from synthleak.audit.steps.disclosures import DISCLOSURES, disclosure_rows
from synthleak.audit.steps.releases import make_releases, missing_releases
from synthleak.core.cell import NAMED
from synthleak.core.seeds import stream
from synthleak.selftest.checks import Check, Files

SIDE, PASSAGE_WORDS, TOLD, PASSED = 1000, 8, 0.03, 0.02
FIRST = 1000
"""Plants are judged on seeds that nothing was chosen on: this one and those after it."""
Rng = np.random.Generator
Corpus = Sequence[str]


def disclosed(files: Files) -> Setup:
    """Set up a check of these files with its release."""
    setup = Check(files=lambda seed: files).setup(0)
    for release in missing_releases(setup):
        make_releases(setup, release)
    return setup


def p_of(files: Files) -> float:
    setup = disclosed(files)
    return float(DISCLOSURES.get(setup, setup.cells[0]).p or 1.0)


def files(members: Corpus, holdout: Corpus, release: Corpus) -> Files:
    def rows(side: Corpus) -> list[dict[str, str]]:
        return [{"text": text} for text in side]

    return Files(rows(members), rows(holdout), list(release))


def split(texts: Corpus, rng: Rng, sizes: Sequence[int]) -> list[list[str]]:
    """Draw texts into parts of these sizes, all of them as large as the corpus allows."""
    share = min(1.0, len(texts) / sum(sizes))
    drawn = iter(rng.permutation(len(texts)).tolist())
    return [[texts[next(drawn)] for _ in range(int(share * size))] for size in sizes]


def equal(texts: Corpus, rng: Rng) -> Files:
    return files(*split(texts, rng, (SIDE, SIDE, SIDE)))


def uneven(texts: Corpus, rng: Rng) -> Files:
    return files(*split(texts, rng, (SIDE // 5, 9 * SIDE // 5, SIDE)))


def larger(texts: Corpus, rng: Rng) -> Files:
    return files(*split(texts, rng, (SIDE // 3, SIDE // 3, 5 * SIDE // 3)))


def short(texts: Corpus, rng: Rng) -> Files:
    return equal([" ".join(text.split()[:6]) for text in texts], rng)


def near_duplicates(texts: Corpus, rng: Rng) -> Files:
    """Repeat half of the records with one word changed, on whatever side."""
    first, release = split(texts, rng, (SIDE, SIDE))
    again = [_changed(text, first[int(rng.integers(len(first)))], rng) for text in first]
    kept = [text for text, twice in zip(again, rng.random(len(again)) < 0.5, strict=True) if twice]
    records = [*first, *kept]
    inside = rng.permutation(len(records)) < len(records) // 2
    sides = [[t for t, yes in zip(records, inside == side, strict=True) if yes] for side in (1, 0)]
    return files(*sides, release)


def _changed(text: str, other: str, rng: Rng) -> str:
    words = text.split()
    if words:
        words[int(rng.integers(len(words)))] = (other.split() or ["so"])[0]
    return " ".join(words)


def persons(texts: Corpus, rng: Rng, sizes: Callable[[int], np.ndarray] | None = None) -> Files:
    """Give persons several records with a number of theirs that a few others have as well."""
    records, release = split(texts, rng, (2 * SIDE, SIDE))
    each = np.full(len(records) // 5, 5) if sizes is None else sizes(len(records))
    owner = np.repeat(np.arange(len(each)), each)
    numbers = rng.integers(2 * len(each), size=len(each) + len(release)) + 10**4
    inside = rng.permutation(len(each)) < len(each) // 2
    rows = [
        {"text": f"{text} It was {numbers[who]}.", "group": str(who)}
        for text, who in zip(records, owner.tolist(), strict=False)
    ]
    sides = [
        [row for row, who in zip(rows, owner.tolist(), strict=True) if inside[who] == side]
        for side in (True, False)
    ]
    told = zip(release, numbers[len(each) :].tolist(), strict=True)
    return Files(*sides, [f"{text} It was {number}." for text, number in told])


def one_large(texts: Corpus, rng: Rng) -> Files:
    return persons(texts, rng, lambda n: np.array([n // 5] + [1] * (n - n // 5)))


def common_numbers(texts: Corpus, rng: Rng) -> Files:
    """End every text with a number of which there are about as many as records."""
    parts = split(texts, rng, (SIDE, SIDE, SIDE))
    drawn = [(part, rng.integers(2 * SIDE, size=len(part)) + 10**4) for part in parts]
    return files(
        *([f"{t} Order {n}." for t, n in zip(part, ns, strict=True)] for part, ns in drawn)
    )


LEVELS: dict[str, Callable[[Corpus, Rng], Files]] = {
    "equal sides": equal,
    "sides 1 to 9": uneven,
    "near duplicates": near_duplicates,
    "persons of 5 records": persons,
    "one person with a fifth": one_large,
    "numbers that many have": common_numbers,
    "at most six words": short,
    "a release 5 times as large": larger,
}


MOST_USUAL = ("equal sides", "at most six words")
"""What is simulated with all releases; the others with an eighth of them."""
ALPHAS = (0.05, 0.01)


def identifier(rng: Rng) -> str:
    """Write an identifier of one of four kinds."""
    low, high = "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    name = "".join(rng.permutation(list(low))[:6])
    number = int(rng.integers(10**5, 10**6))
    kind = int(rng.integers(4))
    return (
        f"ask for {name.title()} {''.join(rng.permutation(list(high))[:1])}{name[::-1]}",
        f"call {number}",
        f"file {name[:2].upper()}-{number}",
        f"write to {name}@{name[:3]}.org",
    )[kind]


def planted(texts: Corpus, rng: Rng, *, told: float, passed: float) -> tuple[Files, set[int]]:
    """Plant identifiers of some members, and passages of others, in texts of the release."""
    members, holdout, release = split(texts, rng, (SIDE, SIDE, SIDE))
    own = [[identifier(rng) for _ in side] for side in (members, holdout, release)]
    order = rng.permutation(len(members))
    leaking = order[: round(told * len(members))].tolist()
    rows = rng.permutation(len(release)).tolist()
    for member in leaking:
        own[2][rows.pop()] = own[0][member]
    long = [n for n in order[len(leaking) :].tolist() if len(members[n].split()) >= PASSAGE_WORDS]
    for member in long[: round(passed * len(members))]:
        words, row = members[member].split(), rows.pop()
        start = int(rng.integers(len(words) - PASSAGE_WORDS + 1))
        around = release[row].split()
        cut = int(rng.integers(len(around) + 1))
        passage = words[start : start + PASSAGE_WORDS]
        release[row] = " ".join([*around[:cut], *passage, *around[cut:]])
        leaking.append(member)
    sides = (members, holdout, release)
    ended = [
        [f"{text} Please {one}." for text, one in zip(side, ones, strict=True)]
        for side, ones in zip(sides, own, strict=True)
    ]
    return files(*ended), set(leaking)


PLANTS = {
    "identifiers and passages": (TOLD, PASSED),
    "identifiers alone": (TOLD, 0.0),
    "passages alone": (0.0, PASSED),
    "passages of four times as many": (0.0, 4 * PASSED),
}


def level(texts: Corpus, releases: int) -> dict[str, Any]:
    """Count false alarms."""
    found: dict[str, Any] = {
        f"most of {count} allowed": int(binom.ppf(0.999, count, 0.05))
        for count in (releases, releases // 8)
    }
    for title, make in LEVELS.items():
        count = releases if title in MOST_USUAL else releases // 8
        p = np.array([p_of(make(texts, stream("level", title, n))) for n in range(count)])
        found[title] = {"releases": count, **{f"p <= {at}": int((p <= at).sum()) for at in ALPHAS}}
        print(title, found[title], flush=True)
    return found


def power(texts: Corpus, plants: int) -> dict[str, Any]:
    """Count checks that find what was planted, and the members that are named right and wrong."""
    found: dict[str, Any] = {}
    for title, (told, passed) in PLANTS.items():
        hits, shares, wrong = 0, [], []
        count = plants if told and passed else plants // 4
        for number in range(count):
            made, leaking = planted(
                texts, stream("power", title, FIRST + number), told=told, passed=passed
            )
            setup = disclosed(made)
            (cell,) = setup.cells
            kept = DISCLOSURES.get(setup, cell)
            hits += kept.p is not None and kept.p <= 0.05
            rows = disclosure_rows(setup, cell, kept)
            names = {row.record for row in rows if row.q_value is not None and row.q_value <= NAMED}
            right = {name for name in names if int(name.split(":")[1]) - 1 in leaking}
            shares.append(len(right) / max(len(leaking), 1))
            wrong.append(len(names - right) / max(len(names), 1))
        found[title] = {
            "checks": count,
            "found": hits,
            "of leaking with q <= 0.1": round(float(np.mean(shares)), 3),
            "wrong among them": round(float(np.mean(wrong)), 3),
        }
        print(title, found[title], flush=True)
    return found


def seconds(records: int = 10_000, synthetic: int = 100_000) -> dict[str, float]:
    """Time the search for disclosures of 20,000 records in 100,000 texts of 30 words."""
    texts = invented(2 * records + synthetic, seed=1)
    began = time.process_time()
    own = OwnWords(texts[: 2 * records], np.arange(2 * records), range(2 * records))
    between = time.process_time()
    own.find(texts[2 * records :])
    return {"own": round(between - began, 1), "found": round(time.process_time() - between, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--plants", type=int, default=40)
    asked = parser.parse_args()
    began, name = time.perf_counter(), asked.corpus.name.partition(".")[0]
    with gzip.open(asked.corpus, "rt", encoding="utf-8") as file:
        texts = list(dict.fromkeys(json.loads(line)["text"] for line in file))
    result = {
        "corpus": name,
        "records": len(texts),
        "CPU seconds of 10,000 and 10,000 in 100,000": seconds(),
        "power": power(texts, asked.plants),
        "level": level(texts, asked.releases),
        "plants": asked.plants,
        "seconds": round(time.perf_counter() - began),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    path = RESULTS / f"disclosures-{name}-{result['date']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
