"""The results that a run folder holds: its files, whether they are current, and reading them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel

from synthleak.analyses.analysis import Outcome, Row, analyses
from synthleak.analyses.attributes import ATTRIBUTES_VERSION
from synthleak.analyses.cells import CellRow, ProxyRow, RecordRow
from synthleak.analyses.copies import CopyRow, NearestRow
from synthleak.analyses.disclosures import DisclosureRow
from synthleak.analyses.gaps import MergedRow
from synthleak.analyses.ladder import LadderRow
from synthleak.analyses.prior import ComparisonRow, PriorRow
from synthleak.analyses.utility import UtilityRow
from synthleak.audit.folder import REPORT, RESULTS, RunFolder, digest_of_file
from synthleak.audit.setup import Setup, cells_of_all_sizes, identity_of
from synthleak.audit.steps.measurements import measurements_key
from synthleak.audit.steps.model_rung import model_key, model_needs
from synthleak.audit.steps.prior_attacks import prior_key
from synthleak.core.errors import MissingExtra, StoreError
from synthleak.core.locations import Location, opened
from synthleak.core.reading import Boundary
from synthleak.core.seeds import digest
from synthleak.metrics.profile import PROFILE_VERSION
from synthleak.report.html import render
from synthleak.report.results import Results
from synthleak.report.tables import RESULTS_VERSION, has_columns, read_parquet, result_files

TABLES: dict[str, Row] = {
    "cells": CellRow,
    "proxies": ProxyRow,
    "prior": PriorRow,
    "comparison": ComparisonRow,
    "records": RecordRow,
    "utility": UtilityRow,
    "copies": CopyRow,
    "nearest": NearestRow,
    "sizes": CellRow,
    "ladder": LadderRow,
    "disclosures": DisclosureRow,
}
"""The tables that audits write beside those of the analyses."""
ADJUDICATION = "adjudication"
"""The files of `results/` that flagged cells leave, once they are settled."""


def table_names() -> set[str]:
    return {*TABLES, *analyses.names(), ADJUDICATION}


def files_of(
    results: Results, rescue: Callable[[str, bytes], None] | None = None
) -> dict[str, bytes]:
    """Return the files that a finished audit leaves beside its store, by name.

    Where a package for the page is missing, the tables go to `rescue`, and the error names it.
    """
    files = {f"{RESULTS}/{name}": data for name, data in result_files(results).items()}
    try:
        return files | {REPORT: render(results)}
    except ModuleNotFoundError as error:
        if rescue is not None:
            for name, data in files.items():
                rescue(name, data)
        kept = f"; the tables are written to {results.folder}/{RESULTS}" * bool(rescue)
        raise MissingExtra(
            f"the page needs the package {error.name}, which is not installed{kept}",
            remedy="install it (`synthleak doctor` lists what is missing) and run again: nothing is"
            " computed twice",
        ) from None


def results_key(setup: Setup) -> str:
    """Return the key of the results: of all measurements they are made from, and their format."""
    keys = [measurements_key(setup, cell) for cell in cells_of_all_sizes(setup)]
    prior_keys = [prior_key(setup, cell, a) for cell in setup.cells for a in setup.plugins.attacks]
    # Sorted by name: registration order depends on import order.
    also = setup.spec.analyses.also
    run = [entry for entry in analyses if entry.name in also or not entry.plugin.opt_in]
    versions = sorted(([entry.name, entry.version] for entry in run), key=str)
    versions += [["profiles", PROFILE_VERSION], ["attributes of records", ATTRIBUTES_VERSION]]
    models = [model_key(setup, cell) for cell in setup.cells if model_needs(setup, cell)]
    return digest(
        *("findings", RESULTS_VERSION, identity_of(setup), keys, prior_keys, versions),
        *([models] if models else []),
    )


def are_current(setup: Setup, folder: RunFolder, but: Sequence[str] = ()) -> bool:
    """Say whether a folder's results were made from this evidence and have today's columns.

    Results with other columns are not read but written again; files in `but` may differ.
    """
    manifest = folder.manifest()
    if manifest is None or manifest["findings"] != results_key(setup):
        return False
    if set(folder.altered()) - set(but):
        return False
    kinds = TABLES | {entry.name: entry.plugin.row for entry in analyses}
    return all(
        has_columns(kind, opened(folder.results / f"{name}.parquet"))
        for name, kind in kinds.items()
        if f"{RESULTS}/{name}.parquet" in manifest["files"]
    )


class _Said(BaseModel):
    rows: int
    lacks: str | None


class _Summary(BaseModel):
    analyses: dict[str, _Said]


def kept_outcomes(folder: RunFolder) -> list[Outcome]:
    """Return what every analysis said of the audit, or what it needs.

    Whoever knows the format can write anything there, with all digests: other types are refused.
    """

    def foreign(path: Location) -> StoreError:
        remedy = "run the spec in another folder"
        return StoreError("this is not what an audit writes", str(path), remedy)

    def rows(name: str) -> tuple[Any, ...]:
        path = folder.results / f"{name}.parquet"
        with Boundary(lambda _: foreign(path)):
            return tuple(read_parquet(analyses.get(name).plugin.row, opened(path)))

    path = folder.results / "summary.json"
    with Boundary(lambda _: foreign(path)):
        summaries = _Summary.model_validate_json(path.read_bytes()).analyses
    return [
        Outcome(name, rows(name) if one.rows else (), one.lacks) for name, one in summaries.items()
    ]


def settled(setup: Setup, folder: RunFolder) -> tuple[str | None, list[MergedRow]]:
    """Return the key and the rows of flagged cells that were settled; none if results changed."""
    about, rows = (folder.results / f"{ADJUDICATION}.{ending}" for ending in ("json", "parquet"))
    if not about.is_file() or not rows.is_file():
        return None, []
    try:
        content = json.loads(about.read_text(encoding="utf-8"))
        if content["findings"] != results_key(setup):
            return None, []
        if content.get("rows", digest_of_file(rows)) != digest_of_file(rows):
            return None, []
        return str(content["key"]), read_parquet(MergedRow, opened(rows))
    except (ValueError, KeyError, TypeError):
        return None, []
