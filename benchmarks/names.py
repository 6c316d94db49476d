"""Names in a check: how many are wrong, by three ways to count, and whom a real corpus gives away.

    python benchmarks/names.py [--checks 200] [--dialogues FILE] [--messages FILE]

Simulated checks: 2,000 records of groups whose scores are alike (intraclass correlation 0.5), half
of the groups members; without a leak, and with a leak of a tenth of the members, record by record
or group by group. Names are counted by `records` (p counts held-out records, one
Benjamini-Hochberg over all members: the rule until 0.1.0), by `groups` (p counts held-out groups
with a record as extreme, the same Benjamini-Hochberg) and by `synthleak` (docs/method.md §11).
`drawn one by one` splits records of the same groups instead, where records are what is exchanged.

Dialogues (mts_dialog): of 500 members 40 leave two thirds of their words, in order, inside a row of
the release and 3 are copied; 500 are held out, 300 rows are independent. Draws 0 to 9 served to
choose how many signals a score combines; those after them are counted. Messages (goemotions):
releases that are independent of 1,000 members and 1,000 held out; how often gates stop them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import synthleak
from check_level import RESULTS, commit
from synthleak.audit.gate import failing, parse_gate
from synthleak.audit.setup import records_at
from synthleak.audit.steps.measurements import scored_cell
from synthleak.core.cell import NAMED
from synthleak.core.seeds import stream
from synthleak.metrics.exposure import member_p_values
from synthleak.metrics.measure import EXPOSURE
from synthleak.metrics.member_comparison import split_folds
from synthleak.metrics.membership import Assignment, ranks_of
from synthleak.metrics.null import false_discovery_rates
from synthleak.metrics.verdict_statistics import AUC, TAIL, pool_statistics

RECORDS, SIGNALS, ALIKE, LEAK = 2000, 3, 0.5, 6.0
SIDE, GARBLED, COPIED, OTHERS = 500, 40, 3, 300
DRAWS = range(10, 22)
GATES = ("copied_members > 0", "copied_p <= 0.05", "leak_found or claim_broken or copied_p <= 0.05")

Rule = Callable[[np.ndarray, np.ndarray, np.random.Generator, np.ndarray], np.ndarray]
"""From scores, members, chance and groups to the targets that are named."""


def by_records(
    values: np.ndarray, member: np.ndarray, rng: np.random.Generator, group: np.ndarray
) -> np.ndarray:
    """Name members as synthleak did until 0.1.0: p counts held-out records."""
    return _named_over_records(values, member, rng, group, np.arange(len(member)))


def by_groups(
    values: np.ndarray, member: np.ndarray, rng: np.random.Generator, group: np.ndarray
) -> np.ndarray:
    """Name members by p-values that count held-out groups with a record as extreme."""
    return _named_over_records(values, member, rng, group, group)


def _named_over_records(
    values: np.ndarray,
    member: np.ndarray,
    rng: np.random.Generator,
    group: np.ndarray,
    counted: np.ndarray,
) -> np.ndarray:
    half = split_folds(len(member), 2, rng, 1, group)[:, 0, 0] > 0
    p = np.ones(len(member))
    for side in (half, ~half):
        score = values[:, _best_tail(values[~side], member[~side])]
        held = side & ~member
        highest = np.full(int(counted.max()) + 1, -np.inf)
        np.maximum.at(highest, counted[held], score[held])
        others = np.sort(highest[np.isfinite(highest)])
        below = np.searchsorted(others, score, side="left")
        p[side & member] = ((1 + len(others) - below) / (1 + len(others)))[side & member]
    targets = np.flatnonzero(member)
    return targets[false_discovery_rates(p[targets]) <= NAMED]


def _best_tail(values: np.ndarray, member: np.ndarray) -> int:
    """Return the signal with the largest tail, ties by AUC."""
    assignment = Assignment(np.flatnonzero(member), np.flatnonzero(~member)[None])
    auc, tail = pool_statistics(ranks_of(values), [assignment], (AUC, TAIL)).values
    return int(np.lexsort((-auc[0], -tail[0]))[0])


def by_synthleak(
    values: np.ndarray, member: np.ndarray, rng: np.random.Generator, group: np.ndarray
) -> np.ndarray:
    """Name members as synthleak does."""
    targets, _, _, q = member_p_values(values, member, rng, group)
    return targets[q <= NAMED]


def by_synthleak_alone(
    values: np.ndarray, member: np.ndarray, rng: np.random.Generator, group: np.ndarray
) -> np.ndarray:
    """Name members as synthleak does where records were drawn one by one."""
    return by_synthleak(values, member, rng, np.arange(len(member)))


RULES: dict[str, Rule] = {"records": by_records, "groups": by_groups, "synthleak": by_synthleak}


def sizes(shape: str, rng: np.random.Generator) -> np.ndarray:
    """Return the number of records of each group."""
    if shape == "one person with a fifth":
        return np.array([RECORDS // 5] + [1] * (RECORDS - RECORDS // 5))
    if shape == "Pareto sizes":
        drawn = np.minimum(np.ceil(rng.pareto(1.1, size=RECORDS) + 1e-9), RECORDS // 5)
        return drawn[: int(np.searchsorted(np.cumsum(drawn), RECORDS)) + 1].astype(int)
    return np.full(RECORDS // 5, 5)


def simulated(
    shape: str, leak: str, alone: bool, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, members, groups, and who of them leaks, in one signal of three."""
    size = sizes(shape, rng)
    group = np.repeat(np.arange(len(size)), size)
    shared = rng.normal(size=(len(size), SIGNALS))
    shared[size >= RECORDS // 5] += 5  # the release is written as this person writes
    noise = rng.normal(size=(len(group), SIGNALS))
    values = np.sqrt(ALIKE) * shared[group] + np.sqrt(1 - ALIKE) * noise
    units = np.arange(len(group)) if alone else group
    inside = rng.permutation(int(units.max()) + 1) % 2 == 0
    member, wanted = inside[units], int(inside[units].sum()) // 10
    leaking = np.zeros(len(group), dtype=bool)
    if leak == "records":
        leaking[rng.permutation(np.flatnonzero(member))[:wanted]] = True
    elif leak == "groups":
        for name in rng.permutation(np.unique(group[member])):
            own = (group == name) & member
            leaking |= own & (leaking.sum() + own.sum() <= wanted)
    values[leaking, 0] += LEAK
    return values, member, group, leaking


SHAPES = ("one person with a fifth", "Pareto sizes", "equal groups of 5")


def simulate(checks: int) -> dict[str, Any]:
    """Count wrong names in many checks of every shape and leak."""
    found: dict[str, Any] = {}
    cases = [(shape, leak, False) for shape in SHAPES for leak in ("none", "records", "groups")]
    cases += [("one person with a fifth", leak, True) for leak in ("none", "records")]
    for shape, leak, alone in cases:
        title = f"{shape}{', drawn one by one' * alone}, leak: {leak}"
        rules = RULES | ({"synthleak": by_synthleak_alone} if alone else {})
        told: dict[str, list[tuple[float, float, int]]] = {name: [] for name in rules}
        for check in range(checks):
            values, member, group, leaking = simulated(
                shape, leak, alone, stream("names", title, check)
            )
            for name, rule in rules.items():
                named = rule(values, member, stream("names", "halves", check), group)
                wrong = int((~leaking[named]).sum())
                right = (len(named) - wrong) / max(int(leaking.sum()), 1)
                told[name].append((wrong / max(len(named), 1), right, wrong))
        found[title] = {
            name: {
                "false share": round(float(np.mean([one[0] for one in ones])), 4),
                "of leaking named": round(float(np.mean([one[1] for one in ones])), 4),
                "checks with a wrong name": sum(one[2] > 0 for one in ones),
                "most wrong names": max(one[2] for one in ones),
            }
            for name, ones in told.items()
        }
        print(title, {name: one["false share"] for name, one in found[title].items()}, flush=True)
    return found


def texts_of(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(dict.fromkeys(json.loads(line)["text"] for line in file))


def garbled(text: str, other: str, draw: random.Random) -> str:
    """Put two thirds of the words of a text, in order, inside another text."""
    words, around = text.split(), other.split()
    kept = round(2 * len(words) / 3)
    start, middle = draw.randrange(len(words) - kept + 1), len(around) // 2
    return " ".join([*around[:middle], *words[start : start + kept], *around[middle:]])


def check(members: Sequence[str], holdout: Sequence[str], release: Sequence[str]) -> Any:
    def rows(side: str, texts: Sequence[str]) -> list[dict[str, str]]:
        return [{"id": f"{side}{n}", "text": text} for n, text in enumerate(texts)]

    return synthleak.check(
        rows("m", members),
        rows("h", holdout),
        list(release),
        random_split=True,
        runtime=synthleak.Runtime(workers=1),
    )


def dialogues(path: Path, seeds: Sequence[int]) -> dict[str, Any]:
    """Name members of mts_dialog whose words are kept inside other rows."""
    found = []
    for seed in seeds:
        draw, texts = random.Random(seed), texts_of(path)
        draw.shuffle(texts)
        members, holdout, rest = texts[:SIDE], texts[SIDE : 2 * SIDE], texts[2 * SIDE :]
        planted = draw.sample(range(SIDE), GARBLED + COPIED)
        release = [members[place] for place in planted[:COPIED]]
        release += [garbled(members[p], draw.choice(rest), draw) for p in planted[COPIED:]]
        release += rest[:OTHERS]
        draw.shuffle(release)
        audit, leaking = check(members, holdout, release), {f"m{place}" for place in planted}
        (cell,) = audit.setup.cells
        scored = scored_cell(audit.setup, cell)
        alone = np.arange(len(scored.plan.targets))
        member = scored.plan.trials.member
        old = by_records(scored.values[0], member, scored.stream(EXPOSURE), alone)
        ids = [one.id for one in records_at(audit.setup, audit.setup.pools[cell.pool].targets)]
        named = [row.record for row in audit.named]
        found.append(
            {
                "seed": seed,
                "named": len(named),
                "wrong": sum(name not in leaking for name in named),
                "named by records": len(old),
                "wrong by records": sum(ids[target] not in leaking for target in old.tolist()),
            }
        )
        print(found[-1], flush=True)
    named, wrong = (np.array([one[key] for one in found]) for key in ("named", "wrong"))
    return {
        "named, mean": round(float(named.mean()), 1),
        "named, sd": round(float(named.std(ddof=1)), 1),
        "wrong share, mean": round(float((wrong / np.maximum(named, 1)).mean()), 3),
        "draws": found,
    }


def messages(path: Path, releases: int) -> dict[str, Any]:
    """Count the gates that stop releases of short texts that know nobody."""
    stopped, counts = dict.fromkeys(GATES, 0), []
    for seed in range(releases):
        draw, texts = random.Random(seed), _all_texts(path)
        draw.shuffle(texts)
        audit = check(texts[:1000], texts[1000:2000], texts[2000:3000])
        for gate in GATES:
            stopped[gate] += bool(failing(parse_gate(gate), audit.cells))
        row = audit.cells[0]
        counts.append([row.copied_members, row.copied_holdout, round(row.copied_p, 3), row.named])
        print(seed, counts[-1], flush=True)
    return {
        "releases": releases,
        "stopped": stopped,
        "copied members, copied holdout, copied_p, named": counts,
    }


def _all_texts(path: Path) -> list[str]:
    """Return the texts as they are, repeated ones too: that is what short texts do."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line)["text"] for line in file]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checks", type=int, default=200)
    parser.add_argument("--dialogues", type=Path, help="mts_dialog as JSON Lines, gzipped")
    parser.add_argument("--messages", type=Path, help="goemotions as JSON Lines, gzipped")
    asked = parser.parse_args()
    began = time.perf_counter()
    result: dict[str, Any] = {"checks": asked.checks, "simulated": simulate(asked.checks)}
    if asked.dialogues:
        result["dialogues: 43 of 500 leak"] = dialogues(asked.dialogues, DRAWS)
    if asked.messages:
        result["independent messages"] = messages(asked.messages, 9)
    result |= {
        "seconds": round(time.perf_counter() - began),
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit(),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }
    path = RESULTS / f"names-{result['date']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
