"""Declared looks: who goes on, what is made, and what a folder says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.scripts import BENCHMARKS, script
from support.specs import tiny_spec
from synthleak.audit.finished import status
from synthleak.audit.result import open_run
from synthleak.audit.run import run
from synthleak.audit.setup import plan_of
from synthleak.audit.stages import set_up
from synthleak.audit.verify import verify
from synthleak.core.engine.progress import Silent
from synthleak.core.errors import StoreError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.preflight.cost import estimate
from synthleak.preflight.power import power_table

ONE = Runtime(workers=1)


class Notes(Silent):
    """Keeps the lines that a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


GAME = {"design": "cohort", "instances": 12, "looks": [4, 8], "records": 40}
ECHO, BYSTANDER = {"kind": "echo", "p": 1.0}, {"kind": "bystander"}


def spec(**changes: Any) -> LoadedSpec:
    """Return a spec with one generator that leaks everything and one that leaks nothing."""
    pools = [{"name": "asked", "rule": "random", "size": 6, "draws": 1}]
    content = tiny_spec(pool=pools, game=GAME, generator=[ECHO, BYSTANDER])
    return LoadedSpec(parse_spec(content | changes))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("looks") / "run"
    run(spec(), out, runtime=ONE)
    return out


def manifest(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    return content


def files_of(out: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in [*(out / "results").iterdir(), out / "report.html"]}


def instances_of(out: Path) -> dict[str, tuple[int, int, int]]:
    return {row.generator: (row.look, row.looks, row.instances) for row in open_run(out).cells}


def test_a_cell_that_is_found_makes_no_more_releases(whole: Path) -> None:
    assert instances_of(whole) == {"echo": (1, 3, 4), "bystander": (3, 3, 12)}
    assert len(list((whole / "store" / "release").iterdir())) == 4 + 12
    audit = open_run(whole)
    assert [plan_of(audit.setup, cell).trials.set.max() + 1 for cell in audit.setup.cells] == [
        4,
        12,
    ]
    assert "Found at the first look, after 4 of 12 releases." in audit.headline
    assert (
        b"Found at the first look, after 4 of 12 releases" in (whole / "report.html").read_bytes()
    )


def test_p_of_a_look_is_multiplied_by_the_number_of_looks(whole: Path, tmp_path: Path) -> None:
    """The first four instances of a cohort are those of a game of four, in any case."""
    alone = run(spec(game={**GAME, "instances": 4, "looks": []}), tmp_path / "alone", runtime=ONE)
    looked, single = open_run(whole), alone.setup.cells[0]
    with_looks = looked.results.cells[0].measurements
    without = next(one for one in alone.results.cells if one.cell == single).measurements
    assert [s.values for s in with_looks.signals] == [s.values for s in without.signals]
    assert with_looks.p is not None and without.p is not None
    # Other redraws, and more of them; both are at the smallest p that they allow.
    assert with_looks.p == pytest.approx(3 * without.p, rel=0.5)
    assert all(
        more.auc_ceiling is None or less.auc_ceiling is None or more.auc_ceiling > less.auc_ceiling
        for more, less in zip(with_looks.signals, without.signals, strict=True)
    )


def test_a_finished_audit_is_stable(whole: Path) -> None:
    before, notes = files_of(whole), Notes()
    noted = manifest(whole)
    run(spec(), whole, runtime=ONE, progress=notes)
    assert notes.lines == [f"nothing to do: {whole} is up to date (2 cells)"]
    assert files_of(whole) == before and manifest(whole) == noted
    state = status(whole)
    assert state.finished
    assert [(row["releases"], row["of"], row["look"]) for row in state.cells] == [
        (4, 4, "1 of 3"),
        (12, 12, "3 of 3"),
    ]
    found = verify(whole)
    assert {one.outcome for one in found.findings} == {"verified"}, found


def test_two_workers_leave_the_same_files(whole: Path, tmp_path: Path) -> None:
    run(spec(), tmp_path / "run", runtime=Runtime(workers=2))
    assert files_of(tmp_path / "run") == files_of(whole)


class StoppedError(Exception):
    """A run that is stopped."""


class StopsAt(Notes):
    """Stops a run when it opens a stage for the nth time."""

    def __init__(self, title: str, count: int) -> None:
        super().__init__()
        self.title, self.left = title, count

    def stage(self, title: str, total: int) -> Any:
        self.left -= title == self.title
        if self.left == 0:
            raise StoppedError
        return super().stage(title, total)


@pytest.mark.parametrize(
    ("title", "count", "looks"),
    [
        ("observations", 1, ["1 of 3", "1 of 3"]),
        ("measurements", 1, ["1 of 3", "1 of 3"]),
        ("releases", 2, ["1 of 3", "2 of 3"]),
        ("measurements", 3, ["1 of 3", "3 of 3"]),
        ("utility", 1, ["1 of 3", "3 of 3"]),
    ],
)
def test_a_run_that_is_stopped_goes_on_rightly(
    whole: Path, tmp_path: Path, title: str, count: int, looks: list[str]
) -> None:
    out = tmp_path / "run"
    with pytest.raises(StoppedError):
        run(spec(), out, runtime=ONE, progress=StopsAt(title, count))
    state = status(out)
    assert not state.finished and "run it again to continue" in state.summary
    assert [row["look"] for row in state.cells] == looks
    run(spec(), out, runtime=ONE)
    assert files_of(out) == files_of(whole)
    assert [entry["instances"] for entry in manifest(out)["looks"]] == [4, 8, 12]


def test_the_manifest_notes_every_look(whole: Path) -> None:
    looks = manifest(whole)["looks"]
    both = ["bystander without privacy, pool asked", "echo without privacy, pool asked"]
    assert [(look["instances"], look["cells"]) for look in looks] == [
        (4, both),
        (8, both[:1]),
        (12, both[:1]),
    ]
    assert all(look["at"].startswith("20") for look in looks)


def test_shared_releases_are_made_while_one_pool_needs_them(tmp_path: Path) -> None:
    """Three coins of two records show nothing: their pool goes on after the other is found."""
    pools = [
        {"name": "asked", "rule": "random", "size": 6, "draws": 1},
        {"name": "pair", "rule": "random", "size": 2, "draws": 1},
    ]
    game = {**GAME, "looks": [3, 8], "share_releases": True}
    out = tmp_path / "run"
    audit = run(spec(pool=pools, game=game, generator=[ECHO]), out, runtime=ONE)
    asked, pair = (audit.setup.reached[cell] for cell in audit.setup.cells)
    assert asked == 3 and pair > 3
    assert len(list((out / "store" / "release").iterdir())) == pair
    assert {one.outcome for one in verify(out).findings} == {"verified"}


def grown(instances: int, **changes: Any) -> LoadedSpec:
    return spec(game={**GAME, "instances": instances, "looks": [], **changes})


def test_undeclared_looks_are_refused(tmp_path: Path) -> None:
    """Five looks at a growing cohort: the second is refused, and nothing is written."""
    out = tmp_path / "run"
    run(grown(4), out, runtime=ONE)
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    for instances in (8, 12, 16, 20):
        with pytest.raises(StoreError, match=r"looked at after 4 instances; more need `looks`"):
            run(grown(instances), out, extend=True, runtime=ONE)
    for other in (grown(2), grown(8, looks=[4])):
        with pytest.raises(StoreError, match=r"looked at after 4 instances"):
            run(other, out, extend=True, runtime=ONE)
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before


def test_instances_may_grow_while_nothing_was_looked_at(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(StoppedError):
        run(grown(4), out, runtime=ONE, progress=StopsAt("measurements", 1))
    run(grown(8), out, extend=True, runtime=ONE)
    assert instances_of(out) == {"echo": (1, 1, 8), "bystander": (1, 1, 8)}


@pytest.mark.parametrize("looks", [[], [4, 8]])
def test_a_cell_that_is_added_later_is_counted_and_said(tmp_path: Path, looks: list[int]) -> None:
    out, game = tmp_path / "run", {**GAME, "looks": looks}
    one = run(spec(game=game, generator=[BYSTANDER]), out, runtime=ONE)
    assert b"Another look" not in (out / "report.html").read_bytes()
    both = run(spec(game=game), out, extend=True, runtime=ONE)
    added = "echo without privacy, pool asked"
    assert added in manifest(out)["looks"][-1]["cells"]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert f"after results of other cells had been seen: {added}" in page
    assert "adjustment is over 2 cells" in page
    assert len(one.setup.cells) == 1 and {r.cells for r in both.results.cells} == {2}
    assert {one.outcome for one in verify(out).findings} == {"verified"}
    run(spec(game=game, generator=[ECHO]), out, extend=True, runtime=ONE)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "not counted here: bystander without privacy, pool asked" in page


def test_five_undeclared_looks_raise_false_alarms_and_declared_ones_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = script("looks", BENCHMARKS)
    monkeypatch.setattr(looks, "SIGNALS", 3)
    monkeypatch.setattr(looks, "REDRAWS", 199)
    monkeypatch.setattr(looks, "TARGETS", {"cohort": 8})
    case = looks.Case("test", "cohort", (4, 6, 10, 16, 24), (0.5,))
    plan, game = looks.plan_of(case)
    p = np.stack([looks.p_at_looks(case, plan, game, seed) for seed in range(150)])
    row = looks.judged(case, p)
    assert row["declared"]["false_alarms"] <= 0.11  # 99.9% point of a binomial at 5%
    assert row["undeclared"]["false_alarms"] >= 0.11
    assert row["fixed"]["false_alarms"] <= 0.11


@pytest.mark.parametrize(
    ("p", "found"),
    [
        ([[0.02, 0.9], [0.001, 0.9]], [1, -1]),  # 0.04 · 2 cells at the first look
        ([[0.01, 0.9], [0.9, 0.9]], [0, -1]),  # stays found, whatever comes later
        ([[0.012, 0.02], [0.9, 0.9]], [0, 0]),  # Holm: the second of two needs less
        ([[0.012, 0.5], [0.9, 0.02]], [0, 1]),
        ([[0.9, 0.9], [0.03, 0.03]], [-1, -1]),
    ],
)
def test_holm_at_every_look(p: list[list[float]], found: list[int]) -> None:
    assert script("looks", BENCHMARKS).found_at(np.array(p), 2).tolist() == found


def test_what_looks_save_is_shown_before_the_start() -> None:
    setup = set_up(spec(generator=[BYSTANDER]), MemoryStore())
    (row,) = power_table(setup, Silent())
    strong, middle, weak = (row[f"instances until {auc}"] for auc in ("0.7", "0.6", "0.55"))
    assert 4 <= strong < middle < weak <= 12
    (alone,) = power_table(
        set_up(spec(generator=[BYSTANDER], game={**GAME, "looks": []}), MemoryStore()), Silent()
    )
    assert alone["smallest AUC"] < row["smallest AUC"]
    assert not any("until" in name for name in alone)
    cost = estimate(spec(generator=[BYSTANDER]), ONE, Silent())
    assert [(look["instances"], look["releases"]) for look in cost.looks] == [
        (4, 4),
        (8, 8),
        (12, 12),
    ]
    times = [look["seconds"] for look in cost.looks]
    assert times == sorted(times) and times[-1] == pytest.approx(cost.wall_seconds)
