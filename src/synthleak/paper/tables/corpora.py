"""The tables that say what was audited: corpora in numbers, and how pools were made."""

from __future__ import annotations

from itertools import zip_longest

from synthleak.analyses.analysis import Unavailable
from synthleak.corpus.statistics import Statistics
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.source import OUTLIER, RANDOM, RARE, UNION, PoolLine, Source


def corpora(source: Source) -> lay.Table:
    """What each corpus holds: records, labels, words, tokens."""
    if not source.corpora:
        raise Unavailable("needs a corpus that can still be read")
    facts = source.corpora
    every = [f.statistics for f in facts]
    lines = {
        "N": [_count("records", s.records) for s in every],
        "Duplicates dropped": [_count("dropped", s.duplicates_dropped) for s in every],
        "Labels": [_count("labels", s.labels) for s in every],
        "Comb.": [_count("combinations", s.combinations) for s in every],
        "Card. (mn/mx)": [_cardinality(s) for s in every],
        "Words (mn/md)": [_words(s) for s in every],
        "Tok. md/p95/mx": [_tokens(s) for s in every],
    }
    rows = [lay.Row((name,), entries) for name, entries in lines.items()]
    columns = [lay.Column(f.name, align="r") for f in facts]
    tokenizers = ", ".join(dict.fromkeys(f.tokenizer for f in facts))
    caption = lay.words(
        "The corpora in numbers, after exact duplicates were dropped. Comb.: different label"
        " combinations; Card.: labels of a record; mn, md, mx: mean, median, largest. Tokens by the"
        f" {tokenizers}."
    )
    return lay.Table("corpora", caption, [lay.Part(("Figure",), columns, [lay.Block(rows)])])


def _count(name: str, value: int) -> lay.Entry:
    return lay.entry(str(value), **{name: value})


def _cardinality(facts: Statistics) -> lay.Entry:
    mean, most = facts.labels_per_record_mean, facts.labels_per_record_max
    return lay.entry(f"{mean:.1f}/{most}", mean=mean, largest=most)


def _words(facts: Statistics) -> lay.Entry:
    mean, median = facts.words_mean, facts.words_median
    return lay.entry(f"{mean:.0f}/{median:.0f}", mean=mean, median=median)


def _tokens(facts: Statistics) -> lay.Entry:
    median, p95, largest = facts.tokens_median, facts.tokens_p95, facts.tokens_max
    text = "/".join(map(_thousands, (median, p95, float(largest))))
    return lay.entry(text, median=median, p95=p95, largest=largest)


def _thousands(count: float) -> str:
    """Write a count briefly.

    >>> _thousands(852.0), _thousands(1830.0)
    ('852', '1.8k')
    """
    return f"{count / 1000:.1f}k" if count >= 1000 else f"{count:.0f}"


def pools(source: Source) -> lay.Table:
    """How the pools were made, and how many records each holds."""
    owners = list(dict.fromkeys(line.corpus for line in source.pools))
    if not owners:
        raise Unavailable("needs a run folder whose pools can be read")
    known = (OUTLIER, RARE, RANDOM, UNION)
    others = any(line.rule not in known for line in source.pools)
    rows = [row for owner in owners for row in _rows_of(source, owner, others)]
    columns = [
        lay.Column("Embedder", "", "l"),
        lay.Column("rule", "Outlier", "l"),
        lay.Column("targets", "Outlier", "r"),
        lay.Column("rule", "Rare", "l"),
        lay.Column("targets", "Rare", "r"),
        *(
            [lay.Column("rule", "Other", "l"), lay.Column("targets", "Other", "r")]
            if others
            else []
        ),
        lay.Column("targets", "Control", "r"),
    ]
    caption = lay.words(
        "How target pools were made. The outlier rule takes what lies beyond a percentile d of the"
        " distance to the embedding centroid, joined with what the local outlier factor (LOF, k"
        " neighbours) flags, vectors scaled to length 1 first; the rare rule goes by labels alone:"
        " freq., how often a combination is seen, card., how many labels a record carries."
        " Controls are uniform draws, apart from each other and from the pools above them."
    )
    part = lay.Part(("Dataset",), columns, [lay.Block(rows)])
    return lay.Table("pools", caption, (part,), size="small")


def _rows_of(source: Source, corpus: str, others: bool) -> list[lay.Row]:
    lines = [line for line in source.pools if line.corpus == corpus]
    outlier = [line for line in lines if line.rule == OUTLIER]
    rare = [line for line in lines if line.rule == RARE]
    other = [line for line in lines if line.rule not in (OUTLIER, RARE, RANDOM, UNION)]
    control = _controls([line.targets for line in lines if line.rule == RANDOM])
    rows = []
    for one, two, three in zip_longest(outlier, rare, other if others else []):
        encoder = next((line.encoder for line in (one, two, three) if line and line.encoder), "")
        rows.append(
            lay.Row(
                (corpus,),
                (
                    lay.entry(encoder, encoder=encoder) if encoder else lay.NOTHING,
                    *_pair(one),
                    *_pair(two),
                    *(_pair(three) if others else ()),
                    control,
                ),
            )
        )
    empty = (lay.NOTHING,) * (5 + 2 * others)
    return rows or [lay.Row((corpus,), (*empty, control))]


def _pair(line: PoolLine | None) -> tuple[lay.Entry, lay.Entry]:
    if line is None:
        return lay.NOTHING, lay.NOTHING
    text = "".join(piece.text for piece in line.words)
    rule = lay.Entry((line.words,), {"pool": line.name, "rule": text})
    return rule, lay.entry(str(line.targets), records=line.targets)


def _controls(sizes: list[int]) -> lay.Entry:
    if not sizes:
        return lay.NOTHING
    each = "/".join(str(size) for size in dict.fromkeys(sizes))
    text = each if len(sizes) == 1 else f"{len(sizes)} × {each}"
    return lay.entry(text, draws=len(sizes), records=each)
