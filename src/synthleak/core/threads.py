"""Linear algebra on one thread: several add in an order that depends on their number."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any


@contextmanager
def single_threaded() -> Iterator[None]:
    """Use one thread for linear algebra, so that the same bytes come out on every machine."""
    with _libraries(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> Any:
    """Return the libraries with threads; a library comes with a module, so modules are counted."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
