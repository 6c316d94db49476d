"""Errors, checked by where they point (file, line, key) and not by their words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from synthleak.core.errors import UserError


@contextmanager
def raises_at(
    kind: type[UserError], where: str | Path, *named: str
) -> Iterator[pytest.ExceptionInfo[UserError]]:
    """Expect a one-line error of this type at this place, which names these things."""
    with pytest.raises(kind) as caught:
        yield caught
    assert type(caught.value) is kind
    assert caught.value.where == str(where)
    assert "\n" not in str(caught.value)
    assert [name for name in named if name not in str(caught.value)] == []
