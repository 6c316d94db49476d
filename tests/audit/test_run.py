"""The pipeline, end to end: the same spec gives the same tables, and nothing is made twice."""

from __future__ import annotations

import json
import math
import pickle
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from support.specs import tiny_spec
from synthleak import Audit, open_run, run
from synthleak.audit.finished import status
from synthleak.audit.stages import set_up
from synthleak.audit.steps.observations import evidence_of
from synthleak.audit.steps.releases import account_claims
from synthleak.calibration import Scores, calibrate
from synthleak.core.engine.progress import Silent
from synthleak.core.errors import StoreError, UserError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.evidence.table import Evidence
from synthleak.plan import Baseline
from synthleak.releases import claim

Make = Callable[..., LoadedSpec]
ONE = Runtime(workers=1)


class Notes(Silent):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.stages: list[tuple[str, int]] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def stage(self, title: str, total: int) -> Any:
        self.stages.append((title, total))
        return super().stage(title, total)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a finished run, which tests only read; those that change one take `out`."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(LoadedSpec(parse_spec(tiny_spec())), folder, runtime=ONE)
    return folder


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    """Return a copy of the finished run."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted((folder / "results").iterdir())}


def tables(folder: Path) -> dict[str, bytes]:
    return files_of(folder) | {"report.html": (folder / "report.html").read_bytes()}


def test_one_and_two_workers_leave_identical_files(tiny: Make, whole: Path, tmp_path: Path) -> None:
    run(tiny(), tmp_path / "two", runtime=Runtime(workers=2))
    one, two = tables(whole), tables(tmp_path / "two")
    assert one == two
    assert {"cells.csv", "cells.parquet", "proxies.csv", "proxies.parquet", "summary.json"} <= set(
        one
    )


def test_workers_are_given_the_noise_of_a_claim(
    tiny: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "_sigmas", {})
    setup = set_up(tiny(), MemoryStore())
    account_claims(setup)
    found = claim.known_sigmas()
    assert [asked[0] for asked in found] == [2.0]
    packed = pickle.dumps(setup)
    monkeypatch.setattr(claim, "_sigmas", {})
    pickle.loads(packed)
    assert claim.known_sigmas() == found


@pytest.mark.parametrize("table", ["cells", "records", "views"])
def test_results_with_other_columns_are_written_again(table: str, tiny: Make, out: Path) -> None:
    made, before = open_run(out), tables(out)
    cells, outcomes = made.cells, made.outcomes
    path = made.folder.results / f"{table}.parquet"
    older = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(older.drop_columns(older.column_names[-1:]), path)
    made.folder._note([f"results/{path.name}"])  # written so by an older version, not altered
    assert not status(out).finished
    assert open_run(out).cells == cells
    assert open_run(out).outcomes == outcomes
    run(tiny(), out, runtime=ONE)
    assert tables(out) == before
    assert status(out).finished


def test_the_scores_of_a_cell_are_computed_once(
    tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed = []

    def counted(evidence: Evidence, baselines: Sequence[Baseline]) -> list[Scores]:
        computed.append(len(evidence.values))
        return calibrate(evidence, baselines)

    monkeypatch.setattr("synthleak.audit.steps.observations.calibrate", counted)
    audit = run(tiny(), tmp_path / "run", runtime=ONE)
    assert len(computed) == len(audit.setup.cells)


def test_a_second_run_does_no_work_and_says_so(tiny: Make, out: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
    notes = Notes()
    run(tiny(), out, runtime=ONE, progress=notes)
    assert notes.stages == []
    assert notes.lines == [f"nothing to do: {out} is up to date (2 cells)"]
    assert before == {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}


def test_a_changed_spec_needs_extend_which_makes_only_what_is_new(
    tiny: Make, out: Path, tmp_path: Path
) -> None:
    more = tiny(generator=[{"kind": "ngram", "epsilon": [math.inf, 2, 0.5]}])
    before = files_of(out)
    with pytest.raises(StoreError, match=r"belongs to another spec.*epsilon was.*add --extend"):
        run(more, out, runtime=ONE)
    assert files_of(out) == before
    notes = Notes()
    run(more, out, extend=True, runtime=ONE, progress=notes)
    assert notes.lines[0] == "new: ngram.epsilon was ['inf', 2.0], is ['inf', 2.0, 0.5]"
    assert notes.lines[1] == "to make: 16 releases; kept: 32"
    # 12 instances and 4 references; the raw references were looked at before.
    assert notes.stages[:2] == [("releases", 16), ("observations", 16)]
    fresh = tmp_path / "fresh"
    run(more, fresh, runtime=ONE)
    assert files_of(out) == files_of(fresh)


def test_an_added_family_is_all_that_is_computed(tiny: Make, out: Path) -> None:
    releases = sorted((out / "store" / "release").iterdir())
    evidence = len(list((out / "store" / "evidence").iterdir()))
    more = tiny(evidence={"families": ["cos", "bigram_logprob", "gaussian_loglik"]})
    run(more, out, extend=True, runtime=ONE)
    assert sorted((out / "store" / "release").iterdir()) == releases
    assert len(list((out / "store" / "evidence").iterdir())) == evidence + 36


def test_an_interrupted_run_goes_on_where_it_stopped(tiny: Make, whole: Path, out: Path) -> None:
    lost = sorted((out / "store" / "release").iterdir())[:5]
    for path in lost:
        path.unlink()
    for path in sorted((out / "store" / "evidence").iterdir())[:7]:
        path.unlink()
    (out / "results" / "cells.csv").unlink()
    assert "not finished" in status(out).summary
    notes = Notes()
    run(tiny(), out, runtime=ONE, progress=notes)
    assert ("releases", 5) in notes.stages
    assert files_of(out) == files_of(whole)
    assert status(out).summary == "finished"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_release_changed_by_hand_is_made_again(
    tiny: Make, out: Path, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    before = tables(out)
    changed, other = sorted((out / "store" / "text").iterdir())[:2]
    data = changed.read_bytes()
    changed.write_bytes(other.read_bytes())
    for path in (out / "store" / "evidence").iterdir():
        path.unlink()
    run(tiny(), out, runtime=Runtime(workers=workers))
    assert f"text/{changed.name} is damaged: it is made again" in caplog.messages
    assert changed.read_bytes() == data and tables(out) == before


def test_changed_records_are_noticed(tiny: Make, tmp_path: Path) -> None:
    data = tmp_path / "records.jsonl"
    rows = [{"id": str(i), "text": f"record number {i} says {i * i} things"} for i in range(90)]
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    spec = tiny(corpus={"reader": "jsonl", "path": str(data)})
    run(spec, tmp_path / "run", runtime=ONE)
    rows[7]["text"] = "something else entirely"
    data.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    with pytest.raises(StoreError, match="the records of the corpus have changed"):
        run(spec, tmp_path / "run", runtime=ONE)


def test_a_mistake_leaves_nothing_behind(tiny: Make, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        run(tiny(game={"records": 5000}), tmp_path / "run", runtime=ONE)
    assert not (tmp_path / "run").exists()


def test_a_folder_of_something_else_is_left_alone(tiny: Make, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(StoreError, match="not empty and holds no audit"):
        run(tiny(), tmp_path, runtime=ONE)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_resolved_spec_runs_to_the_same_tables(whole: Path, tmp_path: Path) -> None:
    run(whole / "spec.toml", tmp_path / "again", runtime=ONE)
    assert files_of(whole) == files_of(tmp_path / "again")


def best(audit: Audit) -> dict[str, float]:
    return {row.scenario: row.auc for row in audit.cells}


def figures(tiny: Make, out: Path, **generator: Any) -> dict[str, float]:
    spec = tiny(
        corpus={"reader": "demo", "size": 400},
        game={"instances": 60, "records": 60, "rounds": 10},
        generator=[generator],
        evidence={"families": ["sequence_overlap", "cos"]},
    )
    return best(run(spec, out, runtime=Runtime(workers=2)))


def test_echo_is_found_and_the_nulls_are_not(tiny: Make, tmp_path: Path) -> None:
    echo = figures(tiny, tmp_path / "echo", kind="echo", p=1.0)
    assert min(echo.values()) > 0.97
    constant = figures(tiny, tmp_path / "constant", kind="constant")
    # One text for all: only what the target brings itself differs, so S2 is chance, S1 nearly so.
    assert all(abs(value - 0.5) < 0.17 for value in constant.values())
    bystander = figures(tiny, tmp_path / "bystander", kind="bystander")
    assert all(abs(value - 0.5) < 0.17 for value in bystander.values())


@pytest.mark.parametrize(("redraws", "used"), [(0, 2000), (4000, 4000), ("auto", 10_000)])
def test_no_verdict_rests_on_the_first_redraws_alone(
    tiny: Make, tmp_path: Path, redraws: int | str, used: int
) -> None:
    """A certain leak is at the floor of 2,000 redraws, whatever it is worth."""
    game = {"design": "cohort", "instances": 12, "records": 60}
    pool = [{"name": "outlier", "rule": "outlier", "percentile": 92, "size": 6}]
    asked = {"generator": [{"kind": "echo", "p": 1.0}], "game": game, "pool": pool}
    audit = run(tiny(**asked, analyses={"redraws": redraws}), tmp_path / "run", runtime=ONE)
    (cell,) = audit.results.cells
    assert cell.measurements.redraws == used
    assert cell.measurements.p is not None and cell.measurements.p <= 3 / (used + 1)


def test_ngram_without_privacy_leaks_far_more_than_with(tiny: Make, tmp_path: Path) -> None:
    leaking = figures(tiny, tmp_path / "leaking", kind="ngram", epsilon=[math.inf])
    quiet = figures(tiny, tmp_path / "quiet", kind="ngram", epsilon=[1])
    assert max(leaking.values()) > 0.8
    assert max(quiet.values()) < max(leaking.values()) - 0.15


def test_a_run_folder_can_be_opened(tiny: Make, out: Path, tmp_path: Path) -> None:
    made = run(tiny(), out, runtime=ONE)
    again = open_run(out)
    assert again.cells == made.cells
    cell = again.setup.cells[1]
    assert again.claim(cell).promises
    assert evidence_of(again.setup, cell).values.shape == (12 + 8, 13, 4)
    with pytest.raises(UserError, match="not a run folder"):
        open_run(tmp_path)


def test_private_text_is_nowhere_in_results_and_report(out: Path) -> None:
    audit = open_run(out)
    shown = b"".join(tables(out).values()).decode("utf-8", errors="replace")
    assert not any(record.text in shown for record in audit.setup.corpus.records)
    names = " ".join(str(p) for p in out.rglob("*"))
    assert not any(record.id in names for record in audit.setup.corpus.records)


def test_a_large_release_is_audited_as_a_small_one(
    tiny: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from synthleak.evidence import observation

    game = {"instances": 4, "records": 30, "rounds": 4, "candidates": 5, "release_size": 80}
    generator = [{"kind": "ngram", "epsilon": [math.inf]}]
    evidence = {"families": ["cos", "csls", "bigram_logprob"]}
    spec = tiny(game=game, generator=generator, evidence=evidence)
    plain = run(spec, tmp_path / "plain", runtime=ONE)
    monkeypatch.setattr(observation, "LARGE", 79)
    large = run(spec, tmp_path / "large", runtime=ONE)
    for before, after in zip(plain.cells, large.cells, strict=True):
        assert after.auc == pytest.approx(before.auc, abs=1e-9)
