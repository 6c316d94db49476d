"""Attributes, selection rules and consistency: planted links are found, chance gives none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, spearmanr

from support.oracles import analyses as oracle
from support.oracles.planted import Ground, Leak, Planted, nothing, raised
from synthleak.analyses import Study, Unavailable
from synthleak.analyses.analysis import ATTRIBUTES, CellData
from synthleak.analyses.attributes import (
    attributes,
    attributes_combined,
    attributes_combined_paper,
    attributes_paper,
    detection_floor,
    matrices,
    nearest_cosine,
    rare_bigram_density,
    selection_rules,
)
from synthleak.analyses.consistency import _setting, consistency, signals_read
from synthleak.analyses.vulnerability import SELECTION_RULES, TOO_FEW, cell_groups
from synthleak.evidence import Floats

GROUND = Ground(instances=30, records=16)
LENGTHS = np.arange(16.0)


def growing(most: float) -> Leak:
    """Return a leak that grows with the record's length."""

    def leak(sets: NDArray[np.int64], targets: NDArray[np.int64]) -> NDArray[np.float64]:
        return most * LENGTHS[targets] / LENGTHS.max()

    return leak


def described(leak: Leak, ground: Ground = GROUND, pools: int = 3) -> Planted:
    """Return random pools and a selected one, whose records have lengths."""
    made = Planted(ground).add("odd", leak).describe("odd", LENGTHS)
    for draw in range(pools):
        name, start = f"random{draw}", 16 * (draw + 1)
        made.add(name, leak, rule="random", start=start).describe(name, LENGTHS, start)
    return made


def test_leak_by_length_shows_in_length_only() -> None:
    study = described(growing(3.0)).study()
    for row in attributes(study):
        assert row.p_holm is not None
        assert (row.p_holm <= 0.05) == (row.attribute == "length"), row
        if row.attribute == "length":
            assert row.rho is not None and row.rho > 0.7
    row = next(
        row
        for row in attributes_combined(study)
        if (row.selection, row.block, row.corpus, row.attribute)
        == ("split80", "random", "all", "length")
    )
    assert row.p_holm is not None and row.p_holm <= 0.01
    assert (row.pools, row.records, row.positive_pools) == (3, 48, 3)


def test_paper_attributes_read_the_paper_v() -> None:
    study = described(growing(3.0)).study()
    for group in cell_groups(study):
        signal = group.choose()
        assert signal is not None
        place = group.cells[0].signals.index(signal)
        v = np.mean([cell.profile.v_paper[place] for cell in group.cells], axis=0)
        lengths = LENGTHS[np.isfinite(v)]
        (row,) = [
            row
            for row in attributes_paper(study)
            if (row.pool, row.attribute) == (group.pool.name, "length")
        ]
        assert row.records == len(lengths)
        assert row.rho == pytest.approx(spearmanr(v[np.isfinite(v)], lengths).statistic)
    combined = {(row.selection, row.attribute) for row in attributes_combined_paper(study)}
    assert combined == {(row.selection, row.attribute) for row in attributes_combined(study)}


def test_in_a_lone_game_too() -> None:
    study = described(growing(4.0), Ground(design="lone", instances=100, records=16)).study()
    rows = [row for row in attributes(study) if row.attribute == "length"]
    assert rows and all(row.rho is not None and row.rho > 0.4 for row in rows)


def test_attribute_rho_and_p_match_the_oracle() -> None:
    made = described(growing(1.0))
    study = made.study()
    table = {(row.pool, row.record): row for row in study.attributes}
    for group in cell_groups(study):
        signal = group.choose()
        assert signal is not None
        v = group.v(signal)
        for row in attributes(study):
            if row.pool != group.pool.name:
                continue
            values = [
                getattr(table[row.pool, record], row.attribute) for record in group.pool.records
            ]
            expected = spearmanr(values, v)
            assert row.rho == pytest.approx(expected.statistic)
            assert row.p_value == pytest.approx(expected.pvalue, abs=0.02)
            assert (row.selected_on == "†") == (
                row.pool == "odd" and row.attribute == "outlierness"
            )


