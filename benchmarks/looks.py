"""Declared looks: false alarms, and how many releases it takes until a leak is found.

Scores are simulated: related signals (correlation 0.5), with a level of their own for every
release, and leaks planted into the members in one signal. Plans, redraws and the test are
those of an audit. `declared` decides as an audit with `[game] looks` does: p at a look times the
number of looks, Holm over cells, and a cell that is found is finished. `undeclared` stops at the
first look with p ≤ 5%, as growing a folder again and again would. `fixed` tests once, at the end.
With `--run`, the cells of a finished cohort are looked at instead: at which look would an audit
that had declared them have found each?

    python benchmarks/looks.py [--audits 400] [--out FILE]
    python benchmarks/looks.py --run RUN [--looks 10 25 50] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom, norm

from synthleak.audit.result import open_run
from synthleak.audit.steps.measurements import redraws_of, scored_cell
from synthleak.core.cell import LEVEL
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.metrics.membership import assignment_of, redraw_assignments
from synthleak.metrics.null import holm, min_p_test
from synthleak.metrics.scored_cell import comparison_of
from synthleak.plan.plan import Plan, designs
from synthleak.pools.pool import Pool

RESULTS = Path(__file__).parent / "results"
SIGNALS, RELATED, LEVELS, REDRAWS = 6, 0.5, 0.2, 399
"""Signals, their correlation, the spread of a release's own level, and redraws for one cell."""
TARGETS = {"cohort": 50, "lone": 60}
COHORT = (10, 25, 50, 100)
LONE = (20, 40, 60, 100)
"""In `lone` 10 instances could show nothing: the level is shared by four looks."""


@dataclass(frozen=True)
class Case:
    """Cells that share their coins, each with a leak of this AUC in one signal (0.5: none)."""

    name: str
    design: str
    looks: tuple[int, ...]
    aucs: tuple[float, ...]
    signals: int = SIGNALS


CASES = (
    Case("cohort, no leak", "cohort", COHORT, (0.5,)),
    Case("lone, no leak", "lone", LONE, (0.5,)),
    Case("cohort, 4 cells, 2 leak", "cohort", COHORT, (0.7, 0.55, 0.5, 0.5)),
    Case("cohort, AUC 0.70", "cohort", COHORT, (0.7,)),
    Case("cohort, AUC 0.60", "cohort", COHORT, (0.6,)),
    Case("cohort, AUC 0.55", "cohort", COHORT, (0.55,)),
    # The study's cells of `dpsgd` (studies/paper/results/runs): cross-fitted AUC, 32 signals.
    Case("dpsgd, ε = ∞, DMSAFN's outliers", "cohort", COHORT, (0.627,), 32),
    Case("dpsgd, ε = ∞, GoEmotions' random records", "cohort", COHORT, (0.714,), 32),
    Case("dpsgd, ε = 16, DMSAFN's random records", "cohort", COHORT, (0.551,), 32),
)


def plan_of(case: Case) -> tuple[Plan, GameSection]:
    """Draw a plan with the looks of a case; its coins are tossed again in every audit."""
    targets = TARGETS[case.design]
    rest = tuple(range(targets, targets + 800))
    pool = Pool("p", tuple(range(targets)), ("p",) * targets, rest[:400], rest[400:])
    game = GameSection(
        design=case.design, instances=case.looks[-1], records=300, rounds=10, looks=case.looks
    )
    return designs.get(case.design).plugin.draw(pool, game, 1), game


def scores_of(member: np.ndarray, auc: float, signals: int, rng: np.random.Generator) -> np.ndarray:
    """Return scores `[release, target, signal]` whose first signal gives members this AUC."""
    shape = (*member.shape, signals)
    noise = math.sqrt(RELATED) * rng.normal(size=(*member.shape, 1))
    noise = noise + math.sqrt(1 - RELATED) * rng.normal(size=shape)
    noise = noise + LEVELS * rng.normal(size=(shape[0], 1, signals))
    noise[:, :, 0] += math.sqrt(2 * (1 + LEVELS**2)) * norm.ppf(auc) * member
    return noise


def p_at_looks(case: Case, plan: Plan, game: GameSection, seed: int) -> np.ndarray:
    """Return p `[look, cell]` of one audit."""
    design, targets = designs.get(case.design).plugin, len(plan.targets)
    rng = stream("looks", case.name, seed)
    trials = design.redraw(plan, game, rng)
    plan = replace(plan, trials=trials)
    member = np.zeros((case.looks[-1], targets), dtype=bool)
    member[trials.set[trials.member], trials.target[trials.member]] = True
    scores = [scores_of(member, auc, case.signals, rng) for auc in case.aucs]
    rows = []
    for look in case.looks:
        part = plan.first(look)
        assignments = [
            assignment_of(part.trials, targets),
            *redraw_assignments(
                design,
                part,
                game.model_copy(update={"instances": look}),
                rng,
                (REDRAWS + 1) * len(case.aucs) - 1,
            ),
        ]
        row = []
        for values in scores:
            statistics = comparison_of(design, part, values[:look]).statistics(assignments)
            test = min_p_test(statistics.values)
            row.append(1.0 if test is None else test.p)
        rows.append(row)
    return np.array(rows)


