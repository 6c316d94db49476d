"""From which ε and which size of a release on is a leak found?

`dpsgd`, design `cohort`, N = 500, ε from ∞ down to 1: 200 releases of 8,000 texts, of which the
first 500 and 2,000 are looked at too. 33 outliers, 33 random records and 33 canaries (one copy)
share their releases. ε = 0.1 is the control: what is found there came past the mechanism. Attackers
are the 32 proxies, the families beside them, all signals together, and one who has the model. Every
p-value is of the attacker's own search, Holm over ε; smaller sizes are tested in sequence.

    python benchmarks/frontier.py specs --corpus goemotions.jsonl.gz --to runs/frontier
    python benchmarks/frontier.py report --to runs/frontier     # prints, writes results/
    python benchmarks/frontier.py figure benchmarks/results/frontier-DATE.json

Releases and their evidence are made by studies/paper/slice.py (prepare, make, score, take) with
the spec that `specs` writes. `report` reads the run folders beside the specs, leaves out budgets
that are not complete, and joins the rows of earlier slices (`--beside`). `figure` draws such rows
as README shows them: AUC over ε, a line for each size. `specs --backbone FOLDER --tiny` writes
small specs for a CPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "studies" / "paper"))

import slice as slices

from synthleak.analyses.ladder import model_scores
from synthleak.audit.setup import Setup, generator_of, smaller_cells
from synthleak.audit.steps.measurements import scored_cell
from synthleak.audit.steps.model_rung import model_values
from synthleak.audit.steps.observations import missing_evidence, missing_models, scores_of
from synthleak.audit.steps.releases import held_claim
from synthleak.calibration import Scores
from synthleak.core.cell import LEVEL, Cell
from synthleak.core.spec import dump_toml
from synthleak.evidence.family import families
from synthleak.metrics.measure import measure
from synthleak.metrics.null import holm
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.plan.plan import Plan
from synthleak.report.figures.all_figures import draw
from synthleak.report.figures.figure import Figure

RESULTS = Path(__file__).parent / "results"
CONTROL = 0.1
BUDGETS = (math.inf, 16, 8, 4, 2, 1, CONTROL)
SIZES = (500, 2000, 8000)
SEEDS = {"goemotions": 5, "dmsafn": 1}
DESCRIPTIONS = {
    "goemotions": "short comments from an internet forum",
    "dmsafn": "sentences from financial news",
}
REDRAWS, CROSSFITS = 2000, 19


@dataclass(frozen=True)
class Row:
    """What one attacker reaches in one cell at one size. Signals are all proxies and scenarios.

    `pooled` is the AUC on all coins together, with its chance limit, scenario by scenario.
    """

    corpus: str
    pool: str
    epsilon: float
    texts: int
    releases: int
    attacker: str
    signals: int
    auc: float
    chance_limit: float | None
    crossfit_auc: float | None
    pooled: dict[str, tuple[float, float | None]]
    best_signal: str
    p: float | None
    p_adjusted: float | None
    found: bool
    named: int | None
    epsilon_lower: float | None
    epsilon_largest: float | None
    epsilon_claim: float | None


# ---------------------------------------------------------------------------- specs


def specs(args: argparse.Namespace) -> None:
    """Write the spec of a corpus."""
    args.to.mkdir(parents=True, exist_ok=True)
    corpus: dict[str, Any] = {"reader": "demo", "size": 900}
    name, encoders = "demo", {}
    if args.corpus:
        name = args.corpus.name.partition(".")[0]
        encoders = {"encoders": {"pools": "minilm", "evidence": "static"}}
        path = os.path.relpath(args.corpus.resolve(), args.to.resolve())
        corpus = {"reader": "jsonl", "path": path, "name": name}
        corpus["description"] = DESCRIPTIONS[name]
    targets = 10 if args.tiny else 33
    game = {"instances": 10, "records": 160, "release_size": [20, 40]}
    if not args.tiny:
        game = {"instances": 200, "records": 500, "release_size": list(SIZES)}
    model = {"backbone": args.backbone} if args.backbone else {}
    small = {"rank": 2, "epochs": 1, "batch_size": 8, "max_tokens": 16, "device": "cpu"}
    real = {"batch_size": 16, "max_tokens": 96 if name == "dmsafn" else 64}
    budgets = [math.inf, 16] if args.tiny else BUDGETS
    spec = {
        "seed": SEEDS.get(name, 1),
        "corpus": corpus,
        **encoders,
        "pool": [
            {"name": "outlier", "rule": "outlier", "percentile": 99, "lof": 3, "size": targets},
            {"name": "random", "rule": "random", "match": "outlier", "draws": 1},
            {"name": "canary", "rule": "canary", "size": targets},
        ],
        "game": {"design": "cohort", "adjacency": "add", "share_releases": True, **game},
        "generator": [
            {"kind": "dpsgd", "epsilon": budgets, **model, **(small if args.tiny else real)}
        ],
        "evidence": {"also": list(args.also), "model": True},
        "prior": [],
    }
    (args.to / f"{name}.toml").write_text(dump_toml(spec), encoding="utf-8")
    print(f"wrote {args.to / name}.toml; its run folder is {args.to / name}")


# ---------------------------------------------------------------------------- what was found


def report(args: argparse.Namespace) -> None:
    """Measure every attacker on every cell that is complete; print, and write the rows."""
    jobs = []
    for spec in sorted(args.to.glob("*.toml")):
        run = args.to / spec.stem
        if not run.is_dir():
            continue
        setup = slices.read(spec, run)
        for position, cell in enumerate(setup.cells):
            if complete(setup, cell):
                jobs.append((spec, run, position, args.redraws))
            else:
                print(f"{spec.stem}: {slices.title(cell)} is not complete, left out", flush=True)
    with ProcessPoolExecutor(args.workers) as pool:
        rows = [row for of_cell in pool.map(measured, jobs) for row in of_cell]
    here = {(row.corpus, row.pool, row.epsilon) for row in rows}
    earlier = [
        read_row(row) for file in args.beside for row in json.loads(file.read_text())["rows"]
    ]
    rows += [row for row in earlier if (row.corpus, row.pool, row.epsilon) not in here]
    rows = adjusted(rows)
    for line in table(rows):
        print(line)
    made = {
        "date": datetime.now(UTC).date().isoformat(),
        "redraws": args.redraws,
        "machine": slices.machine(),
        "frontier": frontier(rows),
        "rows": [{**asdict(row), "epsilon": written(row.epsilon)} for row in rows],
    }
    out = args.out or RESULTS / f"frontier-{made['date']}.json"
    out.write_text(json.dumps(made, indent=1, default=written) + "\n", encoding="utf-8")
    print(f"wrote {out}")


# ---------------------------------------------------------------------------- the figure

FIGURE = Path(__file__).parents[1] / "studies" / "paper" / "results" / "frontier.svg"
POOLS = {"outlier": "unusual records", "random": "random records", "canary": "canaries"}
MODEL = "the model itself"


def figure(args: argparse.Namespace) -> None:
    """Draw AUC over ε, a panel for each corpus and pool and a line for each size of a release."""
    rows = {  # of two files, the later one counts
        (row.corpus, row.pool, row.epsilon, row.texts, row.attacker): row
        for file in args.files
        for row in map(read_row, json.loads(file.read_text())["rows"])
    }
    shown = [row for row in rows.values() if row.attacker in (args.attacker, "model")]
    args.to.write_bytes(draw(drawing(shown), "svg"))
    print(f"wrote {args.to}: {len(shown)} points")


def drawing(rows: Sequence[Row]) -> Figure:
    """Return the figure; AUC is drawn on a root scale, which keeps small leaks visible."""
    sizes = sorted({row.texts for row in rows if row.attacker != "model"})
    series = [*(f"{size:,} texts" for size in sizes), MODEL]
    budgets = [shown_budget(e) for e in sorted({row.epsilon for row in rows}, reverse=True)]
    panels = [
        f"{corpus}, {name}"
        for corpus in dict.fromkeys(row.corpus for row in rows)
        for pool, name in POOLS.items()
        if any((row.corpus, row.pool) == (corpus, pool) for row in rows)
    ]
    data = [
        {
            "panel": f"{row.corpus}, {POOLS[row.pool]}",
            "epsilon": shown_budget(row.epsilon),
            "series": MODEL if row.attacker == "model" else f"{row.texts:,} texts",
            "gain": max(row.auc - 0.5, 0.0),
            "limit": None if row.chance_limit is None else max(row.chance_limit - 0.5, 0.0),
            "found": row.found,
        }
        for row in rows
    ]
    auc = {
        "type": "quantitative",
        "title": "AUC (tick: chance limit)",
        "scale": {"type": "sqrt", "domain": [0, 1.05 * max(row["gain"] for row in data)]},
        "axis": {
            "values": [0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5],
            "labelExpr": "format(datum.value + 0.5, '.2f')",
            "labelOverlap": False,
        },
    }
    last = len(sizes)
    of_series = {"field": "series", "type": "nominal", "title": "published:"}
    hues = [*("$first", "$second", "$third", "$fourth")[:last], "$muted"]
    shapes = [*("circle", "square", "triangle-up", "cross")[:last], "diamond"]
    legend = {"symbolOpacity": 1}  # and not that of the lines
    colour = {**of_series, "scale": {"domain": series, "range": hues}, "legend": legend}
    point = {
        "y": {**auc, "field": "gain"},
        "color": colour,
        "shape": {**of_series, "scale": {"domain": series, "range": shapes}},
    }
    dot = {"type": "point", "opacity": 1}
    panel = {
        "height": 240,
        "encoding": {
            "x": {
                "field": "epsilon",
                "type": "ordinal",
                "title": "privacy budget ε",
                "scale": {"domain": budgets},
                "axis": {"labelAngle": 0},
            },
            "xOffset": {"field": "series", "type": "nominal", "scale": {"domain": series}},
        },
        "layer": [
            {
                "mark": {"type": "line", "opacity": 0.4},
                "encoding": {"y": point["y"], "color": colour},
            },
            {
                "mark": {"type": "tick", "color": "$muted", "thickness": 2, "size": 9},
                "encoding": {"y": {**auc, "field": "limit"}},
            },
            {
                "transform": [{"filter": "!datum.found"}],
                "mark": {**dot, "size": 55, "fill": "$paper"},
                "encoding": point,
            },
            {
                "transform": [{"filter": "datum.found"}],
                "mark": {**dot, "size": 80, "filled": True},
                "encoding": point,
            },
        ],
    }
    spec = {
        "usermeta": {"panels": {"count": len(panels), "least": 200, "gutter": 30, "margin": 48}},
        "data": {"values": data},
        "facet": {"field": "panel", "type": "nominal", "title": None, "sort": panels},
        "columns": len(panels),
        "spec": panel,
    }
    title = (
        "What an attacker learns, by privacy budget and texts published (filled: a leak was found)"
    )
    return Figure("frontier", title, title, spec)


def shown_budget(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"


def read_row(content: dict[str, Any]) -> Row:
    """Read a row that an earlier slice has written."""
    return Row(**{**content, "epsilon": float(content["epsilon"])})


def complete(setup: Setup, cell: Cell) -> bool:
    """Say whether releases and evidence of a cell are all there."""
    alone = replace(setup, cells=(cell,))
    if slices.made(setup, cell) < len(slices.wanted_sets(setup, cell)):
        return False
    return not (missing_evidence(alone) or missing_models(alone))


def measured(job: tuple[Path, Path, int, int]) -> list[Row]:
    """Measure every attacker on one cell, at every size of its releases."""
    spec, run, position, redraws = job
    setup = slices.read(spec, run)
    cell, start = setup.cells[position], time.monotonic()
    rows = []
    for part in (cell, *smaller_cells(setup, cell)):
        whole = scored_cell(setup, part)
        for attacker, tables in attackers(setup, part, whole.plan).items():
            game = ScoredCell(tables, whole.design, whole.plan, whole.game, whole.name)
            one = measure(
                game,
                held_claim(setup, part),
                redraws=redraws,
                crossfit_redraws=CROSSFITS,
                spreads=False,
            )
            pooled = {row.scenario: row.pooled for row in one.rows}
            best = max(one.rows, key=lambda row: row.auc.value)
            signals = [(t.scenario, proxy.name) for t in tables for proxy in t.proxies]
            bound = one.epsilon
            rows.append(
                Row(
                    corpus=cell.corpus,
                    pool=cell.pool,
                    epsilon=cell.epsilon,
                    texts=part.size or setup.plans[cell.pool].release_size,
                    releases=len(slices.wanted_sets(setup, cell)),
                    attacker=attacker,
                    signals=len(signals),
                    auc=best.auc.value,
                    chance_limit=best.auc.null,
                    crossfit_auc=None if one.crossfit is None else one.crossfit.value,
                    pooled={name: (auc.value, auc.null) for name, auc in pooled.items()},
                    best_signal=" ".join(signals[best.signal]),
                    p=one.p,
                    p_adjusted=None,
                    found=False,
                    named=one.named,
                    epsilon_lower=None if bound is None else bound.lower,
                    epsilon_largest=None if bound is None else bound.largest,
                    epsilon_claim=one.epsilon_claim,
                )
            )
    print(f"{spec.stem}: {slices.title(cell)} in {time.monotonic() - start:.0f} s", flush=True)
    return rows


def attackers(setup: Setup, cell: Cell, plan: Plan) -> dict[str, list[Scores]]:
    """Return the scores of each attacker: the 32 proxies, each family beside them, all, the model.

    Who has the model has it whatever was published, so it counts once.
    """
    every = scores_of(setup, cell)
    built_in = {entry.name for entry in families}
    beside = dict.fromkeys(p.family for p in every[0].proxies if p.family not in built_in)
    tables = {"32 proxies": [of_families(table, built_in) for table in every]}
    tables |= {name: [of_families(table, {name}) for table in every] for name in beside}
    tables |= {"all": every} if beside else {}
    if cell.size is None:
        columns = generator_of(setup, cell).score_columns
        tables["model"] = [model_scores(model_values(setup, cell), plan, columns)]
    return tables


def of_families(table: Scores, names: set[str]) -> Scores:
    """Return the columns of some families."""
    kept = [n for n, proxy in enumerate(table.proxies) if proxy.family in names]
    return Scores(table.scenario, table.values[:, :, kept], tuple(table.proxies[n] for n in kept))


def adjusted(rows: Sequence[Row]) -> list[Row]:
    """Adjust p over the budgets by Holm at every size, and from the largest size down."""
    made = list(rows)
    for corpus, pool, attacker in dict.fromkeys((r.corpus, r.pool, r.attacker) for r in rows):
        larger: dict[float, float] = {}
        own = [
            n
            for n, r in enumerate(rows)
            if (r.corpus, r.pool, r.attacker) == (corpus, pool, attacker)
        ]
        for texts in sorted({rows[n].texts for n in own}, reverse=True):
            places = [n for n in own if rows[n].texts == texts]
            for n, p in zip(places, holm([rows[n].p for n in places]), strict=True):
                in_turn = 1.0 if p is None else max(p, larger.get(rows[n].epsilon, 0.0))
                larger[rows[n].epsilon] = in_turn
                made[n] = replace(rows[n], p_adjusted=in_turn, found=in_turn <= LEVEL)
    return made


def frontier(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return, for each pool, size and attacker, the smallest ε found and with a bound above 0."""
    made = []
    groups = dict.fromkeys((r.corpus, r.pool, r.attacker, r.texts) for r in rows)
    for corpus, pool, attacker, texts in groups:
        own = [
            r
            for r in rows
            if (r.corpus, r.pool, r.attacker, r.texts) == (corpus, pool, attacker, texts)
        ]
        found = [row.epsilon for row in own if row.found]
        bound = [row.epsilon for row in own if (row.epsilon_lower or 0.0) > 0]
        made.append(
            {
                "corpus": corpus,
                "pool": pool,
                "attacker": attacker,
                "texts": texts,
                "budgets": [written(row.epsilon) for row in own],
                "smallest_found": written(min(found)) if found else None,
                "smallest_with_a_bound": written(min(bound)) if bound else None,
            }
        )
    return made


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Write the rows as lines, the frontier after them."""
    yield "corpus      pool     ε     texts  attacker     AUC    limit  S1     S3     p      bound"
    for row in rows:
        s1, s3 = (row.pooled.get(name, (None, None))[0] for name in ("S1", "S3"))
        yield (
            f"{row.corpus:<11} {row.pool:<8} {written(row.epsilon)!s:<5} {row.texts:>5}"
            f"  {row.attacker:<12} {row.auc:.3f}  {shown(row.chance_limit)}"
            f"  {shown(s1)}  {shown(s3)}"
            f"  {shown(row.p_adjusted)}  {shown(row.epsilon_lower)}"
        )
    for line in frontier(rows):
        yield (
            f"{line['corpus']} {line['pool']}, {line['texts']} texts, {line['attacker']}:"
            f" found down to ε = {line['smallest_found'] or 'none'}, a bound above 0 down to"
            f" {line['smallest_with_a_bound'] or 'none'}"
        )


def shown(value: float | None) -> str:
    return "–    " if value is None else "∞    " if math.isinf(value) else f"{value:.3f}"


def written(value: Any) -> Any:
    """Write ∞ as JSON and tables have it."""
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True, metavar="STEP")
    one = steps.add_parser("specs", help=specs.__doc__)
    one.add_argument("--corpus", type=Path, help="JSON Lines; the demo without it")
    one.add_argument("--also", nargs="*", default=[], help="families beside the 32 proxies")
    one.add_argument("--backbone", help="SmolLM2 without it")
    one.add_argument("--tiny", action="store_true", help="a dry run on a CPU")
    two = steps.add_parser("report", help=report.__doc__)
    two.add_argument("--redraws", type=int, default=REDRAWS)
    two.add_argument("--workers", type=int, default=slices.available_cores())
    two.add_argument("--out", type=Path)
    two.add_argument("--beside", type=Path, nargs="*", default=[], help="rows of earlier slices")
    three = steps.add_parser("figure", help=figure.__doc__)
    three.add_argument("files", type=Path, nargs="+", help="what `report` wrote")
    three.add_argument("--attacker", default="all", help="whose AUC, beside that with the model")
    three.add_argument("--to", type=Path, default=FIGURE)
    three.set_defaults(does=figure)
    for step, does in ((one, specs), (two, report)):
        step.add_argument("--to", type=Path, required=True)
        step.set_defaults(does=does)
    args = parser.parse_args()
    args.does(args)


if __name__ == "__main__":
    main()
