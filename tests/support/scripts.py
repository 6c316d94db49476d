"""Load the scripts of the study and of the benchmarks, which are no package."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

PAPER = Path(__file__).parents[2] / "studies" / "paper"
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def script(name: str, folder: Path = PAPER) -> ModuleType:
    """Import a script by its own name, under which others of the folder import it."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
