"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from synthleak.core.engine.progress import Lines, Progress, Silent
from synthleak.core.runtime import Runtime, available_cores

F = TypeVar("F", bound=Callable[..., Any])


def quiet_option(command: F) -> F:
    """Add `--quiet`."""
    return click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")(command)


def json_option(command: F) -> F:
    """Add `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        command
    )


def workers_option(command: F) -> F:
    """Add `--workers`."""
    return click.option(
        "--workers",
        type=int,
        default=available_cores,
        show_default="all cores",
        help="Processes to work with. Never changes a result.",
    )(command)


def progress_for(quiet: bool) -> Progress:
    """Return who is told of progress."""
    return Silent() if quiet else Lines()


def runtime_for(workers: int) -> Runtime:
    """Return the runtime that the options ask for."""
    return Runtime(workers=workers)
