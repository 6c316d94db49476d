"""Read the tables of the paper's LaTeX source: one `Figure` for every figure that they print."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

CORPORA = {
    "psytar": "psytar",
    "dmsafn": "dmsafn",
    "n2c2": "n2c2",
    "n2c2'08": "n2c2",
    "eurlex": "eurlex",
    "eur-lex": "eurlex",
}
GENERATORS = {"dp-gen": "dpsgd", "aug-pe": "augpe", "epsvec": "epsvec"}
BUDGETS = ("inf", "4", "2", "1", "0.5")
SCENARIOS = ("S1", "S2", "S3")


@dataclass(frozen=True)
class Figure:
    """One printed figure.

    `item` is the key of a row that is none of the others (an attribute, a rule). `low` and `high`
    are a printed interval, `spread` a printed ±. `variant` is the view (L, E) or the arm behind it.
    """

    table: str
    corpus: str = ""
    pool: str = ""
    generator: str = ""
    epsilon: str = ""
    scenario: str = ""
    item: str = ""
    column: str = ""
    value: float | str = ""
    low: float | str = ""
    high: float | str = ""
    spread: float | str = ""
    variant: str = ""
    printed: str = ""
    note: str = ""


# ---------------------------------------------------------------------------- LaTeX


def body(tex: str, label: str) -> str:
    """Return the table that carries a label: from its tabular to its end."""
    place = tex.index(f"\\label{{{label}}}")
    after, before = tex.find("\\begin{tabular}", place), tex.rfind("\\begin{tabular}", 0, place)
    ends = [tex.find("\\end{table", place), tex.find("\\end{subtable", place)]
    ends += [tex.find("\\end{sidewaystable", place)]
    border = min(end for end in ends if end >= 0)
    start = after if 0 <= after < border else before
    return tex[start : tex.index("\\end{tabular}", start)]


def split(text: str, mark: str) -> list[str]:
    """Split at a mark that stands outside braces."""
    parts, depth, start, place = [], 0, 0, 0
    while place < len(text):
        if depth == 0 and text.startswith(mark, place):
            parts.append(text[start:place])
            place += len(mark)
            start = place
            continue
        if text[place] == "\\" and place + 1 < len(text) and text[place + 1] in "{}":
            place += 2
            continue
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        place += 1
    return [*parts, text[start:]]


_RULES = re.compile(
    r"\\(toprule|midrule|bottomrule|hline|epshead)"
    r"|\\cmidrule(\(\w+\))?\{[^}]*\}|\\addlinespace\[[^]]*\]"
)


def rows_of(tex: str, label: str) -> Iterator[list[str]]:
    """Yield the rows of a table that hold cells, as raw LaTeX."""
    for line in split(body(tex, label), "\\\\"):
        cells = [cell.strip() for cell in split(_RULES.sub(" ", line), "&")]
        if len(cells) > 1:
            yield cells


def words(cell: str) -> str:
    """Return a cell without its markup."""
    cell = re.sub(
        r"\\(cellcolor|textcolor|multirow|multicolumn|rotatebox)(\[[^]]*\])?\{[^}]*\}", "", cell
    )
    cell = re.sub(r"\\[a-zA-Z]+\*?(\[[^]]*\])?", " ", cell)
    cell = re.sub(r"[{}$~]|\\[,;!%]?", " ", cell.replace("\\%", "%"))
    return re.sub(r"\s+", " ", cell).strip()


def number(text: str) -> float:
    """Return a printed number: a bare decimal, a minus of mathematics, per mille dots and all."""
    return float(re.sub(r"\s", "", text.replace("−", "-").replace("$-$", "-").replace("$+$", "+")))


def corpus_in(cell: str) -> str:
    found = [name for name in re.split(r"[\s,]+", words(cell).lower()) if name in CORPORA]
    return CORPORA[found[0]] if found else ""


def generator_in(cell: str) -> str:
    found = [name for name in GENERATORS if name in words(cell).lower()]
    return GENERATORS[found[0]] if found else ""


def variant_in(cell: str) -> str:
    found = re.search(r"\\textcolor\{(?:lexcol|embcol)\}\{(?:\\textbf\{)?(\w+)", cell)
    return found[1] if found else ""


def share(percent: str) -> float:
    return round(number(percent) / 100, 6)


# ---------------------------------------------------------------------------- tables


def datasets(tex: str) -> Iterator[Figure]:
    lines = list(rows_of(tex, "tab:datasets"))
    corpora = [corpus_in(cell) for cell in lines[0][1:]]
    for title, *cells in lines[2:]:
        for corpus, cell in zip(corpora, cells, strict=True):
            names = words(title).replace("mathcal Y", "Y")
            for place, one in enumerate(words(cell).split("/")):
                thousand = 1000 if one.endswith("k") else 1
                yield Figure(
                    "tab:datasets",
                    corpus=corpus,
                    item=names,
                    column=("value", "second", "third")[place],
                    value=round(number(one.rstrip("k")) * thousand, 6),
                    printed=one,
                )


def subgroups(tex: str) -> Iterator[Figure]:
    for cells in list(rows_of(tex, "tab:subgroups"))[2:]:
        corpus, encoder, rule, outlier, _, rare_rule, rare, control = map(words, cells)
        for pool, how, size in (
            ("outlier", rule, outlier),
            ("rare", rare_rule, rare),
            ("control", "uniform", control),
        ):
            if size.isdigit():
                yield Figure(
                    "tab:subgroups",
                    corpus=corpus_in(corpus),
                    pool=pool,
                    item=f"{how}; {encoder}" if pool == "outlier" else how,
                    column="size",
                    value=int(size),
                    printed=size,
                )


def main_tables(tex: str) -> Iterator[Figure]:
    for label, generator in (("dpgen", "dpsgd"), ("augpe", "augpe"), ("epsvec", "epsvec")):
        table, corpus = f"tab:main_{label}", ""
        for cells in rows_of(tex, table):
            corpus = corpus_in(cells[0]) or corpus
            for epsilon, cell in zip(BUDGETS, cells[2:], strict=True):
                kind, auc, tpr = re.fullmatch(r"\\c([eLE])\{(.*?)\}\{(.*?)\}", cell).groups()
                view = "" if kind == "e" else kind
                at = Figure(table, corpus, "outlier", generator, epsilon, words(cells[1]))
                yield replace(at, column="auc", value=number(auc), variant=view, printed=auc)
                yield replace(at, column="tpr", value=share(tpr), variant=view, printed=tpr)


def main_rare(tex: str) -> Iterator[Figure]:
    corpus = ""
    for cells in list(rows_of(tex, "tab:main_rare"))[2:]:
        corpus = corpus_in(cells[0]) or corpus
        keys = [(g, e) for g in ("dpsgd", "epsvec") for e in ("inf", "4", "1")]
        for (generator, epsilon), cell in zip(keys, cells[2:], strict=True):
            view = re.search(r"\\win\{.*?\}\{\w+\}\{(\w)\}", cell)
            auc, tpr = re.sub(r"\\win\{(.*?)\}\{\w+\}\{\w\}", r"\1", cell).split("/")
            at = Figure("tab:main_rare", corpus, "rare", generator, epsilon, words(cells[1]))
            at = replace(at, variant=view[1] if view else "")
            yield replace(at, column="auc", value=number(auc), printed=auc)
            yield replace(at, column="tpr", value=share(tpr), printed=tpr)


def with_interval(at: Figure, cell: str) -> Iterator[Figure]:
    """Yield AUC with its interval, TPR, and where there is one the difference to a single proxy."""
    cell = re.sub(r"\\cellcolor\{[^}]*\}", "", cell)
    auc, low, high = re.search(r"([\d.]+).*?\(([\d.]+)--([\d.]+)\)", cell).groups()
    tpr = re.search(r"([\d.]+)\\%", cell)[1]
    view = variant_in(cell)
    yield replace(
        at,
        column="auc",
        value=number(auc),
        low=number(low),
        high=number(high),
        variant=view,
        printed=f"{auc} ({low}--{high})",
    )
    yield replace(at, column="tpr", value=share(tpr), variant=view, printed=f"{tpr}%")
    delta = re.search(r"\$([+-])\$\s*([\d.]+)", cell)
    if delta:
        yield replace(
            at,
            column="delta",
            value=number(delta[1] + delta[2]),
            variant=view,
            printed="".join(delta.groups()),
        )


def interval_tables(tex: str) -> Iterator[Figure]:
    for label, generator in (
        ("tab:overall_main_dptransformers", "dpsgd"),
        ("tab:overall_main_EPSVec", "epsvec"),
        ("tab:overall_main_augpe", "augpe"),
    ):
        corpus = ""
        for cells in list(rows_of(tex, label))[1:]:
            corpus = corpus_in(cells[0]) or corpus
            for epsilon, cell in zip(BUDGETS, cells[2:], strict=True):
                at = Figure(label, corpus, "outlier", generator, epsilon, words(cells[1]))
                yield from with_interval(at, cell)


def generator_tables(tex: str) -> Iterator[Figure]:
    """The tables whose first column is a generator: rare pools, and the meta-classifier."""
    for label, pool in (
        ("tab:overall_main_rare", "rare"),
        ("tab:meta-outlier", "outlier"),
        ("tab:meta-outlier-epsvec", "outlier"),
        ("tab:meta-outlier-augpe", "outlier"),
        ("tab:meta-rare", "rare"),
    ):
        generator = corpus = ""
        for cells in list(rows_of(tex, label))[1:]:
            generator = generator_in(cells[0]) or generator
            corpus = corpus_in(cells[1]) or corpus
            budgets = BUDGETS if pool == "outlier" else ("inf", "4", "1")
            for epsilon, cell in zip(budgets, cells[3:], strict=True):
                at = Figure(label, corpus, pool, generator, epsilon, words(cells[2]))
                yield from with_interval(at, cell)


def baselines(tex: str) -> Iterator[Figure]:
    for label, budgets, pools in (
        ("tab:baselines-main", ("inf", "1"), ("outlier", "rare")),
        ("tab:baselines-outlier-rest", ("4", "2", "0.5"), ("outlier",)),
        ("tab:baselines-rare-e4", ("4",), ("rare",)),
    ):
        block = -1
        for cells in rows_of(tex, label):
            if words(cells[0]) == "Dataset":
                block += 1
            if not corpus_in(cells[0]):
                continue
            at = Figure(label, corpus_in(cells[0]), pools[block], generator_in(cells[1]))
            for number_, epsilon in enumerate(budgets):
                four = cells[2 + 4 * number_ : 6 + 4 * number_]
                for method, cell in zip(("canary", "domias", "ours"), four, strict=False):
                    auc, tpr = re.search(r"(0\.\d+).*?(\d+)\\%", cell).groups()
                    one = replace(at, epsilon=epsilon, item=method, variant=variant_in(cell))
                    yield replace(one, column="auc", value=number(auc), printed=auc)
                    yield replace(one, column="tpr", value=share(tpr), printed=f"{tpr}%")
                delta = re.search(r"[+-]\d\.\d+", four[3])[0]
                yield replace(
                    at,
                    epsilon=epsilon,
                    item="ours minus stronger prior attack",
                    column="delta",
                    value=number(delta),
                    printed=delta,
                )


def control_gap(tex: str) -> Iterator[Figure]:
    generator, corpus, label = "", "", "tab:control-dpgen-or"
    for cells in rows_of(tex, label):
        if words(cells[0]) == "Dataset":
            generator = "epsvec" if generator else "dpsgd"
        if words(cells[1]) not in SCENARIOS:
            continue
        corpus = corpus_in(cells[0]) or corpus
        for half, epsilon in enumerate(("inf", "4")):
            at = Figure(label, corpus, "", generator, epsilon, words(cells[1]))
            five = cells[2 + 5 * half : 7 + 5 * half]
            for (pool, column), cell in zip(
                (
                    ("control", "auc"),
                    ("outlier", "auc"),
                    ("outlier", "gap"),
                    ("rare", "auc"),
                    ("rare", "gap"),
                ),
                five,
                strict=True,
            ):
                value, spread = re.search(r"([+-]?0\.\d+).*?\\pm\$?(\d+)", cell).groups()
                yield replace(
                    at,
                    pool=pool,
                    column=column,
                    value=number(value),
                    spread=round(number(spread) / 1000, 6),
                    variant=variant_in(cell),
                    printed=f"{value} ±{spread}" + (" ns" if "{ns}" in cell else ""),
                )


def merged(tex: str) -> Iterator[Figure]:
    corpus = epsilon = ""
    for cells in list(rows_of(tex, "tab:union-scoreboard"))[1:]:
        if corpus_in(cells[0]):
            corpus, epsilon = corpus_in(cells[0]), "inf" if "infty" in cells[0] else "4"
        at = Figure("tab:union-scoreboard", corpus, "union", "dpsgd", epsilon, item=words(cells[1]))
        for column, cell in zip(("outlier", "random"), cells[2:4], strict=True):
            yield replace(at, column=column, value=number(words(cell)), printed=words(cell))
        value, low, high = re.search(r"([+-]\d\.\d+).*?\[([^,]+),([^]]+)\]", cells[4]).groups()
        yield replace(
            at,
            column="delta",
            value=number(value),
            low=number(low),
            high=number(high),
            printed=f"{value} [{low},{high}]",
        )


def distribution(tex: str) -> Iterator[Figure]:
    generator, label = "", "tab:v-distribution-appendix"
    for cells in list(rows_of(tex, label))[1:]:
        generator = generator_in(cells[0]) or generator
        at = Figure(label, corpus_in(cells[1]), "outlier", generator)
        yield replace(at, column="n", value=int(words(cells[2])), printed=words(cells[2]))
        for epsilon, cell in zip(BUDGETS, cells[3:], strict=True):
            positive, top = re.search(r"(\d+)\\,/\\,(\d+)", cell).groups()
            one = replace(at, epsilon=epsilon)
            yield replace(one, column="positive_share", value=share(positive), printed=positive)
            yield replace(one, column="s10", value=share(top), printed=top)


def attributes(tex: str) -> Iterator[Figure]:
    pools = [(c, "outlier") for c in ("psytar", "dmsafn", "n2c2", "eurlex")]
    pools += [(c, "rare") for c in ("psytar", "n2c2", "eurlex")]
    pools += [("all", "random")]
    yield from _by_generator(
        tex,
        "tab:attributes",
        8,
        lambda at, place, cell: [
            replace(
                at,
                corpus=pools[place][0],
                pool=pools[place][1],
                column="rho",
                value=number(re.search(r"[+-]\.\d+", cell)[0]),
                printed=words(cell),
            )
        ],
    )


def selection(tex: str) -> Iterator[Figure]:
    columns = ("significant", "length", "outlierness", "near-duplication", "rare n-gram density")
    columns += ("entity/numeral density", "max |change of rho|")

    def figure(at: Figure, place: int, cell: str) -> list[Figure]:
        if place == 0:
            found, tests = words(cell).split("/")
            return [
                replace(at, column="significant", value=int(found), printed=words(cell)),
                replace(at, column="tests", value=int(tests), printed=words(cell)),
            ]
        return [
            replace(
                at,
                pool="" if place == 6 else "random",
                column=columns[place],
                value=number(words(cell)),
                printed=words(cell),
            )
        ]

    yield from _by_generator(tex, "tab:selection-robustness", 7, figure)


def combined(tex: str) -> Iterator[Figure]:
    rules = ("80% split (paper)", "all episodes", "fixed containment_max", "fixed cos_max")

    def figure(at: Figure, place: int, cell: str) -> list[Figure]:
        rho, p = re.search(r"([+-]\d\.\d+)\$? \((?:\$<\$)?([\d.]+)\)", cell).groups()
        less = "p is below this" if "$<$" in cell else ""
        one = replace(at, pool="random", item=f"{at.item}; {rules[place]}", printed=words(cell))
        return [
            replace(one, column="rho", value=number(rho)),
            replace(one, column="p_holm", value=number(p), note=less),
        ]

    yield from _by_generator(tex, "tab:combined-by-rule", 4, figure)


def _by_generator(
    tex: str, label: str, width: int, figure: Callable[[Figure, int, str], list[Figure]]
) -> Iterator[Figure]:
    """Walk a table whose rows stand under the name of a generator, in italics."""
    generator = ""
    for line in split(body(tex, label), "\\\\"):
        title = re.search(r"\\itshape ([\w-]+)", line)
        generator = GENERATORS[title[1].lower()] if title else generator
        cells = [re.sub(r"\\(mid|bottom)rule", "", cell).strip() for cell in split(line, "&")]
        if title or len(cells) != width + 1 or not generator:
            continue
        name = words(cells[0].replace("$^\\dagger$", "").replace("$n$", "n")).replace("\\_", "_")
        at = Figure(label, generator=generator, item=name.replace(" _", "_").replace("_ ", "_"))
        for place, cell in enumerate(cells[1:]):
            if re.search(r"\d", cell):
                yield from figure(at, place, cell)


def cross_generator(tex: str) -> Iterator[Figure]:
    label = "tab:cross-generator"
    for cells in list(rows_of(tex, label))[1:]:
        name = words(cells[0])
        at = Figure(label, corpus_in(name) or "all", name.split()[-1] if corpus_in(name) else "")
        if words(cells[1]):
            yield replace(at, column="n", value=int(words(cells[1])), printed=words(cells[1]))
        for other, cell in zip(("epsvec", "augpe"), cells[2:], strict=True):
            found = re.search(r"[+-]\d\.\d+", cell)
            if found:
                yield replace(
                    at,
                    generator=f"dpsgd-{other}",
                    column="rho" if corpus_in(name) else "mean rho",
                    value=number(found[0]),
                    printed=words(cell),
                )


TABLES = (
    datasets,
    subgroups,
    main_tables,
    main_rare,
    baselines,
    control_gap,
    merged,
    interval_tables,
    generator_tables,
    distribution,
    attributes,
    selection,
    combined,
    cross_generator,
)
