"""From records to persons: the largest and the mean value."""

from __future__ import annotations

import numpy as np

from synthleak.evidence import families
from synthleak.evidence.prior.canary import Canary
from synthleak.evidence.table import by_person, person_arms, person_proxies, record_name


def test_largest_and_mean_equal_a_loop() -> None:
    rng, sizes = np.random.default_rng(1), (3, 1, 5, 2)
    values = rng.normal(size=(4, sum(sizes), 6))
    made = by_person(values, sizes)
    assert made.shape == (4, 4, 12)
    ends = np.cumsum(sizes)
    for person, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        own = values[:, end - size : end]
        for column in range(6):
            assert np.array_equal(made[:, person, 2 * column], own[:, :, column].max(axis=1))
            mean = own[:, :, column].mean(axis=1)
            assert np.allclose(made[:, person, 2 * column + 1], mean, rtol=1e-14)


def test_proxies_come_in_the_order_of_the_columns() -> None:
    proxies = next(iter(families)).plugin.proxies
    made = person_proxies(proxies)
    assert [proxy.name for proxy in made] == [
        f"{p.name}.{way}" for p in proxies for way in ("max", "mean")
    ]
    assert [record_name(proxy.name) for proxy in made][::2] == [proxy.name for proxy in proxies]
    assert {proxy.scale for proxy in made} == {proxy.scale for proxy in proxies}


def test_arms_of_prior_attacks_point_to_their_columns() -> None:
    made = person_arms(Canary.arms)
    for place, arm in enumerate(Canary.arms):
        largest, mean = made[2 * place : 2 * place + 2]
        assert (largest.column, mean.column) == (2 * arm.column, 2 * arm.column + 1)
        assert largest.rule == mean.rule == arm.rule
