"""Commands before an audit: init, split, corpus, plan and canaries."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.gate import fail_if_option
from synthleak.cli.options import (
    FILE,
    PATH,
    How,
    json_option,
    quiet_option,
    spec_argument,
    stderr_option,
    work_options,
)
from synthleak.cli.output import check_command, print_json, print_prose, print_table
from synthleak.core.cell import counted
from synthleak.core.engine.progress import Lines, Silent
from synthleak.core.errors import UserError

if TYPE_CHECKING:
    from synthleak.corpus.statistics import Combination
    from synthleak.preflight.preview import Survey


FIRST_KEYS = {
    "check": "corpus.members, corpus.holdout and generator.path",
    "command": "corpus.path and generator.argv",
}
"""The keys to set before anything else; of other templates it is the path of the corpus."""


@click.command()
@click.argument("path", type=PATH, default=Path("audit.toml"))
@click.option(
    "--for",
    "situation",
    type=click.Choice(["lone", "cohort", "command", "vendor", "check"]),
    default="lone",
    show_default=True,
    help="One record at a time; every record at once; your own program; a generator elsewhere;"
    " an existing release.",
)
@click.option(
    "--preset",
    type=click.Choice(["psytar", "dmsafn", "n2c2", "eurlex"]),
    help="The corpus, encoder and pools of a published study instead.",
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def init(path: Path, situation: str, preset: str | None, force: bool) -> None:
    """Write a commented spec to PATH (default: audit.toml).

    \b
    Examples:
      synthleak init                       audit a generator, one record at a time
      synthleak init --for cohort          which records leak: every release tests all of them
      synthleak init --for command         your own generator: a program that reads and writes files
      synthleak init --for vendor          the generator runs elsewhere; files go back and forth
      synthleak init --for check           one release, the records behind it, and a holdout
    """
    if path.exists() and not force:
        raise UserError("the file already exists", str(path), "use --force to overwrite it")
    if preset:
        template = files("synthleak.paper").joinpath(f"presets/{preset}.toml")
    else:
        template = files("synthleak.cli").joinpath(f"templates/{situation}.toml")
    text = template.read_text(encoding="utf-8")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write ({error.strerror})", str(path)) from None
    first = FIRST_KEYS.get("" if preset else situation, "corpus.path")
    command = shlex.join(["synthleak", "run", str(path), "--out", f"runs/{path.stem}"])
    click.echo(f"wrote {path}: set {first}, then {command}")


@click.command()
@click.argument("data", type=PATH)
@click.option("--out", type=PATH, required=True, help="A new folder.")
@click.option(
    "--holdout",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="Share of the records that is held back.",
)
@click.option(
    "--reference",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Share that an attacker may know, for attacker S2.",
)
@click.option("--text", default="text", show_default=True, help="The field of the text.")
@click.option("--id", "id_field", default="id", show_default=True, help="The field of the id.")
@click.option("--group", default="group", show_default=True, help="The field of the person.")
@click.option("--seed", type=click.IntRange(0), help="Drawn and recorded if not given.")
@json_option
def split(
    data: Path,
    out: Path,
    holdout: float,
    reference: float,
    text: str,
    id_field: str,
    group: str,
    seed: int | None,
    as_json: bool,
) -> None:
    """Split the records in DATA at random, before a release is made from some of them.

    Make the release from OUT/members.jsonl alone. `synthleak check` then asks whether it tells
    members from the records of OUT/holdout.jsonl. All records of a person stay on one side. Of
    repeated texts the first is kept.

    \b
    Examples:
      synthleak split records.jsonl --out split
      synthleak split notes.csv --out split --holdout 0.3 --reference 0.2 --group patient
    """
    from synthleak.preflight.split import write_split

    made = write_split(
        data,
        out,
        holdout=holdout,
        reference=reference,
        fields={"id": id_field, "text": text, "group": group},
        seed=seed,
    )
    if as_json:
        print_json({**asdict(made), "folder": str(out)})
        return
    of = f" of {counted(made.groups, 'group')}" if made.groups else ""
    known = f", {made.reference:,} for reference" * bool(made.reference)
    again = f"; left out: {counted(made.repeated, 'repeated text')}" * bool(made.repeated)
    click.echo(f"{made.members:,} members, {made.holdout:,} held back{known}{of}{again}")
    click.echo(f"make a release from {out / 'members.jsonl'}, then")
    files = ["members", "holdout", *["reference"] * bool(made.reference)]
    fields = {"text": text, "id": id_field, "group": group}
    click.echo(f"  {check_command('--random-split', out, files, fields)} --release SYNTHETIC")


TOP, TAIL = 8, 4


@click.command()
@spec_argument
@json_option
def corpus(spec: Path, as_json: bool) -> None:
    """Show the corpus that SPEC reads and the pools that its rules select.

    Records, labels, lengths, duplicates and near-duplicates, label combinations, pool sizes and how
    much pools overlap. No text of a record is shown, and nothing is written.
    """
    from synthleak.preflight.preview import survey

    found = survey(spec)
    if as_json:
        print_json(asdict(found))
        return
    print_table(_figures(found), title=found.description or found.name)
    print_table(_combinations(found.combinations), title="label combinations")
    print_table([asdict(band) for band in found.frequencies], title="how rare")
    print_table(found.pools, title="pools")
    if found.overlaps:
        print_table([asdict(o) for o in found.overlaps], title="overlaps")


def _figures(found: Survey) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"figure": name.replace("_", " "), "value": value, "how": ""}
        for name, value in asdict(found.statistics).items()
    ]
    for row in rows:
        if row["figure"].startswith("tokens"):
            row["how"] = found.tokenizer
    near = found.near_duplicates
    rows.append(
        {
            "figure": "near-duplicates",
            "value": "not looked for" if near.records is None else near.records,
            "how": f"cosine ≥ {near.cosine:g} to another record, encoder {near.encoder}",
        }
    )
    return rows


def _combinations(ranked: tuple[Combination, ...]) -> list[dict[str, Any]]:
    """Return the head and the end of the list: the end is where the rare pools are."""
    rows = [{"labels": " + ".join(c.labels) or "(none)", "records": c.records} for c in ranked]
    hidden = len(rows) - TOP - TAIL
    if hidden <= 0:
        return rows
    return [*rows[:TOP], {"labels": f"... {hidden} more ...", "records": None}, *rows[-TAIL:]]


@click.command()
@spec_argument
@click.option("--auc", type=float, help="A leak to find: how many instances would it take?")
@click.option(
    "--power", type=float, default=0.8, show_default=True, help="The probability of finding it."
)
@quiet_option
@json_option
def power(spec: Path, auc: float | None, power: float, quiet: bool, as_json: bool) -> None:
    """Show the smallest leaks that SPEC's design would find, before any work starts.

    The game is played with releases that know nothing of the targets (records of R), and leaks of
    known size are planted: an AUC raised in one signal, or members that are copied. Each row shows
    the chance limit of an AUC, the smallest AUC and the smallest share of copied members (records,
    in a cohort) that are found with the power asked for, and the largest ε that the design could
    show. Where looks are declared ([game] looks), it also shows how many instances are played on
    average, at most, until leaks of AUC 0.7, 0.6 and 0.55 (or --auc) are found.

    \b
    Examples:
      synthleak plan power audit.toml
      synthleak plan power audit.toml --auc 0.65 --power 0.9
    """
    from synthleak.audit.stages import set_up, without_models
    from synthleak.core.spec import load_spec
    from synthleak.core.store import MemoryStore
    from synthleak.preflight.power import power_table

    if auc is not None and not 0.5 < auc <= 1:
        raise UserError(f"auc = {auc:g}", "--auc", "use a number above 0.5 and at most 1")
    if not 0 < power < 1:
        raise UserError(f"power = {power:g}", "--power", "use a number between 0 and 1")
    setup = without_models(set_up(load_spec(spec), MemoryStore()))
    progress = Silent() if quiet else Lines()
    print_table(power_table(setup, progress, auc=auc, power=power), as_json=as_json)
    if not as_json:
        click.echo("An empty cell: no leak of that kind would be found. Nothing was generated.")


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
    from synthleak.audit.stages import set_up
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


@click.command()
@click.option("--data", type=PATH, required=True, help="The records that will be trained on.")
@click.option("--out", type=PATH, required=True, help="A new folder.")
@click.option("--auxiliary", type=PATH, help="Write canaries from these records, not trained on.")
@click.option(
    "--size", type=click.IntRange(2), default=60, show_default=True, help="How many canaries."
)
@click.option(
    "--prefix",
    type=click.FloatRange(0, 1),
    default=0.6,
    show_default=True,
    help="Share of ordinary words.",
)
@click.option(
    "--words",
    type=click.IntRange(2, 1000),
    help="Words per canary.  [default: the median of the records]",
)
@click.option("--text", default="text", show_default=True, help="The field of the text.")
@click.option("--id", "id_field", default="id", show_default=True, help="The field of the id.")
@click.option("--labels", default="labels", show_default=True, help="The field of the labels.")
@click.option("--seed", type=click.IntRange(0), help="Drawn and recorded if not given.")
@json_option
def canaries(
    data: Path,
    out: Path,
    auxiliary: Path | None,
    size: int,
    prefix: float,
    words: int | None,
    text: str,
    id_field: str,
    labels: str,
    seed: int | None,
    as_json: bool,
) -> None:
    """Write canaries and toss a coin for each, before a model is trained.

    Train on OUT/train.jsonl, once, and make one release. `synthleak check --coins` then tells
    whether it gives the canaries away, and bounds ε from below. Keep OUT secret until then: a
    generator whose maker knows the coins can no longer be tested. Without --auxiliary a tenth of
    the data is held back.

    \b
    Examples:
      synthleak canaries --data records.jsonl --out canaries --size 200
      synthleak check --coins --members canaries/members.jsonl --holdout canaries/holdout.jsonl \\
        --release synthetic.jsonl --reference canaries/reference.jsonl --epsilon 1 --delta 1e-6
    """
    from synthleak.preflight.split import write_canaries

    made = write_canaries(
        data,
        out,
        auxiliary=auxiliary,
        size=size,
        prefix=prefix,
        words=words,
        fields={"id": id_field, "text": text, "labels": labels},
        seed=seed,
    )
    if as_json:
        print_json({**asdict(made), "folder": str(made.folder)})
        return
    held = f"; {made.held_back:,} records were held back for their words" * bool(made.held_back)
    click.echo(
        f"{made.members + made.holdout:,} canaries, {made.members:,} of which joined"
        f" {made.trained - made.members:,} records{held}"
    )
    click.echo(f"train on {out / 'train.jsonl'}, then")
    files = ["members", "holdout", "reference"]
    fields = {"text": text, "id": id_field, "labels": labels}
    command = check_command("--coins", out, files, fields)
    click.echo(f"  {command} --release SYNTHETIC --epsilon E --delta D")
