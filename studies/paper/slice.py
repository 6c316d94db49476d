"""Run the study in slices: releases on a machine with a GPU, statistics on any other.

    slice.py prepare SPEC --run RUN --to FOLDER           select pools, draw plans: needs minilm
    slice.py make SPEC --run RUN --prepared FOLDER --pack OUT --pools outlier --epsilon inf 4
    slice.py score SPEC --run RUN --pack OUT --wait 9     evidence of what `make` makes meanwhile
    slice.py take SPEC --run RUN OUT/*.tar*               put what was made elsewhere into RUN
    slice.py status SPEC --run RUN                        count the releases of every cell
    slice.py finish SPEC --run RUN --pools outlier rand0  statistics, tables and report
    slice.py pack SPEC --run RUN --to OUT                 all that the statistics need, no texts

A slice is some cells of one spec. Each step does only what is left to do, so a slice that was
interrupted is run again with the same command. RUN is an ordinary run folder of synthleak, named
after its spec; where cells of one spec lie in several, a `+` and a word tell them apart.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import logging
import lzma
import math
import platform
import re
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from synthleak.analyses.cells import Cell
from synthleak.audit.folder import STORE, RunFolder
from synthleak.audit.setup import Setup, generator_of
from synthleak.audit.stages import set_up
from synthleak.audit.steps.disclosures import DISCLOSURES
from synthleak.audit.steps.preconditions import COPIES
from synthleak.audit.steps.releases import (
    ReleaseUnit,
    digest_of,
    header_of,
    make_releases,
    missing_releases,
    model_scores_name,
    release_key,
    release_name,
    request_for,
    scored_pools,
    wanted_sets,
)
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import Lines
from synthleak.core.errors import UserError
from synthleak.core.runtime import Runtime, available_cores
from synthleak.core.seeds import digest
from synthleak.core.spec import LoadedSpec, load_spec
from synthleak.core.store import FolderStore, StagedStore, Store, name_of
from synthleak.releases.release import Header, load_texts

VOLUME = 13 * 2**20
"""Bytes of artefacts in one archive, before compression."""

CHOSEN_ONCE = ("pool", "written", "plan", "release")
"""Artefacts of one key that differ would be two different studies."""
FOR_STATISTICS = (*CHOSEN_ONCE, "model", "evidence", "utility", "attributes")

NAME = re.compile(rf"({'|'.join(FOR_STATISTICS)}|figures|text)/[0-9a-f]+(\.\w+)+")
"""What an archive may hold: names of the store's artefacts, and no path out of it."""

KEYS, TIMINGS = "keys.json", "timings.jsonl"


def main(argv: Sequence[str] | None = None) -> None:
    args = _arguments().parse_args(argv)
    try:
        args.step(args)
    except UserError as error:
        print(f"slice.py: {error}", file=sys.stderr)
        sys.exit(2)


def spec_of(run: Path) -> str:
    """Return the name of the spec that a run folder is named after.

    >>> spec_of(Path("runs/dmsafn-augpe-cohort+eps1"))
    'dmsafn-augpe-cohort'
    """
    return run.name.partition("+")[0]


# ---------------------------------------------------------------------------- the steps


def prepare(args: argparse.Namespace) -> None:
    """Select pools and draw plans here, and write what `make` needs of them elsewhere."""
    setup = opened(args.spec, args.run)
    to = FolderStore(args.to / STORE)
    for kind in CHOSEN_ONCE:
        for name in setup.store.list(f"{kind}/"):
            to.put(name, setup.store.get(name))
    content = {
        "commit": _commit(),
        "cells": {title(cell): key(setup, cell) for cell in setup.cells},
    }
    (args.to / KEYS).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for name, pool in setup.pools.items():
        print(f"{name}: {len(pool.targets)} records of {len(setup.corpus)}")
    print(f"prepared {len(setup.cells)} cells in {args.to}")


