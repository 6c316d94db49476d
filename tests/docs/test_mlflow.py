"""The recipe for MLflow in docs/ci.md."""

from __future__ import annotations

import contextlib
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from synthleak.corpus.readers.demo import Demo

PAGE = Path(__file__).parents[2] / "docs" / "ci.md"


def recorder(noted: dict[str, Any]) -> types.ModuleType:
    """Return a module with what the recipe uses of MLflow."""
    module = types.ModuleType("mlflow")
    module.start_run = contextlib.nullcontext  # type: ignore[attr-defined]
    for name in ("set_tag", "log_metric"):
        setattr(module, name, noted.__setitem__)
    module.log_artifact = lambda path: noted.update({"file": Path(path).stat().st_size})  # type: ignore[attr-defined]
    return module


def test_a_check_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.search(r"## MLflow.*?```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert code is not None
    noted: dict[str, Any] = {}
    monkeypatch.setitem(sys.modules, "mlflow", recorder(noted))
    monkeypatch.chdir(tmp_path)
    texts = [record.text for record in Demo(size=160).read()]
    data = {"members": texts[:50], "holdout": texts[50:100], "release": texts[:10] + texts[110:]}
    exec(code[1], data)
    assert noted["synthleak.copied"] == 10 and noted["synthleak.leak_found"] == "True"
    assert noted["synthleak.verdict"] and noted["file"] > 1000
