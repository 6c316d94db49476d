"""Disk, inodes and temporary folder full: one line, and a clean resume. Needs root, to mount.

A small disk in memory holds the run folder, or the temporary folder. It fills at a different point
each time; then it gets room, and the audit continues.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

from small_audit import PROGRAM, SmallAudit, files_in, mounted, private_files

POINTS = 15
PAGE = 4096


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fill disks; return what was not one line, left something behind or did not resume."""
    rng, findings, ends = Random(arguments.seed), [], Counter[str]()
    each = max(1, (arguments.count or POINTS) // 3)
    with tempfile.TemporaryDirectory(prefix="small-audit-") as name:
        home = Path(name)
        audit = SmallAudit(
            home, program=f'cat "$1" > "$TMPDIR/copy" || exit 9\n{PROGRAM}', built_in=False
        )
        audit.undisturbed(home / "truth")
        truth = files_in(home / "truth")
        places = [*(home / "truth").rglob("*")]
        pages = sum(-(-len(data) // PAGE) for data in truth.values())
        shares = [(n + rng.random()) / each for n in range(each)]
        points = [
            *(("disk", f"size={max(1, int(s * pages * 0.9)) * PAGE}") for s in shares),
            *(("inodes", f"nr_inodes={4 + int(s * len(places) * 0.9)}") for s in shares),
            *(("temporary", f"size={PAGE * (1 + n)}") for n in range(each)),
        ]
        for number, (kind, options) in enumerate(points):
            where = f"{kind} full ({options})"
            audit.new_log()
            disk = audit.temporary if kind == "temporary" else home / f"disk-{number}"
            out = home / f"disk-{number}/run"
            with mounted(disk, options):
                if kind == "temporary":
                    (disk / "filler").write_bytes(b"")
                    _fill(disk / "filler")
                process = audit.start(out)
                said = process.communicate()[1]
                end = "finished" if process.returncode == 0 else f"exit {process.returncode}"
                ends[f"{kind}: {end}"] += 1
                mistakes = [s for s in said.splitlines() if s.startswith("synthleak: ")]
                if process.returncode not in (0, 2) or "Traceback" in said:
                    findings.append(f"{where}: exit {process.returncode}: {said[-300:]!r}")
                elif process.returncode == 2 and len(mistakes) != 1:
                    findings.append(f"{where}: {len(mistakes)} lines, not one: {said[-300:]!r}")
                if process.returncode == 0 and kind != "temporary":
                    findings.append(f"{where}: nothing was full")
                print(f"{where}: {end}", file=sys.stderr)
                left = private_files(out, audit.temporary)
                if left:
                    findings.append(f"{where}: left {left[:3]}")
                if kind == "temporary":
                    (disk / "filler").unlink()
                room = ["mount", "-o", "remount,size=64m,nr_inodes=100000", str(disk)]
                subprocess.run(room, check=True)
                again = audit.start(out)
                said = again.communicate()[1]
                if again.returncode != 0:
                    findings.append(f"{where}: no resume: exit {again.returncode}: {said[-300:]!r}")
                elif files_in(out) != truth:
                    findings.append(f"{where}: other tables after the resume")
                if max(audit.bills().values()) > 2:
                    findings.append(f"{where}: a release was paid three times")
    return {"points": len(points), "ends": dict(sorted(ends.items())), "findings": findings}


def _fill(path: Path) -> None:
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * PAGE)
        except OSError:
            return
