"""Compare the same cells in two runs: made twice, or by two generators.

    agreement.py --first runs/A runs/B --second again/A again/B --to twice.csv

Runs are compared in the order given. Pools and coins must be the same; cells are matched by pool
and ε. A row per cell, attacker and proxy (the best of the first run, then that of the second): the
best AUC, p-value and verdict of the cell in each, how many releases are the same, and ρ of V(x) of
the same records between the two. `reliability_…` says how far V would agree with itself in another
audit (docs/method.md §10.1); it is empty where a record is in too few releases. Noise that both
share, such as coins, makes V agree too. `rho_given_length` is what is left of ρ once the length of
the records is accounted for: short records may leak more in both.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from synthleak.analyses.cell_data import CellData
from synthleak.analyses.cells import CellRow
from synthleak.audit.result import Audit
from synthleak.audit.status import open_finished
from synthleak.audit.steps.releases import header_of, wanted_sets
from synthleak.core.errors import UserError
from synthleak.evidence.observation import Floats


@dataclass(frozen=True)
class Row:
    """A cell and attacker in both runs, and V by the best proxy of one of them."""

    first: str
    second: str
    pool: str
    epsilon: float
    scenario: str
    auc_first: float
    auc_second: float
    p_first: float | None
    p_second: float | None
    verdict_first: str
    verdict_second: str
    releases: int
    same_releases: int
    best_of: str
    proxy: str
    records: int
    rho: float | None
    rho_given_length: float | None
    reliability_first: float | None
    reliability_second: float | None


def main(argv: Sequence[str] | None = None) -> None:
    """Write the rows of the cells that both runs of each pair hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", nargs="+", type=Path, required=True)
    parser.add_argument("--second", nargs="+", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    given = parser.parse_args(argv)
    if len(given.first) != len(given.second):
        parser.error(f"{len(given.first)} first runs, {len(given.second)} second ones")
    try:
        pairs = zip(given.first, given.second, strict=True)
        rows = [row for first, second in pairs for row in compared(first, second)]
    except UserError as error:
        print(f"agreement.py: {error}", file=sys.stderr)
        sys.exit(2)
    given.to.parent.mkdir(parents=True, exist_ok=True)
    with given.to.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    print(f"{given.to}: {len(rows)} rows")


def compared(first: Path, second: Path) -> Iterator[Row]:
    """Yield the rows of the cells that two runs share."""
    audits = (open_finished(first), open_finished(second))
    cells = [{(c.cell.pool, c.epsilon): c for c in audit.study.cell_data} for audit in audits]
    best = [{(r.pool, r.epsilon, r.scenario): r for r in audit.study.cells} for audit in audits]
    lengths = {(a.pool, a.record): a.length for a in audits[0].study.attributes}
    for key in [key for key in cells[0] if key in cells[1]]:
        one, two = (side[key] for side in cells)
        if (one.pool, one.plan.fingerprint) != (two.pool, two.plan.fingerprint):
            raise UserError(
                f"the pool {key[0]!r} has other records or coins than in {first}", str(second)
            )
        length = np.array([lengths[key[0], record] for record in one.pool.records])
        made, same = releases(audits, (one, two))
        for scenario in one.scenarios:
            rows = tuple(side[*key, scenario] for side in best)
            for name, row in zip(("first", "second"), rows, strict=True):
                yield Row(
                    first=first.name,
                    second=second.name,
                    pool=key[0],
                    epsilon=key[1],
                    scenario=scenario,
                    auc_first=rows[0].auc,
                    auc_second=rows[1].auc,
                    p_first=rows[0].p_cell,
                    p_second=rows[1].p_cell,
                    verdict_first=rows[0].verdict,
                    verdict_second=rows[1].verdict,
                    releases=made,
                    same_releases=same,
                    best_of=name,
                    **agreement((one, two), row, length),
                )


def agreement(cells: tuple[CellData, CellData], best: CellRow, length: Floats) -> dict[str, object]:
    """Return how far V by one proxy agrees between two cells, and within each."""
    places = [cell.place(best.scenario, best.proxy) for cell in cells]
    v = [cell.profile.v[place] for cell, place in zip(cells, places, strict=True)]
    within = [
        float(cell.profile.reliability[place]) for cell, place in zip(cells, places, strict=True)
    ]
    return {
        "proxy": best.proxy,
        "records": int(np.isfinite(v).all(axis=0).sum()),
        "rho": correlation(*v),
        "rho_given_length": correlation(*v, length),
        "reliability_first": within[0] if np.isfinite(within[0]) else None,
        "reliability_second": within[1] if np.isfinite(within[1]) else None,
    }


def correlation(one: Floats, two: Floats, given: Floats | None = None) -> float | None:
    """Return Spearman's ρ over the records that qualify; None where either does not vary.

    With `given`, ρ of what is left of both ranks after a straight line in the ranks of that.
    """
    from scipy.stats import rankdata

    known = np.isfinite(one) & np.isfinite(two)
    if known.sum() < 4:
        return None
    ranks = [rankdata(side[known]) for side in (one, two)]
    lines = (
        [np.ones(known.sum())] if given is None else [np.ones(known.sum()), rankdata(given[known])]
    )
    line = np.column_stack(lines)
    left = [side - line @ np.linalg.lstsq(line, side, rcond=None)[0] for side in ranks]
    lengths = [float(np.linalg.norm(side)) for side in left]
    return float(left[0] @ left[1] / (lengths[0] * lengths[1])) if min(lengths) > 1e-9 else None


def releases(audits: tuple[Audit, Audit], cells: tuple[CellData, CellData]) -> tuple[int, int]:
    """Return how many releases a cell has, and how many have the same texts in both runs."""
    made = [
        [header_of(audit.setup, data.cell, s).text for _, s in wanted_sets(audit.setup, data.cell)]
        for audit, data in zip(audits, cells, strict=True)
    ]
    return len(made[0]), sum(a == b for a, b in zip(*made, strict=True))


if __name__ == "__main__":
    main()
