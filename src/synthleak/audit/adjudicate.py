"""The second stage: flagged cells are played again with both kinds of records in one pool.

Single pools are cheap to screen, but each is relative to its own non-members. A cell that the
control gap flags is settled by the merged-pool game: the selected pool joined with a random one,
the same generator and budget, the same store (docs/method.md §10). The results of the audit stay
as they are: what is added lies in files of its own, which name the results that they were made
from (docs/design/decisions.md), and on the page.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from synthleak.analyses.analysis import RANDOM, Signal
from synthleak.analyses.gaps import GapRow, MergedRow, merged_rows
from synthleak.audit.finished import open_finished
from synthleak.audit.folder import RESULTS, digest_of_file
from synthleak.audit.kept_results import ADJUDICATION, results_key, settled
from synthleak.audit.result import Audit
from synthleak.audit.setup import Setup, generator_of, plan_of
from synthleak.audit.stages import set_up
from synthleak.audit.steps import releases
from synthleak.audit.steps.observations import observations, scores_of
from synthleak.audit.steps.work import PROXIES, make_missing_releases
from synthleak.core.cell import LEVEL, Cell, counted, is_of
from synthleak.core.engine.progress import Progress, default_progress
from synthleak.core.errors import GeneratorError, PlanError, PoolError, UserError
from synthleak.core.locations import Location
from synthleak.core.private_files import working_in
from synthleak.core.runtime import Runtime
from synthleak.core.seeds import digest
from synthleak.core.spec import GameSection, LoadedSpec, PoolSection
from synthleak.core.store import StagedStore
from synthleak.evidence.observation import Floats
from synthleak.plan.cohort import LARGEST_SHARE
from synthleak.plan.plan import Design, Plan, designs
from synthleak.report.html import render
from synthleak.report.tables import to_csv, to_parquet

ADJUDICATION_VERSION = 1


@dataclass(frozen=True)
class Flag:
    """A cell that the control gap flags, the control that it is merged with, and why.

    `control` is None where no random pool is apart from the cell's own.
    """

    cell: Cell
    control: str | None
    why: str

    @property
    def merged(self) -> Cell:
        return replace(self.cell, pool=f"{self.cell.pool}+{self.control}")


@dataclass(frozen=True)
class Adjudication:
    """What was flagged, and what the merged games gave; `waiting` releases are still to be made."""

    flags: tuple[Flag, ...]
    rows: tuple[MergedRow, ...] = ()
    waiting: int = 0


def adjudicate(
    out: Location | str,
    *,
    runtime: Runtime | None = None,
    progress: Progress | None = None,
    trust_plugins: bool = False,
) -> Adjudication:
    """Play the merged-pool game for the flagged cells of a finished audit, and for no others.

    Files with plug-ins that its spec names are run only if you say `trust_plugins`.
    """
    runtime, progress = runtime or Runtime(), progress or default_progress()
    audit = open_finished(out, trust_plugins=trust_plugins)
    flags = screen(audit)
    playable = [flag for flag in flags if flag.control is not None]
    if not flags:
        progress.say(f"no cell is flagged: no gap to a control excludes 0 (Holm, {LEVEL:.0%})")
    elif not playable:
        progress.say("no random pool is apart from the flagged pools: nothing can be merged")
    if not playable:
        return Adjudication(tuple(flags))
    staged = StagedStore(audit.folder.store)
    setup = merged_setup(audit, playable, staged)
    kept = _kept(audit, setup)
    if kept is not None:
        progress.say(f"nothing to do: {counted(len(playable), 'flagged cell')} settled before")
        return Adjudication(tuple(flags), tuple(kept))
    releases.check_generators(setup)
    with working_in(audit.folder.root, wait=runtime.wait):
        staged.commit()
        setup = replace(setup, store=audit.folder.store)
        make_missing_releases(setup, runtime, progress)
        for work in PROXIES:
            work.make(setup, runtime, progress)
        rows = merged_rows_of(setup, playable)
        _write(audit, setup, playable, rows)
    return Adjudication(tuple(flags), tuple(rows))


def flagged(out: Location | str, *, trust_plugins: bool = False) -> Adjudication:
    """Say which cells are flagged and how many releases their games would need; make nothing."""
    audit = open_finished(out, trust_plugins=trust_plugins)
    flags = screen(audit)
    playable = [flag for flag in flags if flag.control is not None]
    if not playable:
        return Adjudication(tuple(flags))
    setup = merged_setup(audit, playable, StagedStore(audit.folder.store))
    waiting = sum(len(unit.sets) for unit in releases.missing_releases(setup))
    return Adjudication(tuple(flags), tuple(_kept(audit, setup) or ()), waiting)


def screen(audit: Audit) -> list[Flag]:
    """Return the cells that the control gap flags, in the audit's order (docs/method.md §8)."""
    outcome = next(one for one in audit.outcomes if one.name == "control_gap")
    if outcome.unavailable is not None:
        raise UserError(
            f"no cell can be screened: the control gap {outcome.unavailable}",
            str(audit.folder.root),
            'add a pool of the rule "random" to the spec and run it with --extend',
        )
    gaps: dict[Cell, GapRow] = {}
    for row in outcome.rows:
        if isinstance(row, GapRow) and row.flagged == "yes":
            gaps.setdefault(Cell.of(row), row)
    return [_flag(audit, cell, gaps[cell]) for cell in audit.setup.cells if cell in gaps]


