"""The evidence table: every proxy's value for every target on every observation.

A proxy is computed per record, and taken to the person in two ways, as the largest and as the mean
value of a person's records (docs/method.md §15). One record that is copied moves the largest value
most, a style that is imitated throughout the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from synthleak.core.errors import SpecError
from synthleak.core.registry import calling
from synthleak.core.seeds import digest
from synthleak.core.store import Store, fetch, name_of
from synthleak.core.validation import nearest
from synthleak.encoders.encoder import dump_array, load_array
from synthleak.evidence.attack import Arm
from synthleak.evidence.family import Family, Proxy, families
from synthleak.evidence.observation import Floats, Observation, Targets, check_values

Signal = TypeVar("Signal", Proxy, Arm)


@dataclass(frozen=True)
class Evidence:
    """`values[set, target, proxy]` for the sets of a plan, in the plan's order.

    `counted` are the columns of families that count: their scores, `[set, target, column]`, follow
    from which sets calibrate which target, `uses[target, set]`.
    """

    values: Floats
    proxies: tuple[Proxy, ...]
    counted: tuple[tuple[slice, Callable[[NDArray[np.bool_]], Floats]], ...] = ()


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
    labels = [targets.labels] if member.plugin is not None and member.plugin.reads_labels else []
    return digest("evidence", member.identity(encoder), targets.key, text, *labels)


def look(
    member: Family, targets: Targets, observation: Observation, *, counts: bool = False
) -> Floats:
    """Return the values of one family, checked against its contract.

    With `counts`, return what is kept of an observation: what the family counts, if it does.
    """
    shape = (len(targets), len(member.proxies))
    with calling("family", member.name, member.look):
        if counts and member.counts is not None:
            return member.counts.count(targets, observation)
        return check_values(f"the family {member.name!r}", member.look(targets, observation), shape)


def put_evidence(store: Store, key: str, values: Floats) -> None:
    store.put(name_of("evidence", key), dump_array(values))


def get_evidence(store: Store, key: str) -> Floats:
    return np.asarray(fetch(store, "evidence", key, load_array), dtype=np.float64)


WAYS = {"max": "largest", "mean": "mean"}
"""How values of records become one of their person: the ending of a name, and in words."""


def person_proxies(proxies: Sequence[Proxy]) -> tuple[Proxy, ...]:
    """Return each proxy in two ways, in the order of the columns of `by_person`."""
    return tuple(_for_person(proxy, way) for proxy in proxies for way in WAYS)


def person_arms(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms of a prior attack in two ways each, with the columns of `by_person`."""
    return tuple(
        replace(_for_person(arm, way), column=len(WAYS) * arm.column + place)
        for arm in arms
        for place, way in enumerate(WAYS)
    )


def _for_person(signal: Signal, way: str) -> Signal:
    meaning = f"{WAYS[way]} over a person's records of: {signal.meaning}"
    return replace(signal, name=person_name(signal.name, way), meaning=meaning)


def person_name(proxy: str, way: str = "max") -> str:
    """Return what a proxy is called when it is taken to persons.

    >>> person_name("cos_max"), person_name("cos_max", "mean")
    ('cos_max.max', 'cos_max.mean')
    """
    return f"{proxy}.{way}"


def record_name(proxy: str) -> str:
    """Return the proxy that is computed per record.

    >>> record_name("cos_max.mean"), record_name("cos_max")
    ('cos_max', 'cos_max')
    """
    return proxy.partition(".")[0]


def starts_of(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return where the records of each person begin.

    >>> starts_of((2, 1, 3)).tolist()
    [0, 2, 3]
    """
    count = np.asarray(sizes, dtype=np.int64)
    starts: NDArray[np.int64] = np.cumsum(count) - count
    return starts


def by_person(values: Floats, sizes: Sequence[int]) -> Floats:
    """Turn `values[set, record, column]` into `[set, person, way of column]`.

    Records stand person by person, `sizes` of each.

    >>> by_person(np.array([[[1.0], [5.0], [7.0]]]), (2, 1)).tolist()
    [[[5.0, 3.0], [7.0, 7.0]]]
    """
    starts = starts_of(sizes)
    largest = np.maximum.reduceat(values, starts, axis=1)
    mean = np.add.reduceat(values, starts, axis=1) / np.asarray(sizes)[None, :, None]
    both: Floats = np.stack([largest, mean], axis=3)
    return both.reshape(*both.shape[:2], -1)
