"""`synthleak list`: the plug-ins of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from synthleak.cli.options import PATH, json_option
from synthleak.cli.output import print_table

REGISTRIES = {
    "readers": "read the records of a corpus",
    "encoders": "turn texts into vectors",
    "pools": "select the records that are asked about",
    "designs": "draw who is in which private set",
    "generators": "make releases from private sets",
    "proxies": "score how much a release looks like a record",
    "models": "score by a model that is fitted to the release; opt-in",
    "priors": "attacks from earlier work, for comparison",
    "analyses": "make tables of what was found",
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
    from synthleak.core.plugins import read_files, use_files

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
    from synthleak.corpus.corpus import readers
    from synthleak.encoders.encoder import encoders
    from synthleak.evidence.attack import attacks
    from synthleak.evidence.model_family import model_families
    from synthleak.plan.plan import designs
    from synthleak.pools.rule import rules
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
    }[name]
