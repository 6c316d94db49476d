"""Compare the same cells in two runs: made twice, or by two generators.

    agreement.py --first runs/A runs/B --second again/A again/B --to twice.csv

Runs are compared in the order given. Each must have one generator, and both the same pools, coins
and proxies; cells are matched by pool and ε. There are three rows per cell and attacker, by whose
best proxy V(x) is taken: that of the `first` run for both, that of the `second` for both, or each
run's `own`. `rho` is Spearman's ρ of V of the same records, `rho_paper` that of V by the paper's
formula. `rho_given_length` is what is left of it once the length of the records is accounted for.
`reliability_…` says how far V would agree with itself in another audit (docs/method.md §10.1); it
is empty where a record is in too few releases. Noise that both runs share, such as coins, may make
V agree too. AUC is the best of each run.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from synthleak.analyses.analysis import CellData
from synthleak.analyses.cells import CellRow
from synthleak.audit.finished import open_finished
from synthleak.audit.result import Audit
from synthleak.audit.steps.releases import header_of, wanted_sets
from synthleak.core.errors import UserError
from synthleak.evidence.observation import Floats
from synthleak.metrics.profile import FEWEST


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
    by: str
    proxy_first: str
    proxy_second: str
    records: int
    rho: float | None
    rho_given_length: float | None
    reliability_first: float | None
    reliability_second: float | None
    rho_paper: float | None


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


def compared(first: Path, second: Path) -> list[Row]:
    """Return the rows of the cells that two runs share."""
    audits = (open_finished(first), open_finished(second))
    for path, audit in zip((first, second), audits, strict=True):
        if len({cell.cell.generator for cell in audit.study.cell_data}) > 1:
            raise UserError("the run has several generators", str(path), "compare runs of one each")
    cells = [{(c.cell.pool, c.epsilon): c for c in audit.study.cell_data} for audit in audits]
    shared = [key for key in cells[0] if key in cells[1]]
    if not shared:
        raise UserError(f"no cell has a pool and an ε of {first}", str(second))
    lengths = {(a.pool, a.record): a.length for a in audits[0].study.attributes}
    best = [{(r.pool, r.epsilon, r.scenario): r for r in audit.study.cells} for audit in audits]
    rows: list[Row] = []
    for key in shared:
        one, two = (side[key] for side in cells)
        if (one.pool, one.plan.fingerprint) != (two.pool, two.plan.fingerprint):
            raise UserError(
                f"the pool {key[0]!r} has other records or coins than in {first}", str(second)
            )
        if one.signals != two.signals:
            raise UserError(f"the run has other proxies than {first}", str(second))
        length = np.array([lengths[key[0], record] for record in one.pool.records])
        made, same = releases(audits, (one, two))
        for scenario in one.scenarios:
            top = [side[*key, scenario] for side in best]
            choices = {"first": (top[0], top[0]), "second": (top[1], top[1]), "own": tuple(top)}
            rows += [
                Row(
                    first=first.name,
                    second=second.name,
                    pool=key[0],
                    epsilon=key[1],
                    scenario=scenario,
                    auc_first=top[0].auc,
                    auc_second=top[1].auc,
                    p_first=top[0].p_cell,
                    p_second=top[1].p_cell,
                    verdict_first=top[0].verdict,
                    verdict_second=top[1].verdict,
                    releases=made,
                    same_releases=same,
                    by=name,
                    **agreement((one, two), (chosen[0], chosen[1]), length),
                )
                for name, chosen in choices.items()
            ]
    return rows


def agreement(
    cells: tuple[CellData, CellData], chosen: tuple[CellRow, CellRow], length: Floats
) -> dict[str, Any]:
    """Return how far V agrees between two cells, each by a proxy of its own, and within each."""
    sides = [
        (cell.profile, cell.place(row.scenario, row.proxy))
        for cell, row in zip(cells, chosen, strict=True)
    ]
    v = [profile.v[place] for profile, place in sides]
    within = [float(profile.reliability[place]) for profile, place in sides]
    return {
        "proxy_first": chosen[0].proxy,
        "proxy_second": chosen[1].proxy,
        "records": int(np.isfinite(v).all(axis=0).sum()),
        "rho": correlation(*v),
        "rho_given_length": correlation(*v, length),
        "reliability_first": within[0] if np.isfinite(within[0]) else None,
        "reliability_second": within[1] if np.isfinite(within[1]) else None,
        "rho_paper": correlation(*(profile.v_paper[place] for profile, place in sides)),
    }


def correlation(one: Floats, two: Floats, given: Floats | None = None) -> float | None:
    """Return Spearman's ρ over the records that qualify.

    With `given`, ρ of what is left of both ranks after a straight line in the ranks of that. None
    if too few records qualify, or if either side does not vary.
    """
    from scipy.stats import rankdata

    known = np.isfinite(one) & np.isfinite(two)
    if known.sum() < FEWEST:
        return None
    ranks = [rankdata(side[known]) for side in (one, two)]
    line = np.ones((known.sum(), 1))
    if given is not None:
        line = np.column_stack([line, rankdata(given[known])])
    left = [side - line @ np.linalg.lstsq(line, side, rcond=None)[0] for side in ranks]
    norms = [float(np.linalg.norm(side)) for side in left]
    return float(left[0] @ left[1] / (norms[0] * norms[1])) if min(norms) > 1e-9 else None


def releases(audits: tuple[Audit, Audit], cells: tuple[CellData, CellData]) -> tuple[int, int]:
    """Return how many releases a cell has, and how many have the same texts in both runs."""
    made = [
        [header_of(audit.setup, data.cell, s).text for _, s in wanted_sets(audit.setup, data.cell)]
        for audit, data in zip(audits, cells, strict=True)
    ]
    return len(made[0]), sum(a == b for a, b in zip(*made, strict=True))


if __name__ == "__main__":
    main()
