"""Plug-ins from single files that the spec names: ``plugins = ["my_proxy.py"]``.

The content of the file is part of the version of what it registers, so that an edited file is
noticed, and travels with the setup, so that workers load what the audit began with. The registries
hold what the latest spec named: two audits in one process do not see each other's files.
"""

from __future__ import annotations

import hashlib
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

from synthleak.core.errors import ContractError, SpecError, SynthleakError, UserError, one_line
from synthleak.core.limits import RECORD
from synthleak.core.reading import Boundary, check_file
from synthleak.core.registry import (
    REGISTRIES,
    Entry,
    Gathering,
    Registry,
    gathering,
    load_installed,
)

trusting: ContextVar[bool] = ContextVar("trusting", default=False)
"""Whether a run folder that is opened may load the files that its spec names."""


def check_trusted(names: Sequence[str], folder: object, *, trust: bool = False) -> None:
    """Refuse to open a folder whose spec names files: loading them would run somebody's code."""
    if names and not (trust or trusting.get()):
        files = f"{len(names)} plug-in file{'s' * (len(names) != 1)}"
        raise UserError(
            f"its spec names {files}, and opening it would run their code",
            str(folder),
            "add --trust-plugins (in Python: open_run(folder, trust_plugins=True)) if you trust"
            " whoever wrote them",
        )


@dataclass(frozen=True)
class PluginFile:
    """A file with plug-ins, as it was when the audit began."""

    path: Path
    code: bytes = field(repr=False)
    where: str = field(default="", compare=False)

    @cached_property
    def content(self) -> str:
        """The content hash, as it is shown in versions."""
        return hashlib.sha256(self.code).hexdigest()[:12]

    @property
    def module(self) -> str:
        """The name under which Python knows the file; another content is another module."""
        stem = re.sub(r"\W", "_", self.path.stem)
        return f"synthleak_plugin_{stem}_{self.content}"

    def error(self, what: str, line: int | None = None, remedy: str | None = None) -> SpecError:
        """Return an error that names this file."""
        place = f"{self.path.name}, line {line}: " if line else f"{self.path.name}: "
        return SpecError(place + what, self.where or None, remedy)


def read_files(names: Iterable[str | Path], base: Path | None, key: str) -> tuple[PluginFile, ...]:
    """Read the files that a spec (or an option) names under `key`."""
    files = []
    for position, name in enumerate(names):
        path = (base or Path()) / name
        where = f"{key}[{position}]" if not key.startswith("-") else key
        advice = "name a Python file, relative to the spec"

        def unreadable(
            error: Exception, name: str | Path = name, where: str = where, advice: str = advice
        ) -> SpecError:
            why = error.strerror if isinstance(error, OSError) else error
            return SpecError(f"{name}: cannot be read ({why})", where, advice)

        check_file(path, RECORD, SpecError, advice)
        with Boundary(unreadable):
            files.append(PluginFile(path, path.read_bytes(), where))
    return tuple(files)


_made: dict[str, list[tuple[Registry[Any], Entry[Any]]]] = {}
"""What each file registered, by module name: a file is executed once per process."""

_registered: set[str] = set()
"""The files whose plug-ins are registered now."""


def use_files(files: Sequence[PluginFile]) -> None:
    """Register the plug-ins of these files, and remove those of other files."""
    load_installed()
    entries = [(file, registry, entry) for file in files for registry, entry in _load(file)]
    _clear()
    for file, registry, entry in entries:
        _registered.add(entry.source)
        try:
            registry.put(entry)
        except ContractError as error:
            _clear()
            raise file.error(str(error), remedy="give it another name") from None


def plugin_frame(error: BaseException) -> str | None:
    """Name the plug-in file and the line from which an error comes; None if it comes from none.

    What it says is left out: it may quote a record.
    """
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in _registered:
            return f"the plug-in {frame.filename}, line {frame.lineno}: {type(error).__name__}"
    return None


@contextmanager
def calling(title: str, name: str, plugin: object, *passing: type[Exception]) -> Iterator[None]:
    """Name the plug-in of somebody else that raises within, or whose result cannot be used there.

    A worker passes this error on, where it would lose the frames of another. What was raised is
    not quoted, because it may hold a record's text; what is raised on purpose stays as it is.

    Args:
        title: the kind of the plug-in, such as "encoder".
        name: what it is registered as.
        plugin: the function, the class or an instance of it; those of synthleak are left alone.
        passing: what a plug-in of this kind may raise.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        module = str(getattr(plugin, "__module__", ""))
        if isinstance(error, (SynthleakError, *passing)) or module.startswith("synthleak."):
            raise
        file = str(getattr(sys.modules.get(module), "__file__", module))
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
        line = f", line {frames[-1].lineno}" if frames else ""
        what = type(error).__name__ if frames else f"{type(error).__name__} from its result"
        raise ContractError(
            one_line(
                f"the {title} {name!r} of the plug-in {file}{line}: {what}; correct it"
                " (SYNTHLEAK_DEBUG=1 shows a traceback)"
            )
        ) from error


def _clear() -> None:
    for registry in REGISTRIES:
        registry.drop(sorted(_registered))
    _registered.clear()


def _load(file: PluginFile) -> list[tuple[Registry[Any], Entry[Any]]]:
    if file.module not in _made:
        found = Gathering(str(file.path), file.content)
        token = gathering.set(found)
        try:
            _execute(file)
        except BaseException:
            sys.modules.pop(file.module, None)
            raise
        finally:
            gathering.reset(token)
        if not found.entries:
            del sys.modules[file.module]
            raise file.error(
                "no plug-in is registered", remedy="decorate one, as docs/plugins.md shows"
            )
        _made[file.module] = found.entries
    return _made[file.module]


def _execute(file: PluginFile) -> None:
    module = ModuleType(file.module)
    module.__file__ = str(file.path)
    sys.modules[file.module] = module
    try:
        exec(compile(file.code, str(file.path), "exec", dont_inherit=True), module.__dict__)
    except SyntaxError as error:
        raise file.error(f"not valid Python ({error.msg})", error.lineno) from None
    except (Exception, SystemExit) as error:
        inside = [
            f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(file.path)
        ]
        line = inside[-1].lineno if inside else None
        raise file.error(f"{type(error).__name__}: {error}", line) from None