def test_split_rule_chooses_on_its_split() -> None:
    made = Planted(GROUND).add("odd", raised(1.0)).add("odd", raised(0.2), epsilon=1.0)
    [group] = cell_groups(made.study())
    best = np.max([cell.profile.split_auc for cell in group.cells], axis=0)
    assert group.choose() == group.cells[0].signals[int(best.argmax())]
    levels = [[s.auc for s in cell.measurements.signals] for cell in group.cells]
    assert group.choose("all") == group.cells[0].signals[int(np.max(levels, axis=0).argmax())]
    fixed = group.choose("cos_max S1")
    assert fixed is not None
    place = group.cells[0].signals.index(fixed)
    pooled = np.mean([cell.profile.v[place] for cell in group.cells], axis=0)
    assert group.v(fixed) == pytest.approx(pooled)


def test_only_disjoint_pools_are_combined() -> None:
    made = described(growing(1.0))
    made.add("random9", growing(1.0), rule="random", start=20)
    study = made.describe("random9", LENGTHS, 20).study()
    single = {(row.pool, row.attribute): row for row in attributes(study)}
    for row in attributes_combined(study):
        if (row.selection, row.block, row.corpus) != ("split80", "random", "all"):
            continue
        pools = [single[f"random{draw}", row.attribute] for draw in range(3)]
        assert row.pools == 3
        assert row.rho == pytest.approx(
            oracle.fisher([p.rho or 0.0 for p in pools], [p.records for p in pools])
        )
    alone = [row for row in attributes_combined(study) if row.corpus == "demo"]
    assert alone and all(row.p_value is None for row in alone)


def test_unrelated_attributes_rarely_pass_holm() -> None:
    small = Ground(instances=12, records=16, scenarios=("S1",), redraws=19)
    nominal = alarms = tests = 0
    for seed in range(12):
        study = described(nothing, replace(small, seed=seed), pools=1).study()
        rows = attributes(study)
        nominal += sum((row.p_value or 1) <= 0.05 for row in rows)
        alarms += any((row.p_holm or 1) <= 0.05 for row in rows)
        tests += len(rows)
    assert nominal <= binom.ppf(0.999, tests, 0.05)
    assert alarms <= binom.ppf(0.999, 12, 0.05)


def test_selection_rules_count_passed_tests() -> None:
    study = described(growing(3.0)).study()
    rows = {row.selection: row for row in selection_rules(study)}
    assert tuple(rows) == SELECTION_RULES
    made = matrices(study)
    moves = [
        abs(a.rho[k] - b.rho[k])
        for a, b in zip(made["split80"], made["cos_max S1"], strict=True)
        for k in range(len(ATTRIBUTES))
    ]
    assert rows["cos_max S1"].largest_move == pytest.approx(max(moves))
    assert rows["cos_max S1"].median_move == pytest.approx(np.median(moves))
    assert rows["split80"].largest_move is None
    assert rows["split80"].tests == 20
    assert rows["split80"].significant == 4


def test_rule_without_its_proxy_is_left_out() -> None:
    made = Planted(Ground(instances=20, records=16, scenarios=("S1",)))
    made.add("odd", growing(2.0)).describe("odd", LENGTHS)
    assert [row.selection for row in selection_rules(made.study())] == [
        "split80",
        "all",
        "cos_max S1",
    ]


def test_same_leaking_records_are_consistent_across_settings() -> None:
    made = Planted(GROUND)
    for generator in ("one", "other"):
        for epsilon in (math.inf, 1.0):
            made.add("odd", raised(3.0, range(5)), generator=generator, epsilon=epsilon)
    rows = consistency(made.study())
    kinds = [row.across for row in rows]
    assert (kinds.count("generators"), kinds.count("budgets"), kinds.count("scenarios")) == (
        1,
        2,
        2,
    )
    between = next(row for row in rows if row.across == "generators")
    assert between.rho is not None and between.null_high is not None
    assert between.rho > between.null_high
    assert between.p_holm is not None and between.p_holm <= 0.05
    for row in rows:
        assert row.p_holm is not None and row.p_holm <= 0.05


def test_budgets_of_one_generator_and_scenario_are_compared() -> None:
    made = Planted(Ground(instances=40, records=16, scenarios=("S1",)))
    for epsilon in (math.inf, 1.0):
        made.add("odd", raised(3.0, range(5)), epsilon=epsilon)
    (row,) = consistency(made.study())
    assert (row.across, row.one, row.other) == ("budgets", "inf", "1")


