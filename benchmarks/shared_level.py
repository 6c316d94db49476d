"""Pools that share releases: is the null of one pool exact while another pool leaks?

Two pools of a cohort share their releases. The first leaks without restraint. The second leaks
nothing, but its scores follow the first pool's coins: its texts resemble the others'. Each audit
draws a plan by the design's own sampler, makes scores, and tests the second pool by redraws of its
own coins. The same is played with releases of its own, where nobody leaks. False alarms at 5% may
not lie above the 99.9% point of the binomial, in either game; a leak of the second pool is found.

    python benchmarks/shared_level.py            # 200 audits a row; writes results/
"""

from __future__ import annotations

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from synthleak.core.cell import LEVEL
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.metrics.membership import assignment_of, redraw_assignments
from synthleak.metrics.null import min_p_test
from synthleak.metrics.scored_cell import comparison_of
from synthleak.plan.plan import Plan, designs
from synthleak.pools.pool import Pool

RESULTS = Path(__file__).parent / "results"
TARGETS, INSTANCES, SIGNALS = 10, 12, 6


def pools() -> dict[str, Pool]:
    """Return two pools with one C and one R."""
    rest = range(2 * TARGETS, 2 * TARGETS + 600)
    return {
        name: Pool(
            name,
            tuple(range(first, first + TARGETS)),
            (name,) * TARGETS,
            tuple(rest[::2]),
            tuple(rest[1::2]),
        )
        for name, first in (("leaking", 0), ("asked", TARGETS))
    }


def p_value(seed: int, *, shared: bool, leak: float = 0.0, redraws: int = 199) -> float:
    """Play one audit and return p of the second pool."""
    game = GameSection(design="cohort", instances=INSTANCES, records=120, share_releases=shared)
    design = designs.get("cohort").plugin
    if shared:
        plans = design.draw_shared(pools(), game, seed)
    else:
        plans = {name: design.draw(pool, game, seed) for name, pool in pools().items()}
    plan = plans["asked"]
    scores = made(plans, seed, leak, shared)
    assignments = [
        assignment_of(plan.trials, TARGETS),
        *redraw_assignments(design, plan, game, stream(seed, "redraws"), redraws),
    ]
    test = min_p_test(comparison_of(design, plan, scores).statistics(assignments).values)
    assert test is not None
    return test.p


def made(plans: dict[str, Plan], seed: int, leak: float, shared: bool) -> np.ndarray:
    """Return scores `[release, target, signal]` of the second pool.

    A release has a level of its own and, where it is shared, shows the first pool's members: each
    record of the second pool resembles one of them.
    """
    rng = stream(seed, "scores")
    noise = rng.normal(size=(INSTANCES, TARGETS, SIGNALS)) + rng.normal(
        size=(INSTANCES, 1, SIGNALS)
    )
    own = plans["asked"].trials.member.reshape(INSTANCES, TARGETS, 1)
    noise += leak * own
    if shared:
        others = plans["leaking"].trials.member.reshape(INSTANCES, TARGETS, 1)
        noise += 3.0 * others + 1.0 * others.sum(axis=1, keepdims=True) / TARGETS
    return noise


def share_found(audits: int, first: int = 0, **settings: Any) -> float:
    """Return the share of audits with p ≤ 5%."""
    return float(np.mean([p_value(first + n, **settings) <= LEVEL for n in range(audits)]))


def limit(audits: int) -> float:
    """Return the largest share of false alarms that a level of 5% gives 999 times in 1,000."""
    from scipy.stats import binom

    return float(binom.ppf(0.999, audits, LEVEL)) / audits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--redraws", type=int, default=499)
    args = parser.parse_args()
    made_of = {
        "separate, no leak": {"shared": False},
        "shared, the other pool leaks": {"shared": True},
        "shared, both leak": {"shared": True, "leak": 1.0},
        "separate, it leaks": {"shared": False, "leak": 1.0},
    }
    rows = {
        name: share_found(args.audits, redraws=args.redraws, **settings)
        for name, settings in made_of.items()
    }
    for name, found in rows.items():
        print(f"{name:<30} found in {found:.3f} of {args.audits} audits")
    print(f"false alarms may be up to {limit(args.audits):.3f}")
    date = datetime.now(UTC).date().isoformat()
    content = {"audits": args.audits, "redraws": args.redraws, "limit": limit(args.audits), **rows}
    (RESULTS / f"shared_level-{date}.json").write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
