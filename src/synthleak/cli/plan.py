"""`synthleak plan`: what an audit will do and cost, and its training files for other programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from synthleak.cli.options import (
    json_option,
    progress_for,
    quiet_option,
    runtime_for,
    workers_option,
)
from synthleak.cli.output import print_table
from synthleak.cli.power import power

spec_argument = click.argument("spec", type=click.Path(path_type=Path))


@click.group()
def plan() -> None:
    """Look at an audit before you spend anything on it.

    \b
    Examples:
      synthleak plan show audit.toml           pools, sets, what each attacker will know
      synthleak plan cost audit.toml           time, disk and memory, from a timed probe
      synthleak plan power audit.toml          the smallest leak that the design would find
      synthleak plan export audit.toml DIR     training files, for releases made elsewhere
    """


plan.add_command(power)


@plan.command()
@spec_argument
@json_option
def show(spec: Path, as_json: bool) -> None:
    """Show what SPEC will do: pools, sizes, sets, attackers, releases and trials."""
    from synthleak.audit.setup import set_up
    from synthleak.core.spec import load_spec
    from synthleak.core.store import MemoryStore
    from synthleak.preflight.preview import preview

    found = preview(set_up(load_spec(spec), MemoryStore()))
    if as_json:
        click.echo(json.dumps(_plain(asdict(found)), indent=1))
        return
    print_table(found.pools, as_json=False, title="whom the audit asks about")
    print_table(found.attackers, as_json=False, title="what each attacker will know")
    print_table(found.cells, as_json=False, title="what is made and tried")
    print_table([found.totals], as_json=False, title="in all")


@plan.command()
@spec_argument
@workers_option
@quiet_option
@json_option
def cost(spec: Path, workers: int, quiet: bool, as_json: bool) -> None:
    """Estimate what SPEC will cost on this machine, from a timed probe.

    A few releases of every generator and budget are made, looked at, and thrown away.
    """
    from synthleak.core.engine.progress import duration
    from synthleak.core.spec import load_spec
    from synthleak.preflight.cost import estimate

    found = estimate(load_spec(spec), runtime_for(workers), progress_for(quiet))
    if as_json:
        click.echo(json.dumps(asdict(found), indent=1))
        return
    print_table(
        [
            {
                "releases": found.releases,
                "observations": found.observations,
                "workers": found.workers,
                "time": duration(found.wall_seconds),
                "disk": _size(found.disk_bytes),
                "memory": _size(found.memory_bytes),
                "GPU-hours": f"{found.gpu_hours:.1f}",
            }
        ],
        as_json=False,
    )
    print_table(
        [{"stage": name, "time": duration(took)} for name, took in found.stages.items()],
        as_json=False,
    )
    for note in found.notes:
        click.echo(f"note: {note}")


@plan.command()
@spec_argument
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--generator", help="Whose budgets and seeds: a generator of SPEC, by name.")
def export(spec: Path, folder: Path, generator: str | None) -> None:
    """Write the training files of SPEC's plan to DIR, for releases that are made elsewhere.

    Put each release where DIR/manifest.json (or DIR/tasks.tsv) says, then run SPEC with a generator
    of kind "folder" whose path is DIR. DIR holds private text.

    \b
    Example:
      synthleak plan export audit.toml exchange
    """
    from synthleak.core.spec import load_spec
    from synthleak.preflight.export import export_plan

    done = export_plan(load_spec(spec), folder, generator)
    click.echo(
        f"wrote {done.sets:,} training files to {folder}; {done.releases:,} releases are awaited,"
        f" as {folder / 'tasks.tsv'} lists them"
    )


def _size(count: int) -> str:
    """Write a number of bytes for people.

    >>> _size(3_000), _size(32_000_000), _size(5 * 2**30)
    ('1 MiB', '31 MiB', '5.0 GiB')
    """
    if count >= 2**30:
        return f"{count / 2**30:.1f} GiB"
    return f"{max(1, round(count / 2**20))} MiB"


def _plain(value: Any) -> Any:
    from synthleak.core.identity import plain

    return plain(value)
