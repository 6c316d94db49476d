"""How often the 95% intervals of a check hold the true AUC, where records belong to persons.

Scores are simulated: related signals (correlation 0.5), half of a score's variance shared by the
records of a person (ICC 0.5), and a shift of the members in the first signal, or none. Each
simulated check is measured with its groups; one in five also as if every record stood alone.
Two intervals are held against the truth: that of a proxy fixed in advance (`auc_low`, `auc_high`;
the truth is the AUC of the shift), and that of the deployable figure, which chooses among all
signals by cross-fitting (`crossfit_low`, `crossfit_high`; the truth is its mean over all
simulations). Where no signal is better than another, the choice changes from draw to draw and the
second interval is wider than it need be: there it must cover enough, and may cover more.

    python benchmarks/coverage.py [--simulations 1000] [--workers 2] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import norm

from synthleak.calibration import Scores
from synthleak.core.runtime import available_cores
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.evidence.family import Proxy
from synthleak.metrics.measure import measure
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.plan.plan import Plan, designs
from synthleak.pools.pool import Given, Pool
from synthleak.releases.claim import no_claim

SIGNALS, RELATED, SHARED = 4, 0.5, 0.5
ENOUGH, TOO_MUCH = 0.93, 0.97
GAME = GameSection(design="given")
SINGLY = 5
"""Every fifth simulation is also measured without its groups, which takes most of the time."""
PROXIES = tuple(
    Proxy(f"signal {n}", "simulated", "lexical", "difference", "a number") for n in range(SIGNALS)
)


@dataclass(frozen=True)
class Case:
    """Persons a side and their records: 8 each, 8 on average (geometric), or one."""

    persons: int
    records: str
    auc: float

    @property
    def name(self) -> str:
        return f"{self.persons} a side, {self.records}, AUC {self.auc:g}"


CASES = [
    Case(persons, records, auc)
    for persons, records in (
        (60, "8 records each"),
        (25, "8 records each"),
        (60, "uneven, 8 on average"),
        (25, "uneven, 8 on average"),
        (200, "no groups"),
        (480, "no groups"),
    )
    for auc in (0.5, 0.65)
]


def sizes_of(case: Case, rng: np.random.Generator) -> np.ndarray:
    if case.records == "no groups":
        return np.ones(2 * case.persons, dtype=np.int64)
    if case.records == "8 records each":
        return np.full(2 * case.persons, 8)
    return rng.geometric(1 / 8, size=2 * case.persons)


def related(rng: np.random.Generator, units: int) -> np.ndarray:
    """Return `scores[unit, signal]` of variance 1."""
    common, own = rng.normal(size=(units, 1)), rng.normal(size=(units, SIGNALS))
    made: np.ndarray = math.sqrt(RELATED) * common + math.sqrt(1 - RELATED) * own
    return made


def simulated(case: Case, seed: int) -> tuple[Plan, np.ndarray]:
    """Return the plan of a check and `scores[1, target, signal]`."""
    rng = stream("coverage", case.name, seed)
    sizes = sizes_of(case, rng)
    person = np.repeat(np.arange(len(sizes)), sizes)
    member = person < case.persons
    scores = related(rng, len(person))
    if case.records != "no groups":
        scores = math.sqrt(SHARED) * related(rng, len(sizes))[person] + (
            math.sqrt(1 - SHARED) * scores
        )
    scores[member, 0] += math.sqrt(2) * norm.ppf(case.auc)
    targets = tuple(range(len(person)))
    given = Given(tuple(member.tolist()), tuple(person.tolist()), coins=False)
    pool = Pool("all", targets, ("all",) * len(targets), targets[:2], (), given)
    return designs.get("given").plugin.draw(pool, GAME, seed), scores[None]


def checked(case: Case, seed: int) -> list[list[float]]:
    """Return (value, low, high) of both intervals by groups, then of both by records (or NaN)."""
    plan, scores = simulated(case, seed)
    tables = [Scores("fixed", scores[..., :1], PROXIES[:1]), Scores("all", scores, PROXIES)]
    made = []
    singly = plan.blocks and seed % SINGLY == 0
    for own in (plan, replace(plan, blocks=())) if singly else (plan,):
        figures = measure(
            ScoredCell(
                tables, designs.get("given").plugin, own, GAME, ("coverage", case.name, seed)
            ),
            no_claim(),
            redraws=19,
            crossfit_redraws=1,
        )
        for estimate in (figures.rows[0].auc, figures.rows[1].crossfit):
            assert estimate is not None and estimate.low is not None and estimate.high is not None
            made.append([estimate.value, estimate.low, estimate.high])
    if plan.blocks and not singly:
        made += [[math.nan] * 3] * 2
    return made if plan.blocks else made * 2


def rows_of(case: Case, made: np.ndarray) -> Iterator[dict[str, Any]]:
    """Hold `made[simulation, interval, (value, low, high)]` of a case against the truth."""
    for place, title in enumerate(("fixed proxy", "deployable")):
        grouped, single = made[:, place], made[:, 2 + place]
        truth = case.auc if place == 0 else float(grouped[:, 0].mean())
        choosing = place == 1 and case.auc == 0.5
        covered = _covered(grouped, truth)
        yield {
            "persons": case.persons,
            "records": case.records,
            "auc": case.auc,
            "interval": title,
            "truth": round(truth, 4),
            "covers": covered,
            "width": round(float((grouped[:, 2] - grouped[:, 1]).mean()), 4),
            "record_wise_covers": _covered(single, case.auc if place == 0 else truth),
            "wanted": f"at least {ENOUGH}" if choosing else f"{ENOUGH} to {TOO_MUCH}",
            "passed": covered >= ENOUGH and (choosing or covered <= TOO_MUCH),
        }


def _covered(made: np.ndarray, truth: float) -> float:
    made = made[~np.isnan(made).any(axis=1)]
    return float(((made[:, 1] <= truth) & (truth <= made[:, 2])).mean())


def simulate(cases: Sequence[Case], simulations: int, workers: int) -> list[dict[str, Any]]:
    rows = []
    with ProcessPoolExecutor(workers) as pool:
        for case in cases:
            began = time.perf_counter()
            seeds = range(simulations)
            made = np.array(list(pool.map(checked, [case] * simulations, seeds, chunksize=10)))
            for row in rows_of(case, made):
                rows.append(row)
                print(
                    f"{case.name:45} {row['interval']:12} {row['covers']:.3f}"
                    f"  by records {row['record_wise_covers']:.3f}  {row['passed']}",
                    f" {time.perf_counter() - began:.0f} s",
                    flush=True,
                )
    return rows


def commit() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=available_cores())
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    started = commit()
    rows = simulate(CASES, arguments.simulations, arguments.workers)
    result = {
        "what": "coverage of the 95% intervals of a check",
        "simulations": arguments.simulations,
        "settings": {"signals": SIGNALS, "related": RELATED, "shared by a person": SHARED},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "cores": available_cores()},
        "commit": started,
        "rows": rows,
        "passed": all(row["passed"] for row in rows),
    }
    print("all rows pass" if result["passed"] else "NOT ALL ROWS PASS")
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