def make(args: argparse.Namespace) -> None:
    """Make the releases of the chosen cells, and pack them after every fleet."""
    began = time.monotonic()
    setup = opened(args.spec, args.run, artefacts(args.prepared))
    setup = hurried(setup, fleet=args.fleet, device=args.device)
    facts = expected_keys(setup, args.prepared) | machine()
    archive = Archive(args.pack, args.spec.stem, "releases.tar") if args.pack else None
    cells = chosen(setup, args)
    print(f"set up in {time.monotonic() - began:.1f} s; {len(cells)} cells", flush=True)
    threading.Thread(target=account, args=(setup, cells), daemon=True).start()
    longest = args.expect / 100
    for cell in cells:
        for unit in missing_releases(replace(setup, cells=(cell,))):
            left = args.minutes * 60 - (time.monotonic() - began)
            if longest * len(unit.sets) > left:
                print(f"stopped before {title(cell)}: {left:.0f} s are left", flush=True)
                return
            start = time.monotonic()
            with heard() as lines:
                run_units(
                    make_releases,
                    setup,
                    [unit],
                    runtime=Runtime(workers=1),
                    progress=Lines(),
                    title=title(cell),
                    steps=len(unit.sets),
                )
            seconds = time.monotonic() - start
            longest = max(longest, seconds / len(unit.sets))
            row = {
                "spec": args.spec.stem,
                "cell": title(cell),
                "releases": len(unit.sets),
                **({} if unit.sample else {"sampled": False}),
                "seconds": round(seconds, 1),
                "stages": lines,
                **facts,
            }
            note(row, args.run, args.pack)
            if archive:
                archive.add(
                    setup.store, names_of_releases(setup, cell, unit, texts=not args.without_texts)
                )
        if args.models:
            fit_models(setup, cells, args)
        if args.score and cell in [together[-1] for together in by_budget(cells)]:
            look_at_budget(setup, [c for c in cells if c.epsilon == cell.epsilon], args)
    print(f"done in {time.monotonic() - began:.1f} s", flush=True)


def account(setup: Setup, cells: Sequence[Cell]) -> None:
    """Find the noise of every budget, which is remembered, while the device is busy elsewhere."""
    for cell in cells:
        sigma = getattr(generator_of(setup, cell), "sigma", None)
        if sigma and math.isfinite(cell.epsilon):
            sigma(request_for(setup, cell, wanted_sets(setup, cell)[0][1]))


def fit_models(setup: Setup, cells: Sequence[Cell], args: argparse.Namespace) -> None:
    """Let families with a model look at every chosen cell whose releases were made here."""
    from synthleak.audit.steps.work import MODELS

    start, before = time.monotonic(), set(setup.store.list("evidence/"))
    ready = [cell for cell in cells if texts_here(setup, cell)]
    MODELS.make(replace(setup, cells=tuple(ready)), Runtime(workers=1), Lines())
    new = sorted(set(setup.store.list("evidence/")) - before)
    if new:
        row = {"spec": args.spec.stem, "cell": title(ready[-1]), "stage": "models"}
        note(row | {"seconds": round(time.monotonic() - start, 1)}, args.run, args.pack)
    if new and args.pack:
        Archive(args.pack, args.spec.stem, "evidence.tar.gz").add(setup.store, new)


def texts_here(setup: Setup, cell: Cell) -> bool:
    """Say whether the texts of all releases of a cell are here, and not their headers alone."""
    if made(setup, cell) < len(wanted_sets(setup, cell)):
        return False
    headers = [header_of(setup, cell, item) for _, item in wanted_sets(setup, cell)]
    return all(setup.store.exists(name_of("text", header.text)) for header in headers)


