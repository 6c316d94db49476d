"""`synthleak list`: what stands on the shelves."""

from __future__ import annotations

from typing import Any

import click

from synthleak.cli.options import json_option
from synthleak.cli.tables import print_table

SHELVES = ("readers", "encoders", "pools", "designs", "generators", "proxies")


@click.command("list")
@click.argument("shelf", type=click.Choice(SHELVES))
@json_option
def listing(shelf: str, as_json: bool) -> None:
    """List what SHELF offers: readers, encoders, pools, designs, generators or proxies."""
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
            }
            for entry in families
            for proxy in entry.plugin.proxies
        ]
    return [
        {"name": entry.name, "version": entry.version, "what it does": entry.summary}
        for entry in _shelf(shelf)
    ]


def _shelf(name: str) -> Any:
    from synthleak.corpus.corpus import readers
    from synthleak.encoders.encoder import encoders
    from synthleak.plan.plan import designs
    from synthleak.pools.pool import rules
    from synthleak.releases.release import generators

    return {
        "readers": readers,
        "encoders": encoders,
        "pools": rules,
        "designs": designs,
        "generators": generators,
    }[name]
