"""Pages made from the code: the command line, the spec, and the catalogue of plug-ins."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import click
from pydantic import BaseModel
from pydantic.fields import FieldInfo

HEAD = "<!-- Written by `make docs` from the code. -->\n\n"


def command_line() -> str:
    """Return the page of all commands and their options."""
    from synthleak.cli.main import SECTIONS

    parts = [
        f"{HEAD}# Command line\n\nEvery command takes `--help`. Exit codes: 0 done; 1 a condition"
        " of `--fail-if` holds, or `verify` found a difference; 2 a mistake in the input; 3 a bug"
        " of synthleak; 130, 143 and 129 stopped by Ctrl-C, SIGTERM and SIGHUP.\n"
    ]
    for title, commands in SECTIONS.items():
        parts.append(f"## {title}\n")
        for command in commands:
            parts += _command(command, f"synthleak {command.name}")
    return "\n".join(parts)


def _command(command: click.Command, path: str) -> Iterator[str]:
    """Yield the sections of a command and of those below it."""
    context = click.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"### {path}\n"
    yield f"```text\n{path} {usage}\n```\n"
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith("\b"):
            yield _verbatim(paragraph)
        else:
            yield " ".join(paragraph.split()) + "\n"
    options = [option for option in command.params if isinstance(option, click.Option)]
    if options:
        rows = [_option(option, context) for option in options]
        yield "| option | is |\n|---|---|\n" + "\n".join(rows) + "\n"
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from _command(command.commands[name], f"{path} {name}")


def _verbatim(paragraph: str) -> str:
    lines = paragraph.lstrip("\b").strip("\n")
    return f"```text\n{inspect.cleandoc(lines)}\n```\n"


def _option(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    name, words = record if record else (", ".join(option.opts), "")
    return f"| `{_cell(name)}` | {_cell(words)} |"


def _cell(text: str) -> str:
    return " ".join(text.split())


def catalogue() -> str:
    """Return the page of all plug-ins that are registered."""
    from synthleak.cli.about import REGISTRIES, rows_of

    parts = [f"{HEAD}# Catalogue\n\n`synthleak list` prints these tables.\n"]
    for registry in REGISTRIES:
        rows = rows_of(registry)
        head = list(rows[0])
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        lines += ["| " + " | ".join(_escaped(row[key]) for key in head) + " |" for row in rows]
        parts.append(f"## {registry.capitalize()}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _escaped(value: object) -> str:
    return str(value).replace("|", "\\|")


def spec() -> str:
    """Return the page of every key of a spec, those of the built-in plug-ins included."""
    from synthleak.core.spec import Spec

    parts = [
        f"{HEAD}# The spec\n\nA spec is one TOML file; `synthleak init` writes a commented one, and"
        " `spec.toml` in a run folder holds every default written out. Sections with double"
        " brackets may be repeated. A key that is not listed belongs to the plug-in that the"
        " section names: its settings follow the section.\n"
    ]
    top = {name: field for name, field in Spec.model_fields.items() if not _section(field)}
    parts += ["## At the top\n", _settings(top)]
    for name, field in Spec.model_fields.items():
        section = _section(field)
        if section is None:
            continue
        bracket = f"[[{name}]]" if _repeated(field) else f"[{name}]"
        parts.append(f"## `{bracket}`\n")
        parts.append(_summary(section).partition(": ")[2].capitalize() + "\n")
        parts.append(_settings(section.model_fields))
        parts += _plugins(name)
    return "\n".join(parts)


PLUGINS = {"corpus": "readers", "encoders": "encoders", "pool": "pools", "generator": "generators"}
CHOOSES = {"corpus": "reader", "encoders": "kind", "pool": "rule", "generator": "kind"}


def _plugins(section: str) -> Iterator[str]:
    """Yield the settings of every built-in plug-in that a section may name."""
    from synthleak.cli.about import _registry

    if section not in PLUGINS:
        return
    for entry in _registry(PLUGINS[section]):
        fields = {
            name: field
            for name, field in entry.plugin.model_fields.items()
            if not name.startswith("_")
        }
        yield f'### `{CHOOSES[section]} = "{entry.name}"`\n'
        yield f"{entry.summary}\n"
        if fields:
            yield _settings(fields)


def _section(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model of a section, be it one table or an array of them."""
    kinds = [field.annotation, *typing.get_args(field.annotation)]
    models = [kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, BaseModel)]
    return models[0] if models else None


def _repeated(field: FieldInfo) -> bool:
    return typing.get_origin(field.annotation) is tuple


def _settings(fields: Mapping[str, FieldInfo]) -> str:
    cells = [
        (f"`{name}`", _type(field.annotation), _default(field), _cell(field.description or ""))
        for name, field in fields.items()
    ]
    rows = [f"| {' | '.join(row)} |" for row in cells]
    return "| key | type | default | |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"


def _type(annotation: Any) -> str:  # noqa: PLR0911 - a case a line
    """Return a type in words that somebody who writes TOML knows."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(inner[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type(kind) for kind in inner if kind is not type(None)))
    if origin is typing.Literal:
        return " or ".join(f'`"{value}"`' for value in inner)
    if origin in (tuple, list) or (inspect.isclass(origin) and issubclass(origin, typing.Sequence)):
        return f"list of {_type(inner[0])}" if inner else "list"
    names = {int: "whole number", float: "number", str: "text", bool: "true or false"}
    if annotation in names:
        return names[annotation]
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return "text or table"
    return "path" if "Path" in getattr(annotation, "__name__", "") else "table"


def _default(field: FieldInfo) -> str:  # noqa: PLR0911 - a case a line
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value == ():
        return "none"
    if isinstance(value, BaseModel):
        return f'`"{value.kind}"`' if hasattr(value, "kind") else "as below"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{_cell(value)}"`' if len(value) < 40 else "a text"
    if isinstance(value, tuple) and all(isinstance(part, BaseModel) for part in value):
        return ", ".join(f'`"{part.kind}"`' for part in value)
    if isinstance(value, tuple):
        return f"`[{', '.join(map(str, value))}]`" if len(value) < 6 else "a list"
    return f"`{value}`"


def _summary(model: type[BaseModel]) -> str:
    line = (model.__doc__ or "").strip().splitlines()[0]
    return re.sub(r" \(docs/method\.md [^)]*\)", "", line)
