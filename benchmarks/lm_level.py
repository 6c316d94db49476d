"""Does the proxy family `lm` hold the null, and does it see copies? A tiny model, on a CPU.

Records are random sentences of the words that the tests' tiny backbone knows. Each audit draws a
cohort by the design's own sampler and makes releases as `bystander` does (fresh records of R) or as
`echo` does (each private record with probability p, filled up from R). Adapters of many audits are
trained as one fleet. False alarms at 5% may not lie above the 99.9% point of the binomial.

    python benchmarks/lm_level.py             # 200 audits of bystander, 40 of echo; writes results/
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from shared_level import limit
from support.tiny_backbone import WORDS, write_backbone
from synthleak.calibration import calibrate
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.core.verdict import LEVEL
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.evidence.models.lm import LanguageModelProxy
from synthleak.evidence.observation import Observation, Targets
from synthleak.evidence.table import Evidence, chosen_families, look
from synthleak.metrics.assignment import assignment_of, redraw_assignments
from synthleak.metrics.comparison import comparison_of
from synthleak.metrics.null import min_p_test
from synthleak.plan.plan import Plan, designs
from synthleak.pools.pool import Pool

RESULTS = Path(__file__).parent / "results"
TARGETS, RECORDS, TEXTS, LENGTH = 8, 40, 400, 10
GAME = GameSection(design="cohort", instances=8, records=RECORDS)
DESIGN = designs.get("cohort").plugin


def releases(plan: Plan, texts: list[str], pool: Pool, p: float, seed: int) -> list[Observation]:
    """Return what is observed of every set of a plan; p = 0 ignores the private records."""
    rng = stream(seed, "releases")
    seen = []
    for item in plan.sets:
        own = [texts[n] for n in item.records]
        if item.form == "release":
            copied = [text for text in own if rng.random() < p]
            fill = rng.choice(pool.auxiliary, RECORDS - len(copied), replace=False)
            own = copied + [texts[n] for n in fill]
        seen.append(Observation(own, Hashing().encode))
    return seen


def p_values(
    proxy: LanguageModelProxy, seeds: range, p: float, redraws: int
) -> list[dict[str, Any]]:
    """Play audits whose adapters are trained together, and return p and the best AUC of each."""
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(WORDS, LENGTH)) for _ in range(TEXTS)]
    rest = range(TARGETS, TEXTS)
    pool = Pool("p", tuple(range(TARGETS)), ("p",) * TARGETS, tuple(rest[::2]), tuple(rest[1::2]))
    targets = Targets(texts[:TARGETS], Hashing().encode)
    plans = [DESIGN.draw(pool, GAME, seed) for seed in seeds]
    seen = [releases(plan, texts, pool, p, s) for plan, s in zip(plans, seeds, strict=True)]
    values = proxy.look_together(targets, [one for own in seen for one in own])
    rows, start = [], 0
    for plan, own, seed in zip(plans, seen, seeds, strict=True):
        table = np.stack(values[start : start + len(own)])
        start += len(own)
        scores = calibrate(Evidence(table, proxy.family().proxies), plan.baselines)
        sets = int(plan.trials.set.max()) + 1
        together = np.concatenate([one.values[:sets] for one in scores], axis=2)
        assignments = [
            assignment_of(plan.trials, TARGETS),
            *redraw_assignments(DESIGN, plan, GAME, stream(seed, "redraws"), redraws),
        ]
        statistics = comparison_of(DESIGN, plan, together).statistics(assignments)
        test = min_p_test(statistics.values)
        row = {"p": None if test is None else test.p, "auc": float(statistics.auc[0].max())}
        rows.append(row | {"other_auc": best_of_others(plan, targets, own) if p else None})
    return rows


def best_of_others(plan: Plan, targets: Targets, seen: list[Observation]) -> float:
    """Return the best AUC of the 32 other proxies on the same releases."""
    found = []
    for member in chosen_families("all"):
        table = np.stack([look(member, targets, one) for one in seen])
        for scores in calibrate(Evidence(table, member.proxies), plan.baselines):
            own = scores.values[: int(plan.trials.set.max()) + 1]
            actual = [assignment_of(plan.trials, TARGETS)]
            found.append(comparison_of(DESIGN, plan, own).statistics(actual).auc[0].max())
    return float(max(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--copied", type=int, default=40, help="audits of echo")
    parser.add_argument("--redraws", type=int, default=199)
    parser.add_argument("--together", type=int, default=10)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    made: dict[str, Any] = {"redraws": args.redraws}
    with tempfile.TemporaryDirectory() as folder:
        proxy = LanguageModelProxy(
            backbone=write_backbone(Path(folder) / "model", layers=2),
            device="cpu",
            rank=2,
            epochs=3,
            learning_rate=1e-2,
        )
        for name, audits, p in (("bystander", args.audits, 0.0), ("echo", args.copied, 0.5)):
            began, rows = time.perf_counter(), []
            for first in range(0, audits, args.together):
                seeds = range(first, min(first + args.together, audits))
                rows += p_values(proxy, seeds, p, args.redraws)
                print(f"{name}: {len(rows)} of {audits}", flush=True)
            found = float(np.mean([row["p"] is not None and row["p"] <= LEVEL for row in rows]))
            made[name] = {
                "audits": audits,
                "found": found,
                "limit": limit(audits) if p == 0 else None,
                "mean_best_auc": float(np.mean([row["auc"] for row in rows])),
                "mean_best_auc_of_the_32_others": (
                    float(np.mean([row["other_auc"] for row in rows])) if p else None
                ),
                "seconds": round(time.perf_counter() - began, 1),
            }
            print(f"{name}: found in {found:.3f} of {audits} audits", flush=True)
    out = args.out or RESULTS / f"lm_level-{datetime.now(UTC).date().isoformat()}.json"
    out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
