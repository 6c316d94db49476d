"""Regress the risk of single records on their attributes, over two pools together.

    python risk.py RUN... --to results

The paper says that this could be done in a merged pool, whose records face one reference
distribution, and prints no such table. In `cohort` a record is compared with itself, so an outlier
pool and its random control can be joined as they are; a pool of the rule `union` is one already.
Risk is a record's own AUC over the releases (its strongest signal), and beside it V under the
signal that is best for both pools on 80% of the instances. Risk and attributes are ranks over all
records, scaled to variance 1, and fitted together by least squares: a coefficient says what an
attribute adds to the other four. p is Student's, by Holm over all rows. Writes risk.csv and
risk.md, which has the cells without privacy.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
from scipy.stats import rankdata, t

from synthleak.analyses.analysis import ATTRIBUTES, RANDOM, UNION, CellData
from synthleak.audit.finished import open_finished
from synthleak.evidence.observation import Floats
from synthleak.metrics.null import holm


@dataclass(frozen=True)
class Row:
    """What an attribute adds to the other four, in one cell; `r2` is of all five."""

    corpus: str
    pools: str
    generator: str
    epsilon: float
    risk: str
    records: int
    r2: float
    attribute: str
    coefficient: float
    low: float
    high: float
    p_value: float
    p_holm: float | None = None


def main(argv: Sequence[str] | None = None) -> None:
    """Write the regressions of the runs named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args(argv)
    rows = [row for run in given.runs for row in rows_of(run)]
    adjusted = holm([row.p_value for row in rows])
    rows = [replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)]
    given.to.mkdir(parents=True, exist_ok=True)
    with (given.to / "risk.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    (given.to / "risk.md").write_text("\n".join(page(rows)) + "\n", encoding="utf-8")
    print(f"{given.to / 'risk.csv'}: {len(rows)} rows")


def rows_of(run: Path) -> Iterator[Row]:
    """Yield the regressions of every budget of a run."""
    study = open_finished(run).study
    known = {
        (row.pool, row.record): [getattr(row, name) for name in ATTRIBUTES]
        for row in study.attributes
    }
    aucs = {(row.pool, row.epsilon, row.record): row.auc for row in study.records}
    for cells in joined(study.cell_data):
        names = [(cell.cell.pool, record) for cell in cells for record in cell.pool.records]
        values = np.array([known[name] for name in names])
        best = int(np.mean([cell.profile.split_auc for cell in cells], axis=0).argmax())
        first = cells[0]
        risks = {
            "auc": [aucs[pool, first.epsilon, record] for pool, record in names],
            "v": np.concatenate([cell.profile.v[best] for cell in cells]),
        }
        for name, risk in risks.items():
            coefficients, errors, r2 = fitted(np.array(risk, dtype=np.float64), values)
            free = len(names) - len(ATTRIBUTES) - 1
            for place, attribute in enumerate(ATTRIBUTES):
                value, error = float(coefficients[place]), float(errors[place])
                reach = float(t.ppf(0.975, free)) * error
                yield Row(
                    corpus=first.cell.corpus,
                    pools=" ".join(cell.cell.pool for cell in cells),
                    generator=first.cell.generator,
                    epsilon=first.epsilon,
                    risk=name,
                    records=len(names),
                    r2=r2,
                    attribute=attribute,
                    coefficient=value,
                    low=value - reach,
                    high=value + reach,
                    p_value=float(2 * t.sf(abs(value) / error, free)),
                )


def joined(cells: Sequence[CellData]) -> Iterator[list[CellData]]:
    """Yield the cells to be fitted together: a merged pool, or a selected one and its control."""
    for cell in cells:
        if cell.plan.design != "cohort" or cell.pool.written or cell.pool.rule == RANDOM:
            continue
        wanted = (cell.cell.generator, cell.epsilon, RANDOM)
        controls = [
            other
            for other in cells
            if (other.cell.generator, other.epsilon, other.pool.rule) == wanted
            and other.signals == cell.signals
            and not set(other.pool.records) & set(cell.pool.records)
        ]
        if cell.pool.rule == UNION or controls:
            yield [cell] if cell.pool.rule == UNION else [cell, controls[0]]


def fitted(risk: Floats, attributes: Floats) -> tuple[Floats, Floats, float]:
    """Return coefficients, their standard errors and R² of a fit of ranks."""
    y = scaled(risk)
    x = np.column_stack([np.ones(len(y)), *(scaled(column) for column in attributes.T)])
    coefficients, *_ = np.linalg.lstsq(x, y, rcond=None)
    left = y - x @ coefficients
    free = len(y) - x.shape[1]
    variance = np.diag(np.linalg.inv(x.T @ x)) * (left @ left) / free
    return coefficients[1:], np.sqrt(variance[1:]), float(1 - left @ left / (y @ y))


def scaled(values: Floats) -> Floats:
    """Return ranks with mean 0 and variance 1."""
    ranks = rankdata(values)
    return np.asarray((ranks - ranks.mean()) / ranks.std())


def page(rows: Sequence[Row]) -> Iterator[str]:
    """Write the cells without privacy as Markdown; bold is p ≤ 0.05 after Holm."""
    heads = ["generator", "corpus", "risk", *(name.replace("_", " ") for name in ATTRIBUTES), "R²"]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    shown = [row for row in rows if math.isinf(row.epsilon)]
    for key in dict.fromkeys((row.generator, row.corpus, row.pools, row.risk) for row in shown):
        fit = [r for r in shown if (r.generator, r.corpus, r.pools, r.risk) == key]
        entries = []
        for row in fit:
            sign = "−" if row.coefficient < 0 else "+"
            text = f"{sign}{abs(row.coefficient):.2f}"
            entries.append(f"**{text}**" if row.p_holm is not None and row.p_holm <= 0.05 else text)
        names = [f"`{key[0]}`", key[1], {"auc": "AUC", "v": "V"}[key[3]]]
        yield f"| {' | '.join([*names, *entries, f'{fit[0].r2:.2f}'])} |"


if __name__ == "__main__":
    main()
