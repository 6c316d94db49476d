"""action.yml: a code host can read it, and its commands audit a release."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from synthleak.audit.gate import RECOMMENDED, parse_gate
from synthleak.corpus.readers.demo import Demo

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    content: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return content


def test_every_step_is_complete(action: dict[str, Any]) -> None:
    assert action["runs"]["using"] == "composite"
    for step in action["runs"]["steps"]:
        assert ("run" in step) == ("shell" in step) and ("run" in step) != ("uses" in step)
        assert "${{" not in step.get("run", ""), "an input would be read as a command"
    named = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text("utf-8")))
    assert named == {*action["inputs"]}


def test_the_gate_of_action_and_docs_is_the_recommended_one(action: dict[str, Any]) -> None:
    parse_gate(RECOMMENDED)
    assert action["inputs"]["fail-if"]["default"] == RECOMMENDED
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert f"--fail-if '{RECOMMENDED}'" in page


def test_its_command_stops_a_leaking_release(action: dict[str, Any], tmp_path: Path) -> None:
    texts = [record.text for record in Demo(size=180).read()]
    parts = {"members": texts[:60], "holdout": texts[60:120], "release": texts[:20] + texts[120:]}
    for name, rows in parts.items():
        lines = "".join(json.dumps({"text": text}) + "\n" for text in rows)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    program = tmp_path / "bin" / "synthleak"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m synthleak "$@"\n')
    program.chmod(0o755)
    (step,) = [step for step in action["runs"]["steps"] if step.get("name") == "Check"]
    inputs = {
        name: about.get("default", f"{name}.jsonl") for name, about in action["inputs"].items()
    }
    inputs["options"] = "--random-split --encoder hashing --workers 1"
    given = {
        name: inputs[re.sub(r".*inputs\.([\w-]+).*", r"\1", value)]
        for name, value in step["env"].items()
    }
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env={
            **os.environ,
            **given,
            "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "--fail-if holds in release" in done.stderr, done.stderr
    found = json.loads((tmp_path / "synthleak-run.sarif").read_text(encoding="utf-8"))
    lines = {
        one["locations"][0]["physicalLocation"]["region"]["startLine"]
        for one in found["runs"][0]["results"]
        if one["ruleId"] == "copied-record"
    }
    assert lines == {*range(1, 21)}
    assert (tmp_path / "synthleak-run" / "report.html").is_file()
    assert (tmp_path / "summary.md").read_text(encoding="utf-8") == done.stdout
