"""One contract test over every registered plug-in, including those not yet written.

A new plug-in is tested with its default settings. One that cannot do without settings needs an
example here; one that reads files of its own format, or needs a language model, is tested in its
own room and skipped here.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from synthleak.analyses.analysis import analyses
from synthleak.core.errors import MissingExtra, SpecError
from synthleak.core.registry import PluginRegistry, Registry
from synthleak.corpus.corpus import readers
from synthleak.encoders.encoder import encoders
from synthleak.evidence.attack import attacks
from synthleak.evidence.family import families
from synthleak.plan.plan import designs
from synthleak.pools.pool import Ground, rules
from synthleak.releases.release import generators
from synthleak.testing import (
    check_analysis,
    check_attack,
    check_design,
    check_encoder,
    check_family,
    check_generator,
    check_reader,
    check_rule,
    tiny_corpus,
    tiny_ground,
)

Settings = dict[str, Any]


def rows(tmp_path: Path) -> list[dict[str, Any]]:
    return [
        {"id": str(i), "text": f"record {i} says {i * i}", "labels": f"L{i % 3};M"}
        for i in range(9)
    ]


def jsonl(tmp_path: Path) -> Settings:
    path = tmp_path / "records.jsonl"
    path.write_text("\n".join(map(json.dumps, rows(tmp_path))), encoding="utf-8")
    return {"path": str(path)}


def table(mark: str) -> Callable[[Path], Settings]:
    def write(tmp_path: Path) -> Settings:
        path = tmp_path / "records.txt"
        lines = [mark.join(rows(tmp_path)[0]), *(mark.join(r.values()) for r in rows(tmp_path))]
        path.write_text("\n".join(lines), encoding="utf-8")
        return {"path": str(path)}

    return write


def ids(tmp_path: Path) -> Settings:
    path = tmp_path / "ids.txt"
    path.write_text("\n".join(r.id for r in tiny_corpus().records[5:9]), encoding="utf-8")
    return {"path": str(path)}


def program(tmp_path: Path) -> Settings:
    code = "{ line[(NR * 7919 + {seed}) % 10007] = $0 } END { for (i in line) print line[i] }"
    shell = f"awk '{code}' {{train}} | head -n {{n}} > {{out}}"
    return {"argv": ["sh", "-c", shell]}


EXAMPLES: dict[tuple[str, str], Callable[[Path], Settings]] = {
    ("reader", "jsonl"): jsonl,
    ("reader", "csv"): table(","),
    ("reader", "tsv"): table("\t"),
    ("pool rule", "ids"): ids,
    ("pool rule", "labels"): lambda _: {"any": ["sleep"]},
    ("pool rule", "random"): lambda _: {"match": "earlier"},
    ("pool rule", "rare"): lambda _: {"max_frequency": 8},
    ("pool rule", "union"): lambda _: {"of": ["earlier", "later"]},
    ("pool rule", "where"): lambda _: {"where": "id != 'x'"},
    ("generator", "command"): program,
}


def ground() -> Ground:
    made = tiny_ground()
    return Ground(made.corpus, made.vectors, {**made.earlier, "later": (20, 21, 22)}, made.rng)


CHECKS: dict[str, tuple[Registry[Any], Callable[[Any], None]]] = {
    "reader": (readers, check_reader),
    "encoder": (encoders, check_encoder),
    "pool rule": (rules, lambda rule: check_rule(rule, ground)),
    "design": (designs, check_design),
    "generator": (generators, check_generator),
    "proxy family": (families, check_family),
    "prior attack": (attacks, check_attack),
    "analysis": (analyses, check_analysis),
}


@pytest.mark.parametrize(
    ("title", "name"),
    [(title, entry.name) for title, (shelf, _) in CHECKS.items() for entry in shelf],
)
def test_every_plugin_keeps_its_contract(title: str, name: str, tmp_path: Path) -> None:
    shelf, check = CHECKS[title]
    entry = shelf.get(name)
    needs = entry.facts.get("needs")
    if needs and importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    try:
        check(
            built(title, shelf, name, tmp_path)
            if isinstance(shelf, PluginRegistry)
            else entry.plugin
        )
    except MissingExtra as error:
        pytest.skip(str(error))


def built(title: str, shelf: PluginRegistry[Any], name: str, tmp_path: Path) -> Any:
    """Return a plug-in with default settings, or with those of its example."""
    fields = shelf.get(name).plugin.model_fields
    example = EXAMPLES.get((title, name))
    if example is None and any(map(_is_file, fields.values())):
        pytest.skip("it reads files of its own: tested in its room")
    if example is None and "backbone" in fields:
        pytest.skip("it needs a language model: tested in its room")
    if example is None and "model" in fields and fields["model"].is_required():
        pytest.skip("it needs a model folder: tested in its room")
    try:
        settings = example(tmp_path) if example else {}
        return shelf.build(name, settings, key="kind", where=(title,), base=tmp_path)
    except SpecError as error:
        pytest.fail(f"give an example of settings for {title} {name!r} in this file ({error})")


def _is_file(field: Any) -> bool:
    return bool(field.is_required() and "Path" in str(field.annotation))


def test_every_shelf_is_checked() -> None:
    from synthleak.core.registry import REGISTRIES

    checked = {shelf.title for shelf, _ in CHECKS.values()}
    assert {shelf.title for shelf in REGISTRIES} <= checked
