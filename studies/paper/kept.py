"""Keep finished runs small enough for a repository, without any text, and open them again.

    kept.py keep RUN... --to results/runs
    kept.py restore results/runs/goemotions-dpsgd.tar.xz --run RUN
    synthleak tables RUN && synthleak report RUN

An archive holds pools, plans, claims and measurements: what `tables` and `report` read. What was
measured is named by its cell, and not by a key that changes with the version of a statistic: an
archive opens under later versions too, its figures as they were measured, and what was not measured
then stays empty. Evidence is left out (1.2 MB a cell, which no compression makes smaller), so
statistics cannot be computed again from it, nor cells added: make those in a folder of their own.
Of the ranks of all
scores, those are kept that `tables` redraws, to compare generators. Which these are depends on what
is compared: keep all runs of one design with one command. (A pool of the rule `union` would need
all of its ranks; the study has none.) The corpus must lie where the spec says: it is read, and must
be the same.
"""

from __future__ import annotations

import argparse
import json
import lzma
import sys
import tarfile
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from slice import packed, restricted, spec_of, title

from synthleak.analyses.analysis import Analysis, Outcome, Signal, analyses, join_studies
from synthleak.analyses.consistency import signals_read
from synthleak.audit.finished import open_finished
from synthleak.audit.folder import REPORT, RESULTS, RunFolder
from synthleak.audit.kept_results import ADJUDICATION, files_of, results_key, table_names
from synthleak.audit.result import Audit
from synthleak.audit.setup import Setup
from synthleak.audit.stages import set_up
from synthleak.audit.steps.disclosures import DISCLOSURES
from synthleak.audit.steps.exposed import NEAREST
from synthleak.audit.steps.measurements import (
    CELL_MEASUREMENTS,
    CURVES,
    META_MEASUREMENTS,
    PROFILE,
    ROUNDS,
    profile_key,
)
from synthleak.audit.steps.preconditions import COPIES
from synthleak.audit.steps.prior_attacks import prior_attack_needs
from synthleak.core.artefact import Need
from synthleak.core.cell import Cell
from synthleak.core.errors import Damaged, UserError
from synthleak.core.locations import opened, write_file
from synthleak.core.registry import Entry
from synthleak.core.spec import load_spec
from synthleak.core.store import StagedStore, name_of
from synthleak.metrics.profile import only_signals
from synthleak.report.tables import has_columns, read_parquet

HERE = Path(__file__).parent
ABOUT, CELLS, STORE, TABLES = "about.json", "cells/", "store/", "results/"
OF_SCORES = ("consistency", "proxy_correlations", "proxy_groups")
"""Analyses that read scores, which are not kept: their tables are, beside those of merged games."""
RANKS = "ranks"
KINDS = ("pool", "plan", "release", "utility", "attributes")
"""Artefacts that are kept under their own keys. Canaries, which begin with words of real records,
are written again from the seed."""


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments().parse_args(argv)
    try:
        args.step(args)
    except UserError as error:
        print(f"kept.py: {error}", file=sys.stderr)
        sys.exit(2)


def keep(args: argparse.Namespace) -> None:
    """Write an archive of every run, named after its folder; the runs are compared as one study."""
    audits = {run: open_finished(run) for run in args.runs}
    study = join_studies([(str(run), audit.study) for run, audit in audits.items()])
    wanted = signals_read(study)
    for run, audit in audits.items():
        files = dict(contents(run, audit, args.specs)) | dict(ranks(audit, wanted))
        data = lzma.compress(packed(files), preset=9)
        args.to.mkdir(parents=True, exist_ok=True)
        path = args.to / f"{run.name}.tar.xz"
        path.write_bytes(data)
        print(f"{path}: {len(data) / 2**20:.2f} MiB")


