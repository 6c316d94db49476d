"""Flips, cuts and changed digits over store, results, manifest and spec: named, made again.

Up to twelve files are damaged at a time. Before they are made again the audit is read: it must
refuse, or show what it showed before.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from small_audit import SmallAudit, files_in, manifest_in

from synthleak import Runtime, open_run, run
from synthleak.audit.folder import NAMED_FILES
from synthleak.core.errors import SynthleakError
from synthleak.core.spec import load_spec

DAMAGES, AT_ONCE = 300, 12
ONE = Runtime(workers=1)
BESIDE = ("manifest.json", "spec.toml", "report.html")


class Said(logging.Handler):
    """Keeps what is said about the store."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def damaged(data: bytes, rng: Random) -> tuple[str, bytes]:
    """Damage the content of a file: a bit flipped, an end cut off, or a digit changed."""
    digits = [m.start() for m in re.finditer(rb"\d", data)] if data.isascii() else []
    kind = rng.choice(["flip", "cut", "digit"] if digits else ["flip", "cut"])
    if kind == "cut":
        return kind, data[: -rng.choice([1, 9, 64, 73, 74, rng.randint(1, len(data))])]
    changed, place = bytearray(data), rng.choice(digits) if kind == "digit" else 0
    if kind == "digit":
        changed[place] = rng.choice([d for d in b"0123456789" if d != data[place]])
    else:
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return kind, bytes(changed)


def chosen(names: list[str], rng: Random) -> list[str]:
    """Choose files to damage together: of all parts, the manifest never beside what it names."""
    store = [name for name in names if name.startswith("store/")]
    beside = [name for name in names if not name.startswith("store/") and name != "manifest.json"]
    part = rng.choice(["store", "store", "beside", "manifest"])
    if part == "manifest":
        return ["manifest.json", *rng.sample(store, AT_ONCE - 1)]
    if part == "store":
        return rng.sample(store, AT_ONCE)
    beside.remove("spec.toml")
    return ["spec.toml", *rng.sample(beside, NAMED_FILES - 1)]


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Damage a finished audit again and again; return what was obeyed, unnamed or not remade."""
    rng, said = Random(arguments.seed), Said()
    logger = logging.getLogger("synthleak.store")
    logger.addHandler(said)
    logger.propagate = False
    wanted = arguments.count or DAMAGES
    findings: list[str] = []
    kinds: Counter[str] = Counter()
    silent = 0
    with tempfile.TemporaryDirectory(prefix="small-audit-") as name:
        os.chdir(name)
        audit, out = SmallAudit(Path(name) / "audit"), Path(name) / "run"
        spec = load_spec(audit.home / "audit.toml")
        cells = run(spec, out, runtime=ONE).cells
        truth, manifest = files_in(out), manifest_in(out)
        names = [*truth, "manifest.json"]
        while sum(kinds.values()) < wanted:
            files, hurt = chosen(names, rng), {}
            for file in files:
                before = (out / file).read_bytes()
                kind, data = damaged(before, rng)
                if file == "manifest.json" and data == before.rstrip():
                    data = data[:-1]  # its line end alone says nothing
                (out / file).write_bytes(data)
                kinds[f"{kind} in {_part(file)}"] += 1
                hurt[file] = kind
            said.lines.clear()
            try:
                seen = open_run(out, keep=False).cells
            except SynthleakError:
                seen = cells
            if seen != cells:
                silent += 1
                findings.append(f"{hurt}: read as if nothing had happened")
            said.lines.clear()
            try:
                after = run(spec, out, runtime=ONE).cells
            except SynthleakError as error:
                findings.append(f"{hurt}: {error}")
                break
            text = "\n".join(said.lines)
            findings += [f"{f}: not named" for f in files if f.removeprefix("store/") not in text]
            found = {**files_in(out), "manifest": manifest_in(out), "cells": after}
            whole = {**truth, "manifest": manifest, "cells": cells}
            other = [file for file in {*found, *whole} if found.get(file) != whole.get(file)]
            if other:
                silent += 1
                findings.append(f"{hurt}: not made again as it was: {sorted(other)}")
                break
    return {
        "damages": sum(kinds.values()),
        "of": dict(sorted(kinds.items())),
        "files of the audit": len(names),
        "silent alterations": silent,
        "findings": findings,
    }


def _part(file: str) -> str:
    return file if file in BESIDE else "/".join(file.split("/")[:-1])
