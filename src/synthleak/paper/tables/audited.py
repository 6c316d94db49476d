"""What was audited: corpora in numbers, pools and proxy families; see captions.toml."""

from __future__ import annotations

from itertools import zip_longest

from synthleak.analyses.analysis import Unavailable
from synthleak.corpus.statistics import TOKENIZER, Statistics
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.source import OUTLIER, RANDOM, RARE, UNION, PoolLine, Source


def corpora(source: Source) -> lay.Table:
    if not source.corpora:
        raise Unavailable("needs a corpus that can still be read")
    columns = [lay.Column(name, align="r") for name in source.corpora]
    by_corpus = [_figures(statistics) for statistics in source.corpora.values()]
    rows = [lay.Row((name,), [figures[name] for figures in by_corpus]) for name in by_corpus[0]]
    part = lay.Part(("Figure",), columns, [lay.Block(rows)])
    return lay.table("corpora", [part], tokenizer=TOKENIZER)


def _figures(facts: Statistics) -> dict[str, lay.Entry]:
    counts = {
        "N": ("records", facts.records),
        "Duplicates dropped": ("dropped", facts.duplicates_dropped),
        "Labels": ("labels", facts.labels),
        "Comb.": ("combinations", facts.combinations),
    }
    mean, most = facts.labels_per_record_mean, facts.labels_per_record_max
    words, middle = facts.words_mean, facts.words_median
    median, p95, largest = facts.tokens_median, facts.tokens_p95, facts.tokens_max
    return {
        **{row: lay.entry(str(n), values={name: n}) for row, (name, n) in counts.items()},
        "Card. (mn/mx)": lay.entry(f"{mean:.1f}/{most}", values={"mean": mean, "largest": most}),
        "Words (mn/md)": lay.entry(
            f"{words:.0f}/{middle:.0f}", values={"mean": words, "median": middle}
        ),
        "Tok. md/p95/mx": lay.entry(
            "/".join(map(_thousands, (median, p95, float(largest)))),
            values={"median": median, "p95": p95, "largest": largest},
        ),
    }


def _thousands(count: float) -> str:
    """Write a count briefly.

    >>> _thousands(852.0), _thousands(1830.0)
    ('852', '1.8k')
    """
    return f"{count / 1000:.1f}k" if count >= 1000 else f"{count:.0f}"


def pools(source: Source) -> lay.Table:
    if not source.pools:
        raise Unavailable("needs a run folder whose pools can be read")
    kinds = {"Outlier": [OUTLIER], "Rare": [RARE]}
    known = (OUTLIER, RARE, RANDOM, UNION)
    if others := [line.rule for line in source.pools if line.rule not in known]:
        kinds["Other"] = others
    columns = [lay.Column("Embedder", "", "l")]
    for title in kinds:
        columns += [lay.Column("rule", title, "l"), lay.Column("targets", title, "r")]
    columns.append(lay.Column("targets", "Control", "r"))
    rows: list[lay.Row] = []
    for corpus in dict.fromkeys(line.corpus for line in source.pools):
        lines = [line for line in source.pools if line.corpus == corpus]
        control = _controls([line.targets for line in lines if line.rule == RANDOM])
        by_kind = [[line for line in lines if line.rule in rules] for rules in kinds.values()]
        for beside in list(zip_longest(*by_kind)) or [(None,) * len(kinds)]:
            encoder = next((line.encoder for line in beside if line and line.encoder), "")
            embedder = lay.entry(encoder, values={"encoder": encoder}) if encoder else lay.NOTHING
            pairs = [item for line in beside for item in _pair(line)]
            rows.append(lay.Row((corpus,), (embedder, *pairs, control)))
    part = lay.Part(("Dataset",), columns, [lay.Block(rows)])
    return lay.table("pools", [part], size="small")


def _pair(line: PoolLine | None) -> tuple[lay.Entry, lay.Entry]:
    if line is None:
        return lay.NOTHING, lay.NOTHING
    text = "".join(piece.text for piece in line.words)
    rule = lay.entry(*line.words, values={"pool": line.name, "rule": text})
    return rule, lay.entry(str(line.targets), values={"records": line.targets})


def _controls(sizes: list[int]) -> lay.Entry:
    if not sizes:
        return lay.NOTHING
    each = "/".join(str(size) for size in dict.fromkeys(sizes))
    text = each if len(sizes) == 1 else f"{len(sizes)} × {each}"
    return lay.entry(text, values={"draws": len(sizes), "records": each})


def proxy_families(source: Source) -> lay.Table:
    if not source.families:
        raise Unavailable("needs a run folder whose proxy families are installed")
    rows, count = [], 0
    attackers = " / ".join(sorted({row.scenario for row in source.cells})) or "–"
    for entry in source.families:
        view, names = entry.plugin.view, [proxy.name for proxy in entry.plugin.proxies]
        log = entry.plugin.proxies[0].scale == "log"
        entries = (
            lay.entry(view.capitalize(), values={"view": view}),
            lay.entry(entry.summary, values={"what": entry.summary}),
            lay.entry(", ".join(names), values={"count": len(names)}),
            lay.entry("yes" if log else "no", values={"answer": log}),
            lay.entry(attackers, values={"scenarios": attackers}),
        )
        rows.append(lay.Row((entry.name,), entries))
        count += len(names)
    heads = ("View", "What it measures", "Proxies", "Probability-like", "Used in")
    columns = [lay.Column(head, align="l") for head in heads]
    part = lay.Part(("Proxy family",), columns, [lay.Block(rows)])
    size = len(source.families)
    return lay.table("proxy_families", [part], size="small", proxies=count, families=size)
