"""How fast a large report is in a real browser, and how big its file.

A small audit is run, and the data of its page multiplied to 60 cells of 96 signals and 5,000
records, with noise on every number so that it compresses no better than real data. Each record is
in one of four pools, hence in 15 cells: 75,000 rows; then all are put into every pool: 300,000. The
bounds are 2 seconds until a square of the map has been clicked and its cell is open, and 8 MB.
Other tools' pages show summary numbers only, so there is no peer to compare with.

    python benchmarks/report.py [--runs 5] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from synthleak import Runtime, run
from synthleak.analyses.cells import RecordRow
from synthleak.core.cell import Cell
from synthleak.core.runtime import available_cores
from synthleak.core.seeds import stream
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.metrics.curves import SortedV
from synthleak.report.html import render
from synthleak.report.results import Results

GENERATORS, POOLS = ("dpsgd", "augpe", "epsvec"), ("outlier", "rare", "random-1", "random-2")
BUDGETS = (math.inf, 4.0, 2.0, 1.0, 0.5)
RECORDS, SECONDS, MEGABYTES = 5000, 2.0, 8.0
RNG = stream(1, "report benchmark")
SPEC: dict[str, Any] = {
    "corpus": {"reader": "demo", "size": 200},
    "encoders": {"pools": "hashing", "evidence": "hashing"},
    "pool": [{"name": "outlier", "rule": "outlier", "percentile": 90}],
    "game": {"instances": 20, "records": 40, "rounds": 8, "candidates": 8},
    "generator": [{"kind": "ngram", "epsilon": [4.0]}],
}


def noisy(value: Any) -> Any:
    """Move every number that is no whole one a little; lists and tables by their parts."""
    if isinstance(value, float) and math.isfinite(value):
        return float(np.clip(value * (1 + 0.02 * RNG.normal()), -9, 0.999))
    if isinstance(value, list):
        return [noisy(item) for item in value]
    if isinstance(value, dict):
        return {key: item if key == "config" else noisy(item) for key, item in value.items()}
    return value


def named(row: Any, cell: Cell) -> Any:
    """Return a row of the small audit as a row of another cell."""
    fields = {key: noisy(value) for key, value in asdict(row).items()}
    fields |= asdict(cell)
    return type(row)(**fields)


def records_of(cell: Cell, ids: list[str]) -> Iterator[RecordRow]:
    """Invent the records of a cell, all columns full."""
    ranks = RNG.permutation(len(ids)) + 1
    coins = (RNG.integers(1, 2001, size=(2, len(ids))) / 2001).tolist()
    v, auc = RNG.normal(size=len(ids)).tolist(), RNG.integers(900, 2500, len(ids)) / 2500
    for place, record in enumerate(ids):
        yield RecordRow(
            *(cell.corpus, cell.pool, cell.generator, cell.epsilon, record),
            *(float(auc[place]), coins[0][place], coins[1][place], "S2", "containment_max"),
            *(50, 50, v[place], int(ranks[place]), "yes" if ranks[place] <= len(ids) / 10 else ""),
        )


def sorted_v(ids: list[str]) -> SortedV:
    """Invent the sorted V of a cell, with bands."""
    made = np.sort(RNG.normal(size=(5, len(ids))))[:, ::-1].tolist()
    return SortedV(0, tuple(range(len(ids))), *map(tuple, made))


def multiplied(small: Results, everywhere: bool) -> Results:
    """Return the results of a large audit."""
    ids = [f"record-{number:05d}" for number in range(RECORDS)]
    share = RECORDS // len(POOLS)
    of_pool = {
        pool: ids if everywhere else ids[place * share : (place + 1) * share]
        for place, pool in enumerate(POOLS)
    }
    cells = [
        Cell("large", pool, generator, epsilon)
        for generator in GENERATORS
        for pool in POOLS
        for epsilon in BUDGETS
    ]
    per_cell = ("cells", "proxies", "prior", "comparison", "vulnerability")
    tables = {
        name: (kind, [named(row, cell) for cell in cells for row in rows])
        for name, (kind, rows) in small.tables.items()
        if name in per_cell
    }
    tables["records"] = (RecordRow, [r for c in cells for r in records_of(c, of_pool[c.pool])])
    rows = {name: tuple(rows) for name, (_, rows) in tables.items() if name != "vulnerability"}
    (curves,) = small.curves.values()
    pool = small.study.pools[0]
    pools = [replace(pool, name=name, records=tuple(of_pool[name])) for name in POOLS]
    return replace(
        small,
        corpus={**small.corpus, "name": "large"},
        pools=dict.fromkeys(POOLS, small.pools["outlier"]),
        cells=tuple(replace(small.cells[0], cell=cell, cells=len(cells)) for cell in cells),
        tables=tables,
        study=replace(small.study, **rows, cell_data=(), pools=tuple(pools)),
        curves={
            cell: replace(
                curves,
                roc=tuple(replace(c, tpr=tuple(noisy([*c.tpr]))) for c in curves.roc),
                vulnerability=sorted_v(of_pool[cell.pool]),
            )
            for cell in cells
        },
        facts=replace(small.facts, rules={pool: pool.partition("-")[0] for pool in POOLS}),
    )


WATCH = """
globalThis.watched = { longest: 0 };
new PerformanceObserver(list => { for (const task of list.getEntries())
  watched.longest = Math.max(watched.longest, task.duration); })
  .observe({ entryTypes: ['longtask'] });
