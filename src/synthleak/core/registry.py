"""Registries: the plug-ins of each kind, found by importing every module of a folder.

A plug-in is one file with a decorated class or function in the folder of its kind. Other packages
add theirs through the entry-point group ``synthleak.plugins``, whose values are modules to import.
See docs/plugins.md.

A spec may name single files: ``plugins = ["my_proxy.py"]``. The content of such a file is part of
the version of what it registers, so that an edited file is noticed, and travels with the setup, so
that workers load what the audit began with. The registries hold what the latest spec named: two
audits in one process do not see each other's files.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import ConfigDict, ValidationError

from synthleak.core.errors import ContractError, SpecError, SynthleakError, UserError, one_line
from synthleak.core.reading import RECORD, Boundary, check_file
from synthleak.core.validation import Frozen, key_path, nearest, spec_error

P = TypeVar("P")
Q = TypeVar("Q")
C = TypeVar("C", bound="Plugin")

GROUP = "synthleak.plugins"
Version = int | str
"""What an author declares; of a plug-in from a single file, with the file's content hash."""


class Plugin(Frozen):
    """A plug-in with settings: its fields are the keys that the spec may set.

    Defaults are checked like what a spec says, so that ``epochs: float = 10`` is 10.0 either way:
    identities tell the two apart, and a run folder spells every setting out.
    """

    model_config = ConfigDict(validate_default=True, allow_inf_nan=False)
    kind: ClassVar[str] = ""
    version: ClassVar[Version] = 0

    def identity(self) -> dict[str, Any]:
        """Return what decides this plug-in's output: name, version, settings; never a location."""
        settings = {
            key: value
            for key, value in self.model_dump().items()
            if not _is_location(getattr(self, key))
        }
        return {"kind": self.kind, "version": self.version, **settings}

    @classmethod
    def from_settings(
        cls,
        settings: Mapping[str, Any],
        where: Sequence[str | int] = (),
        *,
        known: Sequence[str] = (),
        base: Path | None = None,
    ) -> Self:
        """Return a plug-in with these settings, or say in one line what is wrong with them.

        `where` is the path of its section, `known` the other keys of it, and `base` the folder that
        relative paths start from.
        """
        if missing := sorted(getattr(cls, "__abstractmethods__", ())):
            raise ContractError(f"the plug-in {cls.kind!r} does not define {', '.join(missing)}")
        try:
            return cls.model_validate(dict(settings), context={"base": base})
        except ValidationError as error:
            raise spec_error(error, where, [*known, *cls.model_fields]) from None


def _is_location(value: object) -> bool:
    listed = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(item, Path) for item in listed)


@dataclass(frozen=True)
class Entry(Generic[P]):
    """One registered plug-in."""

    name: str
    version: Version
    summary: str
    plugin: P
    source: str

    @property
    def built_in(self) -> bool:
        return self.source.startswith("synthleak.")


@dataclass
class Gathering:
    """What one file registers: held back until the whole file has been loaded."""

    source: str
    content: str
    entries: list[tuple[Registry[Any], Entry[Any]]] = field(default_factory=list)


gathering: ContextVar[Gathering | None] = ContextVar("gathering", default=None)
"""The single file that is being loaded, if any."""


def edition(version: int, plugin: object) -> Version:
    """Return the version to register: an edited single file is another plug-in.

    What the file merely imports for the first time is not its own.
    """
    now = gathering.get()
    is_from_file = not str(getattr(plugin, "__module__", "")).startswith("synthleak.")
    return version if now is None or not is_from_file else f"{version}+{now.content}"


