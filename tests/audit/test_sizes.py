"""Releases in several sizes: what is seen, what is made, and what is said of it."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.command_line import assert_one_line_mistake, synthleak
from support.specs import tiny_spec
from synthleak import check
from synthleak.analyses.cells import CellVerdict, judge, judge_smaller
from synthleak.audit.gate import failing, parse_gate
from synthleak.audit.result import Audit, open_run
from synthleak.audit.run import run
from synthleak.audit.setup import smaller_cells
from synthleak.audit.stages import set_up
from synthleak.audit.steps.observations import observations, open_observation
from synthleak.audit.steps.releases import open_release, release_key, wanted_sets
from synthleak.audit.verify import verify
from synthleak.checks import check as checking
from synthleak.core.errors import SpecError, UserError
from synthleak.core.runtime import Runtime
from synthleak.core.seeds import stream
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.corpus.readers.demo import Demo
from synthleak.report.verdict import sentence

ONE = Runtime(workers=1)
SIZES = [5, 20, 60]
ECHO, BYSTANDER = {"kind": "echo", "p": 1.0}, {"kind": "bystander"}


def spec(sizes: Any = SIZES, **changes: Any) -> LoadedSpec:
    game = {"design": "cohort", "instances": 10, "records": 60, "release_size": sizes}
    pools = [{"name": "asked", "rule": "random", "size": 10, "draws": 1}]
    content = tiny_spec(pool=pools, game=game, generator=[ECHO, BYSTANDER])
    return LoadedSpec(parse_spec(content | changes))


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return run(spec(), tmp_path_factory.mktemp("sizes") / "run", runtime=ONE)


def rows_of(audit: Audit, table: str) -> list[dict[str, str]]:
    path = Path(str(audit.folder.results)) / f"{table}.csv"
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


def test_smaller_sizes_are_parts_of_larger_ones(audit: Audit) -> None:
    setup = audit.setup
    cell = setup.cells[0]
    for place in range(len(wanted_sets(setup, cell))):
        seen = [
            open_observation(setup, cell.pool, observations(setup, part)[place])
            for part in (cell, *smaller_cells(setup, cell))
        ]
        assert [len(one) for one in seen] == [60, 20, 5]
        for smaller, larger in zip(seen[1:], seen, strict=False):
            left = list(larger.texts)
            for text in smaller.texts:
                left.remove(text)


def test_the_order_of_rows_depends_on_the_set_alone(audit: Audit) -> None:
    setup = audit.setup
    places = {}
    for cell in setup.cells:
        (part, *_) = smaller_cells(setup, cell)
        seen = observations(setup, part)[0]
        whole = [record.text for record in open_release(setup, seen.release)]
        drawn = stream(seen.seed, "rows").permutation(len(whole))[: seen.size].tolist()
        assert sorted(whole[row] for row in drawn) == sorted(
            open_observation(setup, part.pool, seen).texts
        )
        places[cell.generator] = drawn
    assert places["echo"] == places["bystander"]  # other texts, the same rows


def test_releases_are_those_of_the_largest_size() -> None:
    several, one = (set_up(spec(sizes), MemoryStore()) for sizes in (SIZES, 60))
    assert one.spec.game.release_size == 60
    for cell, other in zip(several.cells, one.cells, strict=True):
        for (_, item), (_, same) in zip(
            wanted_sets(several, cell), wanted_sets(one, other), strict=True
        ):
            assert release_key(several, cell, item) == release_key(one, other, same)


def test_one_size_in_a_list_is_that_size() -> None:
    assert parse_spec(tiny_spec(game={"release_size": [60]})).game.release_size == 60


def test_tables_have_every_size(audit: Audit) -> None:
    cells, sizes = rows_of(audit, "cells"), rows_of(audit, "sizes")
    assert {row["release_size"] for row in cells} == {"60"}
    assert [row["release_size"] for row in sizes if row["scenario"] == "S1"] == [
        "60",
        "20",
        "5",
    ] * 2
    whole = [row for row in sizes if row["release_size"] == "60"]
    assert whole == cells
    leaking = {row["generator"]: row["leaks_from"] for row in cells}
    assert leaking["bystander"] == "" and leaking["echo"] != ""


def test_headline_says_up_to_how_many_texts(audit: Audit) -> None:
    first = next(row.leaks_from for row in audit.cells if row.generator == "echo")
    said = audit.headline
    assert (f"with {first} the records can be recognised" in said) or (
        f"shows in {first} texts" in said
    )
    behind = next(one for one in audit.results.cells if one.cell.generator == "echo")
    assert "An attacker who sees a single release of 60 texts" in sentence(behind)


def test_a_gate_can_name_the_size(audit: Audit) -> None:
    assert failing(parse_gate("leaks_from <= 60"), audit.cells)
    assert not failing(parse_gate("leaks_from <= 4"), audit.cells)


def test_an_audit_of_sizes_verifies_and_goes_on(audit: Audit) -> None:
    found = verify(audit.folder.root, replay=9)
    assert found.verified, found.findings
    again = run(spec(), audit.folder.root, runtime=ONE)
    assert again.tables["sizes"] == open_run(audit.folder.root).tables["sizes"]


def test_a_release_smaller_than_asked_counts_as_whole(audit: Audit) -> None:
    cell = replace(audit.setup.cells[0], size=1000)
    assert observations(audit.setup, cell) == observations(audit.setup, cell.whole)


@pytest.mark.parametrize(
    "sizes", [[], [20, 5], [5, 5], [1, 5], ["auto", 5], [2.5], list(range(2, 14))]
)
def test_sizes_that_cannot_be_used_are_named(sizes: list[Any]) -> None:
    with pytest.raises(SpecError, match=r"game\.release_size"):
        parse_spec(tiny_spec(game={"release_size": sizes}))


def test_a_check_looks_at_parts_of_a_large_release(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [record.text for record in Demo(size=200, seed=3).read()]
    sides = {"members": texts[:60], "holdout": texts[60:120], "release": texts[120:]}
    how: dict[str, Any] = {"random_split": True, "encoder": "hashing", "runtime": ONE}
    parts = check(**sides, **how, sizes=(0.25, 0.5))
    rows = parts.tables["sizes"][1]
    assert [row.release_size for row in rows] == [80, 40, 20]
    whole = check(**sides, **how)
    assert "sizes" not in whole.tables
    assert rows[0].auc == parts.cells[0].auc == whole.cells[0].auc
    with pytest.raises(UserError, match="sizes"):
        check(**sides, **how, sizes=(4.0,))
    for least, seen in ((5, [80, 20, 5]), (6, None)):  # a sixteenth of 80 texts is 5
        monkeypatch.setattr(checking, "LEAST", least)
        usual = check(**sides, **how).tables.get("sizes")
        assert (usual and [row.release_size for row in usual[1]]) == seen
    monkeypatch.setattr(checking, "LEAST", 5)
    for none in ((), (1.0,)):
        assert "sizes" not in check(**sides, **how, sizes=none).tables


def measured(p: float) -> Any:
    return SimpleNamespace(p=p, null=None, rows=(), reason=None, epsilon=None, epsilon_claim=None)


def in_sequence(p_values: Any) -> list[list[CellVerdict]]:
    """Judge `[size, cell]`, the largest size first."""
    verdicts = [judge([measured(p) for p in p_values[0]])]
    for of_size in p_values[1:]:
        verdicts.append(judge_smaller([measured(p) for p in of_size], verdicts[-1]))
    return verdicts


def test_a_size_counts_only_if_larger_ones_were_found() -> None:
    found = [[v.verdict.leaks for v in size] for size in in_sequence([[0.2], [0.0001], [0.0001]])]
    assert found == [[False], [False], [False]]
    p_holm = [size[0].p_holm for size in in_sequence([[0.01], [0.003], [0.2]])]
    assert p_holm == [0.01, 0.01, 0.2]


@pytest.mark.parametrize("quiet_from", [0, 1, 2])
def test_the_sequence_keeps_its_level(quiet_from: int) -> None:
    """Where a release of some size tells nothing, no smaller one does: a false alarm is rare."""
    rng, alarms, plays = np.random.default_rng(quiet_from), 0, 4000
    for _ in range(plays):
        p_values = rng.uniform(size=(3, 4))
        p_values[:quiet_from] = 1e-9  # larger sizes leak
        verdicts = in_sequence(p_values.tolist())
        alarms += any(v.verdict.leaks for size in verdicts[quiet_from:] for v in size)
    assert alarms / plays < 0.05 + 3 * np.sqrt(0.05 * 0.95 / plays)


TOLD, OTHERS = ([record.text for record in Demo(size=240, seed=seed).read()] for seed in (4, 5))
OTHERS = OTHERS[:120]


def of_series(*releases: list[str], **options: Any) -> Audit:
    return check(
        TOLD[::2],
        TOLD[1::2],
        {f"part{number}": texts for number, texts in enumerate(releases)},
        random_split=True,
        series=True,
        runtime=ONE,
        **options,
    )


def test_a_series_says_after_which_release_the_records_can_be_told() -> None:
    audit = of_series(OTHERS[:60], OTHERS[60:], TOLD[::2])
    rows = [row for row in audit.results.cells[0].sizes if row.scenario == "S1"]
    assert [row.release_size for row in rows] == [240, 120, 60]
    assert [row.verdict.split(" at ")[0] for row in rows] == ["leak found", *["none found"] * 2]
    assert rows[0].leaks_from == 240
    (known,) = (one for one in audit.results.check["remarks"] if one["name"] == "Published so far")
    assert known["text"].startswith("3 releases are judged together, in the order given: 60, 120")
    assert (
        "Nothing was found up to 120 texts; with 240 the records can be recognised"
        in audit.headline
    )


def test_a_part_of_a_series_is_what_was_published_first() -> None:
    audit = of_series(OTHERS[:20], OTHERS[20:50], OTHERS[50:])  # its folder goes with it
    setup = audit.setup
    (cell,) = setup.cells
    for part in smaller_cells(setup, cell):
        seen = open_observation(setup, cell.pool, observations(setup, part)[0])
        assert sorted(seen.texts) == sorted(OTHERS[: len(seen.texts)])


@pytest.mark.parametrize(
    ("releases", "options", "message"),
    [
        ([OTHERS], {}, "release: a series of 1; name 2 to 10 releases"),
        ([OTHERS[:9]] * 11, {}, "release: a series of 11; name 2 to 10 releases"),
        ([OTHERS, OTHERS], {"sizes": [0.5]}, "sizes: a series has sizes of its own"),
    ],
)
def test_a_series_that_cannot_be_one_is_refused(
    releases: list[list[str]], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        of_series(*releases, **options)


def test_the_command_line_reads_a_series(tmp_path: Path) -> None:
    for name, texts in {"told": TOLD, "others": OTHERS, "none": []}.items():
        rows = [json.dumps({"text": text}) + "\n" for text in texts]
        (tmp_path / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")
    words = ["check", "--members", "told.jsonl", "--holdout", "others.jsonl", "--series"]
    words += ["--release", "others.jsonl"]
    for more, message in {
        (): "--release: a series of 1; name 2 to 10 releases, the first one first",
        ("--release", "told.jsonl", "--sizes", "0.5"): "--sizes: a series has sizes of its own",
        ("--release", "none.jsonl"): "none.jsonl: the release is empty",
        ("--release", "later.jsonl"): "later.jsonl: no such file; check --release",
    }.items():
        assert_one_line_mistake(synthleak(*words, *more, cwd=tmp_path), message)
