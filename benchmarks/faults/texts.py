"""Logs, progress, errors under fault, manifest, reprs and report hold no text of a record.

Every record of the audit holds a word of its own. Everything that the commands print, with and
without faults, and everything that an audit leaves is searched for these words and for the first
characters of every record.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from small_audit import MARK, SmallAudit

from synthleak import open_run
from synthleak.releases.release import load_texts

STRETCH = 24
"""Characters of a record that are searched for."""
ECHO = 'cat "$1" >&2; od -c "$1" | head -n 40 >&2; '


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run commands with and without faults; return where a record's text was found."""
    with tempfile.TemporaryDirectory(prefix="small-audit-") as name:
        audit = SmallAudit(Path(name))
        lines = (audit.home / "records.jsonl").read_bytes().splitlines()
        starts = [line.partition(b'"text": "')[2][:STRETCH] for line in lines]
        searched, findings = 0, []
        for where, data in _everything(audit):
            searched += 1
            if MARK.search(data) or any(start in data for start in starts):
                findings.append(where)
        return {"records": len(lines), "places searched": searched, "findings": findings}


def _everything(audit: SmallAudit) -> Iterator[tuple[str, bytes]]:
    """Yield what is printed and what is left, with where it came from."""
    out = audit.home / "run"
    yield from _said(audit, "run", "audit.toml", "--out", "run", "--workers", "1")
    for words in (
        ("status", "run"),
        ("report", "run"),
        ("explain", "run", "r00008"),
        ("explain", "run", "nobody"),
        ("compare", "run", "run"),
        ("tables", "run"),
        ("figures", "run"),
        ("analyse", "run", "--workers", "1"),
        ("adjudicate", "run", "--list"),
        ("verify", "run", "--replay", "9", "--trust-plugins"),
        ("purge", "run"),
        ("plan", "show", "audit.toml"),
        ("corpus", "audit.toml"),
    ):
        yield from _said(audit, *words)
    yield from _left(out)
    opened = open_run(out)
    setup = opened.setup
    cell = setup.cells[0]
    for thing in (
        *(
            opened,
            setup,
            setup.corpus,
            setup.corpus.records[0],
            setup.plugins,
            setup.targets(cell.pool),
        ),
        *(
            opened.results,
            opened.study,
            opened.measurements,
            opened.evidence(cell),
            opened.release(cell, 0),
        ),
        *(
            setup.request(cell, setup.plans[cell.pool].sets[0]),
            setup.plans,
            setup.pools,
            setup.publics,
        ),
    ):
        yield f"repr of {type(thing).__name__}", f"{thing!r} {thing}".encode()
    yield from _under_fault(audit)


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
    texts = list((out / "store/text").iterdir())
    assert load_texts(
        texts[0].read_bytes().rpartition(b"\nsha256 ")[0]
    )  # they are where they should be


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
    for name in ("manifest.json", "spec.toml", "results/cells.csv", *_some(audit.home / "run")):
        path = audit.home / "run" / name
        kept = path.read_bytes()
        path.write_bytes(kept[: len(kept) // 2])
        for words in (("status", "run"), ("report", "run"), ("verify", "run"), again):
            yield from _said(audit, *words)
        path.write_bytes(kept)


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "store/text" not in str(path):
            yield str(path.name), path.read_bytes()


def _some(out: Path) -> list[str]:
    kinds = sorted(path for path in (out / "store").iterdir() if path.is_dir())
    return [str(min(kind.iterdir()).relative_to(out)) for kind in kinds if any(kind.iterdir())][:4]
