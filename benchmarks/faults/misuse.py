"""Classes of misuse, each a table of cases for the runner in `attempts.py`.

- deleted: every kind of artefact and every file, one of them or all: missed, and made again;
- links: every place of a run folder lies elsewhere: nothing there is changed or deleted;
- quick: programs that end at once, well or badly: nothing is left;
- plugins: plug-ins of every kind that raise or return nonsense: named with their kind;
- rights: a user without rights on one file or folder: one line;
- interrupts: Ctrl-C at any moment, with two workers: one line, no warning.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from attempts import AGAIN, RUN, Attempt, Class, Ended, measure_class
from small_audit import private_files, processes_in

NOBODY = 65534


def parts_of(template: Path, *, files: bool) -> list[str]:
    """Return every folder of a run folder, its own files and results, and a file of each kind."""
    run = template / RUN
    folders = [run / "store", run / "results", *sorted((run / "store").iterdir())]
    inside = [min(path.iterdir()) for path in folders[2:]] if files else []
    beside = [path for path in sorted([*run.iterdir(), *folders[1].iterdir()]) if path.is_file()]
    return [str(path.relative_to(run)) for path in (*folders, *inside, *beside)]


def deleted(template: Path, rng: Random, _count: int) -> Iterator[Attempt]:
    """Delete a part: `verify` misses it, and the next run makes it again."""

    def demand(_home: Path, ended: list[Ended], manifest: bool) -> list[str]:
        first, again, last = (one.code for one in ended)
        if not manifest:  # a folder without one is somebody else's
            return [] if (first, again, last) == (2, 2, 2) else ["not refused"]
        faults = ["verify missed nothing"] if first == 0 else []
        return faults + ([f"not made again: run {again}, verify {last}"] if again or last else [])

    for name in parts_of(template, files=True):

        def prepare(home: Path, name: str = name) -> None:
            path = home / RUN / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()

        commands = (("verify", RUN), AGAIN, ("verify", RUN))
        asked = partial(demand, manifest=name != "manifest.json")
        yield Attempt(name, prepare, commands, asked)


def links(template: Path, rng: Random, _count: int) -> Iterator[Attempt]:
    """Move a part elsewhere and leave a link: what lies there stays as it is."""
    for name in parts_of(template, files=True):

        def prepare(home: Path, name: str = name) -> None:
            moved = home / "elsewhere" / Path(name).name
            (home / RUN / name).rename(moved)
            (home / RUN / name).symlink_to(moved)

        yield Attempt(
            name, prepare, (("report", RUN), (*AGAIN, "--extend"), ("purge", RUN, "--yes"))
        )


PROGRAMS = {
    "does its work": 'head -n "$3" "$1" > "$2"',
    "writes nothing": "true",
    "fails": "exit 3",
    "fails after its work": 'head -n "$3" "$1" > "$2"; exit 3',
    "kills itself": "kill -9 $$",
    "ends by a fault": "kill -SEGV $$",
    "repeats what it reads": 'cat "$1" >&2; exit 1',
    "prints what it reads": 'cat "$1"; head -n "$3" "$1" > "$2"',
    "deletes what it reads": 'head -n "$3" "$1" > "$2"; rm -f "$1"',
    "writes too little": 'head -n 1 "$1" > "$2"',
    "writes half a line": 'head -c 50 "$1" > "$2"',
    "writes no text": 'echo "{}" > "$2"',
    "writes bytes": 'head -c 500 /dev/urandom > "$2"',
    "writes a folder": 'mkdir "$2"',
    "writes a link": 'ln -s "$1" "$2"',
    "writes a pipe": 'mkfifo "$2"',
    "leaves a child": 'head -n "$3" "$1" > "$2"; sleep 30 &',
    "copies what it reads": 'cp "$1" "$TMPDIR/copy"; head -n "$3" "$1" > "$2"',
    "leaves its group": 'setsid sleep 30 & head -n "$3" "$1" > "$2"',
    "closes its output": 'exec >&- 2>&-; head -n "$3" "$1" > "$2"',
}


def quick(template: Path, rng: Random, count: int) -> Iterator[Attempt]:
    """Run a program that ends at once, with one worker or two."""

    def demand(home: Path, _ended: list[Ended]) -> list[str]:
        left = private_files(home / "out" / ".private", home / "tmp")
        alive = processes_in(home / "out" / ".private")
        return [f"left {left[:2]}"] * bool(left) + ["a process outlived it"] * bool(alive)

    for number in range(count):
        name, program = list(PROGRAMS.items())[number % len(PROGRAMS)]

        def prepare(home: Path, program: str = program) -> None:
            (home / "program.sh").write_text(f"{program}\n")

        words = ("run", "audit.toml", "--out", "out", "--workers", str(1 + number % 2), "-q")
        yield Attempt(f"{name}, {number}", prepare, (words,), demand)


PLUGIN = """
from dataclasses import dataclass
import numpy as np
from synthleak.analyses.analysis import analysis
from synthleak.corpus.corpus import Reader, Record, readers
from synthleak.encoders.encoder import Encoder, encoders
from synthleak.evidence.attack import Arm, Attack, attacks
from synthleak.evidence.family import family
from synthleak.pools import Rule, rules
from synthleak.releases import Generator, Synthetic, generators

@readers.register("my-reader", version=1)
class MyReader(Reader):
    "Sentences."
    def read(self):
        for i in range(90):
            text = f"record {{i}} of {{i % 7}} weighs {{i * i}} stones"
            {reader} Record(str(i), text, (str(i % 3),))

@encoders.register("my-encoder", version=1)
class MyEncoder(Encoder):
    "Lengths."
    def encode(self, texts):
        {encoder} np.array([[len(t), sum(map(ord, t)) % 97] for t in texts], dtype=np.float32)

