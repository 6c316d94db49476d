"""Splits whose unit has to be guessed from torn groups: no reading gives more false verdicts."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.calibration import Scores
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.corpus import Corpus, Record
from synthleak.corpus.corpus import Split
from synthleak.evidence import Proxy
from synthleak.metrics.measure import measure
from synthleak.metrics.measurements import CellMeasurements, larger_of
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.plan import Plan
from synthleak.plan.given import GivenSplit
from synthleak.pools.pool import split, split_groups
from synthleak.releases import no_claim

PROXIES = tuple(Proxy(f"p{i}", "f", "lexical", "difference", "") for i in range(3))
GAME = GameSection(design="given")


def pairs_and_singles(records: int) -> np.ndarray:
    """Number the groups: half of the records are in pairs, the others alone."""
    half = records // 2
    return np.concatenate(
        [np.repeat(np.arange(half // 2), 2), np.arange(half // 2, half // 2 + half)]
    )


def cell_of(group: np.ndarray, member: np.ndarray, seed: int) -> tuple[ScoredCell, str | None]:
    """Score records without a leak; those of a pair are alike, and unlike the single ones."""
    corpus = Corpus(
        "c",
        tuple(Record(str(i), f"text {i}", (), f"g{g}") for i, g in enumerate(group)),
        split=Split(tuple("members" if was else "holdout" for was in member), "random"),
    )
    pool = split(corpus, "all", range(len(group)), auxiliary=0.5, seed=seed)
    plan = GivenSplit().draw(pool, GAME, seed)
    rng = stream(seed, "values")
    sizes = np.bincount(group)
    shared = rng.normal(size=(len(sizes), 3))
    own = rng.normal(size=(len(group), 3))
    values = np.where(sizes[group] > 1, 2.0, 0.0)[:, None] + shared[group] + 0.3 * own
    scores = [Scores("S1", values[None, list(plan.targets)], PROXIES)]
    return ScoredCell(scores, GivenSplit(), plan, GAME, (seed, "cell")), split_groups(corpus).unit


def measured(cell: ScoredCell) -> CellMeasurements:
    return measure(cell, no_claim(), redraws=99, crossfit_redraws=1, spreads=False)


def record_split(records: int, holdout: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    group = pairs_and_singles(records)
    return group, stream(seed, "split").permutation(np.arange(records) >= holdout)


def group_split(
    records: int, share: float, mistakes: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    group, rng = pairs_and_singles(records), stream(seed, "split")
    count = int(group.max()) + 1
    member = rng.permutation(np.arange(count) >= share * count)[group]
    for place in rng.permutation(len(group))[:mistakes]:
        member[place] = ~member[place]
    return group, member


def test_few_tears_of_a_record_split_are_read_in_both_ways() -> None:
    """98 to 2: chance tears 4 of 100 pairs, as few as mistakes would."""
    alarms, units = 0, []
    for seed in range(30):
        cell, unit = cell_of(*record_split(1000, 20, seed), seed)
        units.append(unit)
        alarms += (measured(cell).p or 0.0) <= 0.05
    assert units.count("either") >= 20 and units.count("group") == 0
    assert alarms <= 5  # 30 at 5%: more than 5 happens 3 times in a thousand


def test_nobody_is_left_out_where_both_readings_fit() -> None:
    cell, unit = cell_of(*record_split(1000, 20, 1), 1)
    assert unit == "either" and cell.targets == 1000
    assert cell.plan.either and len(cell.plan.readings) == 2
    assert Plan.from_bytes(cell.plan.to_bytes()).to_bytes() == cell.plan.to_bytes()
    assert Plan.from_bytes(cell.plan.to_bytes()).either
    whole, single = cell.plan.readings
    assert whole.blocks and not single.blocks and not whole.either


def test_torn_groups_stay_where_they_are() -> None:
    cell, _ = cell_of(*record_split(1000, 20, 1), 1)
    whole, single = cell.plan.readings
    was, block = cell.plan.trials.member, whole.block_of
    torn = [b for b in np.unique(block) if 0 < was[block == b].sum() < (block == b).sum()]
    fixed = np.isin(block, torn)
    assert fixed.any()
    for number in range(20):
        now = GivenSplit().redraw(whole, GAME, stream(number)).member
        assert (now[fixed] == was[fixed]).all() and (now != was).any()
        assert int(GivenSplit().redraw(single, GAME, stream(number)).member.sum()) == was.sum()


@pytest.mark.parametrize("mistakes", [0, 3])
def test_group_splits_with_a_few_mistakes_hold_their_level(mistakes: int) -> None:
    alarms = sum(
        (measured(cell_of(*group_split(400, 0.5, mistakes, seed), seed)[0]).p or 0.0) <= 0.05
        for seed in range(30)
    )
    assert alarms <= 5


def test_the_larger_p_of_both_readings_counts() -> None:
    cell, _ = cell_of(*record_split(1000, 20, 2), 2)
    both = measured(cell)
    parts = [
        measured(ScoredCell(cell.scores, cell.design, reading, GAME, cell.name))
        for reading in cell.plan.readings
    ]
    assert both.p == pytest.approx(max(part.p or 0.0 for part in parts), abs=0.1)
    swapped = larger_of(parts[1], parts[0])
    assert larger_of(*parts).p == swapped.p == max(part.p or 0.0 for part in parts)
    for signal, one, other in zip(swapped.signals, parts[0].signals, parts[1].signals, strict=True):
        assert signal.auc_ceiling == max(one.auc_ceiling or 1.0, other.auc_ceiling or 1.0)
