"""Load the scripts of the study and of the benchmarks, which are no package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

PAPER = Path(__file__).parents[2] / "studies" / "paper"
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SMALL_STUDY = """
seed = 3
prior = []
[corpus]
reader = "demo"
size = 160
[encoders]
pools = "hashing"
evidence = "hashing"
[[pool]]
name = "outlier"
rule = "outlier"
percentile = 92
[[pool]]
name = "rand0"
rule = "random"
match = "outlier"
draws = 1
[game]
instances = 6
records = 30
rounds = 4
candidates = 5
[[generator]]
kind = "ngram"
epsilon = [inf, 2]
[evidence]
families = ["bigram_logprob"]
"""
"""A spec that takes seconds: two pools, two budgets."""


def script(name: str, folder: Path = PAPER) -> ModuleType:
    """Import a script by its own name, under which others of the folder import it."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
