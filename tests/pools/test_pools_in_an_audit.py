"""Pools of every kind pass through the whole pipeline, and a run folder keeps them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from synthleak.audit.result import open_run
from synthleak.audit.run import run
from synthleak.core.errors import StoreError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec


def test_ids_where_and_union_in_one_audit(
    tmp_path: Path, tiny: Callable[..., LoadedSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.txt").write_text("demo-0003\ndemo-0017\ndemo-0090\n")
    spec = tiny(
        pool=[
            {"name": "mine", "rule": "ids", "path": "mine.txt"},
            {"name": "elders", "rule": "where", "where": "age >= 85 and site != 'C'", "size": 5},
            {"name": "both", "rule": "union", "of": ["mine", "elders"], "shared": "first"},
        ],
        generator=[{"kind": "ngram"}],
    )
    audit = run(spec, tmp_path / "out", runtime=Runtime(workers=2))
    pool = audit.setup.pools["both"]
    assert set(pool.origins) == {"mine", "elders"}
    assert {row.pool for row in audit.cells} == {"mine", "elders", "both"}
    monkeypatch.chdir("/")
    again = open_run(tmp_path / "out")
    assert again.setup.pools == audit.setup.pools
    assert again.cells == audit.cells


def test_a_changed_list_of_ids_is_another_audit(
    tmp_path: Path, tiny: Callable[..., LoadedSpec]
) -> None:
    path = tmp_path / "mine.txt"
    path.write_text("demo-0003\ndemo-0017\n")
    spec = tiny(
        pool=[{"name": "mine", "rule": "ids", "path": str(path)}], generator=[{"kind": "echo"}]
    )
    run(spec, tmp_path / "out", runtime=Runtime(workers=1))
    path.write_text("demo-0003\ndemo-0018\n")
    with pytest.raises(StoreError, match=r"belongs to another spec \(mine\.ids was"):
        run(spec, tmp_path / "out", runtime=Runtime(workers=1))
