"""From records to persons: the largest and the mean value of a person's records.

A proxy is computed per record, and taken to the person in two ways (docs/method.md §15). One record
that is copied moves the largest value most, a style that is imitated throughout the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.attack import Arm
from synthleak.evidence.family import Proxy
from synthleak.evidence.observation import Floats

WAYS = {"max": "largest", "mean": "mean"}
"""How values of records become one of their person: the ending of a name, and in words."""


def person_proxies(proxies: Sequence[Proxy]) -> tuple[Proxy, ...]:
    """Return each proxy in two ways, in the order of the columns of `by_person`."""
    return tuple(
        replace(
            proxy,
            name=person_name(proxy.name, way),
            meaning=f"{word} over a person's records of: {proxy.meaning}",
        )
        for proxy in proxies
        for way, word in WAYS.items()
    )


def person_arms(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    """Return the arms of a prior attack in two ways each, with the columns of `by_person`."""
    return tuple(
        replace(
            arm,
            name=person_name(arm.name, way),
            column=len(WAYS) * arm.column + place,
            meaning=f"{word} over a person's records of: {arm.meaning}",
        )
        for arm in arms
        for place, (way, word) in enumerate(WAYS.items())
    )


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