def found_at(p: np.ndarray, shared_by: int) -> np.ndarray:
    """Return the look, from 0, at which each cell of `p[look, cell]` is found; -1 for none.

    `shared_by` is what p is multiplied with: the number of looks where they are declared.
    """
    found = np.full(p.shape[1], -1)
    shown = np.ones(p.shape[1])
    for look, row in enumerate(p):
        shown = np.where(found < 0, np.minimum(1.0, row * shared_by), shown)
        now = np.array(holm(shown.tolist())) <= LEVEL
        found[now & (found < 0)] = look
    return found


def judged(case: Case, p: np.ndarray) -> dict[str, Any]:
    """Say of `p[audit, look, cell]` how often cells are found, and after how many releases."""
    looks, none = np.array(case.looks), np.array(case.aucs) == 0.5
    rules = {
        "declared": [found_at(one, len(looks)) for one in p],
        "undeclared": [found_at(one, 1) for one in p],
        "fixed": [np.where(found_at(one[-1:], 1) == 0, len(looks) - 1, -1) for one in p],
    }
    row: dict[str, Any] = {"design": case.design, "looks": list(case.looks), "aucs": [*case.aucs]}
    for rule, outcome in rules.items():
        found = np.array(outcome)
        said: dict[str, Any] = {}
        if none.any():
            said["false_alarms"] = float((found[:, none] >= 0).any(axis=1).mean())
        if not none.all():
            used = looks[np.where(found < 0, len(looks) - 1, found)][:, ~none]
            if rule == "fixed":
                used = np.full_like(used, looks[-1])
            said["found"] = (found[:, ~none] >= 0).mean(axis=0).tolist()
            said["mean_releases"] = used.mean(axis=0).tolist()
        row[rule] = said
    return row


def simulate(audits: int, cases: Sequence[Case]) -> dict[str, Any]:
    """Play cases, and say what each gives."""
    rows = {}
    for case in cases:
        plan, game = plan_of(case)
        count = audits if 0.5 in case.aucs else audits // 2
        p = np.stack([p_at_looks(case, plan, game, seed) for seed in range(count)])
        rows[case.name] = {"audits": count, **judged(case, p)}
        print(f"{case.name}: {json.dumps(rows[case.name])}", flush=True)
    return {
        "audits": audits,
        "signals": SIGNALS,
        "redraws": REDRAWS,
        "limit": float(binom.ppf(0.999, audits, LEVEL)) / audits,
        "cases": rows,
    }


def of_run(folder: Path, looks: Sequence[int]) -> dict[str, Any]:
    """Say for every cohort cell of a run at which of these looks it would have been found.

    Releases and evidence are those of the run: a look is at the first of them, with their coins.
    """
    audit = open_run(folder, keep=False)
    setup, game = audit.setup, audit.setup.spec.game
    if game.looks:
        raise SystemExit(f"{folder}: this audit has declared looks of its own: see its cells.csv")
    cells = [cell for cell in setup.cells if setup.plans[cell.pool].design == "cohort"]
    looks = [*(look for look in looks if look < game.instances), game.instances]
    p = np.ones((len(looks), len(cells)))
    for row, look in enumerate(looks):
        for column, cell in enumerate(cells):
            scored = scored_cell(replace(setup, reached={cell: look}), cell)
            drawn = scored.redraws("redraws", redraws_of(setup, cell.pool) * len(looks))
            statistics = scored.comparison.statistics([scored.observed, *drawn])
            test = min_p_test(statistics.values)
            p[row, column] = 1.0 if test is None else test.p
    found = found_at(p, len(looks))
    return {
        "instances": game.instances,
        "looks": looks,
        "targets": {name: len(plan.targets) for name, plan in setup.plans.items()},
        "cells": [
            {
                "pool": cell.pool,
                "generator": cell.generator,
                "epsilon": "inf" if math.isinf(cell.epsilon) else cell.epsilon,
                "releases": looks[place] if place >= 0 else game.instances,
                "found": bool(place >= 0),
                "p": np.minimum(1.0, p[:, column] * len(looks)).tolist(),
            }
            for column, (cell, place) in enumerate(zip(cells, found.tolist(), strict=True))
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--audits", type=int, default=400)
    parser.add_argument("--case", help="play this case only; others stay as --out has them")
    parser.add_argument("--run", type=Path, help="a finished run folder with cohort cells")
    parser.add_argument("--looks", type=int, nargs="+", default=COHORT[:-1])
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.run is not None:
        content = of_run(args.run, args.looks)
        for cell in content["cells"]:
            print(json.dumps(cell, ensure_ascii=False))
        out = args.out
    else:
        content = simulate(args.audits, [c for c in CASES if args.case in (None, c.name)])
        date = datetime.now(UTC).date().isoformat()
        out = args.out or RESULTS / f"looks-{date}.json"
        if args.case and out.is_file():
            content["cases"] = json.loads(out.read_text("utf-8"))["cases"] | content["cases"]
    if out is not None:
        out.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
