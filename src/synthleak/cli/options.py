"""Options and arguments that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from synthleak.core.engine.progress import Lines, Progress, Silent
from synthleak.core.locations import Location, locate
from synthleak.core.runtime import Runtime
from synthleak.core.spec import RuntimeSection

PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
EXIT_FAILED = 1


class PlaceType(click.ParamType):  # type: ignore[type-arg]
    """A run folder: a path, or a URL such as s3://bucket/audit."""

    name = "folder"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Location:
        """Return where it lies."""
        found: Location = locate(value)
        return found

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete paths."""
        return PATH.shell_complete(ctx, param, incomplete)


PLACE = PlaceType()

spec_argument = click.argument("spec", type=PATH)
folder_argument = click.argument("folder", metavar="DIR", type=PLACE)
folders_argument = click.argument("folders", metavar="DIR...", nargs=-1, required=True, type=PLACE)
out_option = click.option(
    "--out", metavar="DIR", type=PLACE, required=True, help="The run folder, or a URL."
)
extend_option = click.option(
    "--extend", is_flag=True, help="Continue in a folder that belongs to an earlier spec."
)


def _show_stderr(context: click.Context, option: click.Parameter, shown: bool) -> None:
    if shown:
        os.environ["SYNTHLEAK_SHOW_STDERR"] = "1"  # workers have it too


stderr_option = click.option(
    "--show-stderr",
    is_flag=True,
    expose_value=False,
    callback=_show_stderr,
    help="Show what a failed program wrote to stderr; it may hold private text.",
)


def _trust_plugins(context: click.Context, option: click.Parameter, trusted: bool) -> None:
    if trusted:
        from synthleak.core.registry import trusting

        trusting.set(True)


wait_option = click.option(
    "--wait", is_flag=True, help="Wait while another run works in the folder."
)
trust_option = click.option(
    "--trust-plugins",
    is_flag=True,
    expose_value=False,
    callback=_trust_plugins,
    help="Run the files with plug-ins that the spec of DIR names.",
)
wide_option = click.option(
    "--wide", is_flag=True, help="Print all columns of cells.csv, a row per attacker."
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


@dataclass(frozen=True)
class How:
    """How a command works and what it prints."""

    quiet: bool
    as_json: bool
    workers: int | None = None
    engine: str | None = None
    address: str | None = None

    @property
    def runtime(self) -> Runtime:
        """How the work is done."""
        return self.runtime_of(RuntimeSection())

    def runtime_of(self, section: RuntimeSection, *, wait: bool = False) -> Runtime:
        """Return how a spec runs: as its `[runtime]` says, unless an option says otherwise."""
        return Runtime.of(
            section, workers=self.workers, engine=self.engine, address=self.address, wait=wait
        )

    @property
    def progress(self) -> Progress:
        """Where progress is shown."""
        return Silent() if self.quiet else Lines()


def work_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--workers`, `--quiet` and `--json`, which the command gets as `how`."""

    @click.option(
        "--workers",
        type=int,
        help="How many processes. Never changes a result.  [default: all cores]",
    )
    @quiet_option
    @json_option
    @wraps(command)
    def run(
        quiet: bool,
        as_json: bool,
        workers: int | None,
        engine: str | None = None,
        address: str | None = None,
        **rest: Any,
    ) -> None:
        command(how=How(quiet, as_json, workers, engine, address), **rest)

    return run


def engine_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--engine` and `--address` to a command with `work_options`."""
    engine = click.option(
        "--engine",
        help="local, or ray: on a cluster (docs/scale-out.md).  [default: local]",
    )
    address = click.option(
        "--address", metavar="HOST:PORT", help="Of the Ray cluster.  [default: Ray on this machine]"
    )
    return engine(address(command))
