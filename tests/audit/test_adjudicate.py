"""Two stages: flagged cells are settled by merged games in the same folder, and by nothing else."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from scipy.stats import binom

from support.specs import tiny_spec
from synthleak.analyses.gaps import MergedRow, merged_rows
from synthleak.audit import adjudicate as stage
from synthleak.audit.folder import digest_of_file
from synthleak.audit.result import open_run
from synthleak.audit.run import run
from synthleak.audit.setup import generator_of, records_at
from synthleak.audit.stages import set_up
from synthleak.audit.steps.releases import request_for
from synthleak.audit.steps.work import OBSERVATIONS, make_missing_releases
from synthleak.audit.verify import DIFFERS, UNCHECKED, VERIFIED, verify
from synthleak.cli.main import cli
from synthleak.core.cell import Cell
from synthleak.core.engine.progress import Silent
from synthleak.core.errors import GeneratorError, UserError
from synthleak.core.registry import trusting
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore, StagedStore
from synthleak.preflight.export import export_plan
from synthleak.report.tables import read_parquet, to_csv, to_parquet

UNEVEN = '''
"""Copies some records more often than others."""

from synthleak.releases import Generator, Synthetic, generators
from synthleak.core.seeds import stream

OFTEN = {often!r}


@generators.register("uneven", version=1)
class Uneven(Generator):
    """Copies the records that are named with probability 1, the others half as often."""

    def generate(self, request):
        rng = stream(request.seed, "uneven")
        tosses = zip(request.records, rng.random(len(request.records)), strict=True)
        copies = [r for r, toss in tosses if toss < (1.0 if r.id in OFTEN else 0.5)]
        picks = rng.choice(len(request.public.auxiliary), request.size - len(copies))
        made = [*copies, *(request.public.auxiliary[pick] for pick in picks)]
        return [Synthetic(made[i].text, made[i].labels) for i in rng.permutation(len(made))]
'''
POOLS = [
    {"name": "outlier", "rule": "outlier", "percentile": 94},
    {"name": "random", "rule": "random", "match": "outlier", "draws": 1},
]


class Told(Silent):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


def material(**changes: Any) -> dict[str, Any]:
    return tiny_spec(
        corpus={"reader": "demo", "size": 400},
        pool=POOLS,
        game={"instances": 100, "records": 100, "rounds": 4, "candidates": 8},
        generator=[{"kind": "bystander"}],
        evidence={"families": ["char_overlap"]},
        **changes,
    )


def uneven(folder: Path, **changes: Any) -> dict[str, Any]:
    """Return a spec whose generator copies the outlier pool twice as often as other records."""
    setup = set_up(LoadedSpec(parse_spec(material())), MemoryStore())
    often = sorted(record.id for record in records_at(setup, setup.pools["outlier"].targets))
    path = folder / "uneven.py"
    path.write_text(UNEVEN.format(often=often), encoding="utf-8")
    return material(plugins=[str(path)]) | {"generator": [{"kind": "uneven"}]} | changes


@pytest.fixture(autouse=True)
def _trusted() -> Iterator[None]:
    token = trusting.set(True)
    yield
    trusting.reset(token)


@pytest.fixture(scope="module")
def screened(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished audit in which outliers are copied twice as often."""
    base = tmp_path_factory.mktemp("uneven")
    run(parse_spec(uneven(base)), base / "run", runtime=Runtime(workers=2))
    return base / "run"


def manifest_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))


def results(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "results").iterdir())}


