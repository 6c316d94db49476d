"""What the page is made of: the tables of `results/`, the summary, and the words of the spec.

The page computes nothing. Every number on it is looked up in a table by name, row and column, so
that page and table cannot differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import synthleak
from synthleak.report.figures.shelf import cell_figures, drawn_by, study_figures
from synthleak.report.tables import result_tables, summary

if TYPE_CHECKING:
    from synthleak.audit.result import Audit
    from synthleak.report.figures.figure import Figure
    from synthleak.report.tables import Table

CellName = tuple[str, str, float]
"""Pool, generator and ε."""


@dataclass(frozen=True)
class Facts:
    """What the spec says and no table holds."""

    description: str
    rules: Mapping[str, str]
    pool_encoder: str
    encoder: str
    same_encoder: bool
    proxies: int
    grouped: bool
    kinds: Mapping[str, str]
    private_priors: Sequence[str]


@dataclass(frozen=True)
class Material:
    """Everything that a page shows.

    `lacks` says for an analysis without rows what it would need. `texts` holds the texts of the
    pools' records by id, and is empty unless they were asked for.
    """

    summary: Mapping[str, Any]
    tables: Mapping[str, Table]
    facts: Facts
    unavailable: Mapping[str, str] = field(default_factory=dict)
    figures: Sequence[Figure] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    version: str = synthleak.__version__

    def rows(self, table: str) -> Sequence[Any]:
        """Return the rows of a table, none if it is lacking."""
        return self.tables[table][1] if table in self.tables else ()

    @cached_property
    def cells(self) -> list[CellName]:
        """Every cell, in the order of the summary."""
        return [
            (cell["pool"], cell["generator"], float(cell["epsilon"]))
            for cell in self.summary["cells"]
        ]

    @cached_property
    def scenarios(self) -> list[str]:
        """The attackers that were played, in order of what they know."""
        return sorted({row.scenario for row in self.rows("cells")})

    def places(self, table: str) -> dict[CellName, list[int]]:
        """Return which rows of a table belong to each cell."""
        found: dict[CellName, list[int]] = {}
        for position, row in enumerate(self.rows(table)):
            found.setdefault((row.pool, row.generator, row.epsilon), []).append(position)
        return found


def material_of(audit: Audit, *, include_text: bool = False) -> Material:
    """Gather what the page of an audit shows; the summary as its file holds it."""
    tables = result_tables(audit)
    rows = {name: found for name, (_, found) in tables.items()}
    return Material(
        summary=json.loads(json.dumps(summary(audit))),
        tables=tables,
        facts=_facts(audit),
        unavailable={
            one.name: one.unavailable for one in audit.outcomes if one.unavailable is not None
        },
        figures=[
            *(figure for cell in audit.setup.cells for figure in cell_figures(audit, cell)),
            *study_figures(rows, drawn_by(audit)),
        ],
        texts=_texts(audit) if include_text else {},
    )


def _facts(audit: Audit) -> Facts:
    setup = audit.setup
    plugins = setup.plugins
    return Facts(
        description=setup.corpus.description,
        rules={order.name: order.rule.kind for order in plugins.orders},
        pool_encoder=plugins.pool_encoder.kind,
        encoder=plugins.encoder.kind,
        same_encoder=plugins.encoder == plugins.pool_encoder,
        proxies=sum(len(member.proxies) for member in plugins.families),
        grouped=any(record.group is not None for record in setup.corpus.records),
        kinds={section.name: section.kind for section, _ in plugins.generators},
        private_priors=[
            section.name for section, _ in plugins.generators if section.label_prior == "private"
        ],
    )


def _texts(audit: Audit) -> dict[str, str]:
    setup = audit.setup
    return {
        record.id: record.text
        for pool in setup.pools.values()
        for record in setup.records(pool.targets)
    }
