"""Commands about synthleak itself: list, doctor, selftest and completion."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from synthleak.cli.options import EXIT_FAILED, FILE, PATH, How, json_option, work_options
from synthleak.cli.output import json_text, print_json, print_table
from synthleak.core.locations import write_file

REGISTRIES = {
    "readers": "read the records of a corpus",
    "encoders": "turn texts into vectors",
    "pools": "select the records that are asked about",
    "designs": "draw who is in which private set",
    "generators": "make releases from private sets",
    "proxies": "score how much a release looks like a record",
    "models": "proxy families beside the 32: by a model, or by counts; opt-in",
    "priors": "attacks from earlier work, for comparison",
    "analyses": "make tables of what was found",
    "engines": "do the work, on this machine or on a cluster",
}


@click.command("list")
@click.argument("kind", type=click.Choice(list(REGISTRIES)), required=False)
@click.option(
    "--plugins",
    multiple=True,
    type=PATH,
    help="A Python file with plug-ins, as in a spec; may be repeated.",
)
@json_option
def listing(kind: str | None, plugins: tuple[Path, ...], as_json: bool) -> None:
    """List the plug-ins of a kind by name, each with one line; without KIND, list the kinds.

    Includes those of installed packages and of the files named with --plugins; a column then says
    where each is from.
    """
    from synthleak.core.registry import read_files, use_files

    kinds = [kind] if kind else list(REGISTRIES)
    for name in kinds:
        rows_of(name)  # loads the built-in ones first: a mistake in a file is then the file's own
    use_files(read_files(plugins, None, "--plugins"))
    rows = rows_of(kind) if kind else [_kind_row(name) for name in REGISTRIES]
    if not as_json and all(row.get("from") == "synthleak" for row in rows):
        rows = [{key: row[key] for key in row if key != "from"} for row in rows]
    print_table(rows, as_json=as_json)


def _kind_row(kind: str) -> dict[str, Any]:
    """Say what the plug-ins of a kind do, and how many there are."""
    return {"kind": kind, "plug-ins": len(rows_of(kind)), "what they do": REGISTRIES[kind]}


def rows_of(kind: str) -> list[dict[str, Any]]:
    """Return a row per plug-in (per proxy, for proxies)."""
    if kind == "proxies":
        from synthleak.evidence.family import families

        return [
            {
                "name": proxy.name,
                "view": proxy.view,
                "family": proxy.family,
                "scale": proxy.scale,
                "meaning": proxy.meaning,
                "from": origin(entry),
            }
            for entry in families
            for proxy in entry.plugin.proxies
        ]
    return [
        {
            "name": entry.name,
            "version": entry.version,
            "what it does": entry.summary,
            "from": origin(entry),
        }
        for entry in _registry(kind)
    ]


def origin(entry: Any) -> str:
    """Return where a plug-in comes from: synthleak, another package's module, or a file."""
    return "synthleak" if entry.built_in else str(entry.source)


def _registry(name: str) -> Any:
    from synthleak.analyses.analysis import analyses
    from synthleak.core.engine.engine import engines
    from synthleak.corpus.corpus import readers
    from synthleak.encoders.encoder import encoders
    from synthleak.evidence.attack import attacks
    from synthleak.evidence.family import model_families
    from synthleak.plan.plan import designs
    from synthleak.pools.selection import rules
    from synthleak.releases.generator import generators

    return {
        "readers": readers,
        "encoders": encoders,
        "pools": rules,
        "designs": designs,
        "generators": generators,
        "models": model_families,
        "priors": attacks,
        "analyses": analyses,
        "engines": engines,
    }[name]


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Show what is installed and which extras and device are available.

    What is missing is shown with the command that installs it.
    """
    from synthleak.preflight.doctor import examine

    found = examine(Path.cwd())
    if as_json:
        print_json(found)
        return
    click.echo(f"synthleak {found['synthleak']}\n")
    print_table([found["machine"]])
    print_table([found["device"]])
    print_table(found["packages"], title="always needed")
    print_table(found["extras"], title="extras")
    if found["plugins"]:
        print_table(found["plugins"], title="plug-ins of other packages")
    missing = [row["package"] for row in found["packages"] if row["state"] != "ok"]
    advice = f"install or update: {', '.join(missing)}"
    click.echo(advice if missing else "everything needed is installed")


@click.command()
@click.option("--full", is_flag=True, help="400 audits per row instead of 20 or 60.")
@click.option("--out", type=FILE, help="Also write the result to this file.")
@work_options
def selftest(full: bool, out: Path | None, how: How) -> None:
    """Run audits whose outcome is known, many times, and compare the results with it.

    Counts false alarms where nothing can leak, compares with closed forms where records are copied
    at a known rate, tests bounds on ε against claims that hold or do not, and counts records that
    are named wrongly; in games and in checks. Exits 1 if a limit is exceeded.
    Takes minutes on two cores; in full, more than an hour. Two rows, of the proxy family lm, need
    the extra llm; without it they are shown as not run.
    """
    from synthleak.core.engine.progress import duration
    from synthleak.selftest.running import report_of, run_selftest

    made = run_selftest(full=full, workers=how.runtime.workers, progress=how.progress)
    content = report_of(made)
    if out is not None:
        write_file(out, f"{json_text(content)}\n".encode())
    if how.as_json:
        print_json(content)
    elif not how.quiet:
        rows = [asdict(row) for row in made.rows]
        blank = dict.fromkeys(rows[0])
        rows += [blank | {"row": name, "audits": 0, "checked": "not run"} for name in made.not_run]
        print_table(rows)
        for name, reason in made.not_run.items():
            click.echo(f"{name}: not run; {reason}")
        played = f"{len(made.rows)} rows that were run" if made.not_run else "rows"
        passed = f"all {played} pass" if made.passed else f"NOT ALL {played.upper()} PASS"
        if made.not_run:
            passed += f"; {len(made.not_run)} rows NOT RUN"
        click.echo(f"{passed}; {made.comparison}; {duration(made.seconds)}")
    if not made.passed:
        sys.exit(EXIT_FAILED)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    bash:  synthleak completion bash >> ~/.bashrc
    zsh:   synthleak completion zsh >> ~/.zshrc
    fish:  synthleak completion fish > ~/.config/fish/completions/synthleak.fish
    """
    from synthleak.cli.main import cli

    maker = get_completion_class(shell)
    assert maker is not None  # click knows all three
    click.echo(maker(cli, {}, "synthleak", "_SYNTHLEAK_COMPLETE").source())
