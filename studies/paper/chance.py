"""Say what chance gives of the paper's statistics: `chance.py RUN... --to results/chance.csv`.

Each RUN is an audit of `bystander`, whose releases never saw a private record, with the pools and
plans of the study in design `lone` (specs/*-chance.toml). Its coins are tossed again and again,
pool by pool, and the paper's formulas are applied to each toss as they would be to a result: the
best of 96 signals in hindsight, the gap to the random controls with its spread over rounds, V as
the paper defines it, and the prior attacks. A row says of one statistic its mean, its central 95%
and, where `share` is given, how often it came out as the paper counts it.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from synthleak.analyses.prior import attack_scores
from synthleak.audit.result import open_run
from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import scored_cell
from synthleak.audit.steps.prior_attacks import seen_by
from synthleak.core.errors import UserError
from synthleak.core.seeds import stream
from synthleak.evidence.observation import Floats
from synthleak.metrics.membership import Assignment, Ranks, mean_tpr, ranks_of, redraw_assignments
from synthleak.metrics.profile import paper_vulnerability, shape_of
from synthleak.metrics.types import Ints

TOSSES = 400
CONTROLS = ("rand0", "rand1", "rand2")
SCENARIOS = ("S1", "S2", "S3")
Z = 1.96


@dataclass(frozen=True)
class Row:
    """What chance gives of one statistic; `share` is how often it is as `counted` says."""

    corpus: str
    pool: str
    statistic: str
    scenario: str
    tosses: int
    mean: float
    low: float
    high: float
    counted: str = ""
    share: float | None = None


@dataclass(frozen=True)
class Toss:
    """One toss of a pool's coins: AUC and its error over rounds per signal, and what follows."""

    auc: Floats
    error: Floats
    tpr: Mapping[str, float]
    prior: float
    positive: float
    s10: float


def by_round(ranks: Ranks, assignment: Assignment) -> Floats:
    """Return the AUC of every signal in every round, as `[signal, round]`, ties counting half.

    >>> ranks = ranks_of(np.array([[0.5], [0.5], [0.1], [0.9]]))
    >>> by_round(ranks, Assignment(np.array([0]), np.array([[1, 2], [2, 3]]))).tolist()
    [[0.75, 0.5]]
    """
    middle = ranks.low + ranks.high
    members = np.sort(middle[:, assignment.members], axis=1)
    aucs = np.empty((ranks.signals, len(assignment.others)))
    for signal, (own, scores) in enumerate(zip(members, middle, strict=True)):
        others = scores[assignment.others]
        below = len(own) - np.searchsorted(own, others, side="right")
        upto = len(own) - np.searchsorted(own, others, side="left")
        aucs[signal] = (below + upto).mean(axis=1) / (2 * len(own))
    return aucs


def tosses(setup: Setup, pool: str, count: int) -> tuple[list[Toss], dict[str, Ints]]:
    """Return `count` tosses of the coins of a pool, and the signals of each attacker."""
    cell = next(cell for cell in setup.cells if cell.pool == pool)
    scored = scored_cell(setup, cell)
    values, ranks = scored.values, scored.comparison.ranks
    groups = dict(zip(SCENARIOS, scored.groups, strict=False))
    arms = [
        table.values[: scored.sets]
        for attack in setup.plugins.attacks
        for table in attack_scores(attack, seen_by(setup, cell, attack), scored.plan.baselines)[0]
    ]
    beside = np.concatenate(arms, axis=2)
    others = ranks_of(beside.reshape(-1, beside.shape[2]))
    rng = stream("chance", setup.corpus.name, pool)
    drawn = redraw_assignments(scored.design, scored.plan, scored.game, rng, count)
    made = []
    for assignment in drawn:
        rounds = by_round(ranks, assignment)
        auc = rounds.mean(axis=1)
        best = {name: int(group[auc[group].argmax()]) for name, group in groups.items()}
        top = int(auc.argmax())
        shape = shape_of(paper_vulnerability(values[:, :, [top]], assignment)[0])
        made.append(
            Toss(
                auc,
                rounds.std(axis=1, ddof=1) / rounds.shape[1] ** 0.5,
                {name: mean_tpr(ranks, assignment, signal) for name, signal in best.items()},
                float(by_round(others, assignment).mean(axis=1).max()),
                shape.positive,
                shape.s10,
            )
        )
    return made, groups


