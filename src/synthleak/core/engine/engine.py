"""What an engine is: where units of work are done. One file of this folder is one engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from synthleak.core.registry import Registry

if TYPE_CHECKING:
    from synthleak.core.engine.progress import Progress
    from synthleak.core.runtime import Resources, Runtime


class Engine:
    """Does units of work, each at least once; what they make is in the store, not returned.

    Attributes:
        takes_address: whether `Runtime.address` names a cluster of this engine.
    """

    takes_address: ClassVar[bool] = False

    def session(self, runtime: Runtime) -> AbstractContextManager[Any]:
        """Hold what the engine works on, until the outermost session ends.

        Args:
            runtime: how the audit runs.

        Returns:
            A context manager.

        Raises:
            UserError: if it cannot be reached.
        """
        return nullcontext()

    def workers(self, runtime: Runtime) -> int:
        """Return how many units are done at once; asked within a session.

        Args:
            runtime: how the audit runs.
        """
        raise NotImplementedError

    def ask(self, runtime: Runtime, question: Callable[[Any], str | None], of: Any) -> None:
        """Ask every machine something before work starts.

        Args:
            runtime: how the audit runs.
            question: a function that can be pickled; it returns a complaint, or None.
            of: what it is called with.

        Raises:
            UserError: with the first complaint.
        """

    def run_units(
        self,
        task: Callable[[Any, Any], int],
        context: Any,
        units: Iterable[Any],
        *,
        runtime: Runtime,
        resources: Resources,
        progress: Progress,
        title: str,
        steps: int,
    ) -> None:
        """Do every unit, within a session.

        Args:
            task: a function that can be pickled. It does one unit, puts what it made into the
                store, and returns how many steps that was.
            context: its first argument, the same for all units; it can be pickled.
            units: the second arguments, one by one.
            runtime: how the audit runs.
            resources: what one unit needs.
            progress: what is told of every step.
            title: what this stage is called there.
            steps: how many steps all units are.

        Raises:
            SynthleakError: what a unit raised, or why it could not be done.
        """
        raise NotImplementedError


engines: Registry[Engine] = Registry("engine", "synthleak.core.engine")
