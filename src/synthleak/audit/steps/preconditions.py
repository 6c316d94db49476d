"""What is asked before any verdict on an existing release (docs/method.md §11).

First the files: what is odd about them is said in a line each, and most of it stops nothing. Then
the split: where a classifier that never sees the release tells members from holdout, every figure
would count that difference as leakage, and the check stops.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from synthleak.analyses.copies import COPIES_VERSION, Copies, CopyRow, find_copies
from synthleak.audit.setup import Setup, draws_sets, record_proxies, records_at
from synthleak.audit.steps import disclosures
from synthleak.audit.steps.observations import all_evidence_keys, record_values
from synthleak.audit.steps.releases import header_of, open_release, wanted_sets
from synthleak.core.artefact import Artefact, as_json
from synthleak.core.cell import Cell
from synthleak.core.errors import UserError
from synthleak.core.seeds import digest, stream
from synthleak.core.text import fold
from synthleak.corpus.corpus import Corpus, Declared, Split
from synthleak.corpus.statistics import looks_foreign
from synthleak.metrics.blind import BlindTest, blind_test
from synthleak.pools.pool import blocks_of, split_groups

FEW = 200
"""Records on a side below which only strong leaks can be found."""
FEW_RELEASED = 50
SAME = "no holdout"
"""The kind of the finding that members and holdout do not differ."""
TORN = "torn groups"
"""The kind of the finding that neither whole groups nor single records were drawn."""
ON_BOTH_SIDES = "groups on both sides"
ENGLISH = ("static", "minilm")
"""Encoders that were trained on English."""


@dataclass(frozen=True)
class Oddity:
    """One oddity: its kind, how many records it concerns, and a line for people."""

    kind: str
    count: int
    line: str


LINES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("oddities.toml").read_text("utf-8"))
"""What is said of each kind of oddity."""


def _oddity(kind: str, count: int, line: str = "", **facts: Any) -> Oddity:
    records = f"{count} {'record is' if count == 1 else 'records are'}"
    line = line or LINES[kind]
    return Oddity(kind, count, line.format(count=count, records=records, **facts))


def file_oddities(corpus: Corpus, split: Split, encoder: str) -> list[Oddity]:
    members, holdout = (
        [corpus.records[place].text for place in split.positions(side)]
        for side in ("members", "holdout")
    )
    inside, groups = {fold(text) for text in members}, split_groups(corpus)
    shared = sum(fold(text) in inside for text in holdout)
    meaning = LINES[ON_BOTH_SIDES].get(groups.unit)
    oddities = [
        _oddity(SAME if shared == len(holdout) else "overlap", shared, whole=len(holdout)),
        _oddity(
            ON_BOTH_SIDES if meaning else TORN,
            groups.torn,
            meaning,
            whole=groups.several,
            left_out=len(groups.left_out),
        ),
        _oddity("reference overlap", split.dropped),
        _repeated("members", members),
        _repeated("holdout", holdout),
        *(
            _oddity("few records", len(texts), name=side)
            for side, texts in (("members", members), ("holdout", holdout))
            if len(texts) < FEW
        ),
        _foreign("members and holdout", [*members[:1000], *holdout[:1000]], encoder),
    ]
    return [oddity for oddity in oddities if oddity.count]


def release_oddities(name: str, texts: Sequence[str], corpus: Corpus, encoder: str) -> list[Oddity]:
    """Look at a release, beside the records that it is held against."""
    assert corpus.split is not None
    blank, count = sum(not text.strip() for text in texts), len(texts)
    inside = {fold(text) for text in texts}
    holdout = [corpus.records[place].text for place in corpus.split.positions("holdout")]
    copied = sum(fold(text) in inside for text in holdout)
    oddities = [
        _repeated(name, texts),
        _oddity("blank", blank, name=name, whole=count),
        _oddity("few in the release", count if count < FEW_RELEASED else 0, name=name),
        _foreign(name, [text for text in texts if text.strip()], encoder),
        _oddity("holdout in the release", copied, name=name, whole=len(holdout)),
    ]
    return [oddity for oddity in oddities if oddity.count]


def _repeated(name: str, texts: Sequence[str]) -> Oddity:
    count = len(texts) - len({fold(text) for text in texts})
    return _oddity("duplicates", count, name=name, whole=len(texts))


def _foreign(name: str, texts: Sequence[str], encoder: str) -> Oddity:
    reason = looks_foreign(texts) if encoder in ENGLISH else None
    count = 0 if reason is None else len(texts)
    return _oddity("another language", count, name=name, reason=reason, encoder=encoder)


PRECONDITIONS_VERSION = 4
NOT_EXCHANGEABLE = "the split is not exchangeable"
NO_HOLDOUT = "every record of the holdout is among the members"
TORN_GROUPS = "too many groups have records on both sides"


@dataclass(frozen=True)
class Preconditions:
    """The findings on the files, the blind test of the split, and what was declared of it."""

    findings: tuple[Oddity, ...]
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


def _preconditions_key(setup: Setup) -> str:
    encoder = setup.plugins.encoder.kind
    return digest(
        "preface", PRECONDITIONS_VERSION, setup.corpus.fingerprint, setup.spec.seed, encoder
    )


def _examine(setup: Setup) -> Preconditions:
    corpus, split = setup.corpus, setup.corpus.split
    assert split is not None
    groups = split_groups(corpus)
    asked = [p for p in split.positions("members", "holdout") if p not in groups.left_out]
    records = records_at(setup, asked)
    readings = [np.asarray(blocks_of(corpus, asked, groups))]
    if groups.unit == "either":
        readings.append(np.arange(len(asked)))
    return Preconditions(
        findings=tuple(file_oddities(corpus, split, setup.plugins.encoder.kind)),
        blind=blind_test(
            [record.text for record in records],
            [record.labels for record in records],
            np.array([split.roles[place] == "members" for place in asked]),
            readings,
            stream(setup.spec.seed, "blind", corpus.name),
        ),
        declared=split.declared,
    )


PRECONDITIONS = Artefact("figures", _preconditions_key, _examine, *as_json(Preconditions))


def preconditions_of(setup: Setup) -> Preconditions | None:
    """Return what comes before a verdict, made once; None where private sets are drawn."""
    return None if setup.corpus.split is None else PRECONDITIONS.get(setup)


def examine(setup: Setup) -> None:
    """Stop a check that can have no verdict, unless its user insists on figures."""
    preconditions = preconditions_of(setup)
    split = setup.corpus.split
    if preconditions is None or split is None or preconditions.withheld is None or split.insist:
        return
    odd = "".join(f"; {i.line}" for i in preconditions.findings if i.kind not in (SAME, TORN))
    if preconditions.withheld == NO_HOLDOUT:
        raise UserError(
            f"{NO_HOLDOUT}, so there is nothing to compare with{odd}",
            remedy="name records that the generator never saw, or set corpus.insist for figures"
            " without a verdict",
        )
    if preconditions.withheld == TORN_GROUPS:
        line = next(item.line for item in preconditions.findings if item.kind == TORN)
        raise UserError(
            f"{line}{odd}",
            remedy="keep whole groups on one side, leave corpus.group empty if single records"
            " were drawn at random, or set corpus.insist for figures without a verdict",
        )
    raise UserError(
        f"{NOT_EXCHANGEABLE}: a classifier that never sees the release tells members from holdout"
        f" (AUC {preconditions.blind.auc:.3f}, chance limit {preconditions.blind.ceiling:.3f},"
        f" p = {preconditions.blind.p:.3f}), and every figure would count that as leakage{odd}",
        remedy="split at random before generating, name the field that keeps records together"
        " (corpus.group), or set corpus.insist for figures without a verdict",
    )


def _copies_key(setup: Setup, cell: Cell) -> str:
    if draws_sets(setup, cell.pool):
        return disclosures.copies_in_game_key(setup, cell)
    text = released_text(setup, cell)
    keys = all_evidence_keys(setup, cell.pool, text)
    plan = setup.plans[cell.pool].fingerprint
    return digest("copies", COPIES_VERSION, plan, text, keys, cell.generator)


def released_text(setup: Setup, cell: Cell) -> str:
    return header_of(setup, cell, wanted_sets(setup, cell)[0][1]).text


def _find_copies(setup: Setup, cell: Cell) -> Copies:
    if draws_sets(setup, cell.pool):
        return disclosures.copies_in_game(setup, cell)
    plan, pool = setup.plans[cell.pool], setup.pools[cell.pool]
    names = [proxy.name for proxy in record_proxies(setup)]
    overlap = None
    if "jaccard_max" in names:
        overlap = record_values(setup, cell)[0, :, names.index("jaccard_max")]
    release = disclosures.texts_of_release(setup, cell)
    assert setup.corpus.split is not None
    members = records_at(setup, setup.corpus.split.positions("members"))
    copies = find_copies(
        [record.text for record in records_at(setup, pool.asked)],
        release,
        overlap,
        plan.trials.member,
        [reading.block_of for reading in plan.readings],
        stream(setup.spec.seed, "copies", cell.pool, cell.generator),
        None if pool.persons is None else pool.sizes,
    )
    return replace(
        copies, rows=disclosures.share_of_copies(release, [record.text for record in members])
    )


COPIES = Artefact("figures", _copies_key, _find_copies, *as_json(Copies))
"""The copies in the release of a cell, or in the releases of a game."""


def copies_in(setup: Setup, cell: Cell) -> Copies | None:
    """Return the copies of a cell; None if they were not counted while the texts were there."""
    if not (COPIES.exists(setup, cell) or disclosures.can_be_read(setup, cell)):
        return None
    return COPIES.get(setup, cell)


def copy_rows(setup: Setup, cell: Cell) -> list[CopyRow]:
    """Write the copies of a cell as rows: members first, verbatim ones first."""
    plan, pool = setup.plans[cell.pool], setup.pools[cell.pool]
    member = np.repeat(plan.trials.member, pool.sizes)
    copies = sorted(COPIES.get(setup, cell).found, key=lambda copy: pool.asked[copy.target])
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
        for copy in copies
    ]
    return sorted(rows, key=lambda row: (row.side != "members", -row.similarity))


def _findings_key(setup: Setup, cell: Cell) -> str:
    about = [released_text(setup, cell), cell.generator, setup.plugins.encoder.kind]
    return digest("findings on a release", PRECONDITIONS_VERSION, setup.corpus.fingerprint, about)


def _find_oddities(setup: Setup, cell: Cell) -> tuple[Oddity, ...]:
    texts = [record.text for record in open_release(setup, released_text(setup, cell))]
    encoder = setup.plugins.encoder.kind
    oddities = release_oddities(f"release {cell.generator}", texts, setup.corpus, encoder)
    return tuple(oddities)


FINDINGS = Artefact("figures", _findings_key, _find_oddities, *as_json(tuple[Oddity, ...]))
"""What is odd about the release of a cell; kept, since a purge removes the release."""
