"""Errors of a check name the options or arguments that the user set, not keys of its spec."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from synthleak.core.errors import UserError

_NAMES = {
    r"corpus\.(text|id|labels|group|members|holdout|reference|name|insist)": r"\1",
    r"generator(?:\[\d+\])?\.path": "release",
    r"generator(?:\[\d+\])?\.text": "release_text",
    r"generator(?:\[\d+\])?\.(epsilon|delta|mechanism)(?:\[\d+\])?": r"\1",
    r"game\.(unit|max_records)": r"\1",
    r"encoders\.(?:pools|evidence)(?:\.kind)?": "encoder",
    r"pool\[\d+\]\.rule": "pool",
}
"""What `check` calls the keys of the spec that it writes."""

_inside: ContextVar[bool] = ContextVar("inside", default=False)


@contextmanager
def keys_named_as(form: Literal["options", "arguments"]) -> Iterator[None]:
    """Rename the keys in a user's error; where calls are nested, the outermost decides.

    >>> with keys_named_as("options"), keys_named_as("arguments"):
    ...     raise UserError("-1: use a number above 0", "generator[0].epsilon[0]")
    Traceback (most recent call last):
    ...
    synthleak.core.errors.UserError: --epsilon: -1: use a number above 0
    """
    outermost = not _inside.get()
    token = _inside.set(True)
    try:
        yield
    except UserError as error:
        if outermost:
            error.where = _renamed(error.where, form)
            error.remedy = _renamed(error.remedy, form)
        raise
    finally:
        _inside.reset(token)


def _renamed(text: str | None, form: str) -> str | None:
    for key, name in _NAMES.items() if text else ():

        def written(found: re.Match[str], name: str = name) -> str:
            argument = found.expand(name)
            return f"--{argument.replace('_', '-')}" if form == "options" else argument

        # Not within the name of a file.
        text = re.sub(rf"(?<![\w/.-]){key}(?![\w-]|\.\w)", written, text or "")
    return text
