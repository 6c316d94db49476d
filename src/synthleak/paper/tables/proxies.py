"""The table of proxy families: what each one measures, through which view, by which proxies."""

from __future__ import annotations

from synthleak.analyses.analysis import Unavailable
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.source import Source


def proxy_families(source: Source) -> lay.Table:
    """The proxy families of the audits, as the paper's appendix lists them."""
    if not source.families:
        raise Unavailable("needs a run folder whose proxy families are installed")
    rows = [
        lay.Row(
            (entry.name,),
            (
                lay.entry(entry.plugin.view.capitalize(), view=entry.plugin.view),
                lay.entry(entry.summary, what=entry.summary),
                _proxies([proxy.name for proxy in entry.plugin.proxies]),
                _yes(entry.plugin.proxies[0].scale == "log"),
            ),
        )
        for entry in source.families
    ]
    columns = (
        lay.Column("View", "", "l"),
        lay.Column("What it measures", "", "l"),
        lay.Column("Proxies", "", "l"),
        lay.Column("Probability-like", "", "l"),
    )
    count = sum(len(entry.plugin.proxies) for entry in source.families)
    caption = lay.words(
        f"Proxy families: {count} proxies in {len(source.families)} families. Each compares a"
        " target with an observation: the release (S1), a raw reference set (S2) or a reference"
        " release (S3). Probability-like proxies are log-densities of a fitted model."
    )
    part = lay.Part(("Proxy family",), columns, (lay.Block(tuple(rows)),))
    return lay.Table("proxy_families", caption, (part,), size="small")


def _proxies(names: list[str]) -> lay.Entry:
    return lay.entry(", ".join(names), count=len(names))


def _yes(answer: bool) -> lay.Entry:
    return lay.entry("yes" if answer else "no", answer=answer)