def _flag(audit: Audit, cell: Cell, row: GapRow) -> Flag:
    row_of_cell = next(r for r in audit.cells if is_of(r, cell))
    p = "" if row_of_cell.p_holm is None else f" (p = {row_of_cell.p_holm:.3g} after Holm)"
    gap, interval = row.gap if row.crossfit_gap is None else row.crossfit_gap, ""
    if row.holm_low is not None and row.holm_high is not None:
        interval = f", {row.holm_low:+.3f} to {row.holm_high:+.3f} at Holm's level"
    why = f"gap to its controls {gap:+.3f}{interval}; in the pool itself: {row_of_cell.verdict}{p}"
    return Flag(cell, _control(audit, cell.pool), why)


def _control(audit: Audit, pool: str) -> str | None:
    """Return the first random pool that shares no record with a pool; its own controls first."""
    setup = audit.setup
    orders = [order for order in setup.plugins.orders if order.rule.kind == RANDOM]
    orders.sort(key=lambda order: getattr(order.rule, "match", None) != pool)
    targets = set(setup.pools[pool].targets)
    names = [name for order in orders for name in order.names()]
    return next((name for name in names if not targets & set(setup.pools[name].targets)), None)


def merged_setup(audit: Audit, flags: Sequence[Flag], store: StagedStore) -> Setup:
    """Make the setup of the merged games: the audit's own spec, with merged pools behind it.

    Pools that stand above keep their keys, so nothing that was made is made again.
    """
    loaded = audit.folder.spec()
    taken = {name for order in audit.setup.plugins.orders for name in order.names()}
    merged = {flag.merged.pool: flag for flag in flags}
    sections = [
        PoolSection.model_validate({"name": name, "rule": "union", **_settings(audit, flag)})
        for name, flag in merged.items()
        if name not in taken
    ]
    # A merged pool has a game of its own, played to its end, also where the audit shares releases.
    game = loaded.spec.game.model_copy(update={"share_releases": False, "looks": ()})
    pools = (*loaded.spec.pool, *sections)
    spec = loaded.spec.model_copy(update={"pool": pools, "game": game})
    try:
        setup = set_up(LoadedSpec(spec, loaded.path), store)
    except (PlanError, PoolError) as error:
        raise UserError(
            f"a merged pool cannot be played: {error.what}", str(audit.folder.root), error.remedy
        ) from None
    setup = replace(setup, cells=tuple(flag.merged for flag in flags))
    for flag in flags:
        _check_export(setup, flag)
    return setup


