"""Shelves: where plug-ins stand, found by sweeping a folder.

A plug-in is one file with a decorated class or function in the folder of its room. Other packages
add theirs through the entry-point group ``synthleak.<shelf>``.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import ValidationError

from synthleak.errors import ContractError, SpecError
from synthleak.validation import Frozen, key_path, nearest, spec_error

P = TypeVar("P")
Q = TypeVar("Q")
C = TypeVar("C", bound="Plugin")


class Plugin(Frozen):
    """A plug-in with settings: its fields are the keys that the spec may set."""

    kind: ClassVar[str] = ""
    version: ClassVar[int] = 0

    def identity(self) -> dict[str, Any]:
        """Return what decides this plug-in's output: name, version, settings; never a location."""
        settings = {
            key: value
            for key, value in self.model_dump().items()
            if not isinstance(getattr(self, key), Path)
        }
        return {"kind": self.kind, "version": self.version, **settings}


@dataclass(frozen=True)
class Entry(Generic[P]):
    """One plug-in on a shelf."""

    name: str
    version: int
    summary: str
    plugin: P
    source: str
    facts: Mapping[str, str] = field(default_factory=dict)


class Shelf(Generic[P]):
    """All plug-ins of one kind, by name."""

    def __init__(self, title: str, package: str) -> None:
        self.title = title
        self._package = package
        self._entries: dict[str, Entry[P]] = {}
        self._swept = False

    def register(self, name: str, *, version: int, **facts: str) -> Callable[[Q], Q]:
        """Put the decorated plug-in on this shelf; `version` grows when its output changes."""

        def put(plugin: Q) -> Q:
            self.add(name, plugin, version=version, **facts)  # type: ignore[arg-type]
            return plugin

        return put

    def place(self, name: str, *, version: int, **facts: str) -> Callable[[type[Q]], type[Q]]:
        """Put an instance of the decorated class, which has no settings, on this shelf."""

        def put(plugin: type[Q]) -> type[Q]:
            self.add(name, plugin(), version=version, **facts)  # type: ignore[arg-type]
            return plugin

        return put

    def add(
        self, name: str, plugin: P, *, version: int, described_by: object = None, **facts: str
    ) -> None:
        """Put `plugin` on this shelf; its docstring, or that of `described_by`, is its summary."""
        described_by = described_by or plugin
        source = str(getattr(described_by, "__module__", "?"))
        there = self._entries.get(name)
        if there is not None and there.source != source:
            raise ContractError(f"two plug-ins are called {name!r}: {there.source} and {source}")
        if isinstance(plugin, type) and issubclass(plugin, Plugin):
            plugin.kind, plugin.version = name, version
        summary = (inspect.getdoc(described_by) or "").partition("\n")[0]
        if not summary:
            raise ContractError(f"{self.title} {name!r} has no docstring to show in lists")
        self._entries[name] = Entry(name, version, summary, plugin, source, facts)

    def __iter__(self) -> Iterator[Entry[P]]:
        self._sweep()
        return iter(self._entries.values())

    def names(self) -> list[str]:
        """Return the names on this shelf, in shelf order."""
        return [entry.name for entry in self]

    def get(self, name: str, where: str | None = None) -> Entry[P]:
        """Return the plug-in of this name; `where` is the key of the spec that asked for it."""
        self._sweep()
        if name not in self._entries:
            raise SpecError(f"unknown {self.title} {name!r}", where, nearest(name, self.names()))
        return self._entries[name]

    def _sweep(self) -> None:
        if self._swept:
            return
        self._swept = True
        package = importlib.import_module(self._package)
        for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda item: item.name):
            importlib.import_module(f"{self._package}.{module.name}")
        for point in entry_points(group=f"synthleak.{self._package.rpartition('.')[2]}"):
            point.load()


class PluginShelf(Shelf[type[C]]):
    """A shelf of plug-ins with settings."""

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
