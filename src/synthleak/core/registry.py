"""Registries: the plug-ins of each kind, found by importing every module of a folder.

A plug-in is one file with a decorated class or function in the folder of its kind. Other packages
add theirs through the entry-point group ``synthleak.plugins``, whose values are modules to import;
a single file that the spec names is loaded by `core/plugins.py`. See docs/plugins.md.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import ConfigDict, ValidationError

from synthleak.core.errors import ContractError, SpecError, UserError
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
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def built_in(self) -> bool:
        """Whether it is part of synthleak."""
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
    own = not str(getattr(plugin, "__module__", "")).startswith("synthleak.")
    return version if now is None or not own else f"{version}+{now.content}"


class Registry(Generic[P]):
    """All plug-ins of one kind, by name."""

    def __init__(self, title: str, *packages: str) -> None:
        self.title = title
        self._packages = packages
        self._entries: dict[str, Entry[P]] = {}
        self._imported = False
        REGISTRIES.append(self)

    def register(self, name: str, *, version: int, **facts: str) -> Callable[[Q], Q]:
        """Register the decorated plug-in; raise `version` when its output changes."""

        def put(plugin: Q) -> Q:
            self.add(name, plugin, version=version, **facts)  # type: ignore[arg-type]
            return plugin

        return put

    def place(self, name: str, *, version: int, **facts: str) -> Callable[[type[Q]], type[Q]]:
        """Register an instance of the decorated class, which has no settings."""

        def put(plugin: type[Q]) -> type[Q]:
            self.add(name, plugin(), version=version, **facts)  # type: ignore[arg-type]
            return plugin

        return put

    def add(
        self, name: str, plugin: P, *, version: int, described_by: object = None, **facts: str
    ) -> None:
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
            self.put(Entry(name, shown, summary, plugin, source, facts))
        else:
            now.entries.append((self, Entry(name, shown, summary, plugin, now.source, facts)))

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
        """Remove what came from these sources."""
        for name in [e.name for e in self._entries.values() if e.source in sources]:
            del self._entries[name]

    def __iter__(self) -> Iterator[Entry[P]]:
        self._import_all()
        return iter(self._entries.values())

    def names(self) -> list[str]:
        """Return the registered names, in order."""
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
        if self._imported:
            return
        self._imported = True
        for name in self._packages:
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
    """A registry of plug-ins with settings."""

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

        `key` is what the spec calls the name (``rule``, ``kind``), `where` the path of its section,
        `base` the folder that relative paths start from.
        """
        entry = self.get(name, key_path((*where, key)))
        model = entry.plugin
        try:
            built: C = model.model_validate(dict(settings), context={"base": base})
        except ValidationError as error:
            raise spec_error(error, where, [key, *model.model_fields]) from None
        return built
