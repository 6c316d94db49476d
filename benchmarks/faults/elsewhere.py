"""Kills of a check, of quick programs, in a bucket and on Ray: tables identical, nothing left.

    python benchmarks/faults elsewhere [--count 48] [--only check|quick|bucket|ray]

Each is killed with SIGKILL at random moments, again and again until it is finished, and its files
are compared with those of one that nobody disturbed. Quick programs end within 30 ms. The bucket is
SeaweedFS on loopback. A run on Ray starts a cluster of its own, which must end with it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from pyarrow import fs
from small_audit import SmallAudit, files_in, manifest_in, private_files, processes_in, settled

from synthleak.core import private_files as private
from synthleak.corpus.readers.demo import Demo

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from support.bucket import BUCKET, bucket

COUNT = 48
QUICK = 'head -n "$3" "$1" > "$2"; sleep 0.02\n'
"""A program that has often ended before whoever started it knows that it was killed."""
PER_AUDIT = 3
"""Kills of one audit at most: then it may end, and another one begins."""
LEASE_SECONDS = 2.0
"""A killed run holds a bucket for so long; 60 s otherwise."""
Files = dict[str, bytes]


@dataclass
class Kind:
    """What is started, and how its files are read."""

    audit: SmallAudit
    words: Callable[[str], list[str]]
    where: Callable[[str], str]
    read: Callable[[str], tuple[Files, dict[str, Any]]]
    traces: tuple[str, ...] = ()
    findings: list[str] = field(default_factory=list)


@contextmanager
def _check(home: Path) -> Iterator[Kind]:
    audit = SmallAudit(home)
    texts = [record.text for record in Demo(size=400, seed=9).read()]
    parts = {"members": texts[:150], "holdout": texts[150:300], "release": texts[300:] + texts[:9]}
    for name, lines in parts.items():
        (home / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    words = [word for name in parts for word in (f"--{name}", f"{name}.txt")]
    yield Kind(
        audit,
        lambda out: ["check", *words, "--random-split", "--out", out, "--workers", "2", "-q"],
        lambda name: str(home / name),
        lambda out: (files_in(Path(out)), manifest_in(Path(out))),
    )


@contextmanager
def _quick(home: Path) -> Iterator[Kind]:
    audit, spec = SmallAudit(home, program=QUICK, built_in=False, instances=40), home / "audit.toml"
    yield Kind(
        audit,
        lambda out: ["run", str(spec), "--out", out, "--workers", "2", "-q"],
        lambda name: str(home / name),
        lambda out: (files_in(Path(out)), manifest_in(Path(out))),
    )


@contextmanager
def _bucket(home: Path) -> Iterator[Kind]:
    audit = SmallAudit(home)
    (home / "weed").mkdir()
    private.LEASE_SECONDS, private.RENEWED_EVERY = LEASE_SECONDS, LEASE_SECONDS / 4
    with bucket(home / "weed") as access:
        os.environ.update(access)
        copy = home / "copy"

        def read(out: str) -> tuple[Files, dict[str, Any]]:
            folder = copy / out.rpartition("/")[2]
            server = fs.S3FileSystem(
                access_key=access["AWS_ACCESS_KEY_ID"],
                secret_key=access["AWS_SECRET_ACCESS_KEY"],
                endpoint_override=access["AWS_ENDPOINT_URL"],
                region="us-east-1",
            )
            folder.mkdir(parents=True)
            fs.copy_files(out.removeprefix("s3://"), str(folder), server, fs.LocalFileSystem())
            files = files_in(folder)
            return {n: data for n, data in files.items() if ".lease" not in n}, manifest_in(folder)

        spec = str(home / "audit.toml")
        yield Kind(
            audit,
            lambda out: ["run", spec, "--out", out, "--workers", "2", "--wait", "-q"],
            lambda name: f"s3://{BUCKET}/{name}",
            read,
        )


@contextmanager
def _ray(home: Path) -> Iterator[Kind]:
    audit, spec = SmallAudit(home), str(home / "audit.toml")
    yield Kind(
        audit,
        lambda out: ["run", spec, "--out", out, "--engine", "ray", "--workers", "2", "-q"],
        lambda name: str(home / name),
        lambda out: (files_in(Path(out)), manifest_in(Path(out))),
        traces=("raylet", "gcs_server"),
    )


KINDS = {"check": _check, "quick": _quick, "bucket": _bucket, "ray": _ray}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Kill audits of every kind, and return what differed."""
    names = [name for name in KINDS if name.startswith(arguments.only)]
    each = -(-(arguments.count or COUNT) // len(names))
    result: dict[str, Any] = {}
    findings = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix=f"killed-{name}-") as home:
            with KINDS[name](Path(home)) as kind:
                result[name] = _killed(kind, each, Random(f"{arguments.seed} {name}"), name)
            findings += [f"{name}: {said}" for said in kind.findings]
    return {**result, "findings": findings}


def _killed(kind: Kind, count: int, rng: Random, title: str) -> dict[str, Any]:
    began = time.monotonic()
    truth_at = kind.where("truth")
    process = kind.audit.type(*kind.words(truth_at))
    said = process.communicate()[1]
    if process.returncode:
        kind.findings.append(f"undisturbed: exit {process.returncode}: {said[-300:]}")
        return {"kills": 0}
    takes, truth = time.monotonic() - began, kind.read(truth_at)
    killed = finished = 0
    moments = []
    while killed < count:
        out = kind.where(f"audit-{finished}")
        last = min(count, killed + rng.randint(1, PER_AUDIT))
        while True:
            process = kind.audit.type(*kind.words(out))
            if killed < last:
                moment = rng.uniform(0, takes)
                end = time.monotonic() + moment
                while time.monotonic() < end and process.poll() is None:
                    time.sleep(0.02)
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
                    process.communicate()
                    killed += 1
                    moments.append(round(moment, 2))
                    _left(kind, out, f"kill {killed}")
                    print(f"{title}: kill {killed} after {moment:.1f} s", file=sys.stderr)
                    continue
            said = process.communicate()[1]
            break
        if process.returncode:
            kind.findings.append(f"{out}: exit {process.returncode}: {said[-300:]}")
        else:
            files, manifest = kind.read(out)
            differ = sorted(n for n in {*files, *truth[0]} if files.get(n) != truth[0].get(n))
            if differ:
                kind.findings.append(f"{out}: {len(differ)} files differ, e.g. {differ[0]}")
            if manifest != truth[1]:
                keys = sorted(k for k in manifest if manifest[k] != truth[1].get(k))
                kind.findings.append(f"{out}: the manifest differs in {keys}")
        if "Traceback" in said:
            kind.findings.append(f"{out}: traceback")
        left = private_files(kind.audit.temporary)
        if left:
            kind.findings.append(f"{out}: left {left[:3]}")
        finished += 1
    return {
        "kills": killed,
        "audits finished and compared": finished,
        "seconds undisturbed": round(takes, 1),
        "killed after": moments,
    }


def _left(kind: Kind, out: str, where: str) -> None:
    """Note private files and processes that outlive a killed run for more than a moment."""
    folders = (kind.audit.temporary, Path(out) / ".private")
    left = [name for name in settled(*folders) if not name.endswith(".part")]
    if left:
        kind.findings.append(f"{where}: left {left[:3]}")
    for trace in (f"{out}/.private", *kind.traces):
        end = time.monotonic() + 20
        while time.monotonic() < end and processes_in(Path(trace)):
            time.sleep(0.2)
        if processes_in(Path(trace)):
            kind.findings.append(f"{where}: processes of {trace} outlived it")
