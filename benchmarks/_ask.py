"""Runs other tools, in the Pythons that have them, for their own measurements (`_peers.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _definitions import Case
from synthleak.core.text import tokens

NAMES = ("sdmetrics", "mostlyai", "nemo", "domias", "canary")
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
HOW = {
    "sdmetrics": "on 16 principal components, since it reads no text",
    "mostlyai": "on our vectors, and as its report reads texts, by the model in the package",
    "nemo": "the sentence transformer that it downloads replaced by our vectors",
    "domias": "its kernel densities on 32 principal components of our vectors",
    "canary": "whose bigram model its authors' scorer fits, because the scorer is on no package "
    "index (privacy-estimates 0.1.0.post1 has no attack in it) and downloads its tokenizer",
}
Row = dict[str, Any]


class Peer:
    """Another tool, run in the Python that has it, release by release."""

    def __init__(self, name: str, python: str) -> None:
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [python, str(Path(__file__).with_name("_peers.py")), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=os.environ | ONE_THREAD | {"HF_HUB_OFFLINE": "1", "LOKY_MAX_CPU_COUNT": "1"},
        )
        self.about = self._line()
        if self.about is None:
            self.source = f"by its definition, because: {self._why()}"
        else:
            version = f"{self.about['package']} {self.about['version']}"
            kind = "by its definition, compared with" if name == "canary" else "from its package,"
            self.source = f"{kind} {version}, {HOW[name]}"

    def ask(self, folder: Path) -> Row | None:
        if self.about is None:
            return None
        assert self.process.stdin
        print(folder, file=self.process.stdin, flush=True)
        answer = self._line()
        if answer is None:
            raise SystemExit(f"{self.about['package']}: {self._why()}")
        return answer

    def _line(self) -> Row | None:
        assert self.process.stdout
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def _why(self) -> str:
        self.process.wait()
        self.errors.seek(0)
        return (self.errors.read().strip().splitlines() or ["no message"])[-1]


def peers_of(options: Sequence[str]) -> dict[str, Peer]:
    pythons: dict[str, str] = {}
    for item in options:
        name, _, python = item.rpartition("=")
        pythons |= {name: python} if name else dict.fromkeys(NAMES, python)
    return {name: Peer(name, python) for name, python in pythons.items()}


def lay_out(case: Case, folder: Path) -> None:
    """Write the input files of `_peers.py`."""
    sides = {"members": np.flatnonzero(case.member), "holdout": np.flatnonzero(~case.member)}
    texts = {side: [case.records[i] for i in places] for side, places in sides.items()}
    texts["release"] = list(case.release)
    words = {part: [tokens(text) for text in those] for part, those in texts.items()}
    arrays = {}
    few = {"_16": case.reduced(16, by_reference=False), "_32": case.reduced(32, by_reference=True)}
    for ending, (own, theirs, known) in {"": case.vectors, **few}.items():
        arrays |= {side + ending: own[places] for side, places in sides.items()}
        arrays |= {"release" + ending: theirs, "reference" + ending: known}
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    (folder / "words.json").write_text(json.dumps(words), encoding="utf-8")
    np.savez(folder / "vectors.npz", **arrays)
