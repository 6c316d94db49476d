"""The auditor audited: whole small audits of generators whose leak is known (METHOD §8).

Every audit walks the corridor from a corpus of its own to its figures. A row repeats one kind of
audit with other seeds and holds the outcome to a limit: false alarms and broken claims to the
99.9% point of the binomial at 5%, `echo` to its closed form, named records to the false-discovery
rate asked for. A row that has no limit shows power.
"""

from __future__ import annotations

import json
import math
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np

import synthleak
from synthleak.engine.local import run_units
from synthleak.engine.progress import Progress
from synthleak.metrics.figures import CellFigures, assess
from synthleak.metrics.nulls import LEVEL
from synthleak.metrics.rounds import round_figures
from synthleak.plan.plan import designs
from synthleak.releases.generators.echo import Echo
from synthleak.releases.release import Request, Synthetic
from synthleak.runtime import available_cores
from synthleak.seeds import stream
from synthleak.spec import LoadedSpec, parse_spec
from synthleak.store import FolderStore, MemoryStore
from synthleak.work.figures import claim_of, scores_of
from synthleak.work.observations import look_at, missing_evidence
from synthleak.work.releases import make_releases, missing_releases
from synthleak.workbench import Workbench, set_up

QUICK, FULL = 20, 400
TARGETS = 20
RECORDS = {"lone": 60, "cohort": 100}
"""N = 60; a cohort of 20 targets needs 100, since those who join may be a tenth of N at most."""
INSTANCES = 20
REDRAWS = 199
CROSSFIT_REDRAWS = 19
FAMILIES = ("char_overlap", "bm25")
COPIED = "containment_max"
RATE = 0.1
"""The false-discovery rate at which records are named."""

Kind = Literal["null", "echo", "claim", "named"]


@dataclass(frozen=True)
class Row:
    """One kind of audit, repeated; `p` is how often `echo` copies a record."""

    kind: Kind
    design: str
    generator: str
    p: float = 0.0
    epsilon: float = math.inf
    adjacency: str = "replace"

    @property
    def name(self) -> str:
        """How the row is called in tables."""
        detail = f" p = {self.p:g}" if self.kind in ("echo", "named") else ""
        detail += f" ε = {self.epsilon:g}" if math.isfinite(self.epsilon) else ""
        return f"{self.generator}{detail}, {self.design}"

    @property
    def by_chance(self) -> bool:
        """Whether its TPR is what records that were not copied reach in this design."""
        return self.generator == "bystander"


def _rows() -> list[Row]:
    rows = []
    for design in ("lone", "cohort"):
        rows += [Row("null", design, generator) for generator in ("constant", "bystander")]
        rows += [Row("echo", design, "echo", p=p) for p in (1.0, 0.5, 0.1)]
        rows.append(Row("claim", design, "ngram", epsilon=1.0, adjacency="add"))
    return [*rows, Row("named", "cohort", "echo of half the pool", p=1.0)]


ROWS = _rows()


class PartialEcho(Echo):
    """Copies private records at a known rate, but never the spared ones."""

    spared: tuple[str, ...] = ()

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Echo what is left when the spared are taken out."""
        kept = tuple(record for record in request.records if record.id not in self.spared)
        return super().generate(replace(request, records=kept))


PartialEcho.kind, PartialEcho.version = "partial echo", 1


@dataclass(frozen=True)
class Outcome:
    """What one audit said. Figures of the copied-text proxy are those of scenario S1."""

    p: float | None
    crossfit_p: float | None
    auc: float
    tpr: float
    width: float
    epsilon_lower: float | None
    epsilon_claim: float | None
    named: int
    wrong: int


@dataclass(frozen=True)
class Ground:
    """What workers share: where outcomes go."""

    store: FolderStore


@dataclass(frozen=True)
class Unit:
    """One audit of one row."""

    row: int
    seed: int


@dataclass(frozen=True)
class Checked:
    """One row, judged: `found` is how often a leak was found, `auc_interval` how wide AUC's is."""

    row: str
    audits: int
    found: float
    checked: str
    value: float
    limit: str
    passed: bool
    auc_interval: float


@dataclass(frozen=True)
class Selftest:
    """All rows, judged, how long they took, and the commit they were started from."""

    rows: list[Checked]
    seconds: float
    commit: str | None = None

    @property
    def passed(self) -> bool:
        """Whether every row kept its limit."""
        return all(row.passed for row in self.rows)

    @property
    def comparison(self) -> str:
        """What a cohort gains over lone at equal releases, on `echo` with p = 0.1."""
        lone, cohort = (
            next(row for row in self.rows if row.row == Row("echo", design, "echo", p=0.1).name)
            for design in ("lone", "cohort")
        )
        return (
            f"at {INSTANCES} releases each, echo p = 0.1 is found in {lone.found:.0%} of lone and"
            f" {cohort.found:.0%} of cohort audits, with AUC intervals {lone.auc_interval:.2f} and"
            f" {cohort.auc_interval:.2f} wide"
        )


