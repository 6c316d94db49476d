"""Families that count n-grams: counts and scores against slow loops, in games and in checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from synthleak.audit.setup import Setup, plan_of, targets_in
from synthleak.audit.stages import set_up
from synthleak.audit.steps.observations import (
    each_missing_evidence,
    look_at,
    observations,
    open_observation,
    scores_of,
)
from synthleak.audit.steps.releases import make_releases, missing_releases
from synthleak.core.spec import LoadedSpec
from synthleak.core.store import MemoryStore
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.evidence import Observation, Targets
from synthleak.evidence.family import CountFamily
from synthleak.evidence.models.coverage import Coverage
from synthleak.evidence.models.rates import Rates
from synthleak.evidence.models.style import Style
from synthleak.evidence.table import by_person
from synthleak.selftest.checks import Check, repeated_texts
from synthleak.selftest.games import PersonGame
from synthleak.testing import tiny_corpus
from synthleak.testing.tiny import ODD_TEXTS

FAMILIES = (Coverage(), Rates(), Style())
TEXTS = [record.text for record in tiny_corpus().records]
Make = Callable[..., LoadedSpec]
Gram = tuple[str, ...]


def slow_grams(family: CountFamily, text: str, longest: int) -> list[Gram]:
    symbols = family.cut(text)
    return [
        tuple(symbols[start : start + n])
        for n in range(1, longest + 1)
        for start in range(len(symbols) - n + 1)
    ]


def slow_excess(family: CountFamily, count: float, expected: float) -> float:
    if isinstance(family, Rates):
        return float(np.log((count + 0.5) / (expected + 0.5)))
    return float(-np.log(1 - np.exp(-(expected + 0.5)))) if count else 0.0


def slow_score(
    family: CountFamily, longest: int, target: str, sets: list[list[str]], at: int, used: Any
) -> float:
    """Score one text on one set: a loop over its n-grams, and over all texts of all sets."""
    others = [place for place in np.flatnonzero(used) if place != at]
    sizes = [sum(len(set(family.cut(text))) for text in texts) for texts in sets]
    seen, excess = [], []
    for gram in dict.fromkeys(slow_grams(family, target, longest)):
        having = [
            sum(gram in slow_grams(family, text, longest) for text in texts) for texts in sets
        ]
        rate = sum(having[o] for o in others) / max(sum(sizes[o] for o in others), 1)
        seen.append(having[at] > 0)
        excess.append(slow_excess(family, having[at], rate * sizes[at]))
    if not seen:
        return 0.0
    return float(sum(excess) / len(seen) ** 0.5 if np.any(used) else np.mean(seen))


def observed(texts: list[str]) -> Observation:
    return Observation(texts, Hashing().encode)


def counts_of(family: CountFamily, targets: Targets, sets: list[list[str]]) -> np.ndarray:
    return np.stack([family.count(targets, observed(texts)) for texts in sets])


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.kind)
def test_scores_equal_a_loop_over_all_texts(family: CountFamily) -> None:
    asked = [*TEXTS[:5], TEXTS[0], "", "no no no no", *ODD_TEXTS[1:4]]
    sets = [TEXTS[2:9], [*TEXTS[9:30], TEXTS[0], "no no"], TEXTS[30:34], [""]]
    targets = Targets(asked, Hashing().encode)
    uses = np.random.default_rng(1).random((len(asked), len(sets))) < 0.6
    uses[0], uses[1] = False, True
    made = family.scores(targets, counts_of(family, targets, sets), uses)
    for target, text in enumerate(asked):
        for at in range(len(sets)):
            for column, n in enumerate(family.longest):
                expected = slow_score(family, n, text, sets, at, uses[target])
                assert made[at, target, column] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.kind)
def test_equal_texts_score_the_same_in_any_block(family: CountFamily) -> None:
    sets = [TEXTS[20:40], TEXTS[40:60]]
    uses = np.array([[False, True]])
    first = Targets([*TEXTS[:6]], Hashing().encode)
    second = Targets([*TEXTS[60:70], *TEXTS[:6][::-1]], Hashing().encode)
    scores = [
        family.scores(block, counts_of(family, block, sets), np.repeat(uses, len(block), 0))
        for block in (first, second)
    ]
    assert np.array_equal(scores[0], scores[1][:, :9:-1])


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.kind)
def test_a_larger_set_of_the_same_texts_expects_more(family: CountFamily) -> None:
    """A release of the reference's texts, four times over, has what was expected of its size."""
    targets = Targets(TEXTS[:4], Hashing().encode)
    sets = [TEXTS[20:60] * 4, TEXTS[20:60]]
    counts = counts_of(family, targets, sets)
    assert np.array_equal(counts[0], 4 * counts[1])
    if isinstance(family, Rates):
        made = family.scores(targets, counts, np.array([[False, True]] * 4))
        assert np.allclose(made[0], 0)