def by_budget(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return cells by generator and budget: those of pools that share releases stand together."""
    together: dict[tuple[str, float], list[Cell]] = {}
    for cell in cells:
        together.setdefault((cell.generator, cell.epsilon), []).append(cell)
    return [*together.values()]


def score(args: argparse.Namespace) -> None:
    """Compute the evidence of the chosen cells, each budget once its releases are made."""
    setup = opened(args.spec, args.run, artefacts(args.prepared))
    until = time.monotonic() + 60 * args.wait
    for together in by_budget(chosen(setup, args)):
        while not all(texts_here(setup, cell) for cell in together):
            if time.monotonic() > until:
                print(f"stopped before {title(together[0])}: its releases are not made")
                return
            time.sleep(1)
            setup.store.refresh()
        look_at_budget(setup, together, args)


def look_at_budget(setup: Setup, together: Sequence[Cell], args: argparse.Namespace) -> None:
    """Compute the evidence of cells of one budget on the cores of this machine, and pack it."""
    from synthleak.audit.steps.work import EVIDENCE

    start, before = time.monotonic(), set(setup.store.list("evidence/"))
    name = ", ".join(title(cell) for cell in together)
    if not all(texts_here(setup, cell) for cell in together):
        print(f"{name}: some releases were made elsewhere, so they are not scored here")
        return
    alone = replace(setup, cells=tuple(together))
    for work in EVIDENCE:
        work.make(alone, Runtime(workers=args.workers), Lines())
    row = {"spec": args.spec.stem, "cell": name, "stage": "evidence"}
    note(row | {"seconds": round(time.monotonic() - start, 1)}, args.run, args.pack)
    if args.pack:
        new = sorted(set(setup.store.list("evidence/")) - before)
        Archive(args.pack, args.spec.stem, "evidence.tar.gz").add(setup.store, new)


def take(args: argparse.Namespace) -> None:
    """Put the artefacts of archives into the run folder, after checking that they belong there."""
    everything = [item for path in args.archives for item in members(path)]
    drawn = [item for item in everything if item[0].startswith(("pool/", "written/", "plan/"))]
    setup = opened(args.spec, args.run, drawn)
    wanted = {
        release_name(setup, cell, item)
        for cell in setup.cells
        for _, item in wanted_sets(setup, cell)
    }
    try:
        headers = {name: Header.from_bytes(data) for name, data in everything if name in wanted}
    except (ValueError, KeyError) as error:
        raise UserError("a release is damaged; pass archives of `make` or `pack`") from error
    wanted |= {name_of("text", header.text) for header in headers.values()}
    counts = {"new": 0, "kept": 0, "left out": 0}
    for name, data in everything:
        foreign = name.startswith(("release/", "text/")) and name not in wanted
        counts["left out" if foreign else admitted(setup.store, name, data)] += 1
    print("artefacts: " + ", ".join(f"{count} {what}" for what, count in counts.items()))
    bare = [h for h in headers.values() if not setup.store.exists(name_of("text", h.text))]
    if bare:
        print(f"{len(bare)} releases came without their texts: their evidence must come too")
    status(args)


def status(args: argparse.Namespace) -> None:
    """Print how many releases of every cell are there."""
    setup = read(args.spec, args.run)
    for cell in setup.cells:
        print(f"{title(cell):<28} {made(setup, cell):>4} of {len(wanted_sets(setup, cell))}")


def finish(args: argparse.Namespace) -> None:
    """Run the statistics of the chosen cells: an ordinary run, restricted to what was made."""
    from synthleak.audit.run import run

    whole = read(args.spec, args.run)
    missing = [
        cell for cell in chosen(whole, args) if made(whole, cell) < len(wanted_sets(whole, cell))
    ]
    if missing:
        raise UserError(
            f"{len(missing)} of the chosen cells are not made, e.g. {title(missing[0])}",
            str(args.run),
            "make them, or choose others with --pools and --epsilon",
        )
    run(
        restricted(args, whole),
        args.run,
        extend=True,
        runtime=Runtime(workers=args.workers),
        progress=Lines(),
    )


def pack(args: argparse.Namespace) -> None:
    """Pack all that the statistics need: pools, plans, claims and evidence, but no texts."""
    setup = opened(args.spec, args.run)
    store, archive = setup.store, Archive(args.to, args.spec.stem, "statistics.tar.xz")
    read = [of.name(setup, cell) for cell in setup.cells for of in (COPIES, DISCLOSURES)]
    names = [name for kind in FOR_STATISTICS for name in store.list(f"{kind}/")]
    archive.add(store, [*names, *filter(store.exists, read)])


# ---------------------------------------------------------------------------- run folders and cells


def opened(spec: Path, run: Path, given: Iterable[tuple[str, bytes]] = ()) -> Setup:
    """Open the run folder of a spec, or begin it, with pools and plans as given from elsewhere."""
    folder = RunFolder(run)
    staged = StagedStore(folder.store)
    for name, data in given:
        if not staged.exists(name):
            staged.put(name, data)
    setup = set_up(load_spec(spec), staged)
    if folder.manifest() is None:
        folder.admit(setup, extend=False)
        folder.begin(setup, new=True)
    staged.commit()
    return replace(setup, store=folder.store)


def read(spec: Path, run: Path) -> Setup:
    """Open the run folder of a spec without writing anything."""
    return set_up(load_spec(spec), StagedStore(RunFolder(run).store))


def hurried(setup: Setup, **speed: Any) -> Setup:
    """Set how fast releases are made: fleet and device, which are no part of any key."""
    speed = {name: value for name, value in speed.items() if value is not None}
    pairs = tuple(
        (section, generator.model_copy(update=speed))
        for section, generator in setup.plugins.generators
    )
    return replace(setup, plugins=replace(setup.plugins, generators=pairs))


def chosen(setup: Setup, args: argparse.Namespace) -> list[Cell]:
    """Return the cells that the options name, budget by budget in the order in which they do."""
    pools = args.pools or list(setup.pools)
    budgets = args.epsilon or list(dict.fromkeys(cell.epsilon for cell in setup.cells))
    cells = [
        cell
        for pool in pools
        for epsilon in budgets
        for cell in setup.cells
        if (cell.pool, cell.epsilon) == (pool, epsilon)
    ]
    known = {cell.pool for cell in cells}, {cell.epsilon for cell in cells}
    for option, asked, there in zip(("--pools", "--epsilon"), (pools, budgets), known, strict=True):
        if strange := [item for item in asked if item not in there]:
            raise UserError(f"the spec has no {strange[0]}", option, f"it has {_listed(setup)}")
    return cells


def restricted(args: argparse.Namespace, whole: Setup) -> LoadedSpec:
    """Return the spec with the chosen pools and budgets only; the pools must stay what they are.

    A random pool is drawn apart from those above it, so pools can be left out from below only.
    """
    loaded = load_spec(args.spec)
    pools, budgets = args.pools or list(whole.pools), args.epsilon
    kept = tuple(
        section
        for section, order in zip(loaded.spec.pool, whole.plugins.orders, strict=True)
        if set(order.names()) <= set(pools)
    )
    if kept != loaded.spec.pool[: len(kept)]:
        raise UserError(
            "pools can be left out from below only", "--pools", f"the order is {_listed(whole)}"
        )
    generators = tuple(
        section.model_copy(
            update={"epsilon": tuple(e for e in section.epsilon if not budgets or e in budgets)}
        )
        for section in loaded.spec.generator
    )
    spec = loaded.spec.model_copy(update={"pool": kept, "generator": generators})
    return LoadedSpec(spec, loaded.path)


def title(cell: Cell) -> str:
    return f"{cell.pool} {cell.generator} {cell.epsilon:g}"


def made(setup: Setup, cell: Cell) -> int:
    sets = wanted_sets(setup, cell)
    return sum(setup.store.exists(release_name(setup, cell, item)) for _, item in sets)


def key(setup: Setup, cell: Cell) -> str:
    """Return the key of a cell's releases together."""
    return digest([release_key(setup, cell, item) for _, item in wanted_sets(setup, cell)])


def expected_keys(setup: Setup, prepared: Path | None) -> dict[str, Any]:
    """Stop before any work starts if this machine would make other releases than prepared."""
    if prepared is None:
        return {}
    content = json.loads((prepared / KEYS).read_text(encoding="utf-8"))
    for cell in setup.cells:
        if content["cells"].get(title(cell)) != key(setup, cell):
            raise UserError(
                f"the releases of {title(cell)} have other keys here than where they were prepared",
                str(prepared / KEYS),
                "prepare again with the same version of synthleak, corpus and spec",
            )
    return {"commit": content["commit"]}


def _listed(setup: Setup) -> str:
    return ", ".join(
        [*setup.pools, *(f"{e:g}" for e in dict.fromkeys(c.epsilon for c in setup.cells))]
    )


# ---------------------------------------------------------------------------- archives


class Archive:
    """Volumes of at most 13 MiB of artefacts, each rewritten whole, never half-written."""

    def __init__(self, folder: Path, stem: str, ending: str) -> None:
        self.folder, self.stem, self.ending = folder, stem, ending
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, store: Store, names: Iterable[str]) -> None:
        """Add artefacts behind those that the last volume holds."""
        number = max(1, len(list(self.folder.glob(f"{self.stem}.*.{self.ending}"))))
        held = dict(members(self._path(number))) if self._path(number).is_file() else {}
        for name in names:
            data = store.get(name)
            if held and sum(map(len, held.values())) + len(data) > VOLUME:
                self._write(number, held)
                number, held = number + 1, {}
            held[name] = data
        if held:
            self._write(number, held)

    def _path(self, number: int) -> Path:
        return self.folder / f"{self.stem}.{number}.{self.ending}"

    def _write(self, number: int, held: dict[str, bytes]) -> None:
        data, path = packed(held), self._path(number)
        if path.suffix != ".tar":
            data = {".gz": gzip, ".xz": lzma}[path.suffix].compress(data)
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(data)
        part.replace(path)
        print(f"packed {path.name}: {len(held)} artefacts, {len(data) / 2**20:.1f} MiB", flush=True)


