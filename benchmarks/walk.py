"""How far does one record walk? The files, functions and calls that a small audit passes through.

    python benchmarks/walk.py              # prints a row a package for an audit and for a check
    python benchmarks/walk.py --write      # writes results/walk-COMMIT.json as well

An audit of one cell (JSON Lines, outliers, `ngram`) and a check of one release run with a profiler
that counts, of synthleak's own code, the files and functions that are called, and the longest chain
of calls. Lambdas and comprehensions belong to the function around them. Somebody new who follows a
record meets these files and no others.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import synthleak
from synthleak.core.engine.progress import Silent
from synthleak.core.runtime import Runtime
from synthleak.corpus.readers.demo import Demo

HOME = Path(synthleak.__file__).parent
RESULTS = Path(__file__).parent / "results"
RECORDS = 400


@dataclass
class Walk:
    """What was called: functions by file, and the deepest chain of synthleak's own calls."""

    functions: dict[str, set[CodeType]] = field(default_factory=dict)
    deepest: int = 0
    chain: tuple[str, ...] = ()

    def follow(self, walk: Callable[[], Any]) -> None:
        """Call `walk` and count what it calls."""
        calls: list[str] = []
        prefix = str(HOME)

        def note(frame: FrameType, event: str, _: Any) -> None:
            code = frame.f_code
            if event not in ("call", "return") or not code.co_filename.startswith(prefix):
                return
            if code.co_name.startswith("<"):  # modules, lambdas, comprehensions
                return
            if event == "return":
                if calls:
                    calls.pop()
                return
            file = str(Path(code.co_filename).relative_to(HOME))
            self.functions.setdefault(file, set()).add(code)
            calls.append(f"{file}:{code.co_qualname}")
            if len(calls) > self.deepest:
                self.deepest, self.chain = len(calls), tuple(calls)

        sys.setprofile(note)
        try:
            walk()
        finally:
            sys.setprofile(None)

    def packages(self) -> list[tuple[str, int, int]]:
        """Return each package with its files and functions."""
        files: Counter[str] = Counter()
        functions: Counter[str] = Counter()
        for file, called in self.functions.items():
            package = file.partition("/")[0] if "/" in file else "(top)"
            files[package] += 1
            functions[package] += len(called)
        return [(name, files[name], functions[name]) for name in sorted(files)]


def audit(folder: Path) -> None:
    """Audit one cell."""
    corpus = folder / "records.jsonl"
    rows = [
        {"id": record.id, "text": record.text, "labels": list(record.labels)}
        for record in Demo(size=RECORDS, seed=1).read()
    ]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    spec = folder / "audit.toml"
    spec.write_text(
        f'[corpus]\nreader = "jsonl"\npath = "{corpus}"\n[[pool]]\nname = "outlier"\n'
        'rule = "outlier"\npercentile = 95\n[game]\ninstances = 10\nrecords = 100\n'
        '[[generator]]\nkind = "ngram"\n',
        encoding="utf-8",
    )
    synthleak.run(spec, folder / "run", runtime=Runtime(workers=1), progress=Silent())


def check(folder: Path) -> None:
    """Check one release."""
    texts = [record.text for record in Demo(size=RECORDS, seed=2).read()]
    synthleak.check(
        texts[:150], texts[150:300], texts[300:], random_split=True, out=folder / "check"
    )


WALKS = {"audit": audit, "check": check}


def follow(title: str) -> dict[str, Any]:
    """Walk once and return what was counted."""
    walked = Walk()
    with tempfile.TemporaryDirectory() as folder:
        walked.follow(lambda: WALKS[title](Path(folder)))
    rows = walked.packages()
    return {
        "title": title,
        "files": sum(row[1] for row in rows),
        "functions": sum(row[2] for row in rows),
        "deep": walked.deepest,
        "packages": {name: {"files": a, "functions": b} for name, a, b in rows},
        "chain": walked.chain,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the figures to results/")
    parser.add_argument("--chain", action="store_true", help="print the longest chain of calls")
    args = parser.parse_args()
    figures: dict[str, Any] = {}
    for title in WALKS:
        with get_context("spawn").Pool(1) as fresh:  # what loads plug-ins first is part of the walk
            walked = fresh.apply(follow, (title,))
        rows = walked["packages"]
        print("\n{title}: {files} files, {functions} functions, {deep} calls deep".format(**walked))
        for name, row in rows.items():
            print(f"  {name:<14} {row['files']:>4} files {row['functions']:>5} functions")
        chain = walked.pop("chain")
        if args.chain:
            print("  " + "\n  ".join(chain))
        figures[title] = walked
    figures["lines"] = sum(
        len(path.read_text(encoding="utf-8").splitlines()) for path in HOME.rglob("*.py")
    )
    print(f"\nsrc: {figures['lines']:,} lines")
    if args.write:
        git = ["git", "-C", str(HOME), "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        path = RESULTS / f"walk-{commit}.json"
        content = {"what": "benchmarks/walk.py", "commit": commit, **figures}
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