def contents(run: Path, audit: Audit, specs: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive: which cells it is of, artefacts, what was measured."""
    manifest = audit.folder.manifest() or {}
    if not (specs / f"{spec_of(run)}.toml").is_file():
        raise UserError(f"no spec of that name in {specs}", str(run), "name the run after its spec")
    about: dict[str, Any] = {
        "spec": spec_of(run),
        "pools": list(audit.setup.pools),
        "epsilon": sorted({str(cell.epsilon) for cell in audit.setup.cells}),
        **{key: manifest[key] for key in ("synthleak", "made", "seconds")},
    }
    yield ABOUT, json.dumps(about, indent=1).encode()
    for path in sorted((run / RESULTS).iterdir()):
        if path.stem == ADJUDICATION or (path.stem in OF_SCORES and path.suffix == ".parquet"):
            yield TABLES + path.name, path.read_bytes()
    store = audit.folder.store
    for name in sorted(name for kind in KINDS for name in store.list(f"{kind}/")):
        yield STORE + name, store.get(name)
    for name, stored in measured(audit.setup):
        if store.exists(stored):
            yield name, store.get(stored)


def measured(setup: Setup) -> Iterator[tuple[str, str]]:
    """Yield the name in an archive, and in today's store, of all that was measured of each cell."""
    for cell in setup.cells:
        needs: list[tuple[str, Need]] = [
            ("measurements", (CELL_MEASUREMENTS, (cell,))),
            ("curves", (CURVES, (cell,))),
            ("rounds", (ROUNDS, (cell,))),
            ("profile", (PROFILE, (cell,))),
            ("meta", (META_MEASUREMENTS, (cell,))),
            ("nearest", (NEAREST, (cell,))),
            ("copies", (COPIES, (cell,))),
            ("disclosures", (DISCLOSURES, (cell,))),
        ]
        needs += [(f"prior {need[1][1].kind}", need) for need in prior_attack_needs(setup, cell)]
        for what, (artefact, of) in needs:
            yield f"{CELLS}{title(cell)}/{what}", name_of(artefact.kind, artefact.key(setup, *of))


def ranks(audit: Audit, wanted: Mapping[Cell, Sequence[Signal]]) -> Iterator[tuple[str, bytes]]:
    """Yield the ranks of the signals wanted, of the cells whose ranks are there."""
    for data in audit.study.cell_data:
        name = name_of("ranks", profile_key(audit.setup, data.cell))
        if data.cell in wanted and audit.folder.store.exists(name):
            places = [data.signals.index(signal) for signal in wanted[data.cell]]
            kept = only_signals(audit.folder.store.get(name), places)
            yield f"{CELLS}{title(data.cell)}/{RANKS}", kept


def restore(args: argparse.Namespace) -> None:
    """Make a run folder from an archive, in which `tables` and `report` work."""
    files = unpacked(args.archive)
    about = json.loads(files[ABOUT])
    spec = args.specs / f"{about['spec']}.toml"
    folder = RunFolder(args.run)
    if folder.manifest() is not None:
        raise UserError("the folder holds a run", str(args.run), "choose another one")
    staged = StagedStore(folder.store)
    for name, data in files.items():
        if name.startswith(STORE):
            staged.put(name.removeprefix(STORE), data)
    epsilon = [float(text) for text in about["epsilon"]]
    asked = Namespace(spec=spec, pools=about["pools"], epsilon=epsilon)
    setup = set_up(restricted(asked, set_up(load_spec(spec), staged)), staged)
    try:
        names = dict(measured(setup))
    except Damaged:  # claims of other releases
        raise UserError("the archive was made from another corpus", str(args.archive)) from None
    names |= {
        f"{CELLS}{title(cell)}/{RANKS}": name_of(RANKS, profile_key(setup, cell))
        for cell in setup.cells
    }
    for name, stored in names.items():
        if name in files:
            staged.put(stored, files[name])
    folder.admit(setup, extend=False)
    folder.begin(setup, new=True)
    staged.commit()
    setup = replace(setup, store=folder.store)
    kept = {name: data for name, data in files.items() if name.startswith(TABLES)}
    about_merged = f"{TABLES}{ADJUDICATION}.json"
    if about_merged in kept:  # of the results that are written now
        noted = json.loads(kept[about_merged]) | {"findings": results_key(setup)}
        kept[about_merged] = json.dumps(noted).encode()
    for name, data in kept.items():
        write_file(folder.root / name, data)
    audit = Audit(setup, folder)
    vars(audit)["outcomes"] = [outcome_of(entry.plugin, audit) for entry in wanted(setup)]
    merged = {name: data for name, data in kept.items() if Path(name).stem == ADJUDICATION}
    now, seconds = files_of(audit.results) | merged, about["seconds"]
    folder.finish(setup, results_key(setup), now, tables=table_names(), seconds=seconds)
    print(args.run / REPORT)


def wanted(setup: Setup) -> list[Entry[Analysis]]:
    """Return the analyses that a run of the spec would make."""
    also = setup.spec.analyses.also
    return sorted(
        (entry for entry in analyses if not entry.plugin.opt_in or entry.name in also),
        key=lambda entry: entry.name,
    )


def outcome_of(analysis: Analysis, audit: Audit) -> Outcome:
    """Return what an analysis says: of today, or where scores are gone what it said then."""
    now = analysis.outcome_if_kept(audit.study)
    table = audit.folder.results / f"{analysis.name}.parquet"
    if not now.unavailable or not table.is_file() or not has_columns(analysis.row, opened(table)):
        return now
    return Outcome(analysis.name, tuple(read_parquet(analysis.row, opened(table))))


def unpacked(path: Path) -> dict[str, bytes]:
    """Return the files of an archive by name."""
    try:
        with tarfile.open(path) as archive:
            found = {
                member.name: content.read()
                for member in archive
                if (content := archive.extractfile(member)) is not None
            }
    except (tarfile.TarError, lzma.LZMAError, OSError, EOFError) as error:
        raise UserError(f"the archive cannot be read ({error})", str(path)) from None
    known = (ABOUT, TABLES, CELLS, *(STORE + kind + "/" for kind in KINDS))
    strange = [name for name in found if not name.startswith(known) or ".." in name]
    if strange or ABOUT not in found:
        raise UserError("not an archive of a run", str(path), "`kept.py keep` writes one")
    return found


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--specs", type=Path, default=HERE / "specs", help="where the specs lie")
    steps = parser.add_subparsers(required=True, metavar="STEP")
    made = steps.add_parser("keep", help=keep.__doc__)
    made.set_defaults(step=keep)
    made.add_argument("runs", type=Path, nargs="+")
    made.add_argument("--to", type=Path, default=HERE / "results" / "runs")
    made = steps.add_parser("restore", help=restore.__doc__)
    made.set_defaults(step=restore)
    made.add_argument("archive", type=Path)
    made.add_argument("--run", type=Path, required=True, help="the run folder to make")
    return parser


if __name__ == "__main__":
    main()
