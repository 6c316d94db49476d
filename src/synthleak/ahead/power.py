"""What a spec's design would find, before anything is spent: `synthleak plan power`."""

from __future__ import annotations

from typing import Any

from synthleak.metrics.nulls import LEVEL
from synthleak.metrics.power import POWER, Foresight, foresee, instances_needed
from synthleak.plan.plan import designs
from synthleak.workbench import Workbench

Row = dict[str, Any]
SCORED = {False: "apart", True: "alike"}


def power_table(bench: Workbench, *, auc: float | None = None, power: float = POWER) -> list[Row]:
    """Return, per pool, the smallest AUC that the design finds with this probability.

    Nothing is generated: the design's own sampler plays on scores that know nothing. Two rows per
    pool bound what evidence will do: targets of a release score apart from each other, or all
    alike. With `auc`, also about how many instances would find a leak of that size.
    """
    cells = len(bench.cells)
    return [_row(bench, name, alike, cells, auc, power) for name in bench.plans for alike in SCORED]


def _row(
    bench: Workbench, name: str, alike: bool, cells: int, auc: float | None, power: float
) -> Row:
    plan, game = bench.plans[name], bench.spec.game
    design = designs.get(plan.design).plugin
    proxies = sum(len(member.proxies) for member in bench.plugins.families)

    def foreseen(instances: int, level: float, confirm: bool) -> Foresight:
        return foresee(
            design,
            plan,
            game.model_copy(update={"instances": instances}),
            signals=proxies * len(plan.baselines),
            alike=alike,
            seed=bench.spec.seed,
            level=level,
            power=power,
            confirm=confirm,
        )

    alone = foreseen(game.instances, LEVEL, True)
    row: Row = {
        "pool": name,
        "design": plan.design,
        "instances": game.instances,
        "targets": len(plan.targets),
        "signals": alone.signals,
        "targets score": SCORED[alike],
        "chance ceiling": alone.ceiling,
        "smallest AUC": alone.auc,
        "planted and found": alone.confirmed,
    }
    if cells > 1:
        row[f"smallest AUC of {cells} cells"] = foreseen(game.instances, LEVEL / cells, False).auc
    if auc is not None:
        row[f"instances for {auc:g}"] = instances_needed(
            lambda n: foreseen(n, LEVEL / cells, False), auc, game.instances
        )
    return row
