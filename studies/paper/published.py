"""Extract every figure of the paper's tables into published.csv.

    published.py paper.tex > published.csv

The source is the paper's LaTeX with its files joined into one. A row is one printed figure: where
it stands, what it is of, and its value. Corpora and generators have the names that the specs use;
shares that the paper prints in per cent are given as shares of 1, and `printed` keeps what stands
in the paper. Figures that the text quotes follow under the table `text`. Where two places of the
paper disagree, both are kept and `note` says so.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple, dataclass, fields, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean, median

from paper_tables import TABLES, Figure, number

# ---------------------------------------------------------------------------- what the text says


def quotations(tex: str, there: list[Figure]) -> Iterator[Figure]:
    """Yield figures that the text quotes from its tables, with what the tables give."""
    for quoted in _QUOTED:
        found = re.search(quoted.pattern.replace(" ", r"\s+"), tex, re.DOTALL)
        if found is None:
            raise SystemExit(f"published.py: the text does not say: {quoted.item}")
        tables = list(quoted.given(there))
        for place, part in enumerate(found.groups()):
            given = tables[place : place + 1] if len(tables) == len(found.groups()) else tables
            allowed = 0.5001 * 10 ** -_digits(part) + quoted.slack
            agree = all(abs(number(part) - value) <= allowed for value in given)
            shown = ", ".join(f"{round(value, 3):g}" for value in given)
            yield Figure(
                "text",
                item=quoted.item,
                column=f"figure {place + 1}",
                value=number(part),
                printed=part,
                note="" if agree else f"the tables give {shown}",
            )


@dataclass(frozen=True)
class Quotation:
    """A sentence of the text with figures, and what the tables give for them.

    `slack` allows for means of figures that are printed rounded.
    """

    item: str
    pattern: str
    given: Callable[[list[Figure]], Iterable[float]]
    slack: float = 0.0


def _digits(text: str) -> int:
    return len(text.partition(".")[2])


def _of(there: list[Figure], table: str, column: str, **keys: object) -> list[Figure]:
    return [
        one
        for one in there
        if one.table == table
        and one.column == column
        and all(
            getattr(one, name) == wanted or (callable(wanted) and wanted(getattr(one, name)))
            for name, wanted in keys.items()
        )
    ]


def _values(there: list[Figure], table: str, column: str, **keys: object) -> list[float]:
    return [float(one.value) for one in _of(there, table, column, **keys)]


def _private(epsilon: str) -> bool:
    return epsilon != "inf"


def _range(values: list[float]) -> list[float]:
    return [min(values), max(values)]


def _fusion(there: list[Figure]) -> list[float]:
    found = [_values(there, table, "delta") for table in _META]
    every = [value for some in found for value in some]
    counts = [x for some in found for x in (sum(v > 0 for v in some), len(some))]
    return [
        len(every),
        sum(v > 0 for v in every),
        sum(v < 0 for v in every),
        mean(every),
        *counts,
    ]


def _wins(table: str, there: list[Figure]) -> list[float]:
    found = _values(there, table, "delta")
    return [len(found), sum(v > 0 for v in found), sum(v < 0 for v in found), mean(found)]


def _views(table: str, there: list[Figure]) -> list[float]:
    won = [one.variant for one in _of(there, table, "auc")]
    return [won.count("L"), won.count("E")]


def _against_prior(there: list[Figure]) -> list[float]:
    every = [v for table in _BASELINES for v in _values(there, table, "delta")]
    rest = [v for v in every if v <= 0]
    return [
        len(every),
        sum(v > 0 for v in every),
        sum(v == 0 for v in rest),
        sum(v < 0 for v in rest),
    ]


def _top(there: list[Figure], **keys: object) -> list[float]:
    return [100 * v for v in _values(there, "tab:v-distribution-appendix", "s10", **keys)]


def _positive(there: list[Figure], **keys: object) -> list[float]:
    return [
        100 * v for v in _values(there, "tab:v-distribution-appendix", "positive_share", **keys)
    ]


_META = ("tab:meta-outlier", "tab:meta-outlier-epsvec", "tab:meta-outlier-augpe", "tab:meta-rare")
_BASELINES = ("tab:baselines-main", "tab:baselines-outlier-rest", "tab:baselines-rare-e4")
_STRONG = ("psytar", "dmsafn", "eurlex")
_QUOTED = (
    Quotation(
        "introduction: AUC of the best attacker at inf, DP-Gen, outlier pools, from and to",
        r"the best attacker reaches AUC \$([\d.]+)\$--\$([\d.]+)\$",
        lambda t: _range(
            [max(_values(t, "tab:main_dpgen", "auc", corpus=c, epsilon="inf")) for c in _STRONG]
        ),
    ),
    Quotation(
        "introduction: AUC at every finite budget, from and to",
        r"at every DP budget \(AUC \$([\d.]+)\$--\$([\d.]+)\$",
        lambda t: _range(_values(t, "tab:main_dpgen", "auc", epsilon=_private)),
    ),
    Quotation(
        "results: AUC at every finite budget under DP-Gen, from and to",
        r"is no more than \$([\d.]+)\$--\$([\d.]+)\$",
        lambda t: _range(_values(t, "tab:main_dpgen", "auc", epsilon=_private)),
    ),
    Quotation(
        "results: AUC of rare pools under DP, from and to",
        r"they sit on the same floor \(([\d.]+)--([\d.]+) across",
        lambda t: _range(_values(t, "tab:main_rare", "auc", epsilon=_private)),
    ),
    Quotation(
        "results: shift of the best AUC from S1 to S2 and to S3, over 60 settings",
        r"shifts the best-feature AUC by \$([+-][\d.]+)\$ on average .*? and generator access"
        r" \(S3\) by \$([+-][\d.]+)\$",
        lambda t: [
            mean(
                float(b.value) - float(a.value)
                for table in ("tab:main_dpgen", "tab:main_augpe", "tab:main_epsvec")
                for a, b in zip(
                    _of(t, table, "auc", scenario="S1"),
                    _of(t, table, "auc", scenario=s),
                    strict=True,
                )
            )
            for s in ("S2", "S3")
        ],
        slack=0.001,
    ),
    Quotation(
        "results: settings in which the audit beats both prior attacks, at inf and 1",
        r"outperforms the baselines, on (\d+) of (\d+) settings",
        lambda t: [
            sum(v > 0 for v in _values(t, "tab:baselines-main", "delta")),
            len(_values(t, "tab:baselines-main", "delta")),
        ],
    ),
    Quotation(
        "appendix: cells, and those in which the audit wins, ties and loses against prior attacks",
        r"Across all (\d+) populated .*? highest AUC in (\d+), ties in (\d+), and is beaten in"
        r" (\d+)",
        _against_prior,
    ),
    Quotation(
        "appendix: meta-classifier: cells, wins, losses, mean difference, and wins/cells of the"
        " four tables",
        r"Across the (\d+) populated .*? it wins in (\d+) and loses in (\d+), with a mean"
        r" deficit of \$\\Delta = (-[\d.]+)\$ AUC"
        r" \(outlier pools: \$(\d+)/(\d+)\$ under DP-Gen, \$(\d+)/(\d+)\$ under EPSVec,"
        r" \$(\d+)/(\d+)\$ under Aug-PE; rare pools: \$(\d+)/(\d+)\$",
        _fusion,
    ),
    Quotation(
        "results: AUC of the meta-classifier at inf, DP-Gen, outlier pools of three corpora,"
        " from and to",
        r"still reaches AUC \$([\d.]+)\$--\$([\d.]+)\$\. The spike",
        lambda t: _range(
            _values(t, "tab:meta-outlier", "auc", epsilon="inf", corpus=lambda c: c in _STRONG)
        ),
    ),
    *(
        Quotation(
            f"caption of tab:main_{label}: cells won by lexical and by embedding proxies",
            rf"\\caption\{{\\textsc\{{{name}\}} \((\d+)\\,.*? vs\.\\ (\d+)\\,",
            partial(_views, f"tab:main_{label}"),
        )
        for label, name in (("dpgen", "DP-Gen"), ("augpe", "Aug-PE"), ("epsvec", "EPSVec"))
    ),
    Quotation(
        "note of tab:overall_main_rare: cells won by lexical and by embedding proxies",
        r"mbedding: (\d+) vs\.\\ (\d+) of 18 highlighted",
        partial(_views, "tab:main_rare"),
    ),
    *(
        Quotation(
            f"note of {table}: cells, wins and losses of the meta-classifier, mean difference",
            rf"\\label\{{{table}\}}.*?Across the (\d+) populated cells the fusion wins in (\d+) and"
            r" loses in (\d+), mean \$\\Delta=(-[\d.]+)\$",
            partial(_wins, table),
            slack=0.0005,
        )
        for table in _META
    ),
    Quotation(
        "results: cells of the vulnerability table",
        r"for all (\d+) configurations in Appendix",
        lambda t: [len(_top(t))],
    ),
    Quotation(
        "results: share of records with V > 0 at inf, DP-Gen: from, to, median",
        r"(\d+)--(\d+)\\% of qualifying records \(median (\d+)\\%\)",
        lambda t: [
            *_range(_positive(t, generator="dpsgd", epsilon="inf")),
            median(_positive(t, generator="dpsgd", epsilon="inf")),
        ],
    ),
    Quotation(
        "results: S10 at inf, DP-Gen: from, to, median",
        r"S_\{10\}\\\) is (\d+)--(\d+)\\% \(median (\d+)\\%\)",
        lambda t: [
            *_range(_top(t, generator="dpsgd", epsilon="inf")),
            median(_top(t, generator="dpsgd", epsilon="inf")),
        ],
    ),
    Quotation(
        "results: medians at inf and under DP, DP-Gen: V > 0, then S10 with its range, cells of"
        " 16 and of 4 above 30%",
        r"median of (\d+)\\% to (\d+)\\%, while \\\(S_\{10\}\\\) rises from a median of (\d+)\\%"
        r" to (\d+)\\% \(range (\d+)--(\d+)\\%\)"
        r" and exceeds the even-spread value in (\d+) of 16 combinations threefold, against"
        r" (\d+) of 4",
        lambda t: [
            median(_positive(t, generator="dpsgd", epsilon="inf")),
            median(_positive(t, generator="dpsgd", epsilon=_private)),
            median(_top(t, generator="dpsgd", epsilon="inf")),
            median(_top(t, generator="dpsgd", epsilon=_private)),
            *_range(_top(t, generator="dpsgd", epsilon=_private)),
            sum(v > 30 for v in _top(t, generator="dpsgd", epsilon=_private)),
            sum(v > 30 for v in _top(t, generator="dpsgd", epsilon="inf")),
        ],
    ),
    Quotation(
        "results: S10 of EPSVec at inf: from, to, median; median under DP",
        r"have \\\(S_\{10\}\\\) of (\d+)--(\d+)\\% \(median (\d+)\\%; .*? from its DP"
        r" combinations \(median (\d+)\\%\)",
        lambda t: [
            *_range(_top(t, generator="epsvec", epsilon="inf")),
            median(_top(t, generator="epsvec", epsilon="inf")),
            median(_top(t, generator="epsvec", epsilon=_private)),
        ],
    ),
    Quotation(
        "results: median S10 of Aug-PE at inf and under DP",
        r"Aug-PE moves from a median of (\d+)\\% at its zero-noise setting to (\d+)\\% under noise",
        lambda t: [median(_top(t, generator="augpe", epsilon=e)) for e in ("inf", _private)],
    ),
    Quotation(
        "results: cells, those with S10 above 30%, median, from, to",
        r"Pooling all (\d+) combinations, \\\(S_\{10\}\\\) exceeds three times the even-spread"
        r" value in (\d+) \(median (\d+)\\%, range (\d+)--(\d+)\\%\)",
        lambda t: [len(_top(t)), sum(v > 30 for v in _top(t)), median(_top(t)), *_range(_top(t))],
    ),
    Quotation(
        "results: S10 under DP: median, largest",
        r"For DP, a median of (\d+)\\% \(up to max (\d+)\\%\)",
        lambda t: [median(_top(t, epsilon=_private)), max(_top(t, epsilon=_private))],
    ),
    Quotation(
        "appendix: attribute-pool tests of the three generators",
        r"\(\$0\$ of \$(\d+)\$, \$(\d+)\$, and \$(\d+)\$ tests for the three generators\)",
        lambda t: [
            *(
                _values(t, "tab:selection-robustness", "tests", generator=g)[0]
                for g in ("dpsgd", "epsvec")
            ),
            float(len(_values(t, "tab:attributes", "rho", generator="augpe"))),
        ],
    ),
    Quotation(
        "caption of tab:attributes: the only effect near significance: outlierness, Holm p",
        r"the only directionally consistent effect \(9/12 pools positive, Holm \$p=([\d.]+)\$",
        lambda t: sorted(
            float(one.value)
            for one in _of(t, "tab:combined-by-rule", "p_holm", generator="dpsgd")
            if one.item.endswith("80% split (paper)") and float(one.value) < 0.1
        ),
    ),
    Quotation(
        "appendix: cross-generator: mean against EPSVec over 16 pools, over random pools,"
        " against Aug-PE",
        r"mean \$(-[\d.]+)\$ against activation steering over 16 pools \(\$(-[\d.]+)\$ over the"
        r" random pools alone\)"
        r" and \$([+][\d.]+)\$ against API-based prompting",
        lambda t: [
            mean(_values(t, "tab:cross-generator", "rho", generator="dpsgd-epsvec")),
            mean(
                _values(
                    t,
                    "tab:cross-generator",
                    "rho",
                    generator="dpsgd-epsvec",
                    pool=lambda p: p != "outlier",
                )
            ),
            mean(_values(t, "tab:cross-generator", "rho", generator="dpsgd-augpe")),
        ],
        slack=0.002,
    ),
    Quotation(
        "results: records of a pool that qualify, from and to",
        r"Of the roughly 60 records in a pool, (\d+)--(\d+) qualify",
        lambda t: _range(_values(t, "tab:cross-generator", "n")),
    ),
    Quotation(
        "conclusion: smallest and largest pool",
        r"and the pools smaller \((\d+)--(\d+)\)",
        lambda t: _range(_values(t, "tab:subgroups", "size")),
    ),
)


# ---------------------------------------------------------------------------- table against table


def compared(there: list[Figure]) -> list[Figure]:
    """Note every figure that another table prints otherwise."""
    notes: dict[int, list[str]] = {}

    def meet(one: int, other: int) -> None:
        a, b = there[one], there[other]
        coarse = min(_places(a), _places(b))
        if abs(float(a.value) - float(b.value)) > 0.5001 * 10**-coarse:
            notes.setdefault(one, []).append(f"{b.table} prints {b.printed}")
            notes.setdefault(other, []).append(f"{a.table} prints {a.printed}")
        elif a.variant and b.variant and a.variant != b.variant:
            notes.setdefault(one, []).append(f"{b.table} says {b.variant}")
            notes.setdefault(other, []).append(f"{a.table} says {a.variant}")

    groups: dict[tuple[str, ...], list[int]] = {}
    for place, one in enumerate(there):
        for key in _meaning(one, there):
            groups.setdefault(key, []).append(place)
    for places in groups.values():
        for one, other in pairwise(places):
            meet(one, other)
    for place, one in enumerate(there):
        for said in _arithmetic(one, there):
            notes.setdefault(place, []).append(said)
    return [
        replace(one, note="; ".join(filter(None, [one.note, *dict.fromkeys(notes.get(place, []))])))
        for place, one in enumerate(there)
    ]


def _places(one: Figure) -> int:
    """Return the decimal places of a value as printed; shares are printed in per cent."""
    shown = re.search(r"\d*\.?\d+", one.printed)[0]
    return _digits(shown) + 2 * (one.column == "tpr" and one.item != "TPR")


def _meaning(one: Figure, there: list[Figure]) -> Iterator[tuple[str, ...]]:
    """Yield what a figure says that other tables say too."""
    cell = (one.corpus, one.pool, one.generator, one.epsilon)
    per_scenario = one.table.startswith(("tab:main", "tab:overall")) or (
        one.table.startswith("tab:control") and one.pool != "control"
    )
    if per_scenario and one.column in ("auc", "tpr"):
        yield (*cell, one.scenario, one.column)
    if one.table.startswith("tab:main") and one.variant and one.column in ("auc", "tpr"):
        yield (*cell, "best", one.column)
    if one.table in _BASELINES and one.item == "ours":
        yield (*cell, "best", one.column)
    if one.table == "tab:selection-robustness" and one.pool == "random":
        yield (one.generator, one.item, one.column, "combined rho")
    if one.table == "tab:combined-by-rule" and one.column == "rho":
        attribute, _, rule = one.item.partition("; ")
        yield (one.generator, rule, attribute, "combined rho")
    if one.table == "tab:attributes" and one.pool == "random":
        yield (one.generator, "80% split (paper)", one.item, "combined rho")
    if one.column == "n" and one.pool == "outlier":
        yield (one.corpus, "qualifying")


def _arithmetic(one: Figure, there: list[Figure]) -> Iterator[str]:
    """Say where a difference is not the difference of the figures beside it."""
    if one.table in _BASELINES and one.column == "delta":
        same = {
            "pool": one.pool,
            "corpus": one.corpus,
            "generator": one.generator,
            "epsilon": one.epsilon,
        }
        auc = {x.item: float(x.value) for x in _of(there, one.table, "auc", **same)}
        got = auc["ours"] - max(auc["canary"], auc["domias"])
        if abs(got - float(one.value)) > 0.0015:
            yield f"the AUCs beside it differ by {got:+.3f}"
    if one.column == "gap":
        same = {
            "corpus": one.corpus,
            "generator": one.generator,
            "epsilon": one.epsilon,
            "scenario": one.scenario,
        }
        auc = {x.pool: float(x.value) for x in _of(there, one.table, "auc", **same)}
        got = auc[one.pool] - auc["control"]
        if abs(got - float(one.value)) > 0.0015:
            yield f"the AUCs beside it differ by {got:+.3f}"
    if one.column == "mean rho":
        found = _values(there, one.table, "rho", generator=one.generator)
        if abs(mean(found) - float(one.value)) > 0.007:
            yield f"the mean of the rows above is {mean(found):+.3f}"


def extract(tex: str) -> list[Figure]:
    """Return every figure of the tables, and what the text quotes of them."""
    there = [figure for table in TABLES for figure in table(tex)]
    return [*compared(there), *quotations(tex, there)]


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(f"usage: {Path(__file__).name} paper.tex > published.csv")
    tex = Path(sys.argv[1]).read_text(encoding="utf-8")
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([field.name for field in fields(Figure)])
    writer.writerows(astuple(figure) for figure in extract(tex))


if __name__ == "__main__":
    main()
