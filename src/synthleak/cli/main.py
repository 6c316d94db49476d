"""`synthleak`: the command line. Each command reads its options, calls one function, prints."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path

import click

import synthleak
from synthleak.cli import about, audits, before, reading  # noqa: F401 - they fill COMMANDS
from synthleak.cli.options import COMMANDS, TEXTS
from synthleak.core.errors import SynthleakError, one_line
from synthleak.core.private_files import Stopped, end_on_signals, ignore_signals
from synthleak.core.registry import plugin_frame

EXIT_MISTAKE = 2
EXIT_CRASH = 3
DEBUG = "SYNTHLEAK_DEBUG"
"""A variable that, if set, shows the traceback of a crash; it may quote private text."""
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""As of a program that the system ends for it, such as before `| head`: not that of a gate."""
REFUSALS = {
    getattr(errno, name)
    for name in (
        *("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EIO", "ENOMEM", "EMFILE", "ENFILE"),
        *("EACCES", "EPERM", "ENAMETOOLONG", "ELOOP"),
    )
    if hasattr(errno, name)
}
"""What the system refuses: a full disk or a forbidden path is not a bug of ours."""


PRINTING = {("click", "utils.py"), ("rich", "console.py")}
"""What prints: an error of a file that is already open names no place."""


class BrokenOutput(Exception):  # noqa: N818 - reads as what it is
    """Nobody reads what is printed any more."""


SECTIONS = {
    title: {COMMANDS[name]: words for name, words in lines.items()}
    for title, lines in TEXTS["sections"].items()
}
"""Every command, with what `--help` says of it."""


class _Sections(click.Group):
    """A group whose help lists the commands by what they are for."""

    def invoke(self, context: click.Context) -> object:
        """Keep a broken pipe from click, which would exit 1: the code of a failed gate."""
        try:
            result: object = super().invoke(context)
            sys.stdout.flush()
        except BrokenPipeError:
            raise BrokenOutput from None
        return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section per kind of command."""
        widest = max(len(name) for name in self.commands)
        for title, commands in SECTIONS.items():
            rows = [(f"{command.name:{widest}}", words) for command, words in commands.items()]
            with formatter.section(title):
                formatter.write_dl(rows)


@click.group(
    cls=_Sections,
    help=TEXTS["commands"]["synthleak"]["help"],
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(synthleak.__version__, prog_name="synthleak")
def cli() -> None:
    """Hold all commands."""


for section in SECTIONS.values():
    for command in section:
        cli.add_command(command)


def main() -> None:
    """Run the command line; a user's mistake gives one line on stderr and exit code 2.

    A bug of ours gives exit code 3, so that no pipeline takes it for a failed gate.
    """
    end_on_signals()
    try:
        cli.main(standalone_mode=False)
    except SynthleakError as error:
        if os.environ.get(DEBUG) and error.__cause__ is not None:
            traceback.print_exc()
        _say(str(error))
        sys.exit(EXIT_MISTAKE)
    except click.ClickException as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
        else:
            _say(one_line(error.format_message()))
        sys.exit(EXIT_MISTAKE)
    except (click.Abort, KeyboardInterrupt) as error:
        ignore_signals()
        _say("stopped; finished work is kept, run again to continue")
        cause = error.__cause__ or error  # click turns one into the other
        sys.exit(128 + cause.number if isinstance(cause, Stopped) else EXIT_INTERRUPTED)
    except BrokenOutput:
        _drop_output()
        sys.exit(EXIT_BROKEN_PIPE)
    except Exception as error:
        refused = isinstance(error, OSError) and error.errno in REFUSALS
        if os.environ.get(DEBUG):
            traceback.print_exc()
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and missing.partition(".")[0] != "synthleak":  # else a bug of ours
            _say(
                f"the package {missing} is not installed; install it: `synthleak doctor` lists"
                " what is missing"
            )
            sys.exit(EXIT_MISTAKE)
        if (said := plugin_frame(error)) is not None:
            _say(one_line(f"{said}; correct it ({DEBUG}=1 shows a traceback)"))
            sys.exit(EXIT_MISTAKE)
        _say(_refusal(error) if isinstance(error, OSError) and refused else _crash(error))
        sys.exit(EXIT_MISTAKE if refused else EXIT_CRASH)


def _say(line: str) -> None:
    with suppress(OSError):  # the terminal may be gone, the disk full
        click.echo(f"synthleak: {line}", err=True)


def _refusal(error: OSError) -> str:
    """Say what the system refused, and where: it names no file that is already open."""
    place = error.filename
    if place is None and _was_printing(error):
        _drop_output()
        place = "standard output"
    elif place is None:
        place = f"the temporary folder {tempfile.gettempdir()}"
    return one_line(f"{place}: {error.strerror}; finished work is kept, run again to continue")


def _was_printing(error: OSError) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return any(Path(frame.filename).parts[-2:] in PRINTING for frame in frames)


def _drop_output() -> None:
    """Let what cannot be printed go, so that the end of the process does not try again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _crash(error: Exception) -> str:
    """Say where a bug of ours showed itself; the message of the error may hold private text."""
    package = Path(synthleak.__file__).parent
    places = [
        f" in {Path(frame.filename).relative_to(package)}, line {frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).is_relative_to(package)
    ]
    return (
        f"internal error: {type(error).__name__}{places[-1] if places else ''}; please report this"
        f" line and what `synthleak doctor` prints to the developers ({DEBUG}=1 shows a traceback,"
        " which may quote your records)"
    )