@rules.register("my-rule", version=1)
class MyRule(Rule):
    "Every ninth record."
    def select(self, ground):
        {rule} list(range(0, len(ground.corpus), 9))

@generators.register("my-generator", version=1)
class MyGenerator(Generator):
    "Capitals."
    def generate(self, request):
        {generator} [Synthetic(r.text.upper()) for r in request.records[: request.size]]

@family("my_family", version=1, view="lexical", scale="ratio", proxies={{"my_proxy": "length"}})
def my_family(targets, observation):
    "Lengths."
    {family} np.array([[float(len(text))] for text in targets.folded])

@attacks.register("my-attack", version=1)
class MyAttack(Attack):
    "Lengths."
    arms = (Arm("lengths", "S1", 0, "lexical", "as it is", "length"),)
    columns = 1
    def look(self, targets, observation, references):
        {attack} np.array([[float(len(text))] for text in targets.folded])

@dataclass(frozen=True)
class MyRow:
    "A row."
    pool: str
    auc: float

@analysis("my_analysis", version=1, row=MyRow)
def my_analysis(study):
    "Rows."
    {analysis} [MyRow(row.pool, row.auc) for row in study.cells]
"""
SPEC = """
plugins = ["mine.py"]
prior = [{kind = "my-attack"}]
corpus = {reader = "my-reader"}
encoders = {pools = "my-encoder", evidence = "my-encoder"}
pool = [{name = "ninth", rule = "my-rule"}]
game = {instances = 4, records = 30, rounds = 2, candidates = 4}
generator = [{kind = "my-generator"}]
evidence = {families = ["my_family", "cos"]}
"""
KINDS = {
    "reader": "my-reader",
    "encoder": "my-encoder",
    "rule": "my-rule",
    "generator": "my-generator",
    "family": "my_family",
    "attack": "my-attack",
    "analysis": "my_analysis",
}
ENDS = (
    *("None #", "7 #", "'words' #", "[None, None] #", "[[float('nan')]] #", "{} #", "[[[]]] #"),
    *("object() #", "[10**30, -1] #", "[b'x', 'x'] #"),
)
RAISES = (
    *("ZeroDivisionError", "KeyError('a')", "MemoryError", "RecursionError", "SystemExit(0)"),
    *("StopIteration", "OSError(28, 'no space')", "UnicodeDecodeError('a', b'', 0, 1, 'b')"),
)


def plugins(template: Path, rng: Random, count: int) -> Iterator[Attempt]:
    """Let a plug-in of each kind raise, or return nonsense, with one worker or two."""

    def demand(_home: Path, ended: list[Ended], name: str) -> list[str]:
        named = name in ended[0].err and ended[0].code == 2
        return [] if named else [f"exit {ended[0].code}, not named: {ended[0].err[-200:]!r}"]

    usual = dict.fromkeys(KINDS, "return") | {"reader": "yield"}
    statements = [f"return {end}" for end in ENDS] + [f"raise {error} #" for error in RAISES]
    cases = [(n, s, kind) for n, s in enumerate(statements) for kind in KINDS]
    for number, statement, kind in rng.sample(cases, min(count, len(cases))):
        name = KINDS[kind]
        plain = statement.replace("return", usual[kind])

        def prepare(home: Path, kind: str = kind, statement: str = plain) -> None:
            (home / "mine.py").write_text(PLUGIN.format(**{**usual, kind: statement}))
            (home / "mine.toml").write_text(SPEC)

        workers = str(1 + number % 2)
        words = ("run", "mine.toml", "--out", "out", "--workers", workers, "-q")
        if kind == "analysis" and statement == "return {} #":
            continue  # an analysis without rows
        yield Attempt(
            f"{kind}: {plain.rstrip(' #')}", prepare, (words,), partial(demand, name=name)
        )


def rights(template: Path, rng: Random, _count: int) -> Iterator[Attempt]:
    """Take the rights on one file or folder from a user who is not root."""

    def prepare(home: Path, name: str, mode: int) -> None:
        for path in (home, *home.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        if name:
            os.chown(home / name, 0, 0)
            (home / name).chmod(mode)

    places = [f"{RUN}/{name}" for name in parts_of(template, files=False)]
    commands = (("status", RUN), ("report", RUN), AGAIN, ("purge", RUN, "--yes"))
    for name in ("", RUN, "records.jsonl", "audit.toml", "tmp", "program.sh", *places):
        for mode in (0o000, 0o555):
            yield Attempt(
                f"{name or 'nothing'} {mode:o}",
                partial(prepare, name=name, mode=mode),
                commands,
                user=NOBODY,
            )


def interrupts(template: Path, rng: Random, count: int) -> Iterator[Attempt]:
    """Type Ctrl-C at a random moment of a run with two workers."""
    for number in range(count):
        delay = rng.uniform(0.1, 4.0)
        words = ("run", "audit.toml", "--out", "out", "--workers", "2", "-q")
        name = f"{number}, after {delay:.2f} s"
        yield Attempt(name, _nothing, (words,), codes=(0, 130), interrupt=delay)


def _nothing(_home: Path) -> None:
    return None


CLASSES: dict[str, tuple[Class, int]] = {
    "deleted": (deleted, 0),
    "links": (links, 0),
    "quick": (quick, 40),
    "plugins": (plugins, 200),
    "rights": (rights, 0),
    "interrupts": (interrupts, 30),
}
"""Every class, and how many attempts are published where that is not the length of its table."""


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Carry out the attempts of the class that is asked for."""
    attempts, count = CLASSES[arguments.part]
    return measure_class(attempts, arguments, count)