class Registry(Generic[P]):
    """All plug-ins of one kind, by name."""

    def __init__(self, title: str, *packages: str) -> None:
        self.title = title
        self._packages = packages
        self._unread = packages
        self._entries: dict[str, Entry[P]] = {}
        REGISTRIES.append(self)

    def register(self, name: str, *, version: int) -> Callable[[Q], Q]:
        """Register the decorated plug-in.

        Args:
            name: what a spec calls it.
            version: part of every key; raise it when the output changes.

        Returns:
            A decorator that returns the plug-in unchanged.

        Raises:
            ContractError: if it has no docstring, or another plug-in has this name.
        """

        def put(plugin: Q) -> Q:
            self.add(name, plugin, version=version)  # type: ignore[arg-type]
            return plugin

        return put

    def place(self, name: str, *, version: int) -> Callable[[type[Q]], type[Q]]:
        """Register an instance of the decorated class, which has no settings; as `register`."""

        def put(plugin: type[Q]) -> type[Q]:
            self.add(name, plugin(), version=version)  # type: ignore[arg-type]
            return plugin

        return put

    def add(self, name: str, plugin: P, *, version: int, described_by: object = None) -> None:
        """Register `plugin`; its docstring, or that of `described_by`, is its summary."""
        described_by = described_by or plugin
        source = str(getattr(described_by, "__module__", "?"))
        if isinstance(plugin, type) and issubclass(plugin, Plugin):
            plugin.kind, plugin.version = name, edition(version, plugin)
        # Its own docstring: an inherited one would describe something else.
        summary = inspect.cleandoc(described_by.__doc__ or "").partition("\n")[0]
        if not summary:
            raise ContractError(f"{self.title} {name!r} has no docstring to show in lists")
        shown = edition(version, described_by)
        now = gathering.get()
        if now is None or source.startswith("synthleak."):
            self.put(Entry(name, shown, summary, plugin, source))
        else:
            now.entries.append((self, Entry(name, shown, summary, plugin, now.source)))

    def put(self, entry: Entry[P]) -> None:
        """Register an entry, after those of the folder of its kind."""
        if not entry.source.startswith(tuple(f"{package}." for package in self._packages)):
            self._import_folder()
        known = self._entries.get(entry.name)
        if known is not None and known.source != entry.source:
            raise ContractError(
                f"two plug-ins are called {entry.name!r}: {known.source} and {entry.source}"
            )
        self._entries[entry.name] = entry

    def drop(self, sources: Sequence[str]) -> None:
        for name in [e.name for e in self._entries.values() if e.source in sources]:
            del self._entries[name]

    def __iter__(self) -> Iterator[Entry[P]]:
        self._import_all()
        return iter(self._entries.values())

    def names(self) -> list[str]:
        return [entry.name for entry in self]

    def get(self, name: str, where: str | None = None) -> Entry[P]:
        """Return the plug-in of this name; `where` is the key of the spec that asked for it."""
        self._import_all()
        if name not in self._entries:
            raise SpecError(f"unknown {self.title} {name!r}", where, nearest(name, self.names()))
        return self._entries[name]

    def _import_all(self) -> None:
        self._import_folder()
        load_installed()

    def _import_folder(self) -> None:
        unread, self._unread = self._unread, ()
        for name in unread:
            path = importlib.import_module(name).__path__
            for module in sorted(pkgutil.iter_modules(path), key=lambda item: item.name):
                importlib.import_module(f"{name}.{module.name}")


REGISTRIES: list[Registry[Any]] = []
"""Every registry, in the order in which the packages were imported."""


def installed() -> list[EntryPoint]:
    """Return the plug-ins that other packages announce, in one order on every machine."""
    return sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))


@cache
def load_installed() -> None:
    """Import what other packages announce, each once; one that cannot be imported is an error.

    Passing over it would silently leave a proxy family out of an audit that asks for all.
    """
    for point in installed():
        try:
            point.load()
        except Exception as error:
            owner = point.dist.name if point.dist else point.value
            raise UserError(
                f"the plug-in {point.name!r} cannot be loaded ({type(error).__name__}: {error})",
                f"package {owner}",
                f"update it, or pip uninstall {owner}",
            ) from error


