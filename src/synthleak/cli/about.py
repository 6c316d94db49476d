"""Commands about synthleak itself: list, doctor, selftest and completion."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import click
from click.shell_completion import get_completion_class

from synthleak.cli.options import TEXTS, How, command
from synthleak.cli.output import EXIT_FAILED, json_text, print_json, print_table
from synthleak.core.locations import write_file

REGISTRIES: dict[str, tuple[str, str]] = TEXTS["kinds"]


@command("list")
def listing(kind: str | None, plugins: tuple[Path, ...], as_json: bool) -> None:
    from synthleak.core.registry import read_files, use_files

    kinds = [kind] if kind else list(REGISTRIES)
    for name in kinds:
        rows_of(name)  # loads the built-in ones first: a mistake in a file is then the file's own
    use_files(read_files(plugins, None, "--plugins"))
    rows = [
        {"kind": name, "plug-ins": len(rows_of(name)), "what they do": does}
        for name, (_, does) in REGISTRIES.items()
    ]
    if kind:
        rows = rows_of(kind)
    if not as_json and all(row.get("from") == "synthleak" for row in rows):
        rows = [{key: row[key] for key in row if key != "from"} for row in rows]
    print_table(rows, as_json=as_json)


def rows_of(kind: str) -> list[dict[str, Any]]:
    """Return a row per plug-in (per proxy, for proxies)."""
    entries = _registry(kind)
    if kind != "proxies":
        return [
            {
                "name": entry.name,
                "version": entry.version,
                "what it does": entry.summary,
                "from": origin(entry),
            }
            for entry in entries
        ]
    columns = ("name", "view", "family", "scale", "meaning")
    return [
        {**{name: getattr(proxy, name) for name in columns}, "from": origin(entry)}
        for entry in entries
        for proxy in entry.plugin.proxies
    ]


def origin(entry: Any) -> str:
    """Return where a plug-in comes from: synthleak, another package's module, or a file."""
    return "synthleak" if entry.built_in else str(entry.source)


def _registry(kind: str) -> Any:
    return resolve_name(REGISTRIES[kind][0])


@command("doctor")
def doctor(as_json: bool) -> None:
    from synthleak.preflight.doctor import examine

    machine = examine(Path.cwd())
    if as_json:
        print_json(machine)
        return
    click.echo(f"synthleak {machine['synthleak']}\n")
    print_table([machine["machine"]])
    print_table([machine["device"]])
    print_table(machine["packages"], title="always needed")
    print_table(machine["extras"], title="extras")
    if machine["plugins"]:
        print_table(machine["plugins"], title="plug-ins of other packages")
    missing = [row["package"] for row in machine["packages"] if row["state"] != "ok"]
    advice = f"install or update: {', '.join(missing)}"
    click.echo(advice if missing else "everything needed is installed")


@command("selftest")
def selftest(full: bool, only: tuple[str, ...], out: Path | None, how: How) -> None:
    from synthleak.core.engine.progress import duration
    from synthleak.selftest.running import report_of, run_selftest

    workers, progress = how.runtime.workers, how.progress
    done = run_selftest(full=full, workers=workers, progress=progress, only=only)
    content = report_of(done)
    if out is not None:
        write_file(out, f"{json_text(content)}\n".encode())
    if how.as_json:
        print_json(content)
    elif not how.quiet:
        rows = [asdict(row) for row in done.rows]
        blank = dict.fromkeys(rows[0])
        rows += [blank | {"row": name, "audits": 0, "checked": "not run"} for name in done.not_run]
        print_table(rows)
        for name, reason in done.not_run.items():
            click.echo(f"{name}: not run; {reason}")
        played = f"{len(done.rows)} rows that were run" if done.not_run else "rows"
        passed = f"all {played} pass" if done.passed else f"NOT ALL {played.upper()} PASS"
        if done.not_run:
            passed += f"; {len(done.not_run)} rows NOT RUN"
        said = (passed, done.comparison, duration(done.seconds))
        click.echo("; ".join(part for part in said if part))
    if not done.passed:
        sys.exit(EXIT_FAILED)


@command("completion")
def completion(shell: str) -> None:
    from synthleak.cli.main import cli

    maker = get_completion_class(shell)
    assert maker is not None  # click knows all three
    click.echo(maker(cli, {}, "synthleak", "_SYNTHLEAK_COMPLETE").source())
