"""Leaks that no single text shows: how often a check finds them, with and without more families.

    python benchmarks/planted.py --corpus FILE [--plants 40] [--splits 200] [--leaks words style]

Level: a release that is independent of members and holdout, split again and again. Leaks: the two
rarest words of 20% of the members turn up in other texts; 4% of them are paraphrased (word order
and one word in two, or three in four); 16% of them lend a text its punctuation, case and spacing.
Each check is read with the 32 proxies alone, with each further family, and with all of them, so
that the price of a larger search shows; and with a family alone. Evidence, calibration, choice and
permutations are those of a check.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom
from threadpoolctl import threadpool_limits

import check_level
from check_level import RESULTS, commit, corpus_texts, ground, p_values, paraphraser
from synthleak.audit.setup import plan_of
from synthleak.audit.stages import set_up
from synthleak.audit.steps.observations import look_at, missing_evidence, scores_of
from synthleak.audit.steps.releases import make_releases, missing_releases
from synthleak.checks.check import ALSO
from synthleak.core.seeds import stream
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.core.text import tokens
from synthleak.encoders.builtin.static import Static
from synthleak.evidence.family import Family
from synthleak.evidence.models.coverage import Coverage
from synthleak.evidence.models.rates import Rates
from synthleak.evidence.models.style import Style, shapes
from synthleak.evidence.observation import Observation, Targets
from synthleak.evidence.table import Evidence, chosen_families, look
from synthleak.metrics.membership import auc

FURTHER = [family.family() for family in (Coverage(), Rates(), Style())]
SHARES = {"words": 0.2, "style": 0.16, "paraphrased 1/2": 0.04, "paraphrased 3/4": 0.04}
INSTANCES = 40
Plant = Callable[[Sequence[str], list[str], np.random.Generator], list[str]]
"""Puts what it takes from members into a release."""
Seen = tuple[np.ndarray, list[np.ndarray]]


class Look:
    """What all families see of texts, for the same targets: the reference is looked at once."""

    def __init__(self, records: Sequence[str]) -> None:
        self.encode = Static().encode
        self.targets = Targets(records, self.encode)
        self.old = chosen_families("all")

    def at(self, texts: Sequence[str]) -> Seen:
        """Return the values of the 32 proxies, and the counts of each further family."""
        seen = Observation(texts, self.encode)
        values = [look(member, self.targets, seen) for member in self.old]
        counts = [member.counts.count(self.targets, seen) for member in FURTHER if member.counts]
        return np.concatenate(values, axis=1), counts

    def evidence(self, observed: Sequence[Seen]) -> Evidence:
        """Return the evidence of all families on some observations."""
        values = [np.stack([old for old, _ in observed])]
        proxies, counted = [p for member in self.old for p in member.proxies], []
        for number, member in enumerate(FURTHER):
            assert member.counts is not None
            counts = np.stack([further[number] for _, further in observed])
            values.append(np.stack([member.values(self.targets, one) for one in counts]))
            columns = slice(len(proxies), len(proxies) + len(member.proxies))
            counted.append((columns, partial(member.counts.scores, self.targets, counts)))
            proxies += member.proxies
        return Evidence(np.concatenate(values, axis=2), tuple(proxies), tuple(counted))


def searches(evidence: Evidence) -> dict[str, Evidence]:
    """Return the parts of the evidence that are searched: which proxies the verdict may use."""
    names = [member.name for member in FURTHER]
    families = [proxy.family for proxy in evidence.proxies]
    old = [place for place, name in enumerate(families) if name not in names]

    def part(added: Sequence[Family], base: list[int]) -> Evidence:
        places, counted = list(base), []
        for member in added:
            ((columns, scored),) = [
                item for item in evidence.counted if families[item[0].start] == member.name
            ]
            counted.append((slice(len(places), len(places) + len(member.proxies)), scored))
            places += range(columns.start, columns.stop)
        proxies = tuple(evidence.proxies[place] for place in places)
        return replace(
            evidence, values=evidence.values[:, :, places], proxies=proxies, counted=tuple(counted)
        )

    in_checks = [member for member in FURTHER if member.name in ALSO]
    return {
        "32": part([], old),
        "as a check": part(in_checks, old),
        **{f"32 + {member.name}": part([member], old) for member in FURTHER},
        "32 + all": part(FURTHER, old),
        **{f"{member.name} alone": part([member], []) for member in FURTHER},
    }


def rare_words(texts: Sequence[str]) -> Plant:
    """Return what puts the two rarest words of each member into two other texts."""
    frequency = Counter(word for text in texts for word in set(tokens(text)))

    def plant(members: Sequence[str], release: list[str], rng: np.random.Generator) -> list[str]:
        for text in members:
            for word in sorted(set(tokens(text)), key=lambda w: (frequency[w], w))[:2]:
                at = int(rng.integers(len(release)))
                words = release[at].split(" ")
                words.insert(int(rng.integers(len(words) + 1)), word)
                release[at] = " ".join(words)
        return release

    return plant


def styled(style: str, words: str) -> str:
    """Write some words in the style of another text.

    >>> styled("Wait... NOW?", "it hurts a lot")
    'It... HURTS?'
    """
    runs, found = re.findall(r"\w+|\W+", style), re.findall(r"\w+", words) or ["word"]
    written, at = [], 0
    for run, shape in zip(runs, shapes(style), strict=True):
        if shape == run:
            written.append(run)
            continue
        word = found[at % len(found)]
        forms = {"Aa": word.title(), "AA": word.upper(), "0": run}
        written.append(forms.get(shape, word.lower()))
        at += 1
    return "".join(written)


def in_style(members: Sequence[str], release: list[str], rng: np.random.Generator) -> list[str]:
    lent = [styled(text, words) for text, words in zip(members, release, strict=False)]
    return [*lent, *release[len(lent) :]]


def rewritten(change: Callable[[str, Any], str]) -> Plant:
    def plant(members: Sequence[str], release: list[str], rng: np.random.Generator) -> list[str]:
        return [*(change(text, rng) for text in members), *release[len(members) :]]

    return plant


def power(
    texts: Sequence[str], plants: dict[str, Plant], draws: int, results: dict[str, Any]
) -> None:
    """Plant each leak many times; count in how many checks each search finds it."""
    found: dict[str, Counter[str]] = {leak: Counter() for leak in plants}
    for draw in range(draws):
        made = ground(texts, 1000 + draw)
        eye = Look(made.records)
        reference = eye.at(made.reference)
        for leak, plant in plants.items():
            rng = stream("planted", leak, draw)
            member = rng.permutation(np.arange(len(made.records)) < check_level.SIDE)
            share = round(SHARES[leak] * check_level.SIDE)
            planted = rng.permutation(np.flatnonzero(member))[:share]
            release = plant([made.records[at] for at in planted], list(made.others), rng)
            evidence = eye.evidence([eye.at(release), reference])
            for search, part in searches(evidence).items():
                p = p_values(part, [member], ("planted", leak, draw))[0]
                found[leak][search] += p <= 0.05
            print(f"  {draw + 1}: {leak} {dict(found[leak])}", flush=True)
            results[leak] = {"share": SHARES[leak], "checks": draw + 1, "found": found[leak]}


def level(texts: Sequence[str], splits: int, releases: int) -> dict[str, Any]:
    """Split the same records many times; the releases are independent of all of them."""
    alarms: Counter[str] = Counter()
    for draw in range(releases):
        made = ground(texts, draw)
        eye = Look(made.records)
        parts = searches(eye.evidence([eye.at(made.others), eye.at(made.reference)]))
        rng = stream("planted", "splits", draw)
        fair = np.arange(len(made.records)) < check_level.SIDE
        members = [rng.permutation(fair) for _ in range(splits // releases)]
        for search, part in parts.items():
            values = p_values(part, members, ("planted", "level", draw))
            alarms[search] += sum(p <= 0.05 for p in values)
        print(f"  independent: {dict(alarms)} in {(draw + 1) * (splits // releases)}", flush=True)
    limit = int(binom.ppf(0.999, splits, 0.05))
    return {
        "splits": splits,
        "releases": releases,
        "false_alarms": dict(alarms),
        "limit_99.9": limit,
        "holds": max(alarms.values()) <= limit,
    }


def games(budgets: Sequence[float]) -> list[dict[str, Any]]:
    """Play `ngram` on the demo corpus: AUC within records, best of the 32 proxies and of each."""
    rows = []
    for epsilon in budgets:
        spec = {
            "seed": 0,
            "corpus": {"reader": "demo", "size": 2000},
            "pool": [
                {"name": "outlier", "rule": "outlier", "percentile": 95, "size": 30},
                {"name": "rare", "rule": "rare", "max_frequency": 5, "size": 30},
                {"name": "random", "rule": "random", "size": 30, "draws": 1},
            ],
            "game": {"design": "cohort", "instances": INSTANCES, "records": 300},
            "generator": [{"kind": "ngram", "epsilon": [epsilon]}],
            "evidence": {"also": [member.name for member in FURTHER]},
        }
        setup = set_up(LoadedSpec(parse_spec(spec)), MemoryStore())
        for releases in missing_releases(setup):
            make_releases(setup, releases)
        for unit in missing_evidence(setup):
            look_at(setup, unit)
        for cell in setup.cells:
            coins = plan_of(setup, cell).trials.member.reshape(INSTANCES, -1)
            for table in scores_of(setup, cell):
                known = within_records(table.values[:INSTANCES], coins)
                names = [proxy.name for proxy in table.proxies]
                best = int(known[:32].argmax())
                rows.append(
                    {
                        "epsilon": str(epsilon),
                        "pool": cell.pool,
                        "scenario": table.scenario,
                        "best of the 32 in hindsight": names[best],
                        "its AUC": round(float(known[best]), 3),
                        **dict(zip(names[32:], known[32:].round(3).tolist(), strict=True)),
                    }
                )
                print(f"  {rows[-1]}", flush=True)
    return rows


def within_records(values: np.ndarray, coins: np.ndarray) -> np.ndarray:
    """Return for each signal the mean over records of the AUC of releases with and without it."""
    both = [
        auc(values[coins[:, x], x], values[~coins[:, x], x])
        for x in range(coins.shape[1])
        if 0 < coins[:, x].sum() < len(coins)
    ]
    return np.mean(both, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, help="JSON Lines with a field text")
    parser.add_argument("--side", type=int, default=1000, help="members, and as many held out")
    parser.add_argument("--released", type=int, default=1000)
    parser.add_argument("--known", type=int, default=500, help="texts of the reference")
    parser.add_argument("--plants", type=int, default=40)
    parser.add_argument("--splits", type=int, default=200)
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--games", action="store_true", help="play games on the demo corpus")
    parser.add_argument("--leaks", nargs="*", choices=SHARES, default=list(SHARES))
    asked = parser.parse_args()
    check_level.SIDE, check_level.RELEASED = asked.side, asked.released
    check_level.KNOWN = asked.known
    began = time.perf_counter()
    if asked.games:
        played = {"instances": INSTANCES, "commit": commit(), "rows": games([math.inf, 4.0, 1.0])}
        date = datetime.now(UTC).date().isoformat()
        write(RESULTS / f"planted-games-{date}.json", played, began)
        return
    texts = corpus_texts(asked.corpus)
    plants: dict[str, Callable[[], Plant]] = {
        "words": lambda: rare_words(texts),
        "style": lambda: in_style,
        "paraphrased 1/2": lambda: rewritten(paraphraser(texts, 0.5)),
        "paraphrased 3/4": lambda: rewritten(paraphraser(texts, 0.75)),
    }
    name = asked.corpus.name.partition(".")[0] if asked.corpus else "demo"
    path = RESULTS / f"planted-{name}-{datetime.now(UTC).date().isoformat()}.json"
    result: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    result |= {"corpus": name, "side": asked.side, "release": asked.released}
    result |= {"reference": asked.known, "commit": commit()}
    with threadpool_limits(limits=1):
        power(texts, {leak: plants[leak]() for leak in asked.leaks}, asked.plants, result)
        write(path, result, began)
        if asked.splits:
            result["independent release"] = level(texts, asked.splits, asked.releases)
            write(path, result, began)


def write(path: Path, result: dict[str, Any], began: float) -> None:
    result["seconds"] = round(time.perf_counter() - began)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
