"""Attribute correlations over disjoint pools, by Fisher's z (docs/method.md §10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from synthleak.analyses.analysis import Study, analysis
from synthleak.analyses.attributes import Matrix, known_matrices, matrices, two_sided
from synthleak.analyses.cell_data import ATTRIBUTES, RANDOM
from synthleak.analyses.chosen import RULES, SPLIT
from synthleak.evidence.observation import Floats
from synthleak.metrics.null import holm


@dataclass(frozen=True)
class CombinedRow:
    """A row of `attributes_combined.csv`: Fisher's z over the disjoint pools of a block.

    `selection` names the rule that chose the proxy: `split80`, `all`, `containment_max S2` or
    `cos_max S1`. `corpus` is `all`, with a test (`p_holm` over five attributes within generator,
    block and selection), or one corpus, without.
    """

    selection: str
    generator: str
    block: str
    corpus: str
    attribute: str
    pools: int
    records: int
    positive_pools: int
    rho: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_holm: float | None


@analysis(
    "attributes_combined",
    version=1,
    row=CombinedRow,
    shown="selection generator block corpus attribute pools records rho p_value p_holm",
)
def attributes_combined(study: Study) -> Sequence[CombinedRow]:
    """Attribute correlations over the disjoint pools of a block, by Fisher's z, under each rule."""
    known_matrices(study, SPLIT)
    rows: list[CombinedRow] = []
    for rule in RULES:
        blocks: dict[tuple[str, str], list[Matrix]] = {}
        for matrix in matrices(study)[rule]:
            key = (matrix.group.generator, matrix.group.pool.rule)
            blocks.setdefault(key, []).append(matrix)
        # Random pools come first: no property of their records selected them.
        for (generator, block), members in sorted(
            blocks.items(), key=lambda item: item[0][1] != RANDOM
        ):
            rows += _block(rule, generator, block, members)
    return rows


def _block(rule: str, generator: str, block: str, members: Sequence[Matrix]) -> list[CombinedRow]:
    disjoint = _disjoint(members)
    corpora = list(dict.fromkeys(matrix.group.pool.corpus for matrix in disjoint))
    rows = []
    for corpus in ("all", *corpora):
        some = [matrix for matrix in disjoint if corpus in ("all", matrix.group.pool.corpus)]
        of_corpus = [
            CombinedRow(
                selection=rule,
                generator=generator,
                block=block,
                corpus=corpus,
                attribute=attribute,
                pools=len(some),
                records=sum(matrix.records for matrix in some),
                positive_pools=sum(bool(matrix.rho[place] > 0) for matrix in some),
                **fisher(some, place, tested=corpus == "all"),
                p_holm=None,
            )
            for place, attribute in enumerate(ATTRIBUTES)
        ]
        adjusted = holm([row.p_value for row in of_corpus])
        rows += [replace(row, p_holm=p) for row, p in zip(of_corpus, adjusted, strict=True)]
    return rows


def _disjoint(members: Sequence[Matrix]) -> list[Matrix]:
    """Return the pools that share no record with an earlier one."""
    taken: set[tuple[str, str]] = set()
    disjoint = []
    for matrix in members:
        records = {(matrix.group.pool.corpus, record) for record in matrix.group.pool.records}
        if not records & taken:
            disjoint.append(matrix)
            taken |= records
    return disjoint


def fisher(members: Sequence[Matrix], place: int, *, tested: bool) -> dict[str, float | None]:
    """Combine the ρ of disjoint pools by Fisher's z, each weighted by its records minus 3.

    The test permutes attributes over records within every pool, so it needs no normal theory.
    """
    usable = [matrix for matrix in members if np.isfinite(matrix.rho[place])]
    columns = ("rho", "low", "high", "p_value")
    if not usable:
        return dict.fromkeys(columns)
    weights = np.array([matrix.records - 3 for matrix in usable], dtype=np.float64)
    z = float(weights @ [_z(matrix.rho[place]) for matrix in usable] / weights.sum())
    reach = 1.96 / weights.sum() ** 0.5
    p = None
    if tested:
        null = sum(w * _z(matrix.null[place]) for w, matrix in zip(weights, usable, strict=True))
        p = two_sided(z, np.asarray(null) / weights.sum())
    ends = [float(np.tanh(value)) for value in (z, z - reach, z + reach)]
    return dict(zip(columns, [*ends, p], strict=True))


def _z(rho: ArrayLike) -> Floats:
    """Return Fisher's z, finite even where two rankings are equal."""
    return np.arctanh(np.clip(np.asarray(rho, dtype=np.float64), -0.999999, 0.999999))
