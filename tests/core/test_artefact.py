"""An artefact is made once, and its key alone says which one it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from synthleak.core.artefact import Artefact
from synthleak.core.store import MemoryStore


@dataclass
class Setup:
    seed: int = 1
    store: MemoryStore = field(default_factory=MemoryStore)
    made: list[str] = field(default_factory=list)


def key(setup: Setup, name: str) -> str:
    return f"{setup.seed}-{name}"


def make(setup: Setup, name: str) -> str:
    setup.made.append(name)
    return name.upper()


SHOUTED = Artefact("meta", key, make, str.encode, bytes.decode)


def test_an_artefact_is_made_once() -> None:
    setup = Setup()
    assert not SHOUTED.exists(setup, "a")
    assert [SHOUTED.get(setup, "a") for _ in range(3)] == ["A"] * 3
    assert SHOUTED.exists(setup, "a") and setup.made == ["a"]
    assert list(setup.store.list("")) == ["meta/1-a.json"]


def test_another_key_is_another_artefact() -> None:
    setup = Setup()
    SHOUTED.get(setup, "a")
    SHOUTED.get(setup, "b")
    setup.seed = 2
    assert not SHOUTED.exists(setup, "a")
    assert SHOUTED.get(setup, "a") == "A" and setup.made == ["a", "b", "a"]
