"""Commands, as commands.toml describes them, and how their arguments and options are read."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from synthleak.cli.gate import with_gate
from synthleak.core.engine.progress import Lines, Progress, Silent
from synthleak.core.locations import Location, locate
from synthleak.core.runtime import Runtime
from synthleak.core.spec import RuntimeSection
from synthleak.core.validation import listed

PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
Function = Callable[..., None]


class PlaceType(click.ParamType):  # type: ignore[type-arg]
    """A run folder: a path, or a URL such as s3://bucket/audit."""

    name = "folder"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Location:
        found: Location = locate(value)
        return found

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return PATH.shell_complete(ctx, param, incomplete)


PLACE = PlaceType()
TYPES = {"path": PATH, "file": FILE, "place": PLACE, "int": int, "float": float}
RANGES = {"int": click.IntRange, "float": click.FloatRange}


def _show_stderr(context: click.Context, option: click.Parameter, shown: bool) -> None:
    if shown:
        os.environ["SYNTHLEAK_SHOW_STDERR"] = "1"  # workers have it too


def _trust_code(context: click.Context, option: click.Parameter, trusted: bool) -> None:
    if trusted:
        from synthleak.core.registry import trusting

        trusting.set(True)


def _trust_plugins(context: click.Context, option: click.Parameter, trusted: bool) -> None:
    if trusted:
        click.echo("synthleak: --trust-plugins is now called --trust-code", err=True)
    _trust_code(context, option, trusted)


CALLBACKS = {
    "show_stderr": _show_stderr,
    "trust_code": _trust_code,
    "trust_plugins": _trust_plugins,
}


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
        return self.runtime_of(RuntimeSection())

    def runtime_of(self, section: RuntimeSection, *, wait: bool = False) -> Runtime:
        """Return how a spec runs: as its `[runtime]` says, unless an option says otherwise."""
        return Runtime.of(
            section, workers=self.workers, engine=self.engine, address=self.address, wait=wait
        )

    @property
    def progress(self) -> Progress:
        return Silent() if self.quiet else Lines()


def _with_how(function: Function) -> Function:
    """Gather the options `work` and `engine` into one argument, `how`."""

    @wraps(function)
    def run(
        quiet: bool,
        as_json: bool,
        workers: int | None,
        engine: str | None = None,
        address: str | None = None,
        **rest: Any,
    ) -> None:
        function(how=How(quiet, as_json, workers, engine, address), **rest)

    return run


TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("commands.toml").read_text("utf-8"))
"""What each command takes and says of itself, and where `--help` lists it."""
COMMANDS: dict[str, click.Command] = {}
"""The commands by name; one of a group has a name of two words."""


def command(
    name: str, cls: type[click.Command] = click.Command
) -> Callable[[Function], click.Command]:
    """Return a decorator that makes a function the command of this name in commands.toml."""
    group, _, word = name.rpartition(" ")
    about = TEXTS["commands"][name]
    takes = about.get("takes", [])

    def decorate(function: Function) -> click.Command:
        if "work" in takes:
            function = _with_how(function)
        if "gate" in takes:
            function = with_gate(function)
        for settings in reversed(list(_listed(takes))):
            function = _parameter(**settings)(function)
        made = COMMANDS[name] = click.command(word, cls, help=about["help"])(function)
        if group:
            COMMANDS[group].add_command(made)  # type: ignore[attr-defined]
        return made

    return decorate


def _listed(takes: str | dict[str, Any] | list[Any]) -> Iterator[dict[str, Any]]:
    """Yield the settings of each argument and option, those of shared names in their place."""
    if isinstance(takes, dict):
        yield takes
        return
    for item in [TEXTS["shared"][takes]] if isinstance(takes, str) else takes:
        yield from _listed(item)


def _parameter(
    argument: str = "",
    option: str | list[str] = "",
    type: str = "",
    choices: str | Sequence[str] = (),
    within: Mapping[str, Any] | None = None,
    callback: str = "",
    **settings: Any,
) -> Callable[[Function], Function]:
    """Return the decorator that adds an argument or option; `choices` may name a table there."""
    if choices:
        names = TEXTS[choices] if isinstance(choices, str) else choices
        settings["type"] = click.Choice(list(names))
    elif type:
        settings["type"] = TYPES[type] if within is None else RANGES[type](**within)
    if callback:
        settings["callback"] = CALLBACKS[callback]
    if argument:
        return click.argument(argument, **settings)
    return click.option(*listed(option), **settings)