def test_consistency_reads_no_other_scores_than_it_names() -> None:
    made = Planted(GROUND).add("odd", growing(1.0), generator="api")
    made.add("odd", growing(1.0), generator="dpsgd")
    study = made.study()
    wanted = signals_read(study)

    def loading(cell: CellData) -> CellData:
        own = {cell.signals.index(signal) for signal in wanted[cell.cell]}
        read = cell.load_scores

        def load(places: Sequence[int]) -> Floats:
            assert set(places) <= own
            return read(places)

        return replace(cell, load_scores=load)

    narrow = replace(study, cell_data=tuple(loading(cell) for cell in study.cell_data))
    assert consistency(narrow) == consistency(study)
    assert all(len(wanted[cell.cell]) < len(cell.signals) for cell in study.cell_data)


def test_consistency_uses_the_first_generators_proxy() -> None:
    made = Planted(GROUND).add("odd", growing(1.0), generator="api")
    made.add("odd", growing(1.0), generator="dpsgd")
    study = made.study()
    row = next(row for row in consistency(study) if row.across == "generators")
    assert (row.one, row.other) == ("dpsgd", "api")
    groups = {group.generator: group for group in cell_groups(study)}
    signal = groups["dpsgd"].choose()
    assert signal is not None
    assert (row.scenario, row.proxy) == (signal.scenario, signal.proxy)
    sides = [groups[name].v(signal) for name in ("dpsgd", "api")]
    assert row.rho == pytest.approx(spearmanr(*sides)[0])
    top = [set(np.argsort(-side, kind="stable")[:2]) for side in sides]
    assert row.turnover == pytest.approx(1 - len(top[0] & top[1]) / 2)
    assert row.chance_turnover == pytest.approx(1 - 2 / 16)


def test_band_covers_correlation_from_shared_coins() -> None:
    """Scores that two generators share make V agree where nothing leaks: the band moves along."""
    cell_data, _ = GROUND.cell("odd", nothing, generator="a")
    other, _ = GROUND.cell("odd", nothing, generator="b")
    mixed = 0.9 * cell_data.scores() + 0.1 * other.scores()
    twin = replace(other, load_scores=lambda places: mixed[:, :, places])
    row = next(
        row
        for row in consistency(Study((), (), cell_data=(cell_data, twin)))
        if row.across == "generators"
    )
    assert row.null_mean is not None and row.null_mean > 0.8
    assert row.p_value is not None and row.p_value > 0.01


def test_unavailable_analyses_say_what_they_need() -> None:
    alone = Planted(Ground(instances=20, records=16, scenarios=("S1",))).add("odd").study()
    with pytest.raises(Unavailable, match="generator, budget or scenario"):
        consistency(alone)
    few = Planted(Ground(design="lone", instances=4, records=3)).add("odd")
    few.describe("odd", [1.0, 2.0, 3.0])
    for call in (attributes, attributes_combined, selection_rules, consistency):
        with pytest.raises(Unavailable, match=TOO_FEW):
            call(few.study())
        with pytest.raises(Unavailable):
            call(Study((), ()))


def test_the_floor_is_the_papers() -> None:
    assert round(detection_floor(36), 2) == 0.33
    assert round(detection_floor(19), 2) == 0.46


words = st.lists(st.sampled_from("abcd"), max_size=8)


@given(st.lists(words, min_size=1, max_size=4), st.lists(words, min_size=1, max_size=8))
def test_rare_bigrams_are_counted_as_the_oracle_counts_them(
    texts: list[list[str]], known: list[list[str]]
) -> None:
    expected = [oracle.rare_bigram_density(text, known) for text in texts]
    found = rare_bigram_density(list(map(" ".join, texts)), list(map(" ".join, known)))
    assert found == pytest.approx(expected)


def test_nearest_record_has_the_largest_cosine() -> None:
    found = nearest_cosine(np.array([[2.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 3.0]]))
    assert found == pytest.approx([2**-0.5, 0.0])


def test_rounding_orders_no_records_with_equal_v() -> None:
    v = np.round(np.random.default_rng(0).normal(size=(3, 20)), 1)  # with ties
    last_digits = np.random.default_rng(1).normal(size=v.shape) * 1e-15
    exact, rounded = (_setting("one", values) for values in (v, v + last_digits))
    assert np.array_equal(exact.ranks, rounded.ranks)
    assert np.array_equal(exact.length, rounded.length)
