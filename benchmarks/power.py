"""Level and power of the verdict, compared with the statistic that it replaced.

Scores are simulated: 32 related signals (correlation 0.5) without a leak, and leaks planted into
the members of the observed assignment. Each audit is judged twice on the same redraws: by the
verdict (largest signal within a statistic, smallest tail probability over statistics), and by the
former one (one maximum over the AUCs and the 5% tails of all signals). `designs` compares `plan
power` with whole audits of the same spec for the same planted leak.

    python benchmarks/power.py [--audits 400] [--out FILE]
    python benchmarks/power.py designs [--audits 100] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom, norm

from synthleak.audit.setup import Setup
from synthleak.audit.stages import set_up
from synthleak.core.cell import LEVEL
from synthleak.core.engine.progress import Silent
from synthleak.core.runtime import available_cores
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection, LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.metrics.membership import Assignment, assignment_of, redraw_assignments
from synthleak.metrics.null import min_p_test, p_value
from synthleak.metrics.power import PlantedLeaks, estimate_power
from synthleak.metrics.scored_cell import comparison_of
from synthleak.metrics.verdict_statistics import Statistics
from synthleak.plan.plan import Plan, designs
from synthleak.pools.pool import Given, Pool
from synthleak.preflight.power import scores_without_leak

SIGNALS, RELATED, REDRAWS = 32, 0.5, 499
Rng = np.random.Generator
Plant = Callable[[np.ndarray, Assignment, Rng], None]
"""Puts a leak into `scores[set, target, signal]`."""


@dataclass(frozen=True)
class Case:
    """One kind of leak in one design, and the least power that it must be found with."""

    design: str
    name: str
    plant: Plant
    wanted: float | None = None


def nothing(scores: np.ndarray, assignment: Assignment, rng: Rng) -> None:
    """Leave the scores as they are."""


def shift(auc: float) -> Plant:
    """Raise the members in the first signal, to this AUC."""

    def plant(scores: np.ndarray, assignment: Assignment, rng: Rng) -> None:
        scores.reshape(-1, SIGNALS)[assignment.members, 0] += math.sqrt(2) * norm.ppf(auc)

    return plant


def copied(share: float) -> Plant:
    """Let a share of the members score highest of all, in every signal."""

    def plant(scores: np.ndarray, assignment: Assignment, rng: Rng) -> None:
        chosen = rng.permutation(assignment.members)[: round(share * len(assignment.members))]
        scores.reshape(-1, SIGNALS)[chosen] += 20

    return plant


def few_records(share: float, auc: float) -> Plant:
    """Raise a share of the records wherever they joined, in the first signal."""

    def plant(scores: np.ndarray, assignment: Assignment, rng: Rng) -> None:
        targets = scores.shape[1]
        leaking = rng.permutation(targets)[: round(share * targets)]
        cells = assignment.members[np.isin(assignment.members % targets, leaking)]
        scores.reshape(-1, SIGNALS)[cells, 0] += math.sqrt(2) * norm.ppf(auc)

    return plant


CASES = (
    Case("lone", "nothing", nothing),
    Case("lone", "one signal of AUC 0.65", shift(0.65), 0.62),
    Case("lone", "4% copied", copied(0.04)),
    Case("lone", "6% copied", copied(0.06), 0.9),
    Case("lone", "10% copied", copied(0.10)),
    Case("cohort", "nothing", nothing),
    Case("cohort", "one signal of AUC 0.525", shift(0.525)),
    Case("cohort", "a tenth of the records at AUC 0.65", few_records(0.1, 0.65)),
    Case("check", "nothing", nothing),
    Case("check", "one signal of AUC 0.575 (diffuse shift)", shift(0.575), 0.78),
    Case("check", "1% copied", copied(0.01)),
    Case("check", "2% copied", copied(0.02), 0.95),
)


def game_of(design: str) -> GameSection:
    return GameSection(design="given" if design == "check" else design, records=300)


def pool_of(design: str) -> Pool:
    targets = {"lone": 60, "cohort": 50, "check": 1000}[design]
    given = None
    if design == "check":
        inside = tuple(place < 500 for place in range(targets))
        given = Given(inside, tuple(range(targets)), coins=False)
    rest = tuple(range(targets, targets + 800))
    return Pool("p", tuple(range(targets)), ("p",) * targets, rest[:400], rest[400:], given)


def former(statistics: Statistics) -> float:
    """Return p of one maximum over the AUCs and the first tails of all signals."""
    columns = np.concatenate([statistics.values[0], statistics.values[1]], axis=1)
    largest = ((columns - columns.mean(axis=0)) / columns.std(axis=0)).max(axis=1)
    return p_value(float(largest[0]), largest[1:])


def audited(case: Case, seed: int) -> tuple[float, float]:
    """Return p of one audit by the verdict, and by the statistic that it replaced."""
    game, plugin = game_of(case.design), designs.get(game_of(case.design).design).plugin
    rng = stream("power", case.design, case.name, seed)
    plan = plugin.draw(pool_of(case.design), game, seed)
    if case.design == "check":  # the split itself is what chance decided
        plan = replace(plan, trials=plugin.redraw(plan, game, rng))
    sets, targets = int(plan.trials.set.max()) + 1, len(plan.targets)
    shared = rng.normal(size=(sets, targets, 1))
    own = rng.normal(size=(sets, targets, SIGNALS))
    scores = math.sqrt(RELATED) * shared + math.sqrt(1 - RELATED) * own
    observed = assignment_of(plan.trials, targets)
    case.plant(scores, observed, rng)
    assignments = [observed, *redraw_assignments(plugin, plan, game, rng, REDRAWS)]
    statistics = comparison_of(plugin, plan, scores).statistics(assignments)
    test = min_p_test(statistics.values)
    assert test is not None
    return test.p, former(statistics)


def simulate(audits: int) -> list[dict[str, Any]]:
    rows = []
    for case in CASES:
        found = np.array([audited(case, seed) for seed in range(audits)]) <= LEVEL
        new, old = found.mean(axis=0).tolist()
        level = case.plant is nothing
        wanted = binom.ppf(0.999, audits, LEVEL) / audits if level else case.wanted
        passed = bool(wanted is None or (new <= wanted if level else new >= wanted))
        rows.append(
            {
                "design": case.design,
                "leak": case.name,
                "found": new,
                "formerly": old,
                "wanted": wanted and f"{'at most' if level else 'at least'} {wanted:.3f}",
                "passed": passed,
            }
        )
        print(f"{case.design:7} {case.name:42} {new:.3f}  formerly {old:.3f}  {passed}", flush=True)
    return rows


DESIGNS: tuple[tuple[str, int, int, list[str] | str], ...] = (
    ("lone", 100, 60, "all"),
    ("lone", 100, 20, "all"),
    ("lone", 50, 40, "all"),
    ("lone", 20, 20, "all"),
    ("lone", 60, 40, ["char_overlap", "bm25"]),
    ("cohort", 100, 40, "all"),
    ("cohort", 40, 40, "all"),
    ("cohort", 20, 20, "all"),
    ("cohort", 40, 20, ["char_overlap", "bm25"]),
    ("cohort", 10, 40, "all"),
)
"""Design, instances, targets and families of proxies."""


def setup_of(
    design: str, instances: int, targets: int, families: Sequence[str] | str, seed: int
) -> Setup:
    spec = {
        "seed": seed,
        "corpus": {"reader": "demo", "size": 900, "seed": 1},
        "pool": [{"name": "pool", "rule": "random", "size": targets, "draws": 1}],
        "game": {"design": design, "instances": instances, "records": 200},
        "generator": [{"kind": "bystander"}],
        "evidence": {"families": families},
    }
    return set_up(LoadedSpec(parse_spec(spec)), MemoryStore())


def share_found(
    scores: np.ndarray, plan: Plan, game: GameSection, auc: float, trials: int, seed: int
) -> float:
    """Return how often a leak of this AUC is found in audits with coins of their own."""
    plugin = designs.get(plan.design).plugin
    leaks = PlantedLeaks(scores, plugin, plan, game, stream("audits", seed), 999)
    return leaks.power_for_auc(auc, LEVEL, trials)


def compare_designs(audits: int) -> list[dict[str, Any]]:
    """Plan with one seed, audit with others: the planned power beside the share that is found."""
    rows = []
    pools = 4
    for place, (design, instances, targets, families) in enumerate(DESIGNS):
        setup = setup_of(design, instances, targets, families, place)
        plan, game = setup.plans["pool"], setup.spec.game
        plugin = designs.get(design).plugin
        scores = scores_without_leak(setup, "pool", Silent())
        planned = estimate_power(scores, plugin, plan, game, stream("plan", place))
        assert planned.auc is not None and planned.confirmed is not None
        shares = []
        for draw in range(pools):
            other = setup_of(design, instances, targets, families, 100 + 10 * place + draw)
            plan, game = other.plans["pool"], other.spec.game
            made = scores_without_leak(other, "pool", Silent())
            shares.append(share_found(made, plan, game, planned.auc, audits // pools, draw))
        found = float(np.mean(shares))
        rows.append(
            {
                "design": design,
                "instances": instances,
                "targets": targets,
                "signals": planned.signals,
                "auc": round(planned.auc, 4),
                "planned": planned.confirmed,
                "found": found,
                "apart": round(abs(found - planned.confirmed), 3),
                "passed": abs(found - planned.confirmed) <= 0.1,
            }
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("cases", "designs"), nargs="?", default="cases")
    parser.add_argument("--audits", type=int, default=400)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    made = (simulate if arguments.what == "cases" else compare_designs)(arguments.audits)
    result = {
        "what": f"power of the verdict: {arguments.what}",
        "audits": arguments.audits,
        "settings": {"signals": SIGNALS, "related": RELATED, "redraws": REDRAWS},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "cores": available_cores()},
        "rows": made,
        "passed": all(row["passed"] for row in made),
    }
    print(json.dumps({key: value for key, value in result.items() if key != "rows"}, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