def packed(files: dict[str, bytes]) -> bytes:
    """Return a tar file with the files and nothing else: no dates, no owners."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of every artefact in an archive."""
    try:
        with tarfile.open(path) as file:
            for member in file:
                content = file.extractfile(member)
                if content is None or not NAME.fullmatch(member.name):
                    raise UserError(f"not an artefact of a store: {member.name!r}", str(path))
                yield member.name, content.read()
    except (tarfile.TarError, OSError, EOFError) as error:
        raise UserError(f"the archive cannot be read ({error})", str(path)) from None


def admitted(store: Store, name: str, data: bytes) -> str:
    """Put an artefact into the store, unless it is there; say which."""
    kind = name.partition("/")[0]
    if store.exists(name):
        if kind in CHOSEN_ONCE and store.get(name) != data:
            raise UserError(
                f"{name} differs from the one in the run folder",
                remedy="it was made twice: take the archives of one of the two slices only",
            )
        return "kept"
    if kind == "text" and name != name_of("text", digest_of(load_texts(data))):
        raise UserError(f"{name} is not what the generator made", remedy="copy the archive again")
    store.put(name, data)
    return "new"


def artefacts(prepared: Path | None) -> Iterator[tuple[str, bytes]]:
    """Yield what `prepare` wrote."""
    if prepared is not None:
        store = FolderStore(prepared / STORE)
        yield from ((name, store.get(name)) for name in store.list(""))