def _check_export(setup: Setup, flag: Flag) -> None:
    """Say how training files are had where releases are made elsewhere and none were exported."""
    generator = generator_of(setup, flag.merged)
    _, first = releases.wanted_sets(setup, flag.merged)[0]
    try:
        generator.awaited(releases.request_for(setup, flag.merged, first))
    except GeneratorError as error:
        raise GeneratorError(
            f"the game of {flag.merged.pool} was not exported",
            error.where,
            f'add [[pool]] name = "{flag.merged.pool}", rule = "union",'
            f' of = ["{flag.cell.pool}", "{flag.control}"] to the spec, and export its plan again'
            " into the same folder",
        ) from None


def _settings(audit: Audit, flag: Flag) -> dict[str, Any]:
    """Join two pools; in a cohort, draw as many records as fit into one private set."""
    settings: dict[str, Any] = {"of": [flag.cell.pool, flag.control]}
    plan = audit.setup.plans[flag.cell.pool]
    most = int(2 * LARGEST_SHARE * plan.nominal)
    pools = audit.setup.pools
    size = sum(len(pools[name].targets) for name in settings["of"])
    if plan.design == "cohort" and size > most:
        settings["size"] = most
    return settings


def played_again(audit: Audit, store: StagedStore) -> list[MergedRow]:
    """Return what the merged games give, from the evidence that the audit's store holds."""
    flags = [flag for flag in screen(audit) if flag.control is not None]
    return merged_rows_of(merged_setup(audit, flags, store), flags)


def merged_rows_of(setup: Setup, flags: Sequence[Flag]) -> list[MergedRow]:
    return [
        row
        for flag in flags
        for row in merged_rows(
            flag.merged, *played_game(setup, flag.merged), (flag.cell.pool, str(flag.control))
        )
    ]


def played_game(setup: Setup, cell: Cell) -> tuple[Floats, list[Signal], Design, Plan, GameSection]:
    """Return the scores of a cell, what each column is, and the game that they come from."""
    plan, tables = plan_of(setup, cell), scores_of(setup, cell)
    columns = [
        Signal(table.scenario, proxy.name, proxy.view)
        for table in tables
        for proxy in table.proxies
    ]
    values = np.concatenate([table.values for table in tables], axis=2)
    return values, columns, designs.get(plan.design).plugin, plan, setup.spec.game


def _kept(audit: Audit, setup: Setup) -> list[MergedRow] | None:
    """Return the rows of these very games, if they were played and written before."""
    key, rows = settled(audit.setup, audit.folder)
    sets = ((cell, item) for cell in setup.cells for _, item in releases.wanted_sets(setup, cell))
    if key is None or not all(releases.is_made(setup, cell, item) for cell, item in sets):
        return None
    return rows if key == _key(audit, setup) else None


def _key(audit: Audit, setup: Setup) -> str:
    """Return the key of an adjudication: the results it settles, its games and their releases."""
    games = [
        [cell.columns, [seen.key for seen in observations(setup, cell)]] for cell in setup.cells
    ]
    return digest(ADJUDICATION, ADJUDICATION_VERSION, results_key(audit.setup), games)


def _write(audit: Audit, setup: Setup, flags: Sequence[Flag], rows: Sequence[MergedRow]) -> None:
    """Write the rows, the page, and last the file that says what they are made from and why."""
    folder = audit.folder
    folder.write(_name("csv"), to_csv(MergedRow, rows))
    folder.write(_name("parquet"), to_parquet(MergedRow, rows))
    folder.rewrite_report(render(replace(audit.results, adjudicated=tuple(rows))))
    content = {
        "key": _key(audit, setup),
        "rows": digest_of_file(folder.root / _name("parquet")),
        "findings": results_key(audit.setup),
        "flagged": [
            {
                **flag.cell.columns,
                "epsilon": "inf" if np.isinf(flag.cell.epsilon) else flag.cell.epsilon,
                "merged_with": flag.control,
                "why": flag.why,
            }
            for flag in flags
        ],
    }
    folder.write(_name("json"), json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    folder.note_hashes()


def _name(ending: str) -> str:
    return f"{RESULTS}/{ADJUDICATION}.{ending}"