class PluginRegistry(Registry[type[C]]):
    """A registry of plug-ins with settings.

    One that is asked for by name is looked for in the file of that name, so that an audit imports
    none of the others.
    """

    def __iter__(self) -> Iterator[Entry[type[C]]]:
        """Yield the built-in ones by file, whichever was imported first; then all others."""
        return iter(sorted(super().__iter__(), key=lambda e: e.source if e.built_in else "~"))

    def get(self, name: str, where: str | None = None) -> Entry[type[C]]:
        for package in self._packages if name.isidentifier() else ():
            if importlib.util.find_spec(f"{package}.{name}"):
                importlib.import_module(f"{package}.{name}")
        load_installed()
        return self._entries.get(name) or super().get(name, where)

    def build(
        self,
        name: str,
        settings: Mapping[str, Any],
        *,
        key: str,
        where: Sequence[str | int],
        base: Path | None = None,
    ) -> C:
        """Return the plug-in of this name with its settings checked.

        `key` is what the spec calls the name (``rule``, ``kind``); the rest as for `from_settings`.
        """
        plugin = self.get(name, key_path((*where, key))).plugin
        return plugin.from_settings(settings, where, known=[key], base=base)


trusting: ContextVar[bool] = ContextVar("trusting", default=False)
"""Whether a run folder that is opened may load the files that its spec names."""


def check_trusted(names: Sequence[str], folder: object, *, trust: bool = False) -> None:
    """Refuse to open a folder whose spec names files: loading them would run somebody's code."""
    if names and not (trust or trusting.get()):
        files = f"{len(names)} plug-in file{'s' * (len(names) != 1)}"
        raise UserError(
            f"its spec names {files}, and opening it would run their code",
            str(folder),
            "add --trust-code (in Python: open_run(folder, trust_plugins=True)) if you trust"
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
        return hashlib.sha256(self.code).hexdigest()[:12]

    @property
    def module(self) -> str:
        """The name under which Python knows the file; another content is another module."""
        stem = re.sub(r"\W", "_", self.path.stem)
        return f"synthleak_plugin_{stem}_{self.content}"

    def error(self, what: str, line: int | None = None, remedy: str | None = None) -> SpecError:
        position = f"{self.path.name}, line {line}: " if line else f"{self.path.name}: "
        return SpecError(position + what, self.where or None, remedy)


def read_files(names: Iterable[str | Path], base: Path | None, key: str) -> tuple[PluginFile, ...]:
    """Read the files that a spec (or an option) names under `key`."""
    advice = "name a Python file, relative to the spec"

    def read(name: str | Path, where: str) -> PluginFile:
        def unreadable(error: Exception) -> SpecError:
            why = error.strerror if isinstance(error, OSError) else error
            return SpecError(f"{name}: cannot be read ({why})", where, advice)

        path = (base or Path()) / name
        check_file(path, RECORD, SpecError, advice)
        with Boundary(unreadable):
            return PluginFile(path, path.read_bytes(), where)

    return tuple(
        read(name, key if key.startswith("-") else f"{key}[{position}]")
        for position, name in enumerate(names)
    )


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
        number = _last_line(error, file)
        line = f", line {number}" if number else ""
        what = type(error).__name__ if number else f"{type(error).__name__} from its result"
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
        gathered = Gathering(str(file.path), file.content)
        token = gathering.set(gathered)
        try:
            _execute(file)
        except BaseException:
            sys.modules.pop(file.module, None)
            raise
        finally:
            gathering.reset(token)
        if not gathered.entries:
            del sys.modules[file.module]
            raise file.error(
                "no plug-in is registered", remedy="decorate one, as docs/plugins.md shows"
            )
        _made[file.module] = gathered.entries
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
        line = _last_line(error, str(file.path))
        raise file.error(f"{type(error).__name__}: {error}", line) from None


def _last_line(error: BaseException, file: str) -> int | None:
    """Return the line of a file from which an error comes; None if it comes from elsewhere."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return frames[-1].lineno if frames else None
