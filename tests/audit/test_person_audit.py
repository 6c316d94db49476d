"""A whole audit of persons: tables, page and plans speak of people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from synthleak.audit.result import Audit
from synthleak.audit.run import run
from synthleak.audit.stages import set_up
from synthleak.core.engine.progress import Silent
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.preflight.export import export_plan
from synthleak.preflight.power import power_table
from synthleak.preflight.preview import preview


def spec(generator: dict[str, Any], **game: Any) -> dict[str, Any]:
    return {
        "seed": 3,
        "corpus": {"reader": "demo", "size": 400, "persons": True},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": [{"name": "random", "rule": "random", "size": 6, "draws": 1}],
        "game": {"instances": 6, "records": 120, "unit": "person", "max_records": 4, **game},
        "generator": [generator],
        "evidence": {"families": ["char_overlap"]},
        "prior": [{"kind": "canary"}],
    }


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    folder = tmp_path_factory.mktemp("people") / "run"
    written = spec({"kind": "ngram", "epsilon": [2]}, design="cohort", adjacency="add")
    return run(parse_spec(written), folder, runtime=Runtime(workers=1))


def test_tables_have_people(audit: Audit) -> None:
    people = {f"{record.group}" for record in audit.setup.corpus.records}
    assert {row.unit for row in audit.cells} == {"person"}
    assert len(audit.records) == 6
    assert {row.record for row in audit.records} <= people
    assert {row.record for row in audit.study.attributes} == {row.record for row in audit.records}
    proxies = {row.proxy for row in audit.proxies}
    assert {"containment_max.max", "containment_max.mean"} <= proxies
    arms = {row.arm for row in audit.study.prior}
    assert {"n.max", "n.mean"} <= arms


def test_the_claim_is_that_of_a_group_with_the_one_for_a_record_beside_it(audit: Audit) -> None:
    row = audit.cells[0]
    assert row.epsilon_claim is not None and row.epsilon_claim_record is not None
    assert row.delta_claim is not None
    claim = audit.claim(audit.setup.cells[0])
    assert row.epsilon_claim_record == pytest.approx(claim.epsilon_at(row.delta_claim))
    held = claim.for_persons(4).epsilon_at(row.delta_claim)
    assert row.epsilon_claim == pytest.approx(held)
    assert held > 4 * row.epsilon_claim_record


def test_the_page_and_the_summary_speak_of_persons(audit: Audit) -> None:
    page = (audit.folder.root / "report.html").read_text(encoding="utf-8")
    assert "Persons, not records" in page
    summary = json.loads((audit.folder.results / "summary.json").read_text(encoding="utf-8"))
    whole = {record.group for record in audit.setup.corpus.records}
    assert summary["corpus"]["people"] == len(whole)
    assert summary["corpus"]["records_left_out"] > 0


def test_a_run_is_found_again(audit: Audit) -> None:
    again = run(parse_spec(audit.setup.spec.model_dump()), audit.folder.root)
    assert again.cells == audit.cells


def test_plans_are_shown_exported_and_judged(tmp_path: Path) -> None:
    loaded = LoadedSpec(parse_spec(spec({"kind": "echo"}, design="lone")))
    setup = set_up(loaded, MemoryStore())
    shown = preview(setup)
    assert shown["pools"][0]["targets"] == 6
    assert shown["pools"][0]["of records"] == len(setup.pools["random"].asked) > 6
    assert shown["totals"]["records left out"] > 0
    made = export_plan(loaded, tmp_path / "out")
    train = next((tmp_path / "out").rglob("train.jsonl"))
    rows = [json.loads(line) for line in train.read_text(encoding="utf-8").splitlines()]
    assert made.sets == 10 and len(rows) == 120
    assert 1 == min(row["person"] for row in rows) < max(row["person"] for row in rows) < 120
    (row,) = power_table(setup, Silent())
    assert row["targets"] == 6
