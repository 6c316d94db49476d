"""`synthleak plan`: what an audit will do and cost, and its training files for other programs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from synthleak.cli.gate import fail_if_option
from synthleak.cli.options import (
    FILE,
    PATH,
    How,
    json_option,
    spec_argument,
    stderr_option,
    work_options,
)
from synthleak.cli.output import print_json, print_prose, print_table
from synthleak.cli.power import power
from synthleak.core.errors import UserError


@click.group()
def plan() -> None:
    """Show what an audit will do, cost and find, before any work starts.

    \b
    Examples:
      synthleak plan show audit.toml           pools, sets, what each attacker knows
      synthleak plan cost audit.toml           time, disk and memory, from a timed probe
      synthleak plan power audit.toml          the smallest leak that the design would find
      synthleak plan commit audit.toml         one hash of the question, to file before it starts
      synthleak plan export audit.toml DIR     training files, for releases made elsewhere
      synthleak plan export audit.toml --kit kit.zip      the same for a vendor, as one file
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
        print_json(asdict(found))
        return
    print_table(found.pools, title="pools")
    print_table(found.attackers, title="what each attacker knows")
    print_table(found.cells, title="releases and trials")
    print_table([found.totals], title="total")


@plan.command()
@spec_argument
@stderr_option
@work_options
def cost(spec: Path, how: How) -> None:
    """Estimate what SPEC will cost on this machine, from a timed probe.

    A few releases of every generator and budget are made, observed, and thrown away.
    """
    from synthleak.core.engine.progress import duration
    from synthleak.core.spec import load_spec
    from synthleak.preflight.cost import estimate

    found = estimate(load_spec(spec), how.runtime, how.progress)
    if how.as_json:
        print_json(asdict(found))
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
        ]
    )
    print_table([{"stage": name, "time": duration(took)} for name, took in found.stages.items()])
    if found.looks:
        rows = [{**look, "seconds": duration(look["seconds"])} for look in found.looks]
        rows = [{"time" if key == "seconds" else key: row[key] for key in row} for row in rows]
        print_table(rows, title="if a leak is found in every cell at this look")
    for note in found.notes:
        click.echo(f"note: {note}")


@plan.command()
@spec_argument
@click.argument("folder", metavar="[DIR]", type=PATH, required=False)
@click.option("--generator", help="The generator of SPEC whose budgets and seeds apply.")
@click.option("--kit", type=FILE, help="Also write one zip file with instructions, for a vendor.")
def export(spec: Path, folder: Path | None, generator: str | None, kit: Path | None) -> None:
    """Write the training files of SPEC's plan to DIR, for releases that are made elsewhere.

    Put each release where DIR/manifest.json (or DIR/tasks.tsv) says, then run SPEC with a generator
    of kind "folder" whose path is DIR. DIR holds private text, and so does a kit.

    A kit is for a vendor who has no synthleak: training files, the hash of every file and a page of
    instructions. Unpack what comes back in DIR; each release must name the hash of the training
    file that it was made from.

    \b
    Examples:
      synthleak plan export audit.toml exchange
      synthleak plan export audit.toml exchange --kit kit.zip
    """
    from synthleak.core.spec import load_spec
    from synthleak.preflight.export import export_plan

    if folder is None and kit is None:
        raise UserError("nowhere to write to", "plan export", "name a folder, or --kit FILE.zip")
    done = export_plan(load_spec(spec), folder, generator, kit=kit)
    places = " and ".join(str(place) for place in (folder, kit) if place is not None)
    tasks = "tasks.tsv in it" if folder is None else str(folder / "tasks.tsv")
    click.echo(
        f"wrote {done.sets:,} training files to {places}; {done.releases:,} releases are to be"
        f" made, as {tasks} lists them"
    )


@plan.command()
@spec_argument
@fail_if_option
@click.option(
    "--out", type=FILE, help="Where to write it.  [default: SPEC's name with .commitment.json]"
)
@json_option
def commit(spec: Path, fail_if: str | None, out: Path | None, as_json: bool) -> None:
    """Commit to the audit of SPEC before anything is generated: print one hash to file.

    The hash covers settings, seed, corpus, plug-ins, programs, pools, plan with its coins, and the
    condition of --fail-if. It can be published: nothing can be guessed from it. Keep the file: the
    hash can be checked only with it, and whoever has it can try guesses about coins and records.

    \b
    Examples:
      synthleak plan commit audit.toml --fail-if 'leak_found or claim_broken'
      synthleak run audit.toml --out runs/audit --committed audit.commitment.json
      synthleak verify runs/audit --committed HASH
    """
    from synthleak.audit.commitment import commit as commit_to

    file = out or spec.with_suffix(".commitment.json")
    made = commit_to(spec, file, gate=fail_if)
    if as_json:
        print_json({"hash": made.hash, "committed": made.committed.isoformat(), "file": str(file)})
        return
    click.echo(made.hash)
    print_prose(f"File this hash; keep {file}, without which it cannot be checked.")


def _size(count: int) -> str:
    """Write a number of bytes for people.

    >>> _size(3_000), _size(32_000_000), _size(5 * 2**30)
    ('1 MiB', '31 MiB', '5.0 GiB')
    """
    if count >= 2**30:
        return f"{count / 2**30:.1f} GiB"
    return f"{max(1, round(count / 2**20))} MiB"
