"""Whole audits of generators that favour some records: the analyses say whom."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.errors import raises_at
from support.specs import tiny_spec
from synthleak import Audit, Runtime, analyse, open_run
from synthleak import run as walk
from synthleak.analyses.cells import RecordRow
from synthleak.audit.folder import RunFolder
from synthleak.audit.setup import records_at
from synthleak.audit.stages import set_up
from synthleak.audit.steps.work import EVIDENCE, MEASUREMENTS, make_missing_releases
from synthleak.cli.main import cli
from synthleak.core.engine.progress import Silent
from synthleak.core.errors import SpecError, UserError
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.report.tables import to_csv

FAVOURING = '''
"""Copies some records more often than others."""

from synthleak.releases.generators.echo import Echo
from synthleak.releases import Synthetic, generators
from synthleak.core.seeds import stream
from synthleak.core.text import tokens


@generators.register("favouring", version=1)
class Favouring(Echo):
    """Copies a record with a probability that grows with its length, or with p if it is listed."""

    listed: tuple[str, ...] = ()
    other: float = 0.0
    full_length: float = 0.0

    def chance(self, record):
        if self.full_length:
            return max(0.0, min(1.0, len(tokens(record.text)) / self.full_length - 0.5))
        return self.p if record.id in self.listed else self.other

    def generate(self, request):
        rng = stream(request.seed, "favouring")
        copies = [r for r in request.records if rng.random() < self.chance(r)]
        picks = rng.choice(len(request.public.auxiliary), request.size - len(copies))
        release = [*copies, *(request.public.auxiliary[pick] for pick in picks)]
        return [Synthetic(record.text, record.labels) for record in release]
'''
GAME = {"design": "cohort", "instances": 24, "records": 120}


@pytest.fixture
def plugin(tmp_path: Path) -> str:
    path = tmp_path / "favouring.py"
    path.write_text(FAVOURING, encoding="utf-8")
    return str(path)


def run(loaded: LoadedSpec, folder: Path) -> Audit:
    return walk(loaded, folder, runtime=Runtime(workers=1))


def audited(loaded: LoadedSpec) -> Audit:
    """Do what analyses need of an audit, in memory, and write nothing."""
    setup = set_up(loaded, MemoryStore())
    runtime, progress = Runtime(workers=1), Silent()
    make_missing_releases(setup, runtime, progress)
    for work in (*EVIDENCE, *MEASUREMENTS):
        work.make(setup, runtime, progress)
    return Audit(setup, RunFolder(Path("nowhere")))


def spec_of(plugin: str, *generators: dict[str, Any], **changes: Any) -> LoadedSpec:
    spec = tiny_spec(
        plugins=[plugin],
        corpus={"reader": "demo", "size": 400},
        pool=[{"name": "chosen", "rule": "outlier", "percentile": 50, "size": 20}],
        game=GAME,
        generator=[{"kind": "favouring", **settings} for settings in generators],
        evidence={"families": ["char_overlap"]},
    )
    return LoadedSpec(parse_spec(spec | changes))


def targets_in(loaded: LoadedSpec, pool: str) -> list[str]:
    setup = set_up(loaded, MemoryStore())
    return [record.id for record in records_at(setup, setup.pools[pool].targets)]


def rows_of(audit: Audit, name: str) -> Sequence[Any]:
    [found] = [outcome for outcome in audit.outcomes if outcome.name == name]
    return found.rows


def test_copying_by_length_shows_in_length(
    plugin: str,
) -> None:
    game = {**GAME, "instances": 60}
    audit = audited(spec_of(plugin, {"full_length": 24}, game=game))
    found = {row.attribute: row for row in rows_of(audit, "attributes")}
    assert found["length"].rho > 0.5
    assert found["length"].p_holm <= 0.05
    assert max(abs(row.rho) for row in found.values()) == found["length"].rho


def test_copied_records_lie_outside_the_even_band(
    plugin: str,
) -> None:
    pool = [{"name": "chosen", "rule": "random", "size": 60, "draws": 1}]
    game = GAME | {"records": 300}
    more: dict[str, Any] = {
        "pool": pool,
        "game": game,
        "corpus": {"reader": "demo", "size": 760},
    }
    ten = targets_in(spec_of(plugin, {}, **more), "chosen")[:10]
    audit = audited(spec_of(plugin, {"listed": ten}, **more))
    [row] = rows_of(audit, "vulnerability")
    assert row.s10 > row.even_s10_high
    assert row.concentrated == "yes"
    lines = to_csv(RecordRow, audit.records).decode().splitlines()
    written = sorted(csv.DictReader(lines), key=lambda item: int(item["v_rank"]))
    # A record of which C holds a near-copy stands out less.
    assert len({item["record"] for item in written[:10]} & set(ten)) >= 8
    assert {item["record"] for item in written[:6]} <= set(ten)
    assert [item["top_tenth"] for item in written[:7]] == ["yes"] * 6 + [""]


def test_outliers_copied_more_show_in_control_gap(plugin: str) -> None:
    pool = [
        {"name": "odd", "rule": "outlier", "percentile": 50, "size": 20},
        {"name": "random", "rule": "random", "match": "odd"},
    ]
    odd = targets_in(spec_of(plugin, {}, pool=pool), "odd")
    unlike = {"listed": odd, "p": 0.9, "other": 0.45}
    audit = audited(spec_of(plugin, unlike, pool=pool))
    [row] = [row for row in rows_of(audit, "control_gap") if row.scenario == "all"]
    assert row.flagged == "yes"
    assert row.low > 0
    # (1 + 0.9) / 2 − (1 + 0.45) / 2
    assert row.low < 0.225 < row.high


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small audit with one generator, budget and pool, and no random controls."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    run(LoadedSpec(parse_spec(tiny_spec(generator=[{"kind": "bystander"}]))), folder)
    return folder


def test_unavailable_analysis_is_named_and_others_run(plain: Path) -> None:
    said = json.loads((plain / "results/summary.json").read_text(encoding="utf-8"))["analyses"]
    assert "random pools" in said["control_gap"]["lacks"]
    assert "finite ε" in said["dp_removal"]["lacks"]
    assert "two pools" in said["pool_overlap"]["lacks"]
    assert "prior" in said["prior_attacks"]["lacks"]
    assert "meta" not in said
    for name in ("vulnerability", "scenario_scaling", "attributes", "proxy_groups", "views"):
        assert said[name]["lacks"] is None
        assert said[name]["rows"] > 0
        assert (plain / f"results/{name}.csv").is_file()
    assert not (plain / "results/control_gap.csv").exists()


def test_analyse_prints_tables_and_unavailable_ones(plain: Path, tmp_path: Path) -> None:
    shown = CliRunner().invoke(cli, ["analyse", str(plain), "-q", "--out", str(tmp_path / "out")])
    assert shown.exit_code == 0, shown.output
    assert (tmp_path / "out/vulnerability.parquet").is_file()
    unavailable = json.loads((tmp_path / "out/analyses.json").read_text(encoding="utf-8"))
    assert unavailable["control_gap"]["rows"] == 0
    shown = CliRunner().invoke(cli, ["analyse", str(plain), "--workers", "1"])
    assert "control_gap: needs random pools" in shown.output
    assert "positive_share" in shown.output
    one = CliRunner().invoke(cli, ["analyse", str(plain), "--json", "--only", "vulnerability"])
    [row] = json.loads(one.output)["vulnerability"]["rows"]
    assert row["epsilon"] == "inf"


def test_meta_classifier_is_opt_in(plain: Path, tmp_path: Path) -> None:
    outcomes = analyse([plain], only=["meta"])
    assert [row.scenario for row in outcomes[0].rows] == ["S1", "S2", "S3"]
    assert "meta" not in {outcome.name for outcome in analyse([plain])}
    spec = tiny_spec(generator=[{"kind": "bystander"}], analyses={"also": "meta"})
    audit = run(LoadedSpec(parse_spec(spec)), tmp_path / "run")
    assert rows_of(audit, "meta") == outcomes[0].rows
    assert (tmp_path / "run/results/meta.csv").is_file()
    with raises_at(SpecError, "analyses.also[0]", "'metta'"):
        run(
            LoadedSpec(parse_spec(tiny_spec(analyses={"also": ["metta"]}))),
            tmp_path / "other",
        )


def test_joined_folders_count_each_cell_once(plain: Path, tmp_path: Path) -> None:
    more = tiny_spec(generator=[{"kind": "constant"}])
    run(LoadedSpec(parse_spec(more)), tmp_path / "more")
    joined = {outcome.name: outcome for outcome in analyse([plain, tmp_path / "more"])}
    assert len(joined["vulnerability"].rows) == 2
    assert any(row.across == "generators" for row in joined["consistency"].rows)
    with raises_at(UserError, plain, "bystander without privacy, pool "):
        analyse([plain, plain])
    other = tiny_spec(generator=[{"kind": "constant"}], corpus={"reader": "demo", "size": 170})
    run(LoadedSpec(parse_spec(other)), tmp_path / "other")
    with raises_at(UserError, tmp_path / "other", str(plain)):
        analyse([plain, tmp_path / "other"])
    with raises_at(SpecError, "--only", "'vulnerable'"):
        analyse([plain], only=["vulnerable"])


def test_an_audit_is_analysed_without_being_made_again(plain: Path) -> None:
    audit = open_run(plain)
    kept = {path: path.stat().st_mtime_ns for path in (plain / "store").rglob("*")}
    assert analyse([plain]) == audit.outcomes
    assert {path: path.stat().st_mtime_ns for path in (plain / "store").rglob("*")} == kept


def test_an_unfinished_audit_is_refused(plain: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(plain, broken)
    next((broken / "store/release").glob("*.json")).unlink()
    with raises_at(UserError, broken, "`run`"):
        analyse([broken])
