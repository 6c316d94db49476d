"""What every contract check shares: how it fails, and what it asks of any plug-in."""

from __future__ import annotations

import pickle
import random
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from synthleak.audit.setup import settings_of
from synthleak.core.errors import ContractError
from synthleak.core.registry import Plugin
from synthleak.core.seeds import digest
from synthleak.core.spec import dump_toml

Fail = Callable[[str], NoReturn]
CLOSE = 1e-4
"""How far values may differ that were computed in other batches."""


def refuser(title: str, plugin: object) -> Fail:
    """Return what raises a `ContractError` that names the plug-in."""
    name = getattr(plugin, "kind", "") or getattr(plugin, "name", "") or type(plugin).__name__

    def fail(reason: str) -> NoReturn:
        raise ContractError(f"{title} {name!r}: {reason}")

    return fail


def check_settings(plugin: Plugin, fail: Fail) -> None:
    """Check that a plug-in is registered, and the same in a worker and in a run folder."""
    if not plugin.kind:
        fail("it is not registered: decorate it with register(name, version=1)")
    key = digest(plugin.identity())
    try:
        again = pickle.loads(pickle.dumps(plugin))
    except Exception as error:
        fail(f"it cannot be sent to a worker ({type(error).__name__})")
    if digest(again.identity()) != key:
        fail("its identity changes on the way to a worker")
    written = tomllib.loads(dump_toml(settings_of(plugin)))
    if digest(type(plugin).model_validate(written).identity()) != key:
        fail("its identity changes where a run folder spells its settings out")


def twice(make: Callable[[], Any], same: Callable[[Any, Any], bool], fail: Fail) -> Any:
    """Make something under two states of the global generators: they must not matter."""
    with _global_seed(1):
        first = make()
    with _global_seed(2):
        second = make()
    if not same(first, second):
        fail("two calls with one seed differ: draw from synthleak.core.seeds.stream with that seed")
    return first


@contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - others may use it
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