new MutationObserver((_, self) => { if (document.documentElement?.dataset.ready) {
  watched.ready = performance.now(); self.disconnect(); } })
  .observe(document, { attributes: true, subtree: true, attributeFilter: ['data-ready'] });
"""


def visited(browser: Any, path: Path) -> dict[str, float]:
    """Open the page once and use it; return what took how many seconds."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.add_init_script(WATCH)
    started = time.perf_counter()
    tab.goto(path.as_uri(), wait_until="commit")
    tab.locator('.map a[href="#cell-30"]').first.click()
    while not tab.evaluate("document.getElementById('cell-30').open"):
        tab.wait_for_timeout(5)
    took = {"square_clicked": time.perf_counter() - started}
    tab.wait_for_selector("#cell-30 .plot svg")
    took["first_figure"] = time.perf_counter() - started
    took["ready"] = tab.evaluate("watched.ready") / 1000
    started = time.perf_counter()
    sheet = tab.locator("[data-sheet=records]")
    sheet.scroll_into_view_if_needed()
    tab.wait_for_selector("[data-sheet=records] tbody tr")
    took["records_drawn"] = time.perf_counter() - started
    for name, act in (
        ("sort", sheet.locator("thead button", has_text="q").last.click),
        ("search", lambda: sheet.locator("input[type=search]").fill("04999")),
    ):
        started = time.perf_counter()
        act()
        tab.evaluate("1")
        took[name] = time.perf_counter() - started
    took["longest_task"] = tab.evaluate("watched.longest") / 1000
    context.close()
    return took


def measured(
    browser: Any, small: Results, root: Path, runs: int, everywhere: bool
) -> dict[str, Any]:
    """Write a large page, use it some times in a browser, and return medians."""
    results = multiplied(small, everywhere)
    started = time.perf_counter()
    content = render(results)
    made = time.perf_counter() - started
    path = root / "report.html"
    path.write_bytes(content)
    visits = [visited(browser, path) for _ in range(runs)]
    seconds = {key: round(median(v[key] for v in visits), 3) for key in visits[0]}
    size, figures = len(content) / 1e6, content.count(b'id="figure-')
    return {
        "what": f"{len(results.cells)} cells, {RECORDS} records, "
        f"{len(results.tables['records'][1])} rows of records, {figures} figures",
        "file_megabytes": round(size, 2),
        "seconds": seconds,
        "seconds_to_write": round(made, 2),
        "within": size < MEGABYTES and seconds["square_clicked"] < SECONDS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        print("skipped: there is no chromium here")
        return
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        root = Path(folder)
        audit = run(LoadedSpec(parse_spec(SPEC)), root / "run", runtime=Runtime(workers=1))
        small = audit.results
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        sizes = [measured(browser, small, root, arguments.runs, wide) for wide in (False, True)]
        result = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": {"system": platform.platform(), "cores": available_cores()},
            "browser": f"Chromium {browser.version}",
            "runs": arguments.runs,
            "bound_seconds": SECONDS,
            "bound_megabytes": MEGABYTES,
            "pages": sizes,
        }
        browser.close()
    print(json.dumps(result, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if not all(made["within"] for made in sizes):
        sys.exit("beyond its bounds")


if __name__ == "__main__":
    main()
