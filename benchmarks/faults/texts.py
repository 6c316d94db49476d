"""Logs, progress, errors under fault, manifest, reprs and report hold no text of a record.

First the demo, then a small audit whose generator is a program. Everything that the commands print,
with and without faults, and everything that an audit leaves but its releases is searched for three
stretches of every record: of its start, its middle and its end.
"""

from __future__ import annotations

import argparse
import gzip
import signal
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from small_audit import SmallAudit, mounted

from synthleak import open_run
from synthleak.audit.setup import targets_in
from synthleak.audit.steps.observations import evidence_of
from synthleak.audit.steps.releases import request_for
from synthleak.corpus.readers.demo import Demo
from synthleak.releases.release import load_texts

STRETCH, HEAD = 24, 8
"""Characters of a record that are searched for, and those that are looked up first."""
ECHO = 'cat "$1" >&2; od -c "$1" | head -n 40 >&2; '
READING = (
    ("status",),
    ("report",),
    ("report", "--summary", "said/summary.md"),
    ("report", "--summary", "said/summary.xml"),
    ("tables", "--out", "said/tables"),
    ("figures",),
    ("analyse", "--workers", "1"),
    ("adjudicate", "--list"),
    ("verify", "--replay", "6", "--trust-plugins"),
    ("purge",),
)


class Search:
    """Looks for stretches of texts, whatever the case of their letters."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._stretches: dict[bytes, set[bytes]] = {}
        for text in texts:
            data = text.lower().encode()
            for start in {0, max(0, len(data) // 2 - STRETCH // 2), max(0, len(data) - STRETCH)}:
                found = data[start : start + STRETCH]
                self._stretches.setdefault(found[:HEAD], set()).add(found)
        heads = b"".join(head for head in self._stretches if len(head) == HEAD)
        self._heads = np.unique(np.frombuffer(heads, dtype=np.uint64))

    def finds(self, data: bytes) -> bool:
        """Say whether a stretch stands in the data."""
        data = data.lower()
        for shift in range(min(HEAD, len(data) - HEAD + 1)):
            count = (len(data) - shift) // HEAD
            words = np.frombuffer(data, dtype=np.uint64, count=count, offset=shift)
            places = np.flatnonzero(np.isin(words, self._heads)) * HEAD + shift
            for place in places.tolist():
                stretches = self._stretches[data[place : place + HEAD]]
                if any(data.startswith(one, place) for one in stretches):
                    return True
        return False


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run commands with and without faults; return where a record's text was found."""
    findings, result = [], {}
    with tempfile.TemporaryDirectory(prefix="small-audit-") as name:
        audit = SmallAudit(Path(name))
        own = [record.text for record in Demo(size=160, seed=8).read()]
        for title, texts, places in (
            ("the demo", [record.text for record in Demo().read()], _of_the_demo(audit)),
            ("a program", own, _of_a_program(audit)),
        ):
            search, searched, size = Search(texts), 0, 0
            assert search.finds(b"said: " + texts[7].encode())
            for where, data in places:
                searched, size = searched + 1, size + len(data)
                if search.finds(data):
                    findings.append(f"{title}: {where}")
            result[title] = {
                "records": len(texts),
                "places searched": searched,
                "bytes searched": size,
            }
    return {**result, "findings": findings}


def _of_the_demo(audit: SmallAudit) -> Iterator[tuple[str, bytes]]:
    """Yield what the demo prints and leaves, with and without faults."""
    demo = ("demo", "--out", "demo", "--workers", "1")
    for number, delay in ((signal.SIGTERM, 6.0), (signal.SIGKILL, 12.0)):
        process = audit.type(*demo)
        time.sleep(delay)
        if process.poll() is None:
            process.send_signal(number)
        yield f"the demo, ended by {number.name}", "".join(process.communicate()).encode()
        yield from _left(audit.home / "demo")
    yield from _said(audit, *demo)
    yield from _reading(audit, "demo", "demo-0007")
    yield from _left(audit.home / "demo")
    yield from _reprs(audit.home / "demo")
    yield from _damaged(audit, "demo", demo)
    for kind, option in (("disk", "size=600k"), ("inodes", "nr_inodes=40")):
        with mounted(audit.home / f"full-{kind}", option):
            out = audit.home / f"full-{kind}/demo"
            yield from _said(audit, "demo", "--out", str(out), "--workers", "1")
            yield from _left(out)


def _of_a_program(audit: SmallAudit) -> Iterator[tuple[str, bytes]]:
    """Yield the same of an audit whose generator is a program, which prints what it reads."""
    yield from _said(audit, "run", "audit.toml", "--out", "run", "--workers", "1")
    yield from _reading(audit, "run", "r00008")
    for words in (("plan", "show", "audit.toml"), ("corpus", "audit.toml")):
        yield from _said(audit, *words)
    yield from _left(audit.home / "run")
    yield from _reprs(audit.home / "run")
    yield from _under_fault(audit)


