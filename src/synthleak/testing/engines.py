"""The contract of engines: every unit is done, steps are counted, and errors come back."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from synthleak.core.engine.engine import Engine
from synthleak.core.engine.progress import Progress, Stage
from synthleak.core.errors import UserError
from synthleak.core.runtime import Resources, Runtime
from synthleak.testing.contract import refuser

UNITS = 7
REFUSED = "this unit cannot be done"


class _Counted(Progress, Stage):
    """Counts steps."""

    def __init__(self) -> None:
        self.steps = 0

    def stage(self, title: str, total: int) -> Stage:
        return self

    def advance(self, steps: int = 1) -> None:
        self.steps += steps


def _write(folder: Path, unit: int) -> int:
    if unit < 0:
        raise UserError(REFUSED)
    (folder / str(unit)).touch()
    return unit


def check_engine(engine: Engine, runtime: Runtime | None = None) -> None:
    """Hold an engine to its contract: each unit is done, steps are counted, errors come back.

    Args:
        engine: the engine.
        runtime: how to run it; on two workers by default.

    Raises:
        ContractError: with the reason, if it breaks its contract.
    """
    fail, runtime = refuser("engine", engine), runtime or Runtime(workers=2)
    for resources in (Resources(), Resources(alone=True)):
        counted = _Counted()
        with tempfile.TemporaryDirectory() as name, engine.session(runtime):
            folder, units = Path(name), range(1, UNITS + 1)
            run = partial(
                engine.run_units,
                _write,
                folder,
                runtime=runtime,
                resources=resources,
                progress=counted,
                title="units",
            )
            if engine.workers(runtime) < 1:
                fail("it has no worker")
            run(iter(units), steps=sum(units))
            if {path.name for path in folder.iterdir()} != set(map(str, units)):
                fail("some units were not done")
            if counted.steps != sum(units):
                fail(f"{counted.steps} steps were counted, not {sum(units)}")
            try:
                run(iter([-1]), steps=1)
            except UserError as error:
                if REFUSED not in str(error):
                    raise
            else:
                fail("what a unit raises does not come back")
