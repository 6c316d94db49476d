"""The spec as it was understood, every default written out, and what changed between two."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from synthleak.audit.setup import Setup, identity_of
from synthleak.core.identity import plain
from synthleak.core.registry import Plugin

NAMED = {"pools": "pool", "generators": "generator", "families": "family", "priors": "prior attack"}
"""Parts of an identity that are looked up by name, and what one of them is called."""


def changes(old: Mapping[str, Any], setup: Setup) -> list[str]:
    """Say in a few words what differs between a folder's identity and a new audit's."""
    new: dict[str, Any] = plain(identity_of(setup))
    found: list[str] = []
    for key, now in new.items():
        was = old.get(key, {})
        if was == now:
            continue
        if isinstance(now, dict) and not isinstance(was, dict):
            found.append(f"{key} is of another kind")
            continue
        if one := NAMED.get(key):
            found += [f"{one} {name} is new" for name in now if name not in was]
            found += [f"{one} {name} is gone" for name in was if name not in now]
            for name in now:
                if name in was and was[name] != now[name]:
                    found += _differences(f"{name}.", was[name], now[name])
        elif key == "corpus" and was.get("name") == now["name"]:
            found.append("the records of the corpus have changed")
        elif isinstance(now, dict):
            found += _differences(f"{key}.", was, now)
        else:
            found.append(f"{key} was {was}, is {now}")
    return found


def _differences(prefix: str, was: Any, now: Any) -> list[str]:
    if not isinstance(was, dict) or not isinstance(now, dict):
        return [f"{prefix.rstrip('.')} was {was}, is {now}"]
    return [
        f"{prefix}{key} was {was.get(key)}, is {now.get(key)}"
        for key in {**was, **now}
        if was.get(key) != now.get(key)
    ]


def resolved(setup: Setup) -> dict[str, Any]:
    """Return the spec with every default written out, so that the folder explains itself."""
    spec, plugins = setup.spec, setup.plugins
    listed = [section.name for section in spec.pool]
    return {
        "seed": spec.seed,
        "plugins": [file.path.resolve() for file in setup.files] or None,
        "corpus": {
            "reader": spec.corpus.reader,
            "name": setup.corpus.name,
            "description": spec.corpus.description,
            **settings_of(plugins.reader),
        },
        "encoders": {
            "pools": {"kind": plugins.pool_encoder.kind, **settings_of(plugins.pool_encoder)},
            "evidence": {"kind": plugins.encoder.kind, **settings_of(plugins.encoder)},
        },
        "pool": [
            {
                "name": order.name,
                "rule": order.rule.kind,
                "optional": order.optional or None,
                **settings_of(order.rule),
            }
            for order in sorted((*plugins.orders, *setup.empty), key=lambda o: listed.index(o.name))
        ],
        "game": spec.game.model_dump(),
        "generator": [
            {
                "name": section.name,
                "kind": section.kind,
                "epsilon": list(section.epsilon),
                "delta": section.delta,
                "label_prior": section.label_prior,
                **settings_of(generator),
            }
            for section, generator in plugins.generators
        ],
        "evidence": {
            "families": [member.name for member in plugins.families if member.model is None],
            "also": [
                {"kind": member.name, **settings_of(member.model)}
                for member in plugins.families
                if member.model is not None
            ]
            or None,
        },
        "prior": [{"kind": attack.kind, **attack.model_dump()} for attack in plugins.attacks],
        "analyses": {**spec.analyses.model_dump(), "also": list(spec.analyses.also)},
    }


def settings_of(plugin: Plugin) -> dict[str, Any]:
    """Return the settings of a plug-in: paths hold from any folder, plug-ins within by kind."""

    def spelled(key: str, value: Any) -> Any:
        within = getattr(plugin, key)
        if isinstance(within, Plugin):
            return {"kind": within.kind, **settings_of(within)}
        return absolute(value)

    def absolute(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [absolute(item) for item in value]
        return value.resolve() if isinstance(value, Path) else value

    return {key: spelled(key, value) for key, value in plugin.model_dump().items()}