def _reading(audit: SmallAudit, out: str, record: str) -> Iterator[tuple[str, bytes]]:
    """Yield what the commands print that read a finished audit."""
    (audit.home / "said").mkdir(exist_ok=True)
    for command, *options in READING:
        yield from _said(audit, command, out, *options)
    yield from _left(audit.home / "said")
    yield from _said(audit, "explain", out, record)
    yield from _said(audit, "explain", out, "nobody")
    yield from _said(audit, "compare", out, out)


def _reprs(out: Path) -> Iterator[tuple[str, bytes]]:
    """Yield how the things of an opened audit show themselves."""
    opened = open_run(out)
    setup = opened.setup
    cell = setup.cells[0]
    request = request_for(setup, cell, setup.plans[cell.pool].sets[0])
    for thing in (
        *(opened, setup, setup.corpus, setup.corpus.records[0], setup.plugins, setup.plans),
        *(targets_in(setup, cell.pool), setup.pools, setup.publics, request),
        *(opened.results, opened.study, evidence_of(opened.setup, cell)),
        *(opened.release(cell, 0), opened.tables["nearest"]),
    ):
        yield f"repr of {type(thing).__name__}", f"{thing!r} {thing}".encode()


def _said(audit: SmallAudit, *words: str) -> Iterator[tuple[str, bytes]]:
    process = audit.type(*words)
    out, err = process.communicate()
    yield f"output of {' '.join(words[:2])} (exit {process.returncode})", out.encode()
    yield f"errors of {' '.join(words[:2])} (exit {process.returncode})", err.encode()


def _left(out: Path) -> Iterator[tuple[str, bytes]]:
    """Yield every file of a run folder but the releases, with its name."""
    for path in sorted(out.rglob("*")):
        yield "the name of a file", str(path.relative_to(out)).encode()
        if path.is_file() and "store/text" not in str(path):
            data = path.read_bytes()
            yield str(path.relative_to(out)), data
            if path.name.endswith(".gz"):
                yield f"{path.name}, unpacked", gzip.decompress(data.rpartition(b"\nsha256 ")[0])
    for path in list((out / "store/text").glob("*"))[:1]:  # they are where they should be
        assert load_texts(path.read_bytes().rpartition(b"\nsha256 ")[0])


def _damaged(audit: SmallAudit, out: str, again: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield what commands say of files that were cut in half."""
    for name in ("manifest.json", "spec.toml", "results/cells.csv", *_some(audit.home / out)):
        path = audit.home / out / name
        kept = path.read_bytes()
        path.write_bytes(kept[: len(kept) // 2])
        for words in (("status", out), ("report", out), ("verify", out), again):
            yield from _said(audit, *words)
        path.write_bytes(kept)


def _under_fault(audit: SmallAudit) -> Iterator[tuple[str, bytes]]:
    """Yield what commands say when a program, the corpus or the folder is at fault."""
    program, records = audit.home / "program.sh", audit.home / "records.jsonl"
    whole, rows = program.read_text(), records.read_text()
    again = ("run", "audit.toml", "--out", "run", "--extend", "--workers", "1")
    for number, fault in enumerate(
        (
            f"{ECHO} exit 3",
            f'{ECHO} head -n 3 "$1" > "$2"',
            f'{ECHO} cut -c 1-40 "$1" > "$2"',
            f'{ECHO} sed "s/text/txt/" "$1" > "$2"',
            "kill -SEGV $$",
        )
    ):
        program.write_text(fault)
        yield from _said(audit, "run", "audit.toml", "--out", f"fault-{number}", "--workers", "1")
        yield from _said(audit, *again)
        yield from _said(
            audit,
            "run",
            "audit.toml",
            "--out",
            f"shown-{number}",
            "--show-stderr",
            "--workers",
            "1",
        )
        yield from (
            (f"fault {number}: {name}", data)
            for folder in (f"fault-{number}", f"shown-{number}")
            for name, data in _files(audit.home / folder)
        )
    program.write_text(whole)
    lines = rows.splitlines()
    for number, fault in enumerate(
        (
            "\n".join([*lines[:40], lines[40][:-20], *lines[41:]]),
            "\n".join([*lines, lines[7]]),
            rows.replace('"text"', '"body"', 1),
            rows.replace('"labels": [', '"labels": {', 1),
            "id,text\n" + "\n".join(lines),
        )
    ):
        records.write_text(fault)
        yield from _said(audit, "run", "audit.toml", "--out", f"bad-{number}", "--workers", "1")
        yield from _said(audit, "status", "run")
        yield from _said(audit, "verify", "run")
    records.write_text(rows)
    yield from _damaged(audit, "run", again)


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "store/text" not in str(path):
            yield str(path.name), path.read_bytes()


def _some(out: Path) -> list[str]:
    kinds = sorted(path for path in (out / "store").iterdir() if path.is_dir())
    return [str(min(kind.iterdir()).relative_to(out)) for kind in kinds if any(kind.iterdir())][:4]