def best_of(pools: Sequence[Toss], group: Ints) -> tuple[float, float]:
    """Return the AUC of the signal that is best over some pools together, and its error.

    As `control_gap.csv` has it: the error of the mean over all rounds of all pools.
    """
    aucs = np.array([toss.auc[group] for toss in pools])
    best = int(aucs.mean(axis=0).argmax())
    rounds = np.array([toss.error[group][best] for toss in pools]) ** 2
    variance = rounds.mean() / len(pools) + aucs[:, best].var() / (ROUNDS * len(pools))
    return float(aucs[:, best].mean()), float(variance**0.5)


ROUNDS = 50


def gaps(
    selected: Sequence[Toss], controls: Sequence[Sequence[Toss]], group: Ints
) -> Iterator[tuple[float, float]]:
    """Yield the gap and its spread by the paper's formula, toss by toss."""
    for one, *rest in zip(selected, *controls, strict=True):
        (auc, error), (usual, other) = best_of([one], group), best_of(rest, group)
        yield auc - usual, Z * float(np.hypot(error, other))


def rows_of(setup: Setup, count: int) -> Iterator[Row]:
    """Yield the rows of one corpus."""
    corpus, made = setup.corpus.name, {}
    for pool in setup.pools:
        made[pool], groups = tosses(setup, pool, count)
        print(f"{corpus} {pool}: {count} tosses", flush=True)

    def row(
        pool: str, statistic: str, scenario: str, drawn: Sequence[float], **more: object
    ) -> Row:
        values = np.asarray(drawn)
        low, high = np.nanquantile(values, [0.025, 0.975]).tolist()
        mean = float(np.nanmean(values))
        return Row(corpus, pool, statistic, scenario, len(values), mean, low, high, **more)  # type: ignore[arg-type]

    for pool, drawn in made.items():
        best = {name: [t.auc[group].max() for t in drawn] for name, group in groups.items()}
        for name in groups:
            yield row(pool, "best AUC", name, best[name])
            yield row(pool, "TPR of the best at 5% FPR", name, [t.tpr[name] for t in drawn])
        for name in ("S2", "S3"):
            change = np.subtract(best[name], best["S1"])
            yield row(pool, f"best AUC, {name} less S1", name, change.tolist())
        lead = [max(t.auc) - t.prior for t in drawn]
        yield row(
            *(pool, "ours less the better prior attack", "all", lead),
            **{"counted": "ours wins", "share": float(np.mean(np.greater(lead, 0)))},
        )
        yield row(
            pool, "share of records with V > 0, the paper's V", "all", [t.positive for t in drawn]
        )
        yield row(pool, "S10 of the paper's V", "all", [t.s10 for t in drawn])
    for pool in (name for name in made if name not in CONTROLS):
        controls, ups = [made[name] for name in CONTROLS], []
        for name, group in groups.items():
            pairs = np.array(list(gaps(made[pool], controls, group)))
            ups.append((pairs[:, 0] > 0, pairs[:, 0] > pairs[:, 1]))
            beyond = float((abs(pairs[:, 0]) > pairs[:, 1]).mean())
            for counted, share in (
                ("positive", float(ups[-1][0].mean())),
                ("positive, interval excludes 0", float(ups[-1][1].mean())),
                ("interval excludes 0", beyond),
            ):
                yield row(
                    pool,
                    "gap to the controls",
                    name,
                    pairs[:, 0].tolist(),
                    counted=counted,
                    share=share,
                )
            yield row(pool, "spread of the gap, 1.96 errors", name, pairs[:, 1].tolist())
        for some in (("S1", "S2"), SCENARIOS):
            places = [list(groups).index(name) for name in some]
            together = np.logical_and.reduce([ups[place][1] for place in places])
            yield row(
                *(
                    pool,
                    "gaps of several attackers",
                    " ".join(some),
                    together.astype(float).tolist(),
                ),
                **{"counted": "all positive, intervals exclude 0", "share": float(together.mean())},
            )


def main(argv: Sequence[str] | None = None) -> None:
    """Write the rows of the runs named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results/chance.csv")
    parser.add_argument("--tosses", type=int, default=TOSSES)
    given = parser.parse_args(argv)
    try:
        setups = [open_run(run).setup for run in given.runs]
        for run, setup in zip(given.runs, setups, strict=True):
            if {section.kind for section, _ in setup.plugins.generators} != {"bystander"}:
                raise UserError("not an audit of `bystander`: its coins may show", str(run))
        rows = [row for setup in setups for row in rows_of(setup, given.tosses)]
    except UserError as error:
        print(f"chance.py: {error}", file=sys.stderr)
        sys.exit(2)
    with given.to.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    print(f"{given.to}: {len(rows)} rows")


if __name__ == "__main__":
    main()
