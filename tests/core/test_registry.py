"""One contract test over every registered plug-in, including those not yet written.

A new plug-in is tested with its default settings, a new reader on a file of paragraphs. One that
needs other settings has an example in tests/support/examples.py; none is exempt.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.examples import EXAMPLES, plain_text
from synthleak.analyses import analyses
from synthleak.core.engine import engines
from synthleak.core.errors import MissingExtra, SpecError
from synthleak.core.registry import PluginRegistry, Registry
from synthleak.corpus import readers
from synthleak.encoders import encoders
from synthleak.evidence import attacks, families
from synthleak.evidence.family import model_families
from synthleak.plan import designs
from synthleak.pools import Ground, rules
from synthleak.releases import generators
from synthleak.testing import (
    check_analysis,
    check_attack,
    check_design,
    check_encoder,
    check_engine,
    check_family,
    check_generator,
    check_reader,
    check_rule,
    tiny_ground,
)


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
    "opt-in proxy family": (model_families, lambda made: check_family(made.family())),
    "prior attack": (attacks, check_attack),
    "analysis": (analyses, check_analysis),
    "engine": (engines, check_engine),
}


@pytest.mark.parametrize(
    ("title", "name"),
    [
        (title, entry.name)
        for title, (registry, _) in CHECKS.items()
        for entry in registry
        if entry.name != "ray"  # on a cluster: tests/core/test_ray_engine.py
    ],
)
def test_every_plugin_keeps_its_contract(title: str, name: str, tmp_path: Path) -> None:
    registry, check = CHECKS[title]
    entry = registry.get(name)
    try:
        check(
            built(title, registry, name, tmp_path)
            if isinstance(registry, PluginRegistry)
            else entry.plugin
        )
    except MissingExtra as error:
        pytest.skip(str(error))


def built(title: str, registry: PluginRegistry[Any], name: str, folder: Path) -> Any:
    """Return a plug-in with the settings of its example, or with default settings."""
    no_example = plain_text if title == "reader" else (lambda _: {})
    try:
        settings = EXAMPLES.get((title, name), no_example)(folder)
        if (title, name) not in EXAMPLES and "path" not in registry.get(name).plugin.model_fields:
            settings = {}
        return registry.build(name, settings, key="kind", where=(title,), base=folder)
    except SpecError as error:
        pytest.fail(f"add settings for {title} {name!r} to tests/support/examples.py ({error})")


def test_every_registry_has_a_contract() -> None:
    from synthleak.core.registry import REGISTRIES

    checked = {registry.title for registry, _ in CHECKS.values()}
    assert {registry.title for registry in REGISTRIES} <= checked