def test_a_flagged_cell_is_settled_in_the_same_folder_and_the_results_stay(
    screened: Path,
) -> None:
    before, manifest = results(screened), manifest_of(screened)
    listed = stage.flagged(screened)
    assert [flag.cell.pool for flag in listed.flags] == ["outlier"]
    assert listed.flags[0].control == "random"
    assert listed.waiting == 104
    assert "at Holm's level" in listed.flags[0].why
    assert results(screened) == before

    found = stage.adjudicate(screened, runtime=Runtime(workers=2))
    assert {row.pool for row in found.rows} == {"outlier+random"}
    best = max(row.pool_auc for row in found.rows)
    auc, tpr = [row for row in found.rows if row.pool_auc == best]
    for row in (auc, tpr):
        assert (row.first, row.second) == ("outlier", "random")
        assert row.delta > 0
        assert row.low > 0
        assert row.own_low is not None
        assert row.own_low > 0
    assert tpr.first_value > 0.8
    assert tpr.second_value < 0.75

    after = results(screened)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {
        "adjudication.csv",
        "adjudication.json",
        "adjudication.parquet",
    }
    changed = manifest_of(screened)
    assert changed["hashes"].pop("report.html") != manifest["hashes"].pop("report.html")
    assert changed["hashes"].pop("artefacts.txt") != manifest["hashes"].pop("artefacts.txt")
    assert changed.pop("digest") != manifest.pop("digest")
    assert changed == manifest
    page = (screened / "report.html").read_text(encoding="utf-8")
    assert "Adjudication (" in page
    assert "Difference of AUCs by origin (outlier minus random)" in page
    assert [r.pool for r in open_run(screened).results.adjudicated] == ["outlier+random"] * 6
    kept = read_parquet(MergedRow, screened / "results" / "adjudication.parquet")
    assert tuple(kept) == found.rows
    about = json.loads(after["adjudication.json"])
    assert about["flagged"][0]["merged_with"] == "random"

    told = Told()
    again = stage.adjudicate(screened, progress=told)
    assert again == found
    assert told.lines == ["nothing to do: 1 flagged cell settled before"]
    assert results(screened) == after
    told = Told()
    run(screened / "spec.toml", screened, progress=told)
    assert told.lines[0].startswith("nothing to do")


