"""`synthleak`: the command line. Each command reads its options, calls one function, prints."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path

import click

import synthleak
from synthleak.cli.adjudicate import adjudicate
from synthleak.cli.analyse import analyse
from synthleak.cli.canaries import canaries
from synthleak.cli.check import check
from synthleak.cli.compare import compare
from synthleak.cli.completion import completion
from synthleak.cli.corpus import corpus
from synthleak.cli.demo import demo
from synthleak.cli.doctor import doctor
from synthleak.cli.explain import explain
from synthleak.cli.figures import figures
from synthleak.cli.init import init
from synthleak.cli.listing import listing
from synthleak.cli.paper_tables import tables
from synthleak.cli.plan import plan
from synthleak.cli.report import report
from synthleak.cli.run import run
from synthleak.cli.selftest import selftest
from synthleak.cli.status import status
from synthleak.core.errors import SynthleakError
from synthleak.core.private_files import Stopped, end_on_signals

EXIT_MISTAKE = 2
EXIT_CRASH = 3
DEBUG = "SYNTHLEAK_DEBUG"
"""A variable that, if set, shows the traceback of a crash; it may quote private text."""
EXIT_INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(synthleak.__version__, prog_name="synthleak")
def cli() -> None:
    """Audit synthetic text: does it reveal whose records it was made from?

    \b
    First steps:
      synthleak demo              a whole audit on the built-in corpus, in runs/demo
      synthleak init audit.toml   write a commented spec to start from
      synthleak run audit.toml --out runs/audit
      synthleak status runs/audit
      synthleak check --members M --holdout H --release R   audit an existing release
    """


COMMANDS = (
    *(demo, init, corpus, plan, run, check, report, figures, explain, compare, analyse, tables),
    *(adjudicate, canaries, status, listing, selftest, doctor, completion),
)
for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Run the command line; a user's mistake gives one line on stderr and exit code 2.

    A bug of ours gives exit code 3, so that no pipeline takes it for a failed gate.
    """
    end_on_signals()
    try:
        cli.main(standalone_mode=False)
    except SynthleakError as error:
        click.echo(f"synthleak: {error}", err=True)
        sys.exit(EXIT_MISTAKE)
    except click.ClickException as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
        else:
            click.echo(f"synthleak: {error.format_message()}", err=True)
        sys.exit(EXIT_MISTAKE)
    except (click.Abort, KeyboardInterrupt) as error:
        with suppress(OSError):  # the terminal may be gone
            click.echo("synthleak: stopped; finished work is kept, run again to continue", err=True)
        cause = error.__cause__ or error  # click turns one into the other
        sys.exit(128 + cause.number if isinstance(cause, Stopped) else EXIT_INTERRUPTED)
    except Exception as error:
        if os.environ.get(DEBUG):
            traceback.print_exc()
        click.echo(f"synthleak: {_crash(error)}", err=True)
        sys.exit(EXIT_CRASH)


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
