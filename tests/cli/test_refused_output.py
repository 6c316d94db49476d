"""A full or closed standard output, a full temporary folder, and any file name."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import assert_one_line_mistake, synthleak
from support.specs import tiny_spec
from synthleak.cli import main as command_line
from synthleak.core.spec import dump_toml

FULL = Path("/dev/full")
LIST = [sys.executable, "-m", "synthleak", "list", "proxies"]


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_full_standard_output_is_one_line(words: list[str]) -> None:
    with FULL.open("wb") as full:
        done = subprocess.run([*LIST, *words], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    said = done.stderr.decode()
    assert said.startswith("synthleak: standard output: No space left") and said.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_closed_pipe_is_not_a_failed_gate(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*LIST, *words], stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 2, "the temporary folder "),
        (OSError(errno.ENAMETOOLONG, "File name too long", "out"), 2, "out: File name too long"),
        (FileNotFoundError(errno.ENOENT, "No such file", "ours"), 3, "internal error"),
        (ValueError("secret"), 3, "internal error: ValueError"),
    ],
)
def test_what_the_system_refuses_is_not_a_bug(
    error: Exception,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(command_line.cli, "main", fail)
    monkeypatch.setattr(command_line, "end_on_signals", lambda: None)
    monkeypatch.delenv(command_line.DEBUG, raising=False)
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    printed = capsys.readouterr().err
    assert ended.value.code == code
    assert printed.startswith(f"synthleak: {said}") and printed.count("\n") == 1


def test_a_file_of_any_name_makes_a_folder_that_every_command_accepts(tmp_path: Path) -> None:
    name = 'my "notes"\n é\\.jsonl'
    rows = [
        {"id": f"r{n}", "text": f"took {n} mg, then slept {n * 7 % 11} hours", "labels": ["a"]}
        for n in range(80)
    ]
    (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    spec = tiny_spec(
        corpus={"reader": "jsonl", "path": name},
        pool=[{"name": "some", "rule": "random", "size": 4, "draws": 1}],
        game={"instances": 4, "records": 20, "rounds": 2, "candidates": 2},
        generator=[{"kind": "echo"}],
        evidence={"families": ["cos"]},
    )
    (tmp_path / "my spec.toml").write_text(dump_toml(spec), encoding="utf-8")
    run = ("run", "my spec.toml", "--out", "my run", "--workers", 1, "-q")
    for words in (run, ("status", "my run"), ("report", "my run"), ("corpus", "my run/spec.toml")):
        done = synthleak(*words, cwd=tmp_path)
        assert done.returncode == 0, (words, done.stderr)


def test_a_spec_that_is_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    done = synthleak("corpus", "pipe.toml", cwd=tmp_path)
    assert_one_line_mistake(done, "pipe.toml: not a regular file")
