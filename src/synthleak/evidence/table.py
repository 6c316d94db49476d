"""The evidence table: every proxy's value for every target on every observation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.core.errors import SpecError
from synthleak.core.identity import digest
from synthleak.core.plugins import calling
from synthleak.core.store import Store, fetch, name_of
from synthleak.core.validation import nearest
from synthleak.encoders.encoder import dump_array, load_array
from synthleak.evidence.family import Family, Proxy, families
from synthleak.evidence.observation import Floats, Observation, Targets, check_values


@dataclass(frozen=True)
class Evidence:
    """`values[set, target, proxy]` for the sets of a plan, in the plan's order."""

    values: Floats
    proxies: tuple[Proxy, ...]


def chosen_families(names: str | Sequence[str]) -> list[Family]:
    """Return the families that the spec names, in catalogue order."""
    available = [entry.plugin for entry in families]
    if names == "all":
        return available
    known = [item.name for item in available]
    for position, name in enumerate(names):
        if name not in known:
            raise SpecError(
                f"unknown proxy family {name!r}",
                f"evidence.families[{position}]",
                nearest(name, known),
            )
    return [item for item in available if item.name in names]


def evidence_key(member: Family, encoder: dict[str, object], targets: Targets, text: str) -> str:
    """Return the key of one family's values on one observation, from contents alone."""
    return digest("evidence", member.identity(encoder), targets.key, text)


def look(member: Family, targets: Targets, observation: Observation) -> Floats:
    """Return the values of one family, checked against its contract."""
    shape = (len(targets), len(member.proxies))
    with calling("family", member.name, member.look):
        return check_values(f"the family {member.name!r}", member.look(targets, observation), shape)


def put_evidence(store: Store, key: str, values: Floats) -> None:
    """Keep one family's values."""
    store.put(name_of("evidence", key), dump_array(values))


def get_evidence(store: Store, key: str) -> Floats:
    """Return one family's values."""
    return np.asarray(fetch(store, "evidence", key, load_array), dtype=np.float64)
