"""The input of the paper tables, from one finished audit or from several joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from synthleak.analyses.analysis import Outcome, Study, Unavailable, analyses, join_studies
from synthleak.audit.kept_results import settled
from synthleak.core.places import opened
from synthleak.evidence.family import families
from synthleak.paper.tables.source import Source, corpus_facts, pool_lines
from synthleak.report.tables import read_parquet

if TYPE_CHECKING:
    from synthleak.audit.result import Audit


def source_of(audits: Sequence[Audit]) -> Source:
    """Return the input of the tables: joined tables, corpora, pools, analyses on demand."""
    study = join_studies([(str(audit.folder.root), audit.study) for audit in audits])
    corpora = {audit.setup.corpus.name: corpus_facts(audit) for audit in audits}
    used = {member.name for audit in audits for member in audit.setup.plugins.families}
    pools = {(line.corpus, line.name): line for audit in audits for line in pool_lines(audit)}
    return Source(
        cells=study.cells,
        corpora=tuple(corpora.values()),
        pools=tuple(pools.values()),
        rows=_rows(audits, study),
        comparison=study.comparison,
        prior=study.prior,
        adjudicated=tuple(row for audit in audits for row in settled(audit.setup, audit.folder)[1]),
        families=tuple(entry for entry in families if entry.name in used),
    )


def _rows(audits: Sequence[Audit], study: Study) -> Callable[[str], Sequence[Any]]:
    """Read an analysis from the results of a single audit; run it on the study of several."""

    @cache
    def outcome(name: str) -> Outcome:
        plugin = analyses.get(name).plugin
        path = audits[0].folder.results / f"{name}.parquet"
        if len(audits) == 1 and path.is_file():
            return Outcome(name, tuple(read_parquet(plugin.row, opened(path))))
        return plugin.outcome_if_kept(study)

    def rows(name: str) -> Sequence[Any]:
        found = outcome(name)
        if found.unavailable is not None:
            raise Unavailable(found.unavailable)
        return found.rows

    return rows
