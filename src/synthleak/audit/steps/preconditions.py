"""What is asked before any verdict on an existing release (docs/method.md §11).

First the files, then the split: where a classifier that never sees the release tells members from
holdout, every figure would count that difference as leakage, and the check stops.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthleak.analyses.copies import COPIES_VERSION, Copies, CopyRow, find_copies
from synthleak.audit.file_findings import SAME, TORN, Finding, file_findings, release_findings
from synthleak.audit.setup import Setup
from synthleak.audit.steps.observations import all_evidence_keys
from synthleak.audit.steps.releases import header_of, open_release, wanted_sets
from synthleak.audit.steps.scores import record_values
from synthleak.core.artefact import Artefact, as_json
from synthleak.core.cell import Cell
from synthleak.core.errors import UserError
from synthleak.core.identity import digest
from synthleak.core.seeds import stream
from synthleak.corpus.corpus import Declared
from synthleak.metrics.blind import BlindTest, blind_test
from synthleak.pools.groups import blocks_of, groups_of

VERSION = 4
NOT_EXCHANGEABLE = "the split is not exchangeable"
NO_HOLDOUT = "every record of the holdout is among the members"
TORN_GROUPS = "too many groups have records on both sides"


@dataclass(frozen=True)
class Preconditions:
    """The findings on the files, the blind test of the split, and what was declared of it."""

    findings: tuple[Finding, ...]
    blind: BlindTest
    declared: Declared

    @property
    def withheld(self) -> str | None:
        """Why no verdict can be given, if none can."""
        if any(item.kind == SAME for item in self.findings):
            return NO_HOLDOUT
        if any(item.kind == TORN for item in self.findings):
            return TORN_GROUPS
        return NOT_EXCHANGEABLE if self.blind.unfair else None


def _key(setup: Setup) -> str:
    encoder = setup.plugins.encoder.kind
    return digest("preface", VERSION, setup.corpus.fingerprint, setup.spec.seed, encoder)


def _look(setup: Setup) -> Preconditions:
    corpus, split = setup.corpus, setup.corpus.split
    assert split is not None
    groups = groups_of(corpus)
    asked = [p for p in split.positions("members", "holdout") if p not in groups.left_out]
    records = setup.records(asked)
    readings = [np.asarray(blocks_of(corpus, asked))]
    if groups.unit == "either":
        readings.append(np.arange(len(asked)))
    return Preconditions(
        findings=tuple(file_findings(corpus, split, setup.plugins.encoder.kind)),
        blind=blind_test(
            [record.text for record in records],
            [record.labels for record in records],
            np.array([split.roles[place] == "members" for place in asked]),
            readings,
            stream(setup.spec.seed, "blind", corpus.name),
        ),
        declared=split.declared,
    )


PRECONDITIONS = Artefact("figures", _key, _look, *as_json(Preconditions))


def preconditions_of(setup: Setup) -> Preconditions | None:
    """Return what comes before a verdict, made once; None where private sets are drawn."""
    return None if setup.corpus.split is None else PRECONDITIONS.get(setup)


def examine(setup: Setup) -> None:
    """Stop a check that can have no verdict, unless its user insists on figures."""
    found = preconditions_of(setup)
    split = setup.corpus.split
    if found is None or split is None or found.withheld is None or split.insist:
        return
    odd = "".join(f"; {i.line}" for i in found.findings if i.kind not in (SAME, TORN))
    if found.withheld == NO_HOLDOUT:
        raise UserError(
            f"{NO_HOLDOUT}, so there is nothing to compare with{odd}",
            remedy="name records that the generator never saw, or set corpus.insist for figures"
            " without a verdict",
        )
    if found.withheld == TORN_GROUPS:
        line = next(item.line for item in found.findings if item.kind == TORN)
        raise UserError(
            f"{line}{odd}",
            remedy="keep whole groups on one side, leave corpus.group empty if single records"
            " were drawn at random, or set corpus.insist for figures without a verdict",
        )
    raise UserError(
        f"{NOT_EXCHANGEABLE}: a classifier that never sees the release tells members from holdout"
        f" (AUC {found.blind.auc:.3f}, chance limit {found.blind.ceiling:.3f},"
        f" p = {found.blind.p:.3f}), and every figure would count that as leakage{odd}",
        remedy="split at random before generating, name the field that keeps records together"
        " (corpus.group), or set corpus.insist for figures without a verdict",
    )


def _copies_key(setup: Setup, cell: Cell) -> str:
    text = released_text(setup, cell)
    keys = all_evidence_keys(setup, cell.pool, text)
    plan = setup.plans[cell.pool].fingerprint
    return digest("copies", COPIES_VERSION, plan, text, keys, cell.generator)


def released_text(setup: Setup, cell: Cell) -> str:
    """Return the content hash of the release that a check is about."""
    return header_of(setup, cell, wanted_sets(setup, cell)[0][1]).text


def _find_copies(setup: Setup, cell: Cell) -> Copies:
    plan, pool = setup.plans[cell.pool], setup.pools[cell.pool]
    names = [proxy.name for proxy in setup.record_proxies]
    overlap = None
    if "jaccard_max" in names:
        overlap = record_values(setup, cell)[0, :, names.index("jaccard_max")]
    return find_copies(
        [record.text for record in setup.records(pool.asked)],
        [record.text for record in open_release(setup, released_text(setup, cell))],
        overlap,
        plan.trials.member,
        [reading.block_of for reading in plan.readings],
        stream(setup.spec.seed, "copies", cell.pool, cell.generator),
        None if pool.persons is None else pool.sizes,
    )


COPIES = Artefact("figures", _copies_key, _find_copies, *as_json(Copies))
"""The copies in the release of a cell."""


def copy_rows(setup: Setup, cell: Cell) -> list[CopyRow]:
    """Write the copies of a cell as rows: members first, verbatim ones first."""
    plan, pool = setup.plans[cell.pool], setup.pools[cell.pool]
    member = np.repeat(plan.trials.member, pool.sizes)
    found = sorted(COPIES.get(setup, cell).found, key=lambda copy: pool.asked[copy.target])
    rows = [
        CopyRow(
            **cell.columns,
            side="members" if member[copy.target] else "holdout",
            record=setup.corpus.records[pool.asked[copy.target]].id,
            person=setup.corpus.person_names[pool.asked[copy.target]] if pool.persons else "",
            row=copy.row,
            kind="verbatim" if copy.verbatim else "near-verbatim",
            similarity=copy.similarity,
        )
        for copy in found
    ]
    return sorted(rows, key=lambda row: (row.side != "members", -row.similarity))


def _findings_key(setup: Setup, cell: Cell) -> str:
    about = [released_text(setup, cell), cell.generator, setup.plugins.encoder.kind]
    return digest("findings on a release", VERSION, setup.corpus.fingerprint, about)


def _find_oddities(setup: Setup, cell: Cell) -> tuple[Finding, ...]:
    texts = [record.text for record in open_release(setup, released_text(setup, cell))]
    encoder = setup.plugins.encoder.kind
    found = release_findings(f"release {cell.generator}", texts, setup.corpus, encoder)
    return tuple(found)


FINDINGS = Artefact("figures", _findings_key, _find_oddities, *as_json(tuple[Finding, ...]))
"""What is odd about the release of a cell; kept, since a purge removes the release."""