def report_of(made: Selftest) -> dict[str, Any]:
    """Return a selftest for a file: date, commit, machine, rows."""
    return {
        "what": "synthleak selftest",
        "version": synthleak.__version__,
        "commit": made.commit,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "cores": available_cores()},
        "settings": {
            "targets": TARGETS,
            "records": RECORDS,
            "instances": INSTANCES,
            "redraws": REDRAWS,
            "crossfit_redraws": CROSSFIT_REDRAWS,
            "families": FAMILIES,
        },
        "seconds": round(made.seconds, 1),
        "passed": made.passed,
        "comparison": made.comparison,
        "rows": [asdict(row) for row in made.rows],
    }


def _commit() -> str | None:
    """Return the commit of the source, where it is a checkout."""
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run(
        [git, "-C", str(Path(__file__).parent), "rev-parse", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or None


def run_selftest(
    *, full: bool, workers: int, progress: Progress, audits: int | None = None
) -> Selftest:
    """Audit the auditor: `audits` of every row (20, or 400 in full)."""
    count = audits or (FULL if full else QUICK)
    started, commit = time.monotonic(), _commit()
    with tempfile.TemporaryDirectory(prefix="synthleak-selftest-") as folder:
        ground = Ground(FolderStore(folder))
        units = [Unit(row, seed) for seed in range(count) for row in range(len(ROWS))]
        run_units(
            play_one,
            ground,
            units,
            workers=workers,
            progress=progress,
            title="audits",
            steps=len(units),
        )
        outcomes = [
            [Outcome(**json.loads(ground.store.get(_place(row, seed)))) for seed in range(count)]
            for row in range(len(ROWS))
        ]
    chance = {row.design: made for row, made in zip(ROWS, outcomes, strict=True) if row.by_chance}
    rows = [check(row, made, chance[row.design]) for row, made in zip(ROWS, outcomes, strict=True)]
    return Selftest(rows, time.monotonic() - started, commit)


def play_one(ground: Ground, unit: Unit) -> int:
    """Play one audit and keep its outcome."""
    outcome = audit(ROWS[unit.row], unit.seed)
    ground.store.put(_place(unit.row, unit.seed), json.dumps(outcome.__dict__).encode())
    return 1


def _place(row: int, seed: int) -> str:
    return f"outcome/{row}-{seed}.json"


def audit(row: Row, seed: int) -> Outcome:
    """Walk the corridor once, with a corpus, a pool and coins of this seed."""
    bench = _bench(row, seed)
    spared = _spared(bench) if row.kind == "named" else ()
    if spared:
        section, _ = bench.plugins.generators[0]
        chosen = ((section, PartialEcho(p=row.p, spared=spared)),)
        bench = replace(bench, plugins=replace(bench.plugins, generators=chosen))
    for release in missing_releases(bench):
        make_releases(bench, release)
    for observation in missing_evidence(bench):
        look_at(bench, observation)
    (cell,) = bench.cells
    scores, plan = scores_of(bench, cell), bench.plans[cell.pool]
    figures = assess(
        scores,
        designs.get(plan.design).plugin,
        plan,
        bench.spec.game,
        claim_of(bench, cell),
        (seed, "selftest", row.name),
        redraws=REDRAWS,
        crossfit_redraws=CROSSFIT_REDRAWS,
        spreads=False,
    )
    place = [proxy.name for proxy in scores[0].proxies].index(COPIED)
    rounds = round_figures(scores[0], plan.trials)
    first = figures.rows[0].auc
    return Outcome(
        p=figures.p,
        crossfit_p=figures.crossfit.p if figures.crossfit else None,
        auc=figures.signals[place].auc,
        tpr=float(rounds.tpr[place]),
        width=(first.high or 0.0) - (first.low or 0.0),
        epsilon_lower=figures.epsilon.lower if figures.epsilon else None,
        epsilon_claim=figures.epsilon_claim if _finite(figures.epsilon_claim) else None,
        **_named(bench, figures, spared),
    )


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _bench(row: Row, seed: int) -> Workbench:
    generator: dict[str, Any] = {"kind": "echo" if row.kind == "named" else row.generator}
    if generator["kind"] == "echo":
        generator["p"] = row.p
    if math.isfinite(row.epsilon):
        generator["epsilon"] = row.epsilon
    spec = {
        "seed": seed,
        "corpus": {"reader": "demo", "size": 400, "seed": seed},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": [{"name": "pool", "rule": "random", "size": TARGETS, "draws": 1}],
        "game": {
            "design": row.design,
            "instances": INSTANCES,
            "records": RECORDS[row.design],
            "rounds": 10,
            "candidates": 10,
            "adjacency": row.adjacency,
        },
        "generator": [generator],
        "evidence": {"families": list(FAMILIES)},
    }
    return set_up(LoadedSpec(parse_spec(spec)), MemoryStore())


def _spared(bench: Workbench) -> tuple[str, ...]:
    """Return half of the targets, drawn by the audit's seed."""
    ids = [record.id for record in bench.records(bench.pools["pool"].targets)]
    drawn = stream(bench.spec.seed, "spared").permutation(len(ids))[: len(ids) // 2]
    return tuple(ids[place] for place in sorted(drawn.tolist()))


def _named(bench: Workbench, figures: CellFigures, spared: Sequence[str]) -> dict[str, int]:
    targets = bench.records(bench.pools["pool"].targets)
    named = [targets[row.target].id for row in figures.records if row.q <= RATE]
    return {"named": len(named), "wrong": sum(name in spared for name in named)}


def check(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Checked:
    """Hold the outcomes of a row to its limit; `chance` are those of `bystander` in its design."""
    found = float(np.mean([_small(outcome.p) for outcome in outcomes]))
    checked, value, limit, passed = _CHECKS[row.kind](row, outcomes, chance)
    width = float(np.mean([outcome.width for outcome in outcomes]))
    return Checked(row.name, len(outcomes), found, checked, value, limit, passed, width)


def _small(p: float | None) -> bool:
    return p is not None and p <= LEVEL


Judged = tuple[str, float, str, bool]


def binomial_limit(audits: int, rate: float = LEVEL) -> int:
    """Return how many of so many audits may fail before the rate is significantly above 5%.

    >>> binomial_limit(400), binomial_limit(20)
    (35, 5)
    """
    from scipy.stats import binom

    return int(binom.ppf(0.999, audits, rate))


def _null(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    verdicts = sum(_small(outcome.p) for outcome in outcomes)
    deployed = sum(_small(outcome.crossfit_p) for outcome in outcomes)
    worst, limit = max(verdicts, deployed), binomial_limit(len(outcomes))
    return "false alarms", worst / len(outcomes), f"≤ {limit / len(outcomes):.3f}", worst <= limit


def _claim(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    above = sum(
        outcome.epsilon_lower is not None
        and outcome.epsilon_claim is not None
        and outcome.epsilon_lower > outcome.epsilon_claim
        for outcome in outcomes
    )
    limit = binomial_limit(len(outcomes))
    return (
        "bound above claim",
        above / len(outcomes),
        f"≤ {limit / len(outcomes):.3f}",
        (above <= limit),
    )


def _echo(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    """AUC is (1 + p) / 2; TPR is p, and of the rest as many as pass by chance.

    Chance is measured on `bystander`: (k + 1) / (n + 1) of the rest would pass a threshold between
    n negatives that lets k of them through, but scores are tied and a tied block passes whole or
    not at all.
    """
    aucs = [outcome.auc for outcome in outcomes]
    rates = [outcome.tpr for outcome in outcomes]
    lucky = [outcome.tpr for outcome in chance]
    auc = (1 + row.p) / 2
    tpr = row.p + (1 - row.p) * float(np.mean(lucky))
    reach = math.hypot(_reach(rates), (1 - row.p) * _reach(lucky))
    return (
        f"AUC, with TPR {np.mean(rates):.3f}",
        float(np.mean(aucs)),
        f"{auc:.3f}, with TPR {tpr:.3f}",
        abs(float(np.mean(aucs)) - auc) <= _reach(aucs)
        and abs(float(np.mean(rates)) - tpr) <= reach,
    )


def _reach(values: Sequence[float]) -> float:
    """Return how far from the truth a mean may lie: Student's 99.9% limit, at least 0.003."""
    from scipy.stats import t

    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return max(float(t.ppf(0.9995, len(values) - 1)) * error, 0.003)


def _discoveries(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    shares = [outcome.wrong / max(outcome.named, 1) for outcome in outcomes]
    mean = float(np.mean(shares))
    right = float(np.mean([o.named - o.wrong for o in outcomes])) / (TARGETS / 2)
    return (
        f"wrongly named, {right:.0%} of leaking named",
        mean,
        f"≤ {RATE:g}",
        mean <= RATE + _reach(shares) and right > 0.5,
    )


_CHECKS = {"null": _null, "claim": _claim, "echo": _echo, "named": _discoveries}
