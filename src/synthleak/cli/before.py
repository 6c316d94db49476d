"""Commands before an audit: init, split, corpus, plan and canaries."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from synthleak.cli.options import How, command
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


@command("init")
def init(path: Path, situation: str, preset: str | None, force: bool) -> None:
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


@command("split")
def split(data: Path, out: Path, as_json: bool, **options: Any) -> None:
    from synthleak.preflight.split import split as split_at_random

    parts = split_at_random(data, out, **options)
    counts = parts.counts
    if as_json:
        print_json({**counts, "folder": str(out)})
        return
    of = f" of {counted(parts.groups, 'group')}" if parts.groups else ""
    known = f", {counts['reference']:,} for reference" * bool(counts["reference"])
    again = f"; left out: {counted(parts.repeated, 'repeated text')}" * bool(parts.repeated)
    members = counted(counts["members"], "member")
    click.echo(f"{members}, {counts['holdout']:,} held back{known}{of}{again}")
    click.echo(f"make a release from {out / 'members.jsonl'}, then")
    files = ["members", "holdout", *["reference"] * bool(counts["reference"])]
    fields = {name: options[name] for name in ("text", "id", "group")}
    click.echo(f"  {check_command('--random-split', out, files, fields)} --release SYNTHETIC")


TOP, TAIL = 8, 4


@command("corpus")
def corpus(spec: Path, as_json: bool) -> None:
    from synthleak.preflight.preview import survey

    described = survey(spec)
    if as_json:
        print_json(asdict(described))
        return
    print_table(_figures(described), title=described.description or described.name)
    print_table(_combinations(described.combinations), title="label combinations")
    print_table([asdict(band) for band in described.frequencies], title="how rare")
    print_table(described.pools, title="pools")
    if described.overlaps:
        print_table([asdict(o) for o in described.overlaps], title="overlaps")


def _figures(survey: Survey) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"figure": name.replace("_", " "), "value": value, "how": ""}
        for name, value in asdict(survey.statistics).items()
    ]
    for row in rows:
        if row["figure"].startswith("tokens"):
            row["how"] = survey.tokenizer
    near = survey.near_duplicates
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


@command("plan", click.Group)
def plan() -> None:
    """Hold what is known of an audit before it starts."""


@command("plan power")
def power(spec: Path, auc: float | None, power: float, quiet: bool, as_json: bool) -> None:
    from synthleak.audit.stages import set_up, without_models
    from synthleak.core.spec import load_spec
    from synthleak.core.store import MemoryStore
    from synthleak.preflight.power import claims_out_of_reach, power_table

    if auc is not None and not 0.5 < auc <= 1:
        raise UserError(f"auc = {auc:g}", "--auc", "use a number above 0.5 and at most 1")
    if not 0 < power < 1:
        raise UserError(f"power = {power:g}", "--power", "use a number between 0 and 1")
    setup = without_models(set_up(load_spec(spec), MemoryStore()))
    progress = Silent() if quiet else Lines()
    print_table(power_table(setup, progress, auc=auc, power=power), as_json=as_json)
    if as_json:
        return
    click.echo("An empty cell: no leak of that kind would be found. Nothing was generated.")
    for note in claims_out_of_reach(setup):
        print_prose(f"note: {note}")


@command("plan show")
def show(spec: Path, as_json: bool) -> None:
    from synthleak.audit.stages import set_up
    from synthleak.core.spec import load_spec
    from synthleak.core.store import MemoryStore
    from synthleak.preflight.preview import preview

    shown = preview(set_up(load_spec(spec), MemoryStore()))
    if as_json:
        print_json(shown)
        return
    print_table(shown["pools"], title="pools")
    print_table(shown["attackers"], title="what each attacker knows")
    print_table(shown["cells"], title="releases and trials")
    print_table([shown["totals"]], title="total")
    for note in shown["notes"]:
        print_prose(f"note: {note}")


@command("plan cost")
def cost(spec: Path, how: How) -> None:
    from synthleak.core.engine.progress import duration
    from synthleak.core.spec import load_spec
    from synthleak.preflight.cost import estimate

    expected = estimate(load_spec(spec), how.runtime, how.progress)
    if how.as_json:
        print_json(asdict(expected))
        return
    print_table(
        [
            {
                "releases": expected.releases,
                "observations": expected.observations,
                "workers": expected.workers,
                "time": duration(expected.wall_seconds),
                "disk": _size(expected.disk_bytes),
                "memory": _size(expected.memory_bytes),
                "GPU-hours": f"{expected.gpu_hours:.1f}",
            }
        ]
    )
    print_table([{"stage": name, "time": duration(took)} for name, took in expected.stages.items()])
    if expected.looks:
        rows = [{**look, "seconds": duration(look["seconds"])} for look in expected.looks]
        rows = [{"time" if key == "seconds" else key: row[key] for key in row} for row in rows]
        print_table(rows, title="if a leak is found in every cell at this look")
    for note in expected.notes:
        click.echo(f"note: {note}")


@command("plan export")
def export(spec: Path, folder: Path | None, generator: str | None, kit: Path | None) -> None:
    from synthleak.core.spec import load_spec
    from synthleak.preflight.export import export_plan

    if folder is None and kit is None:
        raise UserError("nowhere to write to", "plan export", "name a folder, or --kit FILE.zip")
    done = export_plan(load_spec(spec), folder, generator, kit=kit)
    places = " and ".join(str(place) for place in (folder, kit) if place is not None)
    tasks = "tasks.tsv in it" if folder is None else str(folder / "tasks.tsv")
    click.echo(
        f"wrote {counted(done.sets, 'training file')} to {places};"
        f" {counted(done.releases, 'release')} to be made, as {tasks} lists them"
    )


@command("plan commit")
def commit(spec: Path, fail_if: str | None, out: Path | None, as_json: bool) -> None:
    from synthleak.audit.commitment import commit as commit_to

    file = out or spec.with_suffix(".commitment.json")
    filed = commit_to(spec, file, gate=fail_if)
    if as_json:
        print_json(
            {
                "hash": filed.hash,
                "committed": filed.committed.isoformat(),
                "file": str(file),
            }
        )
        return
    click.echo(filed.hash)
    print_prose(f"File this hash; keep {file}, without which it cannot be checked.")


def _size(count: int) -> str:
    """Write a number of bytes for people.

    >>> _size(3_000), _size(32_000_000), _size(5 * 2**30)
    ('1 MiB', '31 MiB', '5.0 GiB')
    """
    if count >= 2**30:
        return f"{count / 2**30:.1f} GiB"
    return f"{max(1, round(count / 2**20))} MiB"


@command("canaries")
def canaries(
    data: Path,
    out: Path,
    kinds: tuple[str, ...],
    text: str,
    id: str,
    labels: str,
    as_json: bool,
    **options: Any,
) -> None:
    from synthleak.preflight.split import canaries as write_canaries

    fields = {"text": text, "id": id, "labels": labels}
    drawn = write_canaries(data, out, kinds=kinds or ("text",), fields=fields, **options)
    if as_json:
        print_json({**asdict(drawn), "folder": str(drawn.folder)})
        return
    held = f"; {counted(drawn.held_back, 'record')} held back for their words" * bool(
        drawn.held_back
    )
    click.echo(
        f"{drawn.members + drawn.holdout:,} canaries, {drawn.members:,} of which joined"
        f" {counted(drawn.trained - drawn.members, 'record')}{held}"
    )
    click.echo(f"train on {out / 'train.jsonl'}, then")
    files = ["members", "holdout", "reference"]
    command = check_command("--coins", out, files, fields)
    click.echo(f"  {command} --release SYNTHETIC --epsilon E --delta D")