def test_the_commands_list_settle_and_print(screened: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(cli, ["adjudicate", str(screened), "--list", "--json"])
    assert listed.exit_code == 0, listed.output
    assert json.loads(listed.stdout)[0]["merged with"] == "random"
    settled = runner.invoke(cli, ["adjudicate", str(screened), "--workers", "1"])
    assert settled.exit_code == 0, settled.output
    assert "flagged cells" in settled.stdout
    printed = runner.invoke(cli, ["tables", str(screened), "--only", "merged", "--only", "rare"])
    assert printed.exit_code == 0, printed.output
    assert "outlier − random" in printed.stdout
    drawn = runner.invoke(cli, ["figures", str(screened), "--only", "merged", "--list"])
    assert drawn.exit_code == 0, drawn.output
    assert "in 3 merged cells" in drawn.stdout
    assert 'rare: needs a pool of the rule "rare"' in printed.stderr
    out = screened.parent / "tables"
    written = runner.invoke(cli, ["tables", str(screened), "--out", str(out), "--format", "latex"])
    assert written.exit_code == 0, written.output
    assert (out / "tables.tex").is_file()
    assert not list(out.glob("*.csv"))
    whole = (out / "tables.tex").read_bytes()
    again = runner.invoke(cli, ["tables", str(screened), "--out", str(out), "--only", "merged"])
    assert again.exit_code == 0, again.output
    assert (out / "merged.csv").is_file() and (out / "tables.tex").read_bytes() == whole


def test_a_damaged_or_outdated_settlement_is_made_anew(screened: Path) -> None:
    stage.adjudicate(screened)
    about = screened / "results" / "adjudication.json"
    whole = about.read_bytes()
    for damage in (b"{", json.dumps(json.loads(whole) | {"findings": "another"}).encode()):
        about.write_bytes(damage)
        told = Told()
        stage.adjudicate(screened, progress=told)
        assert about.read_bytes() == whole
        assert not told.lines or not told.lines[0].startswith("nothing to do")


def test_verify_plays_merged_games_again(screened: Path) -> None:
    stage.adjudicate(screened)
    found = {one.what: one for one in verify(screened).findings}
    assert found["adjudication"].outcome == VERIFIED
    assert found["tables"].outcome == VERIFIED  # the page shows what was adjudicated

    kept = {path: path.read_bytes() for path in (screened / "results").glob("adjudication.*")}
    rows = read_parquet(MergedRow, screened / "results" / "adjudication.parquet")
    forged = [replace(row, own_delta=0.0) for row in rows]
    (screened / "results" / "adjudication.csv").write_bytes(to_csv(MergedRow, forged))
    parquet = screened / "results" / "adjudication.parquet"
    parquet.write_bytes(to_parquet(MergedRow, forged))
    about = screened / "results" / "adjudication.json"
    said = json.loads(about.read_bytes()) | {"rows": digest_of_file(parquet)}
    about.write_text(json.dumps(said), encoding="utf-8")
    forgery = {one.what: one for one in verify(screened).findings}
    assert forgery["adjudication"].outcome == DIFFERS
    assert forgery["tables"].outcome == DIFFERS

    about.write_bytes(b"{")
    broken = {one.what: one for one in verify(screened).findings}
    assert broken["adjudication"].outcome == UNCHECKED
    for path, data in kept.items():
        path.write_bytes(data)


def test_an_extended_audit_shows_no_games_that_settled_its_earlier_results(
    tmp_path: Path,
) -> None:
    spec = uneven(tmp_path)
    folder = tmp_path / "run"
    run(parse_spec(spec), folder, runtime=Runtime(workers=2))
    stage.adjudicate(folder, runtime=Runtime(workers=2))
    assert open_run(folder).results.adjudicated
    more = {"name": "more", "rule": "random", "size": 8}
    extended = parse_spec(spec | {"pool": [*POOLS, more]})
    run(extended, folder, extend=True, runtime=Runtime(workers=2))
    assert "Adjudication (" not in (folder / "report.html").read_text(encoding="utf-8")
    assert not open_run(folder).results.adjudicated
    assert verify(folder).verified


def test_nothing_flagged_leaves_nothing_and_joins_other_audits_in_tables(
    tiny: Callable[..., LoadedSpec], screened: Path, tmp_path: Path
) -> None:
    pools = [
        {"name": "outlier", "rule": "outlier", "percentile": 92},
        {"name": "random", "rule": "random", "match": "outlier", "draws": 1},
    ]
    corpus = {"reader": "demo", "size": 160, "name": "other"}
    spec = tiny(corpus=corpus, pool=pools, generator=[{"kind": "bystander"}])
    run(spec, tmp_path / "run", runtime=Runtime(workers=1))
    before, told = results(tmp_path / "run"), Told()
    found = stage.adjudicate(tmp_path / "run", progress=told)
    assert found == stage.Adjudication(())
    assert told.lines == ["no cell is flagged: no gap to a control excludes 0 (Holm, 5%)"]
    assert results(tmp_path / "run") == before
    shown = CliRunner().invoke(cli, ["adjudicate", str(tmp_path / "run"), "--list"])
    assert shown.stdout == "no cell is flagged\n"
    out = tmp_path / "tables"
    both = CliRunner().invoke(
        cli, ["tables", str(screened), str(tmp_path / "run"), "--out", str(out), "--format", "csv"]
    )
    assert both.exit_code == 0, both.output
    corpora = (out / "corpora.csv").read_text(encoding="utf-8").splitlines()
    assert corpora[0].count("demo records") == corpora[0].count("other records") == 1
    main = list(csv.DictReader((out / "main.csv").read_text(encoding="utf-8").splitlines()))
    assert {(row["part"], row["Dataset"]) for row in main} == {
        ("uneven", "demo"),
        ("bystander", "other"),
    }


def test_without_random_pools_or_a_finished_audit_it_says_what_is_missing(
    tiny: Callable[..., LoadedSpec], tmp_path: Path
) -> None:
    run(tiny(generator=[{"kind": "bystander"}]), tmp_path / "run", runtime=Runtime(workers=1))
    with pytest.raises(UserError, match="no cell can be screened: the control gap needs"):
        stage.adjudicate(tmp_path / "run")
    (tmp_path / "run" / "results" / "cells.csv").unlink()
    with pytest.raises(UserError, match="finish it with `run` first"):
        stage.adjudicate(tmp_path / "run")
    with pytest.raises(UserError, match="not a run folder"):
        stage.flagged(tmp_path)


def test_in_a_cohort_the_merged_pool_is_cut_to_what_a_private_set_bears(tmp_path: Path) -> None:
    game = {"design": "cohort", "instances": 30, "records": 130}
    run(parse_spec(uneven(tmp_path, game=game)), tmp_path / "run", runtime=Runtime(workers=2))
    audit = open_run(tmp_path / "run")
    assert sum(len(audit.setup.pools[name].targets) for name in ("outlier", "random")) > 26
    found = stage.adjudicate(tmp_path / "run", runtime=Runtime(workers=2))
    assert len(found.flags) == 1
    best = max(found.rows, key=lambda row: row.pool_auc)
    assert best.delta > 0
    assert best.own_low is not None
    assert best.own_low > 0


def test_releases_made_elsewhere_need_an_export_of_the_merged_game(tmp_path: Path) -> None:
    exchange = tmp_path / "exchange"
    union = {"name": "outlier+random", "rule": "union", "of": ["outlier", "random"]}
    content = tiny_spec(
        pool=[POOLS[0] | {"percentile": 90}, POOLS[1]],
        game={"instances": 6, "records": 40, "rounds": 2},
        generator=[{"kind": "folder", "path": str(exchange)}],
        evidence={"families": ["cos"]},
    )

    def export(spec: dict[str, Any]) -> None:
        export_plan(LoadedSpec(parse_spec(spec)), exchange)
        for train in exchange.glob("*/*/train.jsonl"):
            (train.parent / "release-inf.jsonl").write_bytes(train.read_bytes())

    export(content)
    audit = run(parse_spec(content), tmp_path / "run", runtime=Runtime(workers=1))
    flag = stage.Flag(audit.setup.cells[0], "random", "")
    store = StagedStore(audit.folder.store)
    with pytest.raises(GeneratorError, match=r'was not exported; add .* rule = "union"'):
        stage.merged_setup(audit, [flag], store)
    export(content | {"pool": [*content["pool"], union]})
    setup = stage.merged_setup(audit, [flag], store)
    assert setup.cells == (replace(flag.cell, pool="outlier+random"),)
    assert not generator_of(setup, setup.cells[0]).awaited(
        request_for(setup, setup.cells[0], setup.plans["outlier+random"].sets[0])
    )


def test_over_repeated_games_a_bystander_shows_no_difference_beyond_its_band() -> None:
    runs, outside = 12, {"auc": 0, "tpr_at_fpr05": 0}
    pools = [*POOLS, {"name": "both", "rule": "union", "of": ["outlier", "random"]}]
    for seed in range(runs):
        game = {"instances": 16, "records": 50, "rounds": 4, "candidates": 8}
        spec = parse_spec(material() | {"seed": seed, "pool": pools, "game": game})
        setup = set_up(LoadedSpec(spec), MemoryStore())
        cell = Cell(setup.corpus.name, "both", "bystander", math.inf)
        setup = replace(setup, cells=(cell,))
        make_missing_releases(setup, Runtime(workers=1), Silent())
        OBSERVATIONS.make(setup, Runtime(workers=1), Silent())
        order = ("outlier", "random")
        for row in merged_rows(cell, *stage.played_game(setup, cell), order, redraws=99, draws=2):
            if row.scenario == "S1":
                outside[row.measure] += row.p is not None and row.p <= 0.05
    most = binom.ppf(0.999, runs, 0.05)
    assert outside["auc"] <= most
    assert outside["tpr_at_fpr05"] <= most
