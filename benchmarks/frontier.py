"""How near to the claim do attackers come? The smallest ε at which each of them finds the leak.

GoEmotions, `dpsgd`, design `cohort`, 100 releases of 500 records, ε from ∞ down to 2. Two specs:
50 outliers and 50 canaries (one copy) share their releases, and 12 canaries have 8 copies each (the
most that a cohort of 500 records bears). Attackers: the 32 proxies, each prior attack, the proxy
family `lm`, and all signals together. Every p-value is of the attacker's own search, Holm over ε.

    python benchmarks/frontier.py specs --corpus goemotions.jsonl.gz --to runs/frontier
    python benchmarks/frontier.py make --to runs/frontier --spec shared --epsilon 4 --minutes 8
    python benchmarks/frontier.py report --to runs/frontier     # prints, writes results/

`make` does one slice: the releases of one budget and what all attackers see of them, a few minutes
on a GPU. It goes on where it stopped. For a GPU machine without a network use the steps of
studies/paper/slice.py (prepare, make --score --pack, take) on the two specs; `report` reads the
same run folders, and leaves budgets out that are not complete. `specs --backbone FOLDER --tiny`
writes small specs, for a dry run on a CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "studies" / "paper"))

import slice as slices

from synthleak.analyses.prior import attack_scores
from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import scored_cell
from synthleak.audit.steps.observations import missing_evidence, missing_models, scores_of
from synthleak.audit.steps.prior_attacks import attacks_on, each_missing_attack, seen_by
from synthleak.audit.steps.releases import held_claim
from synthleak.calibration import Scores
from synthleak.core.cell import LEVEL, Cell
from synthleak.core.spec import dump_toml
from synthleak.metrics.measure import measure
from synthleak.metrics.null import holm
from synthleak.metrics.scored_cell import ScoredCell

RESULTS = Path(__file__).parent / "results"
BUDGETS = (math.inf, 64, 16, 8, 4, 2)
SPECS = ("shared", "repeats")
REDRAWS, CROSSFITS = 2000, 19


@dataclass(frozen=True)
class Row:
    """What one attacker reaches in one cell. Signals are all of its proxies and scenarios."""

    spec: str
    pool: str
    copies: int
    epsilon: float
    attacker: str
    signals: int
    auc: float
    chance_limit: float | None
    p: float | None
    p_holm: float | None
    found: bool
    named: int | None
    epsilon_lower: float | None
    epsilon_largest: float | None
    epsilon_claim: float | None


# ---------------------------------------------------------------------------- specs and slices


def specs(args: argparse.Namespace) -> None:
    """Write the two specs."""
    args.to.mkdir(parents=True, exist_ok=True)
    corpus: dict[str, Any] = {"reader": "demo", "size": 900}
    encoders = {}
    if args.corpus:
        encoders = {"encoders": {"pools": "minilm", "evidence": "static"}}
        path = os.path.relpath(args.corpus.resolve(), args.to.resolve())
        corpus = {"reader": "jsonl", "path": path, "name": "goemotions"}
        corpus["description"] = "short comments from an internet forum"
    budgets = [e for e in BUDGETS if not args.tiny or e in (math.inf, 16)]
    sizes = (
        {"pool": 10, "few": 4, "copies": 4} if args.tiny else {"pool": 50, "few": 12, "copies": 8}
    )
    game = {"instances": 10, "records": 100} if args.tiny else {"instances": 100, "records": 500}
    model = {"backbone": args.backbone} if args.backbone else {}
    small = {"rank": 2, "max_tokens": 16, "device": "cpu"} if args.tiny else {"max_tokens": 64}
    tuning = {"epochs": 1} if args.tiny else {}
    generator = {"kind": "dpsgd", "epsilon": budgets, **model, **small}
    generator |= {"epochs": 1, "batch_size": 8} if args.tiny else {"batch_size": 16}
    base = {
        "seed": 1,
        "corpus": corpus,
        **encoders,
        "game": {"design": "cohort", "adjacency": "add", **game},
        "generator": [generator],
        "evidence": {"also": [{"kind": "lm", **model, **small, **tuning}]},
    }
    outlier = {"name": "outlier", "rule": "outlier", "percentile": 99, "lof": 10}
    canary = {"name": "canary", "rule": "canary", "size": sizes["pool"]}
    pools = {
        "shared": [outlier | {"size": sizes["pool"]}, canary],
        "repeats": [
            {"name": "repeated", "rule": "canary", "size": sizes["few"], "repeats": sizes["copies"]}
        ],
    }
    for name in SPECS:
        game = base["game"] | ({"share_releases": True} if name == "shared" else {})
        written = {**base, "game": game, "pool": pools[name]}
        (args.to / f"{name}.toml").write_text(dump_toml(written), encoding="utf-8")
        print(f"wrote {args.to / name}.toml")


def make(args: argparse.Namespace) -> None:
    """Make one slice: releases of one budget, and what every attacker sees of them."""
    words = [str(args.to / f"{args.spec}.toml"), "--run", str(run_of(args.to, args.spec))]
    words += ["--epsilon", str(args.epsilon), "--minutes", str(args.minutes), "--score"]
    words += ["--workers", str(args.workers)]
    slices.main(["make", *words])


def run_of(folder: Path, spec: str) -> Path:
    """Return the run folder of a spec."""
    return folder / f"run-{spec}"


# ---------------------------------------------------------------------------- what was found


def report(args: argparse.Namespace) -> None:
    """Measure every attacker on every cell that is complete; print, and write the rows."""
    rows: list[Row] = []
    for name in SPECS:
        if run_of(args.to, name).is_dir():
            setup = slices.read(args.to / f"{name}.toml", run_of(args.to, name))
            rows += measured(setup, name, args.redraws)
    rows = adjusted(rows)
    for line in table(rows):
        print(line)
    made = {
        "date": datetime.now(UTC).date().isoformat(),
        "redraws": args.redraws,
        "machine": slices.machine(),
        "frontier": frontier(rows),
        "rows": [{**asdict(row), "epsilon": written(row.epsilon)} for row in rows],
    }
    out = args.out or RESULTS / f"frontier-{made['date']}.json"
    out.write_text(json.dumps(made, indent=1, default=written) + "\n", encoding="utf-8")
    print(f"wrote {out}")


def measured(setup: Setup, spec: str, redraws: int) -> Iterator[Row]:
    """Measure every attacker on the complete cells of a run."""
    for cell in setup.cells:
        if not complete(setup, cell):
            print(f"{spec}: {slices.title(cell)} is not complete, left out", flush=True)
            continue
        start = time.monotonic()
        whole = scored_cell(setup, cell)
        copies = max(setup.pools[cell.pool].copies)
        for attacker, tables in attackers(setup, cell).items():
            own = ScoredCell(tables, whole.design, whole.plan, whole.game, whole.name)
            found = measure(
                own,
                held_claim(setup, cell),
                redraws=redraws,
                crossfit_redraws=CROSSFITS,
                spreads=False,
            )
            best = max(found.rows, key=lambda row: row.auc.value)
            bound = found.epsilon
            yield Row(
                spec=spec,
                pool=cell.pool,
                copies=copies,
                epsilon=cell.epsilon,
                attacker=attacker,
                signals=sum(len(table.proxies) for table in tables),
                auc=best.auc.value,
                chance_limit=best.auc.null,
                p=found.p,
                p_holm=None,
                found=False,
                named=found.named,
                epsilon_lower=None if bound is None else bound.lower,
                epsilon_largest=None if bound is None else bound.largest,
                epsilon_claim=found.epsilon_claim,
            )
        print(f"{spec}: {slices.title(cell)} in {time.monotonic() - start:.0f} s", flush=True)


def complete(setup: Setup, cell: Cell) -> bool:
    """Say whether releases and evidence of a cell are all there."""
    from dataclasses import replace

    alone = replace(setup, cells=(cell,))
    if slices.made(setup, cell) < len(slices.wanted_sets(setup, cell)):
        return False
    return not (missing_evidence(alone) or missing_models(alone) or any(each_missing_attack(alone)))


def attackers(setup: Setup, cell: Cell) -> dict[str, list[Scores]]:
    """Return the scores of each attacker: whose search is whose."""
    every = scores_of(setup, cell)
    baselines = setup.plans[cell.pool].baselines
    prior = {
        attack.kind: attack_scores(attack, seen_by(setup, cell, attack), baselines)[0]
        for attack in attacks_on(setup, cell)
    }
    return {
        "32 proxies": [some for t in every if (some := of_family(t, lm=False)).proxies],
        **{f"prior: {name}": tables for name, tables in prior.items()},
        "lm": [some for t in every if (some := of_family(t, lm=True)).proxies],
        "all": [*every, *(table for tables in prior.values() for table in tables)],
    }


def of_family(table: Scores, *, lm: bool) -> Scores:
    """Return the columns of `lm`, or the others."""
    kept = [n for n, proxy in enumerate(table.proxies) if (proxy.family == "lm") == lm]
    return Scores(table.scenario, table.values[:, :, kept], tuple(table.proxies[n] for n in kept))


def adjusted(rows: Sequence[Row]) -> list[Row]:
    """Adjust p over the budgets of each pool and attacker by Holm."""
    from dataclasses import replace

    groups: dict[tuple[str, str], list[int]] = {}
    for place, row in enumerate(rows):
        groups.setdefault((row.pool, row.attacker), []).append(place)
    made = list(rows)
    for places in groups.values():
        for place, p in zip(places, holm([rows[n].p for n in places]), strict=True):
            made[place] = replace(rows[place], p_holm=p, found=p is not None and p <= LEVEL)
    return made


def frontier(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return, for each pool and attacker, the smallest ε found and the smallest with a bound."""
    made = []
    for pool, attacker in dict.fromkeys((row.pool, row.attacker) for row in rows):
        own = [row for row in rows if (row.pool, row.attacker) == (pool, attacker)]
        found = [row.epsilon for row in own if row.found]
        bound = [row.epsilon for row in own if (row.epsilon_lower or 0.0) > 0]
        made.append(
            {
                "pool": pool,
                "copies": own[0].copies,
                "attacker": attacker,
                "budgets": [written(row.epsilon) for row in own],
                "smallest_found": written(min(found)) if found else None,
                "smallest_with_a_bound": written(min(bound)) if bound else None,
            }
        )
    return made


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Write the rows as lines, the frontier after them."""
    yield "pool      copies  ε     attacker       AUC    limit  p_holm  bound  claim"
    for row in rows:
        yield (
            f"{row.pool:<9} {row.copies:>6}  {written(row.epsilon)!s:<5} {row.attacker:<14}"
            f" {row.auc:.3f}  {shown(row.chance_limit)}  {shown(row.p_holm)}"
            f"  {shown(row.epsilon_lower)}  {shown(row.epsilon_claim)}"
        )
    for line in frontier(rows):
        yield (
            f"{line['pool']} by {line['attacker']}: found down to ε ="
            f" {line['smallest_found'] or 'none'}, a bound above 0 down to"
            f" {line['smallest_with_a_bound'] or 'none'}"
        )


def shown(value: float | None) -> str:
    return "–    " if value is None else "∞    " if math.isinf(value) else f"{value:.3f}"


def written(value: Any) -> Any:
    """Write ∞ as JSON and tables have it."""
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True, metavar="STEP")
    one = steps.add_parser("specs", help=specs.__doc__)
    one.add_argument("--corpus", type=Path, help="GoEmotions as JSON Lines; the demo without it")
    one.add_argument("--backbone", help="SmolLM2 without it")
    one.add_argument("--tiny", action="store_true", help="a dry run on a CPU")
    two = steps.add_parser("make", help=make.__doc__)
    two.add_argument("--spec", choices=SPECS, required=True)
    two.add_argument("--epsilon", type=float, required=True)
    two.add_argument("--minutes", type=float, default=math.inf)
    two.add_argument("--workers", type=int, default=slices.available_cores())
    three = steps.add_parser("report", help=report.__doc__)
    three.add_argument("--redraws", type=int, default=REDRAWS)
    three.add_argument("--out", type=Path)
    for step, does in ((one, specs), (two, make), (three, report)):
        step.add_argument("--to", type=Path, required=True)
        step.set_defaults(does=does)
    args: Mapping[str, Any] | Any = parser.parse_args()
    args.does(args)


if __name__ == "__main__":
    main()
