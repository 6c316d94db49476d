"""The command line: what is printed where, and the exit codes."""

from __future__ import annotations

import contextlib
import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from support.command_line import assert_one_line_mistake, synthleak
from support.specs import tiny_spec
from synthleak import open_run
from synthleak.cli.main import SECTIONS, cli
from synthleak.core.spec import dump_toml


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


def test_a_run_prints_a_row_per_cell_in_80_columns(finished: Path) -> None:
    words = ["run", "audit.toml", "--out", "run", "--workers", "1"]
    with contextlib.chdir(finished):
        done = CliRunner().invoke(cli, words, env={"COLUMNS": "80"})
        wide = CliRunner().invoke(cli, [*words, "--wide"], env={"COLUMNS": "80"})
    assert done.exit_code == wide.exit_code == 0
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[:3] for line in lines if line.startswith("outlier ")] == [
        ["outlier", "ngram", "∞"],
        ["outlier", "ngram", "2"],
    ]
    with (finished / "run/results/cells.csv").open(encoding="utf-8") as file:
        columns = next(csv.reader(file))
    header = next(line for line in wide.stdout.splitlines() if line.startswith("corpus "))
    assert header.split() == columns


def test_junit_summary_has_a_failure_per_leak(finished: Path) -> None:
    with contextlib.chdir(finished):
        words = ["report", "run", "--summary", "ci/audit.xml"]
        assert CliRunner().invoke(cli, words).exit_code == 0
        audit = open_run(finished / "run")
        tree = ElementTree.parse("ci/audit.xml").getroot()
    found = {case.get("name"): case.find("failure") for case in tree.iter("testcase")}
    assert found.keys() == {one.name for one in audit.results.cells}
    for one in audit.results.cells:
        failure = found[one.name]
        assert (failure is not None) == one.verdict.leaks
        assert failure is None or failure.get("message") == str(one.verdict)
    leaks = sum(one.verdict.leaks for one in audit.results.cells)
    assert leaks and tree.get("failures") == str(leaks) and tree.get("tests") == "2"
    assert audit.headline in [element.text for element in tree.iter("system-out")]


def test_summary_follows_the_gate(finished: Path) -> None:
    with contextlib.chdir(finished):
        failing = ["report", "run", "--fail-if", "epsilon == 2", "--summary"]
        for name in ("gate.xml", "gate.md"):
            assert CliRunner().invoke(cli, [*failing, name]).exit_code == 1
        passing = ["report", "run", "--fail-if", "auc > 2", "--summary", "passed.md"]
        assert CliRunner().invoke(cli, passing).exit_code == 0
        audit = open_run(finished / "run")
        (failure,) = ElementTree.parse("gate.xml").getroot().iter("failure")
        page, passed = (Path(name).read_text(encoding="utf-8") for name in ("gate.md", "passed.md"))
    assert failure.get("message") == "--fail-if holds in S1, S2, S3: epsilon = 2 == 2"
    assert "- failed: ngram at ε = 2, pool outlier: --fail-if holds in S1, S2, S3" in page
    assert "failed:" not in passed and "--fail-if holds in none of 2 cells." in passed
    assert audit.headline.replace("_", "\\_") in page
    assert "| outlier | ngram | ∞ | leak found |" in page
    texts = [record.text for record in audit.setup.corpus.records]
    assert not [text for text in texts if text in page]


def test_a_card_tells_the_verdict_and_names_nobody(finished: Path) -> None:
    with contextlib.chdir(finished):
        for name in ("card.md", "card.json"):
            done = CliRunner().invoke(cli, ["report", "run", "--card", name])
            assert (done.exit_code, done.output.strip()) == (0, name)
        refused = [
            CliRunner().invoke(cli, ["report", "run", "--card", *words]).exception
            for words in (["card.txt"], ["card.md", "--include-text"])
        ]
        audit = open_run(finished / "run")
        page = Path("card.md").read_text(encoding="utf-8")
        fields = json.loads(Path("card.json").read_text(encoding="utf-8"))
    assert page.startswith("---\ntags:\n- synthetic\n") and "| outlier | ngram | ∞ |" in page
    assert audit.headline == fields["rai:personalSensitiveInformation"][0]
    assert fields["dct:conformsTo"] == "http://mlcommons.org/croissant/RAI/1.0"
    assert not [one for one in audit.setup.corpus.records if one.id in page or one.text in page]
    assert "unknown format" in str(refused[0]) and "by itself" in str(refused[1])


def test_summary_needs_a_known_format(finished: Path) -> None:
    done = synthleak("run", "audit.toml", "--out", "new", "--summary", "a.txt", cwd=finished)
    assert_one_line_mistake(
        done, "--summary: unknown format: 'a.txt';", ".xml (JUnit), .md (Markdown), .sarif (SARIF)"
    )
    assert not (finished / "new").exists()


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


