"""`synthleak list`: what stands on the shelves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from synthleak.cli.options import json_option
from synthleak.cli.output import print_table

REGISTRIES = (
    "readers",
    "encoders",
    "pools",
    "designs",
    "generators",
    "proxies",
    "priors",
    "analyses",
)


@click.command("list")
@click.argument("shelf", type=click.Choice(REGISTRIES))
@click.option(
    "--plugins",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A Python file with plug-ins, as a spec would name it; may be given several times.",
)
@json_option
def listing(shelf: str, plugins: tuple[Path, ...], as_json: bool) -> None:
    """List what SHELF offers, by name, with one line on each.

    Plug-ins of other packages and of the files named with --plugins are listed too.
    """
    from synthleak.core.plugins import read_files, use_files

    rows_of(shelf)  # opens the room first: a mistake in a file is then the file's own
    use_files(read_files(plugins, None, "--plugins"))
    print_table(rows_of(shelf), as_json=as_json)


def rows_of(shelf: str) -> list[dict[str, Any]]:
    """Return a row per plug-in (per proxy, for proxies)."""
    if shelf == "proxies":
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
        for entry in _shelf(shelf)
    ]


def origin(entry: Any) -> str:
    """Say who brought a plug-in: synthleak, another package's module, or a file."""
    return "synthleak" if entry.built_in else str(entry.source)


def _shelf(name: str) -> Any:
    from synthleak.analyses.analysis import analyses
    from synthleak.corpus.corpus import readers
    from synthleak.encoders.encoder import encoders
    from synthleak.evidence.attack import attacks
    from synthleak.plan.plan import designs
    from synthleak.pools.pool import rules
    from synthleak.releases.release import generators

    return {
        "readers": readers,
        "encoders": encoders,
        "pools": rules,
        "designs": designs,
        "generators": generators,
        "priors": attacks,
        "analyses": analyses,
    }[name]
