"""Faults: what happens to an audit when something goes wrong.

    python benchmarks/faults PART [--count N] [--seed S] [--keep DIR]

- inputs: malformed corpora, specs, releases and programs: one line, exit code 2, no private text;
- kills: signals and concurrent starts: identical tables, no private file left;
- elsewhere: the same for a check, a run in a bucket and a run on Ray;
- damage: flipped, cut and changed files of a run folder: named and made again;
- full: disk, inodes and temporary folder full: one line, and a clean resume;
- texts: logs, errors, manifest, reprs and report hold no text of a record;
- forged: folders with recomputed digests: refused in one line, or read;
- growth: texts that are one piece over and over, against eight functions that use patterns;
- deleted, links, quick, plugins, rights, interrupts: see misuse.py.

Each part is a module here with `measure(arguments) -> dict`, whose `findings` lists what went
wrong. The result is printed and kept in benchmarks/results; findings give exit code 1.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import synthleak

MISUSE = ("deleted", "links", "quick", "plugins", "rights", "interrupts")
PARTS = ("inputs", "kills", "elsewhere", "damage", "full", "texts", "forged", "growth", *MISUSE)
RESULTS = Path(__file__).parents[1] / "results"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--count", type=int, help="how many faults (default: as many as published)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="faults whose name starts with this")
    parser.add_argument("--keep", type=Path, help="a folder for the inputs of findings")
    parser.add_argument("--dry", action="store_true", help="print the result, write no file")
    arguments = parser.parse_args()
    module = "misuse" if arguments.part in MISUSE else arguments.part
    result = {
        "part": arguments.part,
        "seed": arguments.seed,
        "only": arguments.only,
        "synthleak": synthleak.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        **importlib.import_module(module).measure(arguments),
    }
    text = json.dumps(result, indent=1)
    print(text)
    if not arguments.dry:
        today = datetime.now(UTC).date().isoformat()
        RESULTS.joinpath(f"faults-{arguments.part}-{today}.json").write_text(text + "\n")
    return 1 if result["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
