"""Put each claim of the paper beside ours by the same formula, and beside chance.

    python claims.py        writes results/claims.csv and results/claims.md

Reads what lies in `results` (tables, `beside.csv`, `chance.csv`) and published.csv: no run folder.
The table of claims.md is the first table of findings.md.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from statistics import mean, median

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SHORT = ("psytar", "dmsafn")
"""The paper's corpora that stand beside ours in `lone`."""
Rows = list[dict[str, str]]


@dataclass(frozen=True)
class Claim:
    """One statistic of a claim: the paper's, ours by its formula, what chance gives, a verdict."""

    claim: int
    statistic: str
    paper: str
    ours: str
    chance: str
    verdict: str


@cache
def table(path: str) -> Rows:
    """Return the rows of a CSV file of the study."""
    with (HERE / path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def rows(path: str, **wanted: str | Sequence[str]) -> Rows:
    """Return the rows whose columns are as wanted; a sequence allows any of its values."""
    allowed = {key: (value,) if isinstance(value, str) else value for key, value in wanted.items()}
    return [row for row in table(path) if all(row[key] in allowed[key] for key in allowed)]


def column(found: Rows, name: str) -> list[float]:
    return [float(row[name]) for row in found if row.get(name)]


def published(table_: str, name: str, **wanted: str | Sequence[str]) -> list[float]:
    return column(rows("published.csv", table=table_, column=name, **wanted), "value")


def beside(**wanted: str | Sequence[str]) -> Rows:
    """Return our cells of design `lone`, a row per attacker."""
    return [row for row in rows("results/beside.csv", **wanted) if "-cohort" not in row["run"]]


def chance(statistic: str, name: str = "mean", **wanted: str | Sequence[str]) -> list[float]:
    return column(rows("results/chance.csv", statistic=statistic, **wanted), name)


def signed(value: float, digits: int = 2) -> str:
    """Write a difference with its sign.

    >>> signed(-0.0512), signed(-0.0001, 3)
    ('−0.05', '+0.000')
    """
    return f"{round(value, digits) + 0:+.{digits}f}".replace("-", "−")


def span(values: Sequence[float], write: Callable[[float], str] = "{:.2f}".format) -> str:
    """Write the smallest and the largest of some values.

    >>> span([0.5, 0.704, 0.6]), span([0.1, 0.101])
    ('0.50 to 0.70', '0.10')
    """
    ends = [write(min(values)), write(max(values))]
    return " to ".join(dict.fromkeys(ends))


def share(value: float) -> str:
    return f"{100 * value:.0f}%"


SELECTED = ("outlier", "rare")
FINITE = ("4", "2", "1", "0.5")


def first() -> Iterator[Claim]:
    """Without privacy the generators leak."""
    at = {"pool": "outlier", "epsilon": "inf", "generator": "dpsgd"}
    theirs = {"corpus": SHORT, **at}
    limit = column(beside(**at), "chance_auc"), column(beside(**at), "chance_tpr")
    means = chance("best AUC", pool="outlier"), chance("TPR of the best at 5% FPR", pool="outlier")
    yield Claim(
        *(1, "best AUC at ∞, outliers, `dpsgd`"),
        span(published("tab:main_dpgen", "auc", **theirs)),
        span(column(beside(**at), "auc")),
        f"mean {span(means[0])}, 95% below {span(limit[0])}",
        "holds",
    )
    yield Claim(
        *(1, "TPR at 5% FPR of that proxy"),
        span(published("tab:main_dpgen", "tpr", **theirs), share),
        span(column(beside(**at), "tpr"), share),
        f"mean {span(means[1], share)}, 95% below {span(limit[1], share)}",
        "holds",
    )
    at["generator"] = theirs["generator"] = "epsvec"
    yield Claim(
        *(1, "best AUC at ∞, outliers, `epsvec`"),
        span(published("tab:main_epsvec", "auc", **theirs)),
        span(column(beside(**at), "auc")),
        f"mean {span(means[0])}, 95% below {span(column(beside(**at), 'chance_auc'))}",
        "cannot be told",
    )


def best(found: Rows, name: str) -> float:
    """Return the mean over cells of the best attacker."""
    cells: dict[tuple[str, ...], list[float]] = {}
    for row in found:
        key = (row["corpus"], row["pool"], row["generator"], row["epsilon"])
        cells.setdefault(key, []).append(float(row[name]))
    return mean(max(values) for values in cells.values())


def second() -> Iterator[Claim]:
    """DP suppresses leakage."""
    paper = [
        best(
            rows("published.csv", table="tab:main_dpgen", column="auc", epsilon=e, corpus=SHORT),
            "value",
        )
        for e in ("inf", FINITE)
    ]
    at = {"pool": "outlier", "generator": "dpsgd"}
    ours = [best(beside(epsilon=e, **at), "auc") for e in ("inf", FINITE)]
    tops = [
        max(
            chance("best AUC", pool="outlier", corpus=corpus, scenario=name)[0]
            for name in ("S1", "S2", "S3")
        )
        for corpus in ("goemotions", "dmsafn")
    ]
    yield Claim(
        *(2, "best attacker's AUC at ∞ and on average at finite ε, outliers, `dpsgd`"),
        " → ".join(f"{value:.2f}" for value in paper),
        " → ".join(f"{value:.2f}" for value in ours),
        f"mean {span(tops)} (best of 32 proxies of one attacker)",
        "holds; what is left is what chance gives",
    )


def third() -> Iterator[Claim]:
    """Some leakage remains at every budget."""
    found = [row for row in beside(pool=SELECTED, epsilon=FINITE) if row["paper_auc"]]
    limits = column(found, "chance_auc")

    def passing(name: str) -> int:
        values = column(found, name)
        return sum(v > limit for v, limit in zip(values, limits, strict=True))

    yield Claim(
        *(3, f"best AUC at ε = 4 and 1, selected pools, {len(found)} rows of three attackers"),
        f"{span(column(found, 'paper_auc'))}; {passing('paper_auc')} pass our limits",
        f"{span(column(found, 'auc'))}; {passing('auc')} pass",
        f"95% below {span(limits)}: {0.05 * len(found):.0f} pass on average",
        "not beyond chance",
    )
    yield Claim(
        *(3, "largest TPR at 5% FPR in these rows"),
        share(max(column(found, "paper_tpr"))),
        share(max(column(found, "tpr"))),
        f"one row: 95% below {span(column(found, 'chance_tpr'), share)}",
        "not beyond chance",
    )


def spread_rows(design: str) -> dict[str, list[tuple[float, float]]]:
    """Return (positive share, S10) by the paper's V, of `dpsgd` on outliers, by budget."""
    made: dict[str, list[tuple[float, float]]] = {"∞": [], "finite": []}
    for row in rows(f"results/tables{design}/distribution.csv", part="the paper's V"):
        if row["Generator"] != "dpsgd" or "rare" in row["Dataset"] or "canary" in row["Dataset"]:
            continue
        for name, value in row.items():
            if name.endswith("paper_positive_share") and value:
                budget = name.split()[2]
                pair = float(value), float(row[f"ε = {budget} paper_s10"])
                made["∞" if budget == "∞" else "finite"].append(pair)
    return made


def fourth() -> Iterator[Claim]:
    """A tenth of the records carries 40% of what remains."""
    tables = {design: spread_rows(design) for design in ("", "-cohort")}
    for place, statistic, name in (
        (1, "S10 at ∞ → at finite ε, medians, `dpsgd`, outliers", "s10"),
        (0, "share of records with V > 0, the same", "positive_share"),
    ):
        theirs = [
            published("tab:v-distribution-appendix", name, generator="dpsgd", epsilon=e)
            for e in ("inf", FINITE)
        ]
        ours = [
            " → ".join(share(median(pair[place] for pair in made[b])) for b in made)
            for made in tables.values()
        ]
        of = ("S10 of the paper's V", "share of records with V > 0, the paper's V")[1 - place]
        ends = [*chance(of, "low", pool="outlier"), *chance(of, "high", pool="outlier")]
        yield Claim(
            *(4, statistic),
            " → ".join(share(median(values)) for values in theirs),
            f"`lone` {ours[0]}, `cohort` {ours[1]}",
            f"`lone`: mean {span(chance(of, pool='outlier'), share)} ({span(ends, share)})",
            "the level under DP is what chance gives",
        )


def gaps(budgets: Sequence[str]) -> list[tuple[str, str, str, float, float]]:
    """Return (generator, pool, budget, gap, spread) of every attacker's gap in `lone`."""
    made = []
    for row in table("results/tables/control_gap.csv"):
        if row["Cal."] == "all":
            continue
        for budget in budgets:
            for pool in ("Outlier", "Rare-label"):
                name = f"ε = {budget} {pool} gap gap"
                if row.get(name):
                    values = float(row[name]), float(row[f"{name}_spread"])
                    made.append((row["part"], pool, budget, *values))
    return made


def counted(pairs: Sequence[tuple[float, float]]) -> str:
    """Say how many gaps are positive, and of how many the interval excludes 0."""
    up = sum(gap > 0 for gap, _ in pairs)
    sure = sum(gap > spread for gap, spread in pairs)
    values = span([gap for gap, _ in pairs], signed)
    return f"{up} of {len(pairs)} positive, {sure} “significant” ({values})"


def printed_gaps(**wanted: str | Sequence[str]) -> list[tuple[float, float]]:
    found = rows("published.csv", table="tab:control-dpgen-or", column="gap", **wanted)
    return list(zip(column(found, "value"), column(found, "spread"), strict=True))


def false_alarms(pool: str | Sequence[str]) -> str:
    """Say how often chance alone gives such a gap."""
    alarms = {
        counted: chance("gap to the controls", "share", pool=pool, counted=counted)
        for counted in ("positive, interval excludes 0", "interval excludes 0")
    }
    one, both = alarms.values()
    return f"“significant” and positive in {share(mean(one))} (either sign {share(mean(both))})"


def fifth() -> Iterator[Claim]:
    """Under DP selected records leak more than random ones."""
    ours = [gap[3:] for gap in gaps("4") if gap[:2] == ("dpsgd", "Outlier")]
    drift = mean(chance("gap to the controls", pool="outlier"))
    at = {"statistic": "gaps of several attackers", "pool": "outlier"}
    three, two = (
        column(rows("results/chance.csv", scenario=name, **at), "share")
        for name in ("S1 S2 S3", "S1 S2")
    )
    six = f"six of six in {share(math.prod(three))}, or {share(mean(two) ** 3)} for three corpora"
    yield Claim(
        *(5, "gap to the random pools, outliers, `dpsgd`, ε = 4"),
        counted(printed_gaps(generator="dpsgd", pool="outlier", epsilon="4")),
        counted(ours),
        f"{false_alarms('outlier')}; {six}; mean {signed(drift)}",
        "**the number is reproduced, the inference is not**",
    )
    yield Claim(
        *(5, "the same, all selected pools, `dpsgd` and `epsvec`, finite ε"),
        counted(printed_gaps(epsilon="4")),
        counted([gap[3:] for gap in gaps(("4", "1"))]),
        false_alarms(SELECTED),
        "**the number is reproduced, the inference is not**",
    )
    yield Claim(
        *(5, "the same at ∞, outliers, `dpsgd`"),
        counted(printed_gaps(generator="dpsgd", pool="outlier", epsilon="inf")),
        counted([gap[3:] for gap in gaps("∞") if gap[:2] == ("dpsgd", "Outlier")]),
        "as above",
        "mixed there, mixed here",
    )
    for measure, name, verdict in (
        ("AUC", "AUC", "S1: not beyond chance, which is not centred at 0; S2, S3: see below"),
        ("TPR", "TPR at 5% FPR", "GoEmotions at ∞ alone passes: outliers leak less"),
    ):
        theirs = rows("published.csv", table="tab:union-scoreboard", column="delta", item=measure)
        mine = rows("results/tables-cohort/merged.csv", Measure=measure)
        yield Claim(
            *(5, f"merged pools, shared negatives: {name} of outliers less random records"),
            ", ".join(
                f"{row['corpus']} {budget}: {signed(float(row['value']), 3)}"
                for row in theirs
                for budget in [row["epsilon"].replace("inf", "∞")]
            ),
            ", ".join(f"{cell_of(row)}: {signed(float(row['Δ delta']), 3)}" for row in mine),
            "95% within " + ", ".join(map(band_of, mine)),
            verdict,
        )


def cell_of(row: Mapping[str, str]) -> str:
    """Return corpus and budget of a merged cell.

    >>> cell_of({"Cell": "dmsafn, dpsgd, ε = 16: outlier − rand0"})
    'dmsafn 16'
    """
    corpus, _, budget = row["Cell"].partition(":")[0].split(", ")
    return f"{corpus} {budget.removeprefix('ε = ')}"


def band_of(row: Mapping[str, str]) -> str:
    return f"[{', '.join(signed(float(row[f'without a leak {end}'])) for end in ('low', 'high'))}]"


def sixth() -> Iterator[Claim]:
    """DP removes more leakage from random records."""

    def printed(corpus: str, scenario: str) -> float:
        (without,), (private,) = (
            printed_gaps(
                **{"generator": "dpsgd", "pool": "outlier", "corpus": corpus},
                **{"epsilon": epsilon, "scenario": scenario},
            )
            for epsilon in ("inf", "4")
        )
        return without[0] - private[0]

    theirs = [printed(c, s) for c in ("psytar", "n2c2", "eurlex") for s in ("S1", "S2")]
    found: dict[str, dict[tuple[str, str], float]] = {"∞": {}, "4": {}}
    for row in table("results/tables/control_gap.csv"):
        if row["part"] == "dpsgd" and row["Cal."] != "all":
            for budget, kept in found.items():
                if value := row[f"ε = {budget} Outlier gap gap"]:
                    kept[row["Dataset"], row["Cal."]] = float(value)
    ours = [value - found["4"][key] for key, value in found["∞"].items()]
    drift = mean(chance("gap to the controls", pool="outlier"))
    yield Claim(
        *(6, "gap at ∞ less gap at ε = 4 (what DP removes from outliers less from random records)"),
        f"{sum(v < 0 for v in theirs)} of {len(theirs)} negative ({span(theirs, signed)})",
        f"{sum(v < 0 for v in ours)} of {len(ours)} negative ({span(ours, signed)})",
        f"the gap at ε = 4 is {signed(drift)} by chance, which makes the difference negative",
        "follows from claim 5; tested in `cohort` below",
    )


RULES = ("80% split", "all episodes")
ATTRIBUTES = {
    "length": "differs: shorter records leak more here",
    "outlierness": "agrees; other rules, budgets or the paper's V undo it",
    "near-duplication": "agrees; the same",
}
"""The verdict on each."""


def seventh() -> Iterator[Claim]:
    """No attribute predicts who leaks."""
    for name, verdict in ATTRIBUTES.items():
        theirs = [
            published("tab:combined-by-rule", "rho", generator="dpsgd", item=f"{name}; {rule}")
            for rule in ("80% split (paper)", "all episodes")
        ]
        ours = [
            rows(f"results/tables{design}/combined.csv", block="dpsgd", Attribute=name)[0]
            for design in ("-cohort", "")
        ]
        paper_v = rows(
            "results/tables-cohort/attributes.csv",
            **{"part": "the paper's V", "block": "dpsgd", "Attribute": name},
        )
        of_paper = float(paper_v[0]["Random pools combined ρ rho"])
        count = int(paper_v[0]["Random pools combined ρ records"])
        reach = math.tanh(
            1.96 / math.sqrt(count - 3 * int(paper_v[0]["Random pools combined ρ pools"]))
        )
        both = ", ".join(
            f"`{design}` {', '.join(signed(float(row[f'{rule} rho'])) for rule in RULES)}"
            for design, row in zip(("cohort", "lone"), ours, strict=True)
        )
        tested = float(ours[0]["all episodes p_holm"])
        yield Claim(
            *(7, f"ρ of {name} with V, random pools, `dpsgd`: chosen on 80%, on all episodes"),
            ", ".join(signed(value[0]) for value in theirs),
            f"{both}; by the paper's V (80%, `cohort`) {signed(of_paper)}",
            f"95% within ±{reach:.2f} (`cohort`); Holm p {_p(tested)} on all episodes",
            verdict,
        )


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def eighth() -> Iterator[Claim]:
    """Who leaks does not carry over to another generator."""
    theirs = published("tab:cross-generator", "rho", generator="dpsgd-epsvec")
    found = [row for row in table("results/second/tables/cross_generator.csv") if row["n records"]]
    ours = column(found, "vs. epsvec rho")
    ends = [*column(found, "vs. epsvec null_low"), *column(found, "vs. epsvec null_high")]
    yield Claim(
        *(8, "mean ρ of V, `dpsgd` and `epsvec`, over pools"),
        f"{signed(mean(theirs))} ({span(theirs, signed)}, {len(theirs)} pools)",
        f"{signed(mean(ours))} ({span(ours, signed)}, {len(ours)} pools)",
        f"one pool: 95% from {span(ends, signed)}",
        "agrees; V of `epsvec` is noise, so nothing could carry over",
    )
    theirs = published("tab:cross-generator", "rho", generator="dpsgd-augpe")
    mine = rows("results/dpsgd-augpe.csv", epsilon="inf", scenario="S3", by="first")
    ours, paper_v = column(mine, "rho"), column(mine, "rho_paper")
    yield Claim(
        *(8, "the same, `dpsgd` and `augpe`, by the proxy of `dpsgd`"),
        f"{signed(mean(theirs))} ({span(theirs, signed)}, {len(theirs)} pools)",
        f"{signed(mean(ours))} ({span(ours, signed)}, {len(ours)} pools, `cohort`, ∞)"
        + (f"; by the paper's V {signed(mean(paper_v))}" if paper_v else ""),
        "one pool of 50: 95% from −0.28 to +0.28",
        "agrees; by the nearest text, short records lead under both",
    )


def ninth() -> Iterator[Claim]:
    """Prior attacks fall short."""
    theirs = [
        value
        for name in ("main", "outlier-rest", "rare-e4")
        for value in published(f"tab:baselines-{name}", "delta")
    ]
    ours = [
        float(value)
        for row in table("results/tables/prior.csv")
        for name, value in row.items()
        if name.endswith("Δ delta") and value
    ]
    lead = rows("results/chance.csv", statistic="ours less the better prior attack", pool=SELECTED)
    often, level = mean(column(lead, "share")), mean(column(lead, "mean"))
    yield Claim(
        *(9, "cells of selected pools in which ours has the higher AUC"),
        f"{sum(v > 0 for v in theirs)} of {len(theirs)}, mean lead {signed(mean(theirs), 3)}",
        f"{sum(v > 0 for v in ours)} of {len(ours)} (`lone`), mean lead {signed(mean(ours), 3)}",
        f"{share(often)} of cells, mean lead {signed(level, 3)}",
        "the count says nothing: ours is the best of more signals",
    )


def tenth() -> Iterator[Claim]:
    """Side information does not help."""
    found = beside(pool=SELECTED)
    by_cell: dict[tuple[str, ...], dict[str, float]] = {}
    for row in found:
        key = (row["corpus"], row["pool"], row["generator"], row["epsilon"])
        by_cell.setdefault(key, {})[row["scenario"]] = float(row["auc"])
    quoted = [
        row
        for row in rows("published.csv", table="text")
        if row["item"].startswith("results: shift of the best AUC from S1")
    ]
    for name, theirs in zip(("S2", "S3"), column(quoted, "value"), strict=True):
        moved = [aucs[name] - aucs["S1"] for aucs in by_cell.values()]
        drift = chance(f"best AUC, {name} less S1", pool=SELECTED)
        yield Claim(
            *(10, f"best AUC, {name} less S1, mean over settings"),
            f"{signed(theirs, 3)} (60 settings)",
            f"{signed(mean(moved), 3)} ({len(moved)} settings, `lone`)",
            f"{signed(mean(drift), 3)}: the best of noisier scores",
            "raw records add nothing to what chance adds"
            if name == "S2"
            else "cannot be told with four references; with 99 it helps (`cohort`)",
        )


def eleventh() -> Iterator[Claim]:
    """Fusing proxies does not help."""
    theirs = [
        (float(row["value"]), row["epsilon"])
        for row in rows("published.csv", column="delta")
        if row["table"].startswith("tab:meta")
    ]
    ours = [
        (float(value), name.split()[2])
        for file in ("meta_outlier", "meta_rare")
        for row in table(f"results/second/tables/{file}.csv")
        for name, value in row.items()
        if name.endswith("oracle_delta") and value
    ]

    def said(pairs: Sequence[tuple[float, str]]) -> str:
        finite = [value for value, epsilon in pairs if epsilon not in ("inf", "∞")]
        return (
            f"wins in {sum(v > 0 for v, _ in pairs)} of {len(pairs)}, mean"
            f" {signed(mean(v for v, _ in pairs), 3)}; at finite ε {signed(mean(finite), 3)}"
        )

    level = 0.5 - mean(chance("best AUC", pool=SELECTED))
    yield Claim(
        *(11, "AUC of the meta-classifier less that of the best proxy in hindsight"),
        said(theirs),
        f"{said(ours)} (`lone`, selected pools)",
        f"{signed(level, 3)}, if the fusion has 0.5",
        "what chance gives where nothing leaks",
    )


CLAIMS: Mapping[str, Callable[[], Iterator[Claim]]] = {
    (make.__doc__ or "").rstrip("."): make
    for make in (
        *(first, second, third, fourth, fifth, sixth),
        *(seventh, eighth, ninth, tenth, eleventh),
    )
}


def page(claims: Sequence[Claim]) -> str:
    """Write the claims as one Markdown table, each under its name."""
    heads = ("statistic", "paper", "ours, by its formula", "what chance gives", "verdict")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for number, title in enumerate(CLAIMS, start=1):
        name = f"{number}. {title}"
        lines.append(f"| [**{name}**](#{anchor(name)}) | | | | |")
        for one in (claim for claim in claims if claim.claim == number):
            lines.append(f"| {' | '.join([*asdict(one).values()][1:])} |")
    return "\n".join(lines) + "\n"


def anchor(heading: str) -> str:
    """Return what a heading is called in an address.

    >>> anchor("4. A tenth of the records carries 40% of what remains")
    '4-a-tenth-of-the-records-carries-40-of-what-remains'
    """
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


def main(argv: Sequence[str] | None = None) -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=RESULTS)
    given = parser.parse_args(argv)
    claims = [claim for make in CLAIMS.values() for claim in make()]
    with (given.to / "claims.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Claim)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(claim) for claim in claims)
    (given.to / "claims.md").write_text(page(claims), encoding="utf-8")
    print(f"{given.to / 'claims.md'}: {len(claims)} statistics of {len(CLAIMS)} claims")


if __name__ == "__main__":
    main()