def names_of_releases(
    setup: Setup, cell: Cell, unit: ReleaseUnit, *, texts: bool = True
) -> list[str]:
    """Return what a unit has made: scores of models, texts if they are wanted, and headers.

    Texts come before headers, so that a header never stands without its text.
    """
    items = [setup.plans[cell.pool].sets[position] for position in unit.sets]
    pools = scored_pools(setup, cell)
    scores = [model_scores_name(setup, cell, item, pool) for item in items for pool in pools]
    if not unit.sample:
        return scores
    headers = [release_name(setup, cell, item) for item in items]
    if not texts:
        return [*scores, *headers]
    held = [name_of("text", header_of(setup, cell, item).text) for item in items]
    return [*scores, *held, *headers]


# ---------------------------------------------------------------------------- what it cost


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect what generators log of their stages: how long each took, never a text."""
    lines: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    collector, log = Collector(logging.INFO), logging.getLogger("synthleak")
    log.addHandler(collector)
    log.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        log.removeHandler(collector)


def note(row: dict[str, Any], *folders: Path | None) -> None:
    """Print a row of timings, and add it to the file beside the run and in the pack."""
    print(
        f"{row['cell']}: {row['seconds']} s; " + "; ".join(row.get("stages", ["evidence"])),
        flush=True,
    )
    for folder in filter(None, folders):
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / TIMINGS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def machine() -> dict[str, Any]:
    """Say what releases are made on."""
    facts: dict[str, Any] = {"python": platform.python_version(), "cores": available_cores()}
    for package in ("synthleak", "torch", "transformers", "numpy"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    try:
        import torch
    except ImportError:
        return facts
    facts["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return facts


def _commit() -> str:
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip()


# ---------------------------------------------------------------------------- options


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True, metavar="STEP")

    def step(does: Callable[[argparse.Namespace], None], *, cells: bool = False) -> Any:
        made = steps.add_parser(does.__name__, help=does.__doc__)
        made.set_defaults(step=does)
        made.add_argument("spec", type=Path)
        made.add_argument("--run", type=Path, required=True, help="the run folder")
        if cells:
            made.add_argument("--pools", nargs="+", help="of these pools; all without it")
            made.add_argument("--epsilon", nargs="+", type=float, help="of these budgets")
            made.add_argument("--workers", type=int, default=available_cores())
        return made

    step(prepare).add_argument("--to", type=Path, required=True)
    making = step(make, cells=True)
    making.add_argument("--prepared", type=Path, help="what `prepare` wrote")
    making.add_argument("--pack", type=Path, help="where archives go")
    making.add_argument("--fleet", type=int, help="releases at once; changes speed only")
    making.add_argument("--device", help="cuda, cpu, ...; changes speed only")
    making.add_argument(
        "--minutes", type=float, default=math.inf, help="begin no fleet after these"
    )
    making.add_argument("--expect", type=float, default=0.0, help="seconds of 100 releases")
    making.add_argument(
        "--models", action="store_true", help="let proxies with a model look here too"
    )
    making.add_argument("--score", action="store_true", help="compute the evidence here too")
    making.add_argument(
        "--without-texts", action="store_true", help="pack what is known of releases, not them"
    )
    scoring = step(score, cells=True)
    scoring.add_argument("--prepared", type=Path, help="what `prepare` wrote")
    scoring.add_argument("--pack", type=Path, help="where archives go")
    scoring.add_argument("--wait", type=float, default=0.0, help="minutes, for releases")
    step(take).add_argument("archives", type=Path, nargs="+")
    step(status)
    step(finish, cells=True)
    step(pack).add_argument("--to", type=Path, required=True)
    return parser


if __name__ == "__main__":
    main()
