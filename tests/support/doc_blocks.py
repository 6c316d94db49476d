"""The code blocks of a Markdown page, run as a reader would: in order, in one folder.

Every block names its language. What is not run says why, in a comment right before it:

    <!-- not run: it needs a GPU -->

| language | is run by |
|---|---|
| console | the command line; below `$ command` is what it prints; `...`: any lines |
| sh | the command line, or a shell if a line starts another program |
| python | this Python; a `title` is a file to write instead |
| toml | the parser of specs; a `title` is a file to write |
| text | nobody: pictures and formulas |
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from synthleak.cli.main import cli
from synthleak.core.errors import SynthleakError

LANGUAGES = {"console", "sh", "python", "toml", "text", "awk", "mermaid", "yaml", "json"}
BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^>]+?) -->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?[^\n]*\n"
    r"(?P<code>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"[+-]?\d[\d,]*\.\d+")
UPDATE = "SYNTHLEAK_UPDATE_DOCS"
"""A variable that, if set, writes what commands print into the pages."""
COMMAND = re.compile(r"^\s*(\$ |synthleak |make |pip |python )", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block and where it stands."""

    language: str
    code: str
    title: str | None
    reason: str | None
    line: int
    start: int
    """Where its code begins in the page."""


def blocks_of(text: str) -> list[Block]:
    """Return the blocks of a page, in its order."""
    return [
        Block(
            match["language"],
            textwrap.dedent(match["code"]) if match["indent"] else match["code"],
            match["title"],
            match["reason"],
            text.count("\n", 0, match.start("code")),
            match.start("code"),
        )
        for match in BLOCK.finditer(text)
    ]


@dataclass
class Reader:
    """Somebody who follows a page, in a folder."""

    folder: Path
    names: dict[str, Any] = field(default_factory=dict)
    printed: dict[int, str] = field(default_factory=dict)
    """What console blocks print, by where they begin, to be shown in the page."""

    def follow(self, block: Block) -> None:
        """Do what a block says; an AssertionError tells what came out otherwise."""
        if block.reason is not None:
            return
        if block.title is not None:
            (self.folder / block.title).write_text(block.code, encoding="utf-8")
        elif block.language == "console":
            self._console(block)
        elif block.language == "sh":
            self._shell(block.code)
        elif block.language == "python":
            exec(compile(block.code, f"line {block.line}", "exec"), self.names)
        elif block.language == "toml":
            _check_toml(block.code)

    def _console(self, block: Block) -> None:
        shown, wrong = [], []
        for command, expected in sessions(block.code):
            output = self._printed(command)
            shown.append(f"$ {command}\n{output}")
            if not alike(expected, output):
                wrong.append(f"$ {command}\nprints\n{output}\nnot\n{expected}")
        self.printed[block.start] = "".join(shown)
        assert not wrong, "\n".join(wrong)

    def _printed(self, command: str) -> str:
        words = shlex.split(command.replace("\\\n", " "))
        if words[0] == "synthleak":
            return self._synthleak(words[1:])
        return self._bash(command)

    def _shell(self, code: str) -> None:
        lines = code.replace("\\\n", " ").splitlines()
        commands = [words for line in lines if (words := shlex.split(line, comments=True))]
        if all(words[0] == "synthleak" for words in commands):
            for words in commands:
                self._synthleak(words[1:])
        else:
            self._bash(code)

    def _synthleak(self, words: list[str]) -> str:
        """Run a command in this process, which saves the time of starting one."""
        alone = {name: {"workers": 1} for name in cli.commands}
        done = CliRunner().invoke(cli, words, default_map=alone)
        error = done.exception
        assert not isinstance(error, SynthleakError), f"synthleak {shlex.join(words)}: {error}"
        if error is not None and not (isinstance(error, SystemExit) and done.exit_code in (0, 1)):
            raise error
        return _trimmed(done.stdout)

    def _bash(self, code: str) -> str:
        tools = self.folder / ".tools"
        if not tools.is_dir():
            tools.mkdir()
            for name, call in (("synthleak", "-m synthleak "), ("python", "")):
                script = tools / name
                script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {call}"$@"\n', "utf-8")
                script.chmod(0o755)
        done = subprocess.run(
            ["bash", "-euc", code],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{code}\n{done.stderr}"
        return _trimmed(done.stdout)


def follow(page: Path, reader: Reader) -> None:
    """Do what a page says, from its first block to its last."""
    text = page.read_text(encoding="utf-8")
    update = bool(os.environ.get(UPDATE))
    for block in blocks_of(text):
        try:
            reader.follow(block)
        except AssertionError as error:
            if not update or block.language != "console":
                raise AssertionError(f"{page.name}, line {block.line}: {error}") from None
    if update:
        for block in reversed(blocks_of(text)):
            if block.start in reader.printed:
                end = block.start + len(block.code)
                text = text[: block.start] + reader.printed[block.start] + text[end:]
        page.write_text(text, encoding="utf-8")


def sessions(code: str) -> Iterator[tuple[str, str]]:
    """Yield every command of a console block with what is shown below it.

    >>> list(sessions("$ one\\nout\\n$ two \\\\\\n  three\\n"))
    [('one', 'out\\n'), ('two \\\\\\n  three', '')]
    """
    for part in re.split(r"^\$ ", code, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        end = next(n for n, line in enumerate(lines, start=1) if not line.rstrip().endswith("\\"))
        yield "".join(lines[:end]).rstrip("\n"), "".join(lines[end:])


def alike(expected: str, output: str) -> bool:
    """Say whether an output is the one shown, up to spaces, rules and last digits.

    >>> alike("AUC 0.91\\n...\\nend\\n", "AUC 0.909\\nmore\\nend\\n")
    True
    >>> alike("AUC 0.91\\n", "AUC 0.81\\n")
    False
    """
    parts = [_tokens(part) for part in re.split(r"^\.\.\.$", expected, flags=re.MULTILINE)]
    found = _tokens(output)
    if len(parts) == 1:
        return _same(parts[0], found)
    at = 0
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        starts = [len(found) - len(part)] if last else range(at, len(found))
        starts = [0] if place == 0 else starts
        hit = next((n for n in starts if n >= at and _same(part, found[n : n + len(part)])), None)
        if hit is None:
            return False
        at = hit + len(part)
    return True


def _tokens(text: str) -> list[str]:
    return re.sub(r"[─\s]+", " ", text).split()


def _same(shown: list[str], found: list[str]) -> bool:
    return len(shown) == len(found) and all(map(_equal, shown, found))


def _equal(shown: str, found: str) -> bool:
    one, two = NUMBER.findall(shown), NUMBER.findall(found)
    if NUMBER.sub("#", shown) != NUMBER.sub("#", found) or len(one) != len(two):
        return False
    pairs = zip(one, two, strict=True)
    return all(abs(_value(a) - _value(b)) <= 0.02 * max(1.0, abs(_value(a))) for a, b in pairs)


def _value(number: str) -> float:
    return float(number.replace(",", ""))


def _trimmed(text: str) -> str:
    """Drop spaces at the ends of lines, and empty lines at both ends."""
    lines = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")
    return f"{lines}\n" if lines else ""


def _check_toml(code: str) -> None:
    """Check a piece of a spec: what it leaves out comes from a spec that is whole."""
    from support.specs import tiny_spec
    from synthleak.core.spec import parse_spec

    content = tomllib.loads(code)
    if "project" in content:  # pyproject.toml of a package with plug-ins
        return
    whole = tiny_spec()
    if "corpus" in content:
        content["corpus"] = {"reader": whole["corpus"]["reader"], **content["corpus"]}
    parse_spec({**whole, **content})
