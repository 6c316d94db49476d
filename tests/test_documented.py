"""What is public says what it takes, holds, returns: the page docs/api.md is made of it."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import synthleak
from synthleak.core.registry import Plugin
from synthleak.core.validation import Frozen

DOCS = Path(__file__).parents[1] / "docs"
ROWS = {"CellRow": "cells.csv", "ProxyRow": "proxies.csv", "RecordRow": "records.csv"}
"""Rows of tables: docs/results.md says what each column means."""
PROTOCOLS = {
    "synthleak.analyses": "Study analysis",
    "synthleak.core.engine.engine": "Engine",
    "synthleak.corpus": "FieldReader Reader Record",
    "synthleak.encoders": "Encoder",
    "synthleak.evidence": "Arm Attack Family Observation Proxy Targets TextSet family",
    "synthleak.plan": "Baseline Design Plan RecordSet Trials",
    "synthleak.pools": "Filter Ground Material Pool Rule Writer",
    "synthleak.releases": "Claim GaussianEvent Generator Public Request Synthetic",
}
"""What authors of plug-ins derive from, decorate with, or are given."""
NAMES = [
    *(("synthleak", name) for name in synthleak.__all__),
    *((module, name) for module, names in PROTOCOLS.items() for name in names.split()),
]
RESULT = re.compile(r"^(Returns|Yields):$|\A(Return|Say|Yield|Draw|Toss)\b", re.MULTILINE)


def names_argument(doc: str, name: str) -> bool:
    return bool(re.search(rf"^ *\**{name}\b.*:", doc, re.MULTILINE))


def undocumented_parts(title: str, function: Any, inherited: str = "") -> Iterator[str]:
    """Yield the parameters of a function without a description, and its result."""
    doc = inspect.getdoc(function) or ""
    described = doc.partition("Args:")[2] + inherited.partition("Args:")[2]
    for name in inspect.signature(function).parameters:
        if name not in ("self", "cls") and not names_argument(described, name):
            yield f"{title}: {name}"
    result = inspect.signature(function).return_annotation
    if result not in ("None", None) and not RESULT.search(doc) and not RESULT.search(inherited):
        yield f"{title}: what it returns"


def fields_of(kind: type) -> Iterator[tuple[str, bool]]:
    """Yield the public fields of a class, and whether each has a description of its own."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    for statement, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            below = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if not statement.target.id.startswith("_"):
                yield statement.target.id, below or "description=" in ast.unparse(statement)


def bases_of(kind: type) -> list[type]:
    """Return a class and what it derives from, as far as a plug-in author meets it."""
    return [
        base
        for base in kind.__mro__
        if base.__module__.startswith(("synthleak.", kind.__module__))
        and base not in (Frozen, Plugin)
    ]


def columns_described(table: str) -> str:
    """Return what docs/results.md says of a table, with that of cells.csv before it."""
    text = (DOCS / "results.md").read_text(encoding="utf-8")
    parts = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    return parts["cells.csv"] + parts[table]


def undocumented(title: str, thing: Any) -> Iterator[str]:
    if inspect.isfunction(thing):
        yield from undocumented_parts(title, thing)
    if not inspect.isclass(thing):
        return
    docs = "\n".join(base.__doc__ or "" for base in bases_of(thing))
    if thing.__name__ in ROWS:
        table = columns_described(ROWS[thing.__name__])
        docs += "".join(f"{name}:\n" for name in re.findall(r"\w+", table))
    for base in bases_of(thing):
        for name, described in fields_of(base):
            if not described and not names_argument(docs, name):
                yield f"{title}.{name}"
    for name, member in vars(thing).items():
        function = getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        above = [getattr(base, name, None) for base in bases_of(thing)[1:]]
        inherited = "\n".join(inspect.getdoc(one) or "" for one in above if one is not None)
        yield from undocumented_parts(f"{title}.{name}", function, inherited)


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda part: part)
def test_what_is_public_documents_all_its_parts(module: str, name: str) -> None:
    thing = getattr(importlib.import_module(module), name)
    assert list(undocumented(name, thing)) == []


def test_what_lacks_a_description_is_noticed() -> None:
    class Base:
        """A class.

        Attributes:
            told: with a description.
        """

        told: int
        untold: int

        def act(self, given: int) -> int:
            """Do something."""
            return given

    assert list(undocumented("Base", Base)) == [
        "Base.untold",
        "Base.act: given",
        "Base.act: what it returns",
    ]


def test_the_page_shows_all_of_it() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    shown = {line.rpartition(".")[2] for line in page.splitlines() if line.startswith("::: ")}
    assert {name for _, name in NAMES} <= shown
