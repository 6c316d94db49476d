"""`synthleak plan`: show, cost and export, as a user types them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.command_line import assert_one_line_mistake, synthleak
from support.specs import tiny_spec
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, dump_toml, parse_spec
from synthleak.preflight.cost import Timing, estimate

INF = float("inf")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    spec = tiny_spec(
        pool=[
            {"name": "outlier", "rule": "outlier", "percentile": 92},
            {"name": "random", "rule": "random", "match": "outlier", "draws": 2},
        ],
        generator=[{"kind": "ngram", "epsilon": [INF, 2]}, {"kind": "echo"}],
    )
    (tmp_path / "audit.toml").write_text(dump_toml(spec), encoding="utf-8")
    return tmp_path


def test_show_counts_what_the_audit_will_make(folder: Path) -> None:
    done = synthleak("plan", "show", "audit.toml", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert [row["pool"] for row in shown["pools"]] == ["outlier", "random0", "random1"]
    for row in shown["pools"]:
        assert (row["N"], row["release size"]) == (30, 30)
        assert (row["games"], row["references"], row["raw sets"]) == (12, 4, 4)
    knows = {row["attacker"]: row["compares with"] for row in shown["attackers"]}
    assert knows == {"S1": "nothing", "S2": "4 raw sets", "S3": "4 releases"}
    assert len(shown["cells"]) == 9
    first = shown["cells"][0]
    assert (first["epsilon"], first["releases"]) == ("inf", 16)
    assert (first["members"], first["non-members a round"], first["rounds"]) == (6, 6, 4)
    totals = shown["totals"]
    # Three pools, three cells each, 16 releases; raw sets are looked at once per pool.
    assert (totals["releases"], totals["observations"]) == (144, 156)
    assert totals["synthetic records"] == 144 * 30
    assert totals["scores"] == 156 * shown["pools"][0]["targets"] * totals["proxies"]
    table = synthleak("plan", "show", "audit.toml", cwd=folder)
    assert "the release alone" in table.stdout and "what each attacker knows" in table.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["audit.toml"]


def test_cost_is_made_of_its_stages_and_leaves_nothing(folder: Path) -> None:
    done = synthleak("plan", "cost", "audit.toml", "--workers", 1, "--json", "-q", cwd=folder)
    assert done.returncode == 0, done.stderr
    cost = json.loads(done.stdout)
    assert (cost["releases"], cost["observations"], cost["workers"]) == (144, 156, 1)
    assert cost["wall_seconds"] == pytest.approx(sum(cost["stages"].values()))
    assert all(seconds >= 0 for seconds in cost["stages"].values())
    assert {"releases", "observations", "measurements", "results"} <= set(cost["stages"])
    assert cost["gpu_hours"] == 0
    # A release is a header and a text, and an observation a file per family: a block each.
    assert 4096 * (2 * 144 + 2 * 156) <= cost["disk_bytes"] < 4096 * 10 * 156
    assert cost["memory_bytes"] > 2**26
    assert sorted(path.name for path in folder.iterdir()) == ["audit.toml"]


def small(**changes: Any) -> LoadedSpec:
    return LoadedSpec(parse_spec(tiny_spec(generator=[{"kind": "echo"}], **changes)))


def test_cost_grows_with_the_audit() -> None:
    game = {"records": 30, "rounds": 4, "candidates": 5}
    few = estimate(small(game={"instances": 12, **game}), Runtime(workers=1))
    many = estimate(small(game={"instances": 80, **game}), Runtime(workers=1))
    assert many.releases == 84 and few.releases == 16
    assert many.observations == few.observations + 68
    assert many.disk_bytes > 3 * few.disk_bytes


@pytest.mark.parametrize(("slow", "calls"), [(0.0, 1), (1e9, 4)])
def test_a_slow_release_is_timed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: float, calls: int
) -> None:
    monkeypatch.setattr("synthleak.preflight.cost.SLOW", slow)
    argv = ["sh", "-c", f"echo {{seed}} >> {tmp_path}/calls; head -n {{n}} {{train}} > {{out}}"]
    generator = {"kind": "command", "argv": argv}
    cost = estimate(LoadedSpec(parse_spec(tiny_spec(generator=[generator]))), Runtime(workers=1))
    assert len((tmp_path / "calls").read_text(encoding="utf-8").splitlines()) == calls
    assert cost.releases == 16 and cost.stages["releases"] > 0


def test_show_notes_a_script_that_is_not_there(folder: Path) -> None:
    generator = [{"kind": "command", "argv": ["{python}", "mine.py", "{train}", "{out}"]}]
    (folder / "audit.toml").write_text(dump_toml(tiny_spec(generator=generator)), encoding="utf-8")
    done = synthleak("plan", "show", "audit.toml", cwd=folder)
    assert done.returncode == 0
    assert "note: generator command, argv[1]: there is no file 'mine.py'; write it" in " ".join(
        done.stdout.split()
    )


def test_a_fleet_is_extrapolated_from_one_and_two() -> None:
    fleet = Timing(first=30.0, one=10.0, two=10.5)
    assert fleet.batch(101) == pytest.approx(60.0)
    assert fleet.once == pytest.approx(30 - 20.5 / 3)
    queue = Timing(first=1.0, one=1.0, two=2.0)
    assert queue.batch(8) == pytest.approx(8.0)
    assert queue.once == 0.0


def test_cost_notes_releases_made_elsewhere(folder: Path) -> None:
    generator = [{"kind": "folder", "path": "exchange", "name": "mine"}]
    (folder / "audit.toml").write_text(dump_toml(tiny_spec(generator=generator)), encoding="utf-8")
    done = synthleak("plan", "export", "audit.toml", "exchange", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("16") == 2 and "exchange/tasks.tsv" in done.stdout
    cost = synthleak("plan", "cost", "audit.toml", "--workers", 1, "-q", cwd=folder)
    assert cost.returncode == 0, cost.stderr
    assert "note: mine at epsilon inf: " in cost.stdout
    partial = synthleak("run", "audit.toml", "--out", "run", "--workers", 1, cwd=folder)
    assert partial.returncode == 2
    assert partial.stderr.splitlines()[-1].startswith(
        "synthleak: generator mine: 0 of 16 releases found; missing e.g. outlier/set-"
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("plan", "show", "none.toml"), "none.toml: "),
        (("plan", "cost", "broken.toml"), "broken.toml, line 1, sead: "),
        (("plan", "export", "audit.toml"), "name a folder, or --kit FILE.zip"),
        (("plan", "export", "audit.toml", "x"), "--generator NAME"),
        (("plan", "export", "audit.toml", "x", "--generator", "eco"), "'echo'"),
        (("plan", "export", "audit.toml", ".", "--generator", "echo"), "choose another folder"),
        (("plan", "cost", "audit.toml", "--workers", "0"), "--workers: workers = 0"),
        (("list", "proxies", "--plugins", "none.py"), "--plugins: none.py: "),
    ],
)
def test_a_mistake_exits_with_code_2(folder: Path, words: tuple[str, ...], expected: str) -> None:
    (folder / "broken.toml").write_text("sead = 1\n", encoding="utf-8")
    assert_one_line_mistake(synthleak(*words, cwd=folder), expected)
    assert not (folder / "x").exists()


def test_a_failing_program_keeps_finished_releases(folder: Path) -> None:
    script = 'test {seed} -ge 900000000 || { echo "seed too small" >&2; exit 4; }; cp {train} {out}'
    generator = [{"kind": "command", "argv": ["sh", "-c", script]}]
    (folder / "audit.toml").write_text(dump_toml(tiny_spec(generator=generator)), encoding="utf-8")
    words = ("run", "audit.toml", "--out", "run", "--workers", 1, "--keep-failed")
    done = synthleak(*words, cwd=folder)
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert re.search(
        r"generator command, pool outlier, [a-z]+-\d+, epsilon inf, seed \d+, command sh: ", line
    )
    assert "exit code 4" in line
    (failed,) = (folder / "run/failed").iterdir()
    assert f"confidential: {failed} has its training file" in line
    purged = synthleak("purge", "run", "--yes", cwd=folder)
    assert "input of failed programs" in purged.stdout and not (folder / "run/failed").exists()
    assert "Traceback" not in done.stderr
    kept = list((folder / "run/store").glob("release/*.json"))
    assert 0 < len(kept) < 16


def test_power_names_claims_that_no_result_could_contradict(tmp_path: Path) -> None:
    def note(adjacency: str, epsilon: float, **stated: Any) -> str:
        words = ["{python}", "-c", "pass", "{train}", "{out}", "{epsilon}"]
        program = {"kind": "command", "name": "mine", "argv": words, "private": True, **stated}
        spec = tiny_spec(
            generator=[{**program, "epsilon": [INF, epsilon], "delta": 1e-5}],
            pool=[{"name": "outlier", "rule": "outlier", "percentile": 80, "size": 5}],
            game={"design": "cohort", "instances": 20, "records": 30, "adjacency": adjacency},
        )
        (tmp_path / "audit.toml").write_text(dump_toml(spec), encoding="utf-8")
        done = synthleak("plan", "power", "audit.toml", "-q", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return " ".join(done.stdout.split()).partition("note: ")[2]

    assert note("add", 2) == ""
    said = note("replace", 2)
    assert said.startswith("mine at epsilon 2, pool outlier: no result can contradict its claim: ")
    numbers = re.findall(r"(?:to|to ε =|refutes) (\d[\d.]*)", said)
    held, most, held_added, most_added = map(float, numbers)
    assert (held, held_added) == (4, 2) and most < 4 and most_added > 2
    assert said.endswith('; set game.adjacency = "add"')
    said = note("add", 8)
    assert '"replace"' not in said and said.endswith("or targets, or state its mechanism")
    assert note("add", 5, mechanism={"mu": 1.0}) == ""
