"""The setup is plain data, and an audit says in few words what it holds."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from synthleak.audit.result import Audit
from synthleak.audit.setup import Setup, changes, identity_of, plan_of
from synthleak.audit.stages import set_up
from synthleak.audit.steps.releases import release_key, wanted_sets
from synthleak.core.seeds import plain
from synthleak.core.spec import LoadedSpec
from synthleak.core.store import MemoryStore


def public(kind: type) -> list[str]:
    return [name for name in {**vars(kind), **kind.__annotations__} if not name.startswith("_")]


def test_a_setup_has_no_behaviour() -> None:
    assert set(public(Setup)) == set(Setup.__annotations__)


def test_an_audit_has_few_members_and_explains_each() -> None:
    assert len(public(Audit)) <= 20
    for name in set(public(Audit)) - set(Audit.__annotations__):
        member = inspect.getattr_static(Audit, name)
        said = inspect.getdoc(member) or ""
        assert said, name
        if inspect.isfunction(member):
            taken = list(inspect.signature(member).parameters)[1:]
            assert "Returns:" in said and all(f"{one}: " in said for one in taken), name


def test_a_setup_travels_with_the_keys_of_its_releases(tiny: Callable[..., LoadedSpec]) -> None:
    setup = set_up(tiny(), MemoryStore())
    cell = setup.cells[0]
    _, item = wanted_sets(setup, cell)[0]
    key = release_key(setup, cell, item)
    there = pickle.loads(pickle.dumps(setup))
    there.corpus.__dict__.clear()  # nothing is left to make the key of
    assert release_key(there, cell, item) == key


def test_an_edited_script_is_named_without_its_hash(
    tiny: Callable[..., LoadedSpec], tmp_path: Path
) -> None:
    def setup(program: str, *more: str) -> Setup:
        (tmp_path / "mine.sh").write_text(program, encoding="utf-8")
        argv = ["sh", str(tmp_path / "mine.sh"), "{train}", "{out}", *more]
        return set_up(tiny(generator=[{"kind": "command", "argv": argv}]), MemoryStore())

    before = plain(identity_of(setup("cp $1 $2")))
    assert changes(before, setup("cp $1 $2")) == []
    assert changes(before, setup("head $1 > $2")) == ["mine.sh was edited"]
    assert changes(before, setup("head $1 > $2", "{n}")) == [
        "mine.sh was edited",
        "command.argv was ['sh', 'mine.sh', '{train}', '{out}'], is"
        " ['sh', 'mine.sh', '{train}', '{out}', '{n}']",
    ]


def test_a_cell_is_played_as_far_as_its_look(tiny: Callable[..., LoadedSpec]) -> None:
    setup = set_up(tiny(), MemoryStore())
    early = replace(setup, reached=dict.fromkeys(setup.cells, 2))
    assert len(plan_of(early, setup.cells[0]).sets) < len(plan_of(setup, setup.cells[0]).sets)
