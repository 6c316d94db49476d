"""`synthleak demo`: a whole audit that needs no file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from synthleak.cli.options import PATH, How, wide_option, work_options
from synthleak.cli.run import show


@click.command()
@click.option(
    "--out",
    metavar="DIR",
    type=PATH,
    default=Path("runs/demo"),
    show_default=True,
    help="The run folder.",
)
@click.option("--records", metavar="FILE", type=PATH, help="Only write the corpus, as JSON Lines.")
@wide_option
@work_options
def demo(out: Path, records: Path | None, wide: bool, how: How) -> None:
    """Run a whole audit on the built-in corpus and generator.

    The corpus is invented patient messages; the generator is a word-trigram model, without privacy
    and at ε = 8 and 1; the pools are outliers, rare labels and random controls. Every release tests
    every record of a pool, and records that leak are named. Takes a minute or two.
    """
    from synthleak.audit.run import run
    from synthleak.core.spec import load_spec

    if records is not None:
        click.echo(f"wrote {write_records(records):,} invented records to {records}")
        return
    spec = load_spec(Path(str(files("synthleak.cli").joinpath("templates/demo.toml"))))
    show(run(spec, out, runtime=how.runtime, progress=how.progress), how, wide=wide)
    if not how.quiet and not how.as_json:
        click.echo(f"Open {out / 'report.html'} in a browser. Then your own: synthleak init")


def write_records(path: Path) -> int:
    """Write the records of the demo to a file, to try other commands with; return how many."""
    from synthleak.core.errors import UserError
    from synthleak.core.whole_files import cannot_write, write_whole
    from synthleak.corpus.readers.demo import Demo
    from synthleak.preflight.files import json_lines

    if path.exists():
        raise UserError("the file already exists", str(path), "name another")
    rows = [{"id": r.id, "text": r.text, "labels": list(r.labels)} for r in Demo().read()]
    try:
        write_whole(path, json_lines(rows))
    except OSError as error:
        raise cannot_write(path, error) from None
    return len(rows)
