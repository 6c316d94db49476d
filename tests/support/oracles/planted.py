"""Studies with a known answer: scores are given directly, a leak is planted where coins fell."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from synthleak.analyses import Study
from synthleak.analyses.analysis import AttributeRow, CellData, PoolFacts, Signal
from synthleak.analyses.cells import CellRow, ProxyRow, evaluate, judge
from synthleak.calibration import Scores
from synthleak.core.cell import Cell
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.evidence import Proxy
from synthleak.metrics.measure import measure
from synthleak.metrics.membership import assignment_of, round_measurements
from synthleak.metrics.profile import pack_ranks, profile, unpack_scores
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.plan import Plan, designs
from synthleak.pools import Pool
from synthleak.releases import Claim

PROXIES = (
    Proxy("containment_max", "a", "lexical", "ratio", "-"),
    Proxy("jaccard_max", "a", "lexical", "ratio", "-"),
    Proxy("cos_max", "b", "embedding", "ratio", "-"),
)
Leak = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]
"""How much the scores of (set, target) rise where the target joined."""


def nothing(sets: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.zeros(len(sets))


@dataclass(frozen=True)
class Ground:
    """One game: how it is played, with how many records, by which attackers."""

    design: str = "cohort"
    instances: int = 40
    records: int = 20
    scenarios: tuple[str, ...] = ("S1", "S2")
    corpus: str = "demo"
    seed: int = 1
    redraws: int = 99

    @property
    def game(self) -> GameSection:
        return GameSection(
            design=self.design,
            instances=self.instances,
            records=5 * self.records,
            rounds=5,
            candidates=6,
        )

    def plan(self, name: str, start: int = 0) -> Plan:
        n = self.records
        pool = Pool(
            name,
            tuple(range(start, start + n)),
            (name,) * n,
            tuple(range(1000, 1000 + 6 * n)),
            tuple(range(5000, 5000 + 6 * n)),
        )
        return designs.get(self.design).plugin.draw(pool, self.game, self.seed)

    def cell(
        self,
        pool: str,
        leak: Leak = nothing,
        *,
        rule: str = "outlier",
        generator: str = "g",
        epsilon: float = math.inf,
        start: int = 0,
        noise: int = 0,
    ) -> tuple[CellData, list[Scores]]:
        """Play a cell: noise for every release, and the leak where a record joined."""
        plan, design = self.plan(pool, start), designs.get(self.design).plugin
        name = (self.seed, noise, self.corpus, pool, generator, repr(epsilon))
        shape = (len(plan.sets), self.records, len(PROXIES))
        member = plan.trials.member
        where = (plan.trials.set[member], plan.trials.target[member])
        raised = leak(*where)
        scores = []
        for scenario in self.scenarios:
            values = stream(*name, scenario).normal(size=shape)
            values[where] += raised[:, None]
            scores.append(Scores(scenario, values, PROXIES))
        shared = (self.seed, "profile", self.corpus, pool)
        made, ranks = profile(
            ScoredCell(scores, design, plan, self.game, shared), redraws=self.redraws, draws=60
        )
        packed = pack_ranks(ranks)
        facts = PoolFacts(
            corpus=self.corpus,
            name=pool,
            rule=rule,
            records=tuple(f"r{place}" for place in plan.targets),
            origins=plan.origins,
        )
        cell_data = CellData(
            cell=Cell(self.corpus, pool, generator, epsilon),
            pool=facts,
            seed=self.seed,
            generator_kind=generator,
            plan=plan,
            game=self.game,
            signals=tuple(Signal(s.scenario, p.name, p.view) for s in scores for p in PROXIES),
            measurements=measure(
                ScoredCell(scores, design, plan, self.game, name),
                Claim(math.inf, 0.0),
                redraws=self.redraws,
                crossfit_redraws=5,
                spreads=False,
            ),
            profile=made,
            load_scores=lambda places: unpack_scores(packed, self.records, places),
        )
        return cell_data, scores


@dataclass
class Planted:
    """A study under construction."""

    ground: Ground = field(default_factory=Ground)
    cells: list[tuple[CellData, list[Scores]]] = field(default_factory=list)
    attributes: list[AttributeRow] = field(default_factory=list)

    def add(self, pool: str, leak: Leak = nothing, **more: object) -> Planted:
        self.cells.append(self.ground.cell(pool, leak, **more))  # type: ignore[arg-type]
        return self

    def describe(self, pool: str, lengths: Sequence[float], start: int = 0) -> Planted:
        """Give records a length; the other attributes are noise."""
        rng = stream(self.ground.seed, "attributes", pool)
        self.attributes += [
            AttributeRow(self.ground.corpus, pool, f"r{start + i}", length, *rng.normal(size=4))
            for i, length in enumerate(lengths)
        ]
        return self

    def study(self) -> Study:
        judged = judge([cell_data.measurements for cell_data, _ in self.cells])
        rows: list[CellRow] = []
        details: list[ProxyRow] = []
        for (cell_data, scores), verdict in zip(self.cells, judged, strict=True):
            plan = cell_data.plan
            observed = assignment_of(plan.trials, len(plan.targets))
            some, more = evaluate(
                cell_data.cell,
                PROXIES,
                [round_measurements(table.values, observed) for table in scores],
                plan,
                cell_data.measurements,
                verdict,
                len(self.cells),
            )
            rows += some
            details += more
        return Study(
            cells=tuple(rows),
            proxies=tuple(details),
            cell_data=tuple(cell_data for cell_data, _ in self.cells),
            attributes=tuple(self.attributes),
            pools=tuple(dict.fromkeys(cell_data.pool for cell_data, _ in self.cells)),
        )


def controlled(ground: Ground, selected: Leak, ordinary: Leak, **more: object) -> Planted:
    """Return a selected pool with three random controls that share no record with it."""
    made = Planted(ground).add("odd", selected, **more)
    for draw in range(3):
        made.add(
            f"random{draw}", ordinary, rule="random", start=ground.records * (draw + 1), **more
        )
    return made


def raised(amount: float, who: Sequence[int] | None = None) -> Leak:
    """Return a leak that raises every member, or only some records."""

    def leak(sets: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.float64]:
        return amount * (np.isin(targets, who) if who is not None else np.ones(len(targets)))

    return leak
