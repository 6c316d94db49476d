"""`synthleak plan export`: the training files of a plan, for releases made by other programs.

    DIR/manifest.json                       every set, and every release to make
    DIR/tasks.tsv                           the same releases, a line each, for a shell loop
    DIR/<pool>/set-0001/train.jsonl         private records: text and labels
    DIR/<pool>/set-0001/release-4.jsonl     the release at ε = 4, which you put here

A kit is the same as one zip file for somebody without synthleak, with a page of instructions and
the hash of every file; with each release comes the hash of the training file it was made from.

Sets are in a seeded order under neutral names; membership is not written anywhere
(docs/method.md §5.1).
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files as resources
from pathlib import Path

from synthleak.audit.setup import Setup, records_at
from synthleak.audit.stages import set_up
from synthleak.audit.steps.releases import release_seed, request_for
from synthleak.core.errors import StoreError, UserError
from synthleak.core.seeds import stream
from synthleak.core.spec import GeneratorSection, LoadedSpec
from synthleak.core.store import MemoryStore
from synthleak.core.validation import nearest
from synthleak.core.whole_files import whole_folder, write_whole, writing
from synthleak.plan.plan import Plan, RecordSet
from synthleak.releases import exchange
from synthleak.releases.generator import Generator
from synthleak.releases.generators.folder import SEED_NAME, Folder

TASKS = "tasks.tsv"
INSTRUCTIONS = "README.txt"
SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Exported:
    """What an export wrote."""

    folder: Path | None
    sets: int
    releases: int


def export_plan(
    loaded: LoadedSpec,
    folder: Path | None,
    generator: str | None = None,
    *,
    kit: Path | None = None,
) -> Exported:
    """Write the training files of a spec's plan for one of its generators.

    An export can be repeated into the same folder, for more pools or budgets; existing releases
    stay. A folder of another plan is refused. With `kit`, they also go into one zip file, and each
    release must come back with the hash of its training file.
    """
    setup = set_up(loaded, MemoryStore())
    section, plugin = _chosen(setup, folder, generator)
    slots, trains = [], {}
    plans = list(setup.plans.items())
    if setup.spec.game.share_releases:  # all pools ask for the same releases
        plans = plans[:1]
    for name, plan in plans:
        for label, item in _neutral(plan, setup.spec.seed):
            of_set = _slots(setup, section, plugin, name, label, item, tied=kit is not None)
            slots += of_set
            records, persons = records_at(setup, item.records), setup.spec.game.persons
            trains[of_set[0].train] = exchange.dump_training(records, persons=persons)
    manifest = exchange.dump_manifest(slots, section.name, tied=kit is not None)
    files = {exchange.MANIFEST: manifest, TASKS: _tasks(slots)}
    if folder is not None:
        with writing(folder):
            _write(folder, slots, {**trains, **files})
    if kit is not None:
        with writing(kit):
            _write_kit(kit, {**files, **trains})
    return Exported(folder, len(trains), len(slots))


def _chosen(
    setup: Setup, folder: Path | None, name: str | None
) -> tuple[GeneratorSection, Generator]:
    pairs = setup.plugins.generators
    names = [section.name for section, _ in pairs]
    if name is not None:
        if name not in names:
            raise UserError(f"unknown generator {name!r}", "--generator", nearest(name, names))
        return pairs[names.index(name)]
    folder_generators = [
        pair
        for pair in pairs
        if isinstance(pair[1], Folder)
        and (folder is None or pair[1].path.resolve() == folder.resolve())
    ]
    if len(folder_generators) == 1 or len(pairs) == 1:
        return (folder_generators or list(pairs))[0]
    raise UserError(
        f"the spec has {len(folder_generators or pairs)} generators to export: {', '.join(names)}",
        "plan export",
        "choose one with --generator NAME",
    )


def _neutral(plan: Plan, seed: int) -> list[tuple[str, RecordSet]]:
    """Name the sets by a seeded order, which does not show what they are for."""
    sets = [item for item in plan.sets if item.form == "release"]
    order = stream(seed, "export", plan.pool).permutation(len(sets))
    width = max(4, len(str(len(sets))))
    return [
        (f"set-{number:0{width}d}", sets[position])
        for number, position in enumerate(order.tolist(), start=1)
    ]


def _slots(
    setup: Setup,
    section: GeneratorSection,
    generator: Generator,
    pool: str,
    label: str,
    item: RecordSet,
    *,
    tied: bool,
) -> list[exchange.Slot]:
    slots = []
    for cell in setup.cells:
        if (cell.pool, cell.generator) != (pool, section.name):
            continue
        request = request_for(setup, cell, item)
        seed = release_seed(item, f"program {section.name}", cell.epsilon)
        known = replace(request, seed=release_seed(item, SEED_NAME, cell.epsilon))
        slots.append(
            exchange.Slot(
                pool=pool,
                set=label,
                train_hash=exchange.content_hash(
                    exchange.dump_training(request.records, persons=request.persons)
                ),
                nominal=request.nominal,
                size=request.size,
                epsilon=request.epsilon,
                delta=request.delta,
                seed=exchange.program_seed(seed),
                ticket=exchange.ticket_of(known, tied=tied),
            )
        )
    return slots


def _tasks(slots: Sequence[exchange.Slot]) -> bytes:
    lines = ["train\tout\tn\tnominal\tepsilon\tdelta\tseed"]
    lines += [
        f"{s.train}\t{s.file}\t{s.size}\t{s.nominal}\t{exchange.budget(s.epsilon)}\t{s.delta!r}\t{s.seed}"
        for s in sorted(slots, key=lambda slot: slot.file)
    ]
    return ("\n".join(lines) + "\n").encode()


def _write(folder: Path, slots: Sequence[exchange.Slot], files: dict[str, bytes]) -> None:
    if (folder / exchange.MANIFEST).is_file():
        _check_same_plan(folder, slots)
        _write_files(folder, files)
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise StoreError(
            "the folder is not empty and holds no export", str(folder), "choose another folder"
        )
    with whole_folder(folder) as aside:
        _write_files(aside, files)


def _check_same_plan(folder: Path, slots: Sequence[exchange.Slot]) -> None:
    planned = {(slot.pool, slot.set): slot.train_hash for slot in slots}
    for slot in exchange.read_manifest(folder):
        if planned.get((slot.pool, slot.set)) != slot.train_hash:
            raise StoreError(
                f"the folder was exported for another plan ({slot.pool}/{slot.set} differs)",
                str(folder),
                "choose another folder",
            )


def _write_kit(path: Path, files: dict[str, bytes]) -> None:
    """Write a zip file whose bytes depend on its content alone; only its owner may read it."""
    page = resources("synthleak.preflight").joinpath("kit.txt").read_bytes()
    files = {INSTRUCTIONS: page, **files}
    sums = "".join(
        f"{exchange.content_hash(data)}  {name}\n" for name, data in sorted(files.items())
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {SUMS: sums.encode(), **files}.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, buffer.getvalue())


def _write_files(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data, durable=False)