def played(tiny: Make, design: str, also: list[str]) -> Any:
    pool = [{"name": "some", "rule": "random", "size": 6, "draws": 1}]
    game = {"design": design, "instances": 6}
    setup = set_up(tiny(pool=pool, game=game, evidence={"also": also}), MemoryStore())
    finish(setup)
    return setup


def finish(setup: Setup) -> None:
    for releases in missing_releases(setup):
        make_releases(setup, releases)
    for unit in each_missing_evidence(setup):
        look_at(setup, unit)


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_an_audit_scores_by_counts_on_the_sets_of_its_plan(tiny: Make, design: str) -> None:
    setup = played(tiny, design, ["rates"])
    cell = setup.cells[0]
    plan, targets = plan_of(setup, cell), targets_in(setup, cell.pool)
    sets = [
        list(open_observation(setup, cell.pool, seen).texts) for seen in observations(setup, cell)
    ]
    tables = {table.scenario: table for table in scores_of(setup, cell)}
    for baseline in plan.baselines:
        table = tables[baseline.scenario]
        (column,) = (n for n, proxy in enumerate(table.proxies) if proxy.family == "rates")
        for at, target in ((0, 0), (3, 2), (len(sets) - 1, 1)):
            used = baseline.uses[target]
            expected = slow_score(Rates(), 3, targets.texts[target], sets, at, used)
            assert table.values[at, target, column] == pytest.approx(expected, abs=1e-9)


def test_other_proxies_score_the_same_beside_a_family_that_counts(tiny: Make) -> None:
    plain, beside = (played(tiny, "cohort", also) for also in ([], ["coverage", "style"]))
    for before, after in zip(
        scores_of(plain, plain.cells[0]), scores_of(beside, beside.cells[0]), strict=True
    ):
        width = len(before.proxies)
        assert after.proxies[:width] == before.proxies
        assert [proxy.name for proxy in after.proxies[width:]] == [
            "word_coverage",
            "ngram_coverage",
            "style_coverage",
        ]
        assert np.array_equal(after.values[:, :, :width], before.values)


def test_a_person_has_the_largest_and_the_mean_score_of_its_records() -> None:
    setup = PersonGame("cohort", "bystander").setup(3)
    setup = replace(setup, plugins=replace(setup.plugins, families=(Rates().family(),)))
    finish(setup)
    (cell,) = setup.cells
    pool, targets = setup.pools[cell.pool], targets_in(setup, cell.pool)
    sets = [open_observation(setup, cell.pool, seen) for seen in observations(setup, cell)]
    counts = np.stack([Rates().count(targets, one) for one in sets])
    for baseline, table in zip(plan_of(setup, cell).baselines, scores_of(setup, cell), strict=True):
        of_records = np.repeat(baseline.uses, pool.sizes, axis=0)
        expected = by_person(Rates().scores(targets, counts, of_records), pool.sizes)
        assert np.allclose(table.values, expected, rtol=1e-9)


def test_repeated_records_of_many_blocks_tie_in_a_check() -> None:
    setup = replace_families(Check(repeated_texts, families=("char_overlap",)).setup(2))
    finish(setup)
    (cell,) = setup.cells
    targets = targets_in(setup, cell.pool)
    assert len(targets.blocks()) == 3
    repeated = max(set(targets.texts), key=targets.texts.count)
    rows = [row for row, text in enumerate(targets.texts) if text == repeated]
    assert len(rows) > 50
    for table in scores_of(setup, cell):
        assert np.ptp(table.values[:, rows], axis=1).max() == 0
        assert np.ptp(table.values, axis=1).max() > 0


def replace_families(setup: Setup) -> Setup:
    counting = tuple(family.family() for family in FAMILIES)
    return replace(setup, plugins=replace(setup.plugins, families=counting))
