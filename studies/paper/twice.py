"""Compare two makings of the same cells: `twice.py FIRST... --again SECOND... --to twice.csv`.

Both have the same private sets, coins and seeds. Later code and another machine round differently,
and training lets small differences grow, so texts differ. A row per cell and attacker: the AUC of
the best proxy in each making, the p-value and verdict of the cell in each, how many releases are
the same, and ρ of V(x) between the two, by the proxy that was best in the first. Noise that both
share makes V agree too, so ρ is at most how reliable V is.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from slice import spec_of

from synthleak.audit.result import Audit
from synthleak.audit.status import open_finished
from synthleak.audit.steps.releases import header_of, wanted_sets
from synthleak.core.cell import Cell
from synthleak.core.errors import UserError
from synthleak.evidence.observation import Floats


@dataclass(frozen=True)
class Row:
    """A cell and attacker in both makings."""

    run: str
    pool: str
    epsilon: float
    scenario: str
    auc: float
    auc_again: float
    p_cell: float | None
    p_cell_again: float | None
    verdict: str
    verdict_again: str
    releases: int
    same_releases: int
    proxy: str
    records: int
    rho: float | None


def main(argv: Sequence[str] | None = None) -> None:
    """Write a row per cell and attacker that both makings hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, help="the first making")
    parser.add_argument("--again", nargs="+", type=Path, required=True, help="the second")
    parser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args(argv)
    try:
        rows = [row for run in given.again for row in both(partner(run, given.runs), run)]
    except UserError as error:
        print(f"twice.py: {error}", file=sys.stderr)
        sys.exit(2)
    given.to.parent.mkdir(parents=True, exist_ok=True)
    with given.to.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    print(f"{given.to}: {len(rows)} rows")


def partner(run: Path, others: Sequence[Path]) -> Path:
    """Return the run of the first making that has the same name."""
    for other in others:
        if other.name == run.name:
            return other
    raise UserError("no run of that name in the first making", str(run))


def both(first: Path, second: Path) -> Iterator[Row]:
    """Yield the rows of the cells that two runs share."""
    one, two = open_finished(first), open_finished(second)
    if not set(two.study.pools) <= set(one.study.pools):
        raise UserError(f"the pools differ from those of {first}", str(second))
    again = {(Cell.of(row), row.scenario): row for row in two.study.cells}
    data = {side.cell: side for side in two.study.cell_data}
    before = {side.cell: side for side in one.study.cell_data}
    for row in one.study.cells:
        cell = Cell.of(row)
        if cell not in data:
            continue
        other = again[cell, row.scenario]
        place = before[cell].place(row.scenario, row.proxy)
        here, there = (side[cell].profile.v[place] for side in (before, data))
        made, same = releases(one, two, cell)
        yield Row(
            run=spec_of(first),
            pool=cell.pool,
            epsilon=cell.epsilon,
            scenario=row.scenario,
            auc=row.auc,
            auc_again=other.auc,
            p_cell=row.p_cell,
            p_cell_again=other.p_cell,
            verdict=row.verdict,
            verdict_again=other.verdict,
            releases=made,
            same_releases=same,
            proxy=row.proxy,
            records=int(np.isfinite(here).sum()),
            rho=correlation(here, there),
        )


def correlation(one: Floats, two: Floats) -> float | None:
    """Return Spearman's ρ over the records that qualify; None where either does not vary."""
    from scipy.stats import spearmanr

    known = np.isfinite(one) & np.isfinite(two)
    rho = float(spearmanr(one[known], two[known]).statistic) if known.sum() > 2 else np.nan
    return rho if np.isfinite(rho) else None


def releases(one: Audit, two: Audit, cell: Cell) -> tuple[int, int]:
    """Return how many releases a cell has, and how many are the same in both makings."""
    made = [
        [header_of(audit.setup, cell, item).text for _, item in wanted_sets(audit.setup, cell)]
        for audit in (one, two)
    ]
    return len(made[0]), sum(a == b for a, b in zip(*made, strict=True))


if __name__ == "__main__":
    main()
