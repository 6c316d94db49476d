"""Texts of records appear in no repr, no error of our own and no line of progress."""

from __future__ import annotations

import json
import logging
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

import synthleak
from support.specs import tiny_spec
from synthleak.audit.setup import encoding, targets_in
from synthleak.audit.steps.observations import evidence_of
from synthleak.audit.steps.releases import request_for
from synthleak.core.engine.progress import Progress, Stage
from synthleak.core.errors import SynthleakError, UserError
from synthleak.corpus.readers.demo import Demo
from synthleak.evidence import Observation, Targets
from synthleak.releases import Public, Request, Synthetic
from synthleak.report.results import Results

MARKER = "zyxmarker"
WALKED = 12
"""Items of a container that are looked at."""
RECORDS = [
    {"id": str(n), "text": f"{MARKER} {r.text}", "note": f"{MARKER} aside"}
    for n, r in enumerate(Demo(size=170, seed=8).read())
]


class Notes(Stage):
    """Keeps what a long step says of itself."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines

    def note(self, doing: str, part: float | None = None) -> None:
        self.lines.append(doing)


class Said(Progress):
    """Keeps every line of progress."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)

    def stage(self, title: str, total: int) -> Stage:
        self.lines.append(title)
        return Notes(self.lines)


@pytest.fixture(scope="module")
def said() -> Said:
    return Said()


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory, said: Said) -> synthleak.Audit:
    release = [row["text"] for row in [*RECORDS[:8], *RECORDS[120:160]]]
    return synthleak.check(
        RECORDS[:50],
        RECORDS[50:100],
        release,
        reference=RECORDS[100:120],
        encoder="hashing",
        runtime=synthleak.Runtime(workers=1),
        progress=said,
        out=tmp_path_factory.mktemp("check") / "run",
    )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory, said: Said) -> synthleak.Audit:
    folder = tmp_path_factory.mktemp("game")
    return synthleak.run(marked_spec(folder), folder / "run", progress=said)


def marked_spec(folder: Path) -> synthleak.Spec:
    """Return a tiny spec over a file of records with the marker."""
    lines = "".join(json.dumps(row) + "\n" for row in RECORDS)
    (folder / "notes.jsonl").write_text(lines, encoding="utf-8")
    return synthleak.parse_spec(
        tiny_spec(corpus={"reader": "jsonl", "path": str(folder / "notes.jsonl")})
    )


def children(thing: Any) -> Iterator[Any]:
    """Yield what an object leads to: items, attributes and properties."""
    if isinstance(thing, str | bytes):
        return
    if isinstance(thing, Mapping):
        yield from list(thing.items())[:WALKED]
    elif isinstance(thing, Sequence):
        yield from thing[:WALKED]
    if not ours(thing):
        return
    names = dict.fromkeys([*getattr(thing, "__dict__", {}), *getattr(thing, "__slots__", ())])
    for kind in type(thing).__mro__:
        if kind.__module__.startswith("synthleak"):
            names |= dict.fromkeys(
                name
                for name, value in vars(kind).items()
                if isinstance(value, property | cached_property)
            )
    for name in names:
        try:
            yield getattr(thing, name)
        except (SynthleakError, AttributeError):
            continue


def ours(thing: Any) -> bool:
    return type(thing).__module__.startswith("synthleak")


def walk(*roots: Any) -> dict[type, Any]:
    """Return an object of every class of ours that the roots lead to; check all of them."""
    kinds: dict[type, Any] = {}
    seen: dict[int, Any] = {}
    waiting = deque(roots)
    while waiting:
        thing = waiting.popleft()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing
        if ours(thing) and not isinstance(thing, str):
            assert MARKER not in repr(thing), type(thing)
            assert MARKER not in str(thing), type(thing)
            kinds.setdefault(type(thing), thing)
        waiting.extend(children(thing))
    return kinds


def test_no_public_object_shows_a_text(checked: synthleak.Audit, played: synthleak.Audit) -> None:
    roots: list[Any] = [synthleak.Runtime()]
    for audit in (checked, played):
        setup, cell = audit.setup, audit.setup.cells[0]
        target = setup.corpus.records[setup.plans[cell.pool].targets[0]].id
        roots += [
            audit,
            request_for(setup, cell, setup.plans[cell.pool].sets[0]),
            targets_in(setup, cell.pool),
            audit.release(cell, 0),
            evidence_of(audit.setup, cell),
            audit.scores(cell),
            Observation([row["text"] for row in RECORDS], encoding(setup)),
            synthleak.explain(audit, target, include_text=True),
            synthleak.compare([("one", audit), ("two", audit)]),
        ]
    kinds = walk(*roots)
    assert {Results, Request, Synthetic, Public, Targets, Observation} <= kinds.keys()
    for name in synthleak.__all__:
        public = getattr(synthleak, name)
        if isinstance(public, type) and not issubclass(public, Exception):
            assert public in kinds, name


def test_an_audit_is_one_line(checked: synthleak.Audit) -> None:
    for thing in (checked, checked.setup, checked.results, checked.setup.corpus):
        assert "\n" not in repr(thing) and len(repr(thing)) < 200
    assert "170 records" in repr(played_corpus()) and "1 cell" in repr(checked)


def played_corpus() -> synthleak.Corpus:
    return synthleak.Corpus("notes", tuple(synthleak.Record(r["id"], r["text"]) for r in RECORDS))


def test_no_line_of_progress_shows_a_text(
    checked: synthleak.Audit,
    said: Said,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    spec = marked_spec(tmp_path)
    with caplog.at_level(logging.DEBUG):
        synthleak.run(spec, tmp_path / "run", progress=said)
    assert said.lines and MARKER not in "".join(said.lines) + caplog.text
    assert MARKER not in checked.headline


TEXT = f"{MARKER} a text, and more of the text that nobody should see"
MISTAKES = {
    "no.jsonl": f'{{"body": "{TEXT}"}}\n',
    "list.jsonl": json.dumps({"text": [TEXT]}) + "\n",
    "labels.jsonl": json.dumps({"text": "x", "labels": {TEXT: 1}}) + "\n",
    "broken.jsonl": f'{{"text": "{TEXT}\n',
    "array.jsonl": json.dumps([TEXT]) + "\n",
    "headless.csv": f'"{TEXT}","{TEXT} again"\n"b","c"\n',
    "twice.csv": f'"{TEXT}","{TEXT}"\n"b","c"\n',
    "cells.csv": f'text\n"{TEXT}","{TEXT}"\n',
    "quotes.csv": f'text\n"{TEXT}"x"\n',
}


@pytest.mark.parametrize("name", MISTAKES)
@pytest.mark.parametrize("role", ["members", "release"])
def test_no_error_shows_a_text(tmp_path: Path, name: str, role: str) -> None:
    path = tmp_path / name
    path.write_text(MISTAKES[name], encoding="utf-8")
    rows = [row["text"] for row in RECORDS]
    given: dict[str, Any] = {"members": rows[:20], "holdout": rows[20:40], "release": rows[40:]}
    with pytest.raises(UserError) as caught:
        synthleak.check(**{**given, role: path}, encoder="hashing")
    trace = "".join(traceback.format_exception(caught.value))
    assert MARKER not in trace and MARKER not in repr(caught.value)


def test_no_error_of_a_finished_audit_shows_a_text(checked: synthleak.Audit) -> None:
    with pytest.raises(UserError) as caught:
        synthleak.explain(checked, "no such record")
    assert MARKER not in "".join(traceback.format_exception(caught.value))
