"""Commands, as commands.toml describes them, and how their arguments and options are read."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from synthleak.cli.output import EXIT_FAILED
from synthleak.core.cell import Cell
from synthleak.core.engine.progress import Lines, Progress, Silent
from synthleak.core.errors import UserError
from synthleak.core.locations import Location, locate, write_file
from synthleak.core.runtime import Runtime
from synthleak.core.spec import RuntimeSection
from synthleak.core.validation import listed

if TYPE_CHECKING:
    from synthleak.analyses.cells import CellRow
    from synthleak.audit.commitment import Commitment
    from synthleak.audit.result import Audit
    from synthleak.core.predicate import Predicate

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


@dataclass(frozen=True)
class Gate:
    """A condition on the rows of cells.csv, and where a summary goes; both may be missing."""

    condition: Predicate | None
    summary: Path | None
    allow_cannot_say: bool = False

    @property
    def is_set(self) -> bool:
        return self.condition is not None or self.summary is not None

    def bound_to(self, commitment: Commitment) -> Gate:
        """Return the gate that was committed to; another one is refused."""
        from synthleak.audit.gate import parse_gate

        wanted = commitment.gate
        if self.condition is not None and self.condition.text != wanted:
            raise UserError(
                "not the gate that was committed to"
                + (", which has none" if wanted is None else f": {wanted}"),
                "--fail-if",
                "leave --fail-if out: the committed gate is used",
            )
        return replace(self, condition=None if wanted is None else parse_gate(wanted))

    def apply(self, audit: Audit) -> None:
        """Write the summary; exit 1 if a row satisfies the condition, and say which."""
        from synthleak.audit.summary import summary_file

        if self.summary is not None:
            write_file(self.summary, summary_file(self.summary, audit, self.condition))
        if self.condition is not None:
            _apply(self.condition, audit, self.allow_cannot_say)


def _apply(condition: Predicate, audit: Audit, allow_cannot_say: bool) -> None:
    from synthleak.audit.gate import clauses, failing, missing, undecided

    failed, rows = failing(condition, audit.cells), len(audit.cells)
    for name, count in missing(condition, audit.cells).items():
        click.echo(
            f"synthleak: --fail-if: {name} is missing in {count} of {rows} rows,"
            " which cannot satisfy a comparison with it",
            err=True,
        )
    for row in failed:
        why = clauses(condition, row)
        click.echo(f"synthleak: --fail-if holds in {_name(row)}: {why}: fails", err=True)
    unsaid = [] if allow_cannot_say else undecided(condition, audit.cells)
    for row in unsaid:
        click.echo(
            f"synthleak: --fail-if: nothing can be said of {_name(row)}"
            f" ({row.cannot_say or 'no test'}); --allow-cannot-say lets it pass",
            err=True,
        )
    if failed or unsaid:
        sys.exit(EXIT_FAILED)


def _name(row: CellRow) -> str:
    return f"{Cell.of(row).title(given=row.design == 'given')}, {row.scenario}"


def _with_gate(function: Function) -> Function:
    """Read `--fail-if` and `--summary` before any work starts; the function gets a `gate`."""

    @wraps(function)
    def run(fail_if: str | None, summary: Path | None, allow_cannot_say: bool, **rest: Any) -> None:
        from synthleak.audit.gate import parse_gate
        from synthleak.audit.summary import FORMATS, check_format

        if summary is not None:
            check_format(summary, "--summary", FORMATS)
        condition = None if fail_if is None else parse_gate(fail_if)
        function(gate=Gate(condition, summary, allow_cannot_say), **rest)

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
            function = _with_gate(function)
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
