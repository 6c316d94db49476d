"""The command line: what is printed where, and the exit codes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from support.command_line import assert_one_line_mistake, synthleak
from support.specs import tiny_spec
from synthleak.core.toml import dump_toml


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a spec and its finished run."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "audit.toml").write_text(dump_toml(tiny_spec()), encoding="utf-8")
    done = synthleak("run", "audit.toml", "--out", "run", "--workers", 1, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "outlier" in done.stdout and "see run/report.html" in done.stderr
    return folder


def test_second_run_does_nothing_and_prints_json(finished: Path) -> None:
    again = synthleak("run", "audit.toml", "--out", "run", "--json", cwd=finished)
    assert again.returncode == 0
    assert "nothing to do" in again.stderr
    rows = json.loads(again.stdout)
    with (finished / "run/results/cells.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert [row["proxy"] for row in rows] == [row["proxy"] for row in table]
    assert [row["epsilon"] for row in table] == ["inf"] * 3 + ["2.0"] * 3


def test_quiet_prints_nothing(finished: Path) -> None:
    again = synthleak("run", "audit.toml", "--out", "run", "--quiet", cwd=finished)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_status(finished: Path) -> None:
    table = synthleak("status", "run", cwd=finished)
    assert table.returncode == 0
    assert table.stdout.rstrip().endswith("finished")
    rows = json.loads(synthleak("status", "run", "--json", cwd=finished).stdout)
    assert [(row["releases"], row["looked_at"], row["of"]) for row in rows] == [(16, 16, 16)] * 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("run", "none.toml", "--out", "x"), ["none.toml: ", "synthleak init"]),
        (("run", "broken.toml", "--out", "x"), ["broken.toml, line 1, sead: "]),
        (("run", "audit.toml"), ["--out"]),
        (("run", "audit.toml", "--out", "run", "--workers", "0"), ["--workers: workers = 0"]),
        (("run", "other.toml", "--out", "run"), ["run: ", "seed", "--extend"]),
        (("status", "nowhere"), ["nowhere: "]),
        (("list", "shoes"), ["'shoes'", "readers"]),
        (("init", "audit.toml"), ["audit.toml: ", "--force"]),
        (("frobnicate",), ["'frobnicate'"]),
    ],
)
def test_a_mistake_exits_with_code_2(
    finished: Path, words: tuple[str, ...], expected: list[str]
) -> None:
    (finished / "broken.toml").write_text("sead = 1\n", encoding="utf-8")
    (finished / "other.toml").write_text(dump_toml(tiny_spec(seed=9)), encoding="utf-8")
    assert_one_line_mistake(synthleak(*words, cwd=finished), *expected)
    assert not (finished / "x").exists()


def test_init_writes_a_spec_that_needs_only_a_path(tmp_path: Path) -> None:
    assert synthleak("init", cwd=tmp_path).returncode == 0
    rows = [
        {"id": i, "text": f"text {i} of {i * 7 % 13} and {i * i}", "labels": [str(min(i, 15))]}
        for i in range(400)
    ]
    lines = "\n".join(json.dumps(row) for row in rows)
    (tmp_path / "records.jsonl").write_text(lines, encoding="utf-8")
    text = (tmp_path / "audit.toml").read_text(encoding="utf-8")
    small = text.replace("instances = 100", "instances = 4").replace(
        '"auto"             # N', "20 #"
    )
    small = small.replace("percentile = 99 ", "percentile = 95 ").replace("[inf, 4, 1]", "[4]")
    (tmp_path / "audit.toml").write_text(small, encoding="utf-8")
    done = synthleak("run", "audit.toml", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/report.html").is_file()


@pytest.mark.parametrize(
    "kind", ["readers", "encoders", "pools", "designs", "generators", "proxies"]
)
def test_plugins_of_every_kind_are_listed(tmp_path: Path, kind: str) -> None:
    rows = json.loads(synthleak("list", kind, "--json", cwd=tmp_path).stdout)
    assert rows and all(all(row.values()) for row in rows)


def test_list_alone_lists_the_kinds(tmp_path: Path) -> None:
    rows = json.loads(synthleak("list", "--json", cwd=tmp_path).stdout)
    count = {row["kind"]: row["plug-ins"] for row in rows}
    assert count["proxies"] == 32 and {"readers", "generators", "analyses"} <= count.keys()
    assert all(row["what they do"] for row in rows)


def test_help_and_completion(tmp_path: Path) -> None:
    text = synthleak("--help", cwd=tmp_path).stdout
    assert "First steps" in text
    for name in ("demo", "init", "run", "status", "list", "completion"):
        assert name in text
        assert "Usage" in synthleak(name, "--help", cwd=tmp_path).stdout
    for shell in ("bash", "zsh", "fish"):
        assert "_SYNTHLEAK_COMPLETE" in synthleak("completion", shell, cwd=tmp_path).stdout