def written_template(
    folder: Path, situation: str, labels: Callable[[int], object], records: int = 400
) -> str:
    """Write a template, and records with these labels; return the template."""
    done = CliRunner().invoke(cli, ["init", str(folder / "audit.toml"), "--for", situation])
    assert done.exit_code == 0 and "corpus.path" in done.output
    rows = [
        {"id": i, "text": f"text {i} of {i * 7 % 13} and {i * i}", "labels": labels(i)}
        for i in range(records)
    ]
    lines = "\n".join(json.dumps(row) for row in rows)
    (folder / "records.jsonl").write_text(lines, encoding="utf-8")
    return (folder / "audit.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("labels", "rare"),
    [(lambda i: None, 0), (lambda i: [f"label {i}"], 50), (lambda i: [str(min(i, 15))], 15)],
    ids=["no labels", "every label once", "some rare labels"],
)
@pytest.mark.parametrize("records", [200, 1300])
def test_template_selects_pools_in_any_corpus(
    tmp_path: Path, labels: Callable[[int], object], rare: int, records: int
) -> None:
    written_template(tmp_path, "lone", labels, records)
    for command in (["plan", "show"], ["corpus"]):
        done = CliRunner().invoke(cli, [*command, str(tmp_path / "audit.toml"), "--json"])
        assert done.exit_code == 0, done.exception
        targets = {row["pool"]: row["targets"] for row in json.loads(done.output)["pools"]}
        assert targets["rare"] == rare and targets["outlier"] >= 2


def test_template_runs_without_rare_labels(tmp_path: Path) -> None:
    text = written_template(tmp_path, "lone", lambda i: None)
    small = re.sub(r"(?m)^records = .*", "records = 20", text)
    for old, new in (("instances = 100", "instances = 4"), ("draws = 3", "draws = 1")):
        assert old in small
        small = small.replace(old, new)
    small = small.replace("[inf, 4, 1]", "[4]").replace('"all" ', '["cos"] ')
    (tmp_path / "audit.toml").write_text("prior = []\n" + small, encoding="utf-8")
    done = synthleak("run", "audit.toml", "--out", "run", "--workers", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the pool 'rare' is empty and left out" in done.stderr
    assert "This verdict is about the built-in generator ngram, not yours" in done.stdout
    with (tmp_path / "run/results/cells.csv").open(encoding="utf-8") as file:
        assert {row["pool"] for row in csv.DictReader(file)} == {"outlier", "random"}


def test_template_for_a_program_runs_it_with_this_python(tmp_path: Path) -> None:
    text = written_template(tmp_path, "command", lambda i: ["a"])
    small = re.sub(r"(?m)^(records|release_size) = .*", r"\1 = 40", text)
    small = small.replace("instances = 24", "instances = 6").replace("size = 40 ", "size = 8 ")
    (tmp_path / "audit.toml").write_text("prior = []\n" + small, encoding="utf-8")
    (tmp_path / "generate.py").write_text(
        "import random, sys, numpy\n"  # numpy: only an environment like ours has it
        "train, out, n, seed = sys.argv[1:]\n"
        "lines = open(train).readlines()\n"
        "drawn = random.Random(int(seed)).choices(lines, k=int(n))\n"
        "open(out, 'w').writelines(line.rstrip() + '\\n' for line in drawn)\n",
        encoding="utf-8",
    )
    done = synthleak("run", "audit.toml", "--out", "run", "--workers", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mine" in done.stdout and "built-in generator" not in done.stdout

    (tmp_path / "generate.py").write_text("raise SystemExit(4)\n", encoding="utf-8")
    failed = synthleak("run", "audit.toml", "--out", "other", "--workers", 1, cwd=tmp_path)
    assert_one_line_mistake(failed, "generator mine, pool ", ", command python: ", "exit code 4")


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
    assert "First steps" in text and max(map(len, text.splitlines())) <= 80
    assert all(f"\n{title}:\n" in text for title in SECTIONS)
    assert [command.name for section in SECTIONS.values() for command in section] == re.findall(
        r"(?m)^  ([a-z]+)  ", text.partition("Before an audit:")[2]
    )
    for name in ("demo", "init", "run", "status", "list", "completion"):
        assert name in text
        assert "Usage" in synthleak(name, "--help", cwd=tmp_path).stdout
    for shell in ("bash", "zsh", "fish"):
        assert "_SYNTHLEAK_COMPLETE" in synthleak("completion", shell, cwd=tmp_path).stdout
