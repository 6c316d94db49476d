"""Privacy claims: what a generator promises, as accounted events and a whole curve δ(ε).

A claim is made for add/remove neighbours. Under `replace` it is compared by the mechanism's own
replace accounting where an event states it, else by group privacy of two, labelled loose
(docs/method.md §4, Adjacency; docs/design/claims.md).

It protects one record, or one person with all records. Where several records are in or out
together, as the copies of a canary are (docs/method.md §13), a claim about records is that of a
group. So is one that is compared with persons: of as many records as a person has at most
(docs/method.md §15; docs/design/claims.md).

How much noise a budget takes is found by a search with the same accountant (docs/method.md §5).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from synthleak.core.cell import Unit
from synthleak.core.errors import GeneratorError
from synthleak.core.spec import Adjacency

_sigmas: dict[tuple[float, float, int, float], float] = {}


def gaussian_sigma(epsilon: float, delta: float, count: int = 1, rate: float = 1.0) -> float:
    """Return the noise that gives (ε, δ) for `count` unit-sensitivity Gaussian sums.

    It takes seconds, so it is found once a process; `known_sigmas` are handed to workers.

    Args:
        epsilon: the budget ε.
        delta: the budget δ.
        count: how many sums are noised.
        rate: the chance that a record is in a sum (Poisson sampling).

    Returns:
        The standard deviation, in units of what one record adds at most.

    Raises:
        GeneratorError: no noise gives this budget.
    """
    asked = (epsilon, delta, count, rate)
    if asked not in _sigmas:
        _sigmas[asked] = _gaussian_sigma(*asked)
    return _sigmas[asked]


def known_sigmas() -> dict[tuple[float, float, int, float], float]:
    return dict(_sigmas)


def learn_sigmas(known: Mapping[tuple[float, float, int, float], float]) -> None:
    """Let `gaussian_sigma` return what another process of this run found."""
    _sigmas.update(known)


def _gaussian_sigma(epsilon: float, delta: float, count: int, rate: float) -> float:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    def events(sigma: float) -> Any:
        return dp_accounting.SelfComposedDpEvent(event_of(sigma, rate), count)

    with _calibrating(f"no noise gives ε = {epsilon:g} at δ = {delta:g}"):
        return float(dp_accounting.calibrate_dp_mechanism(PLDAccountant, events, epsilon, delta))


@contextmanager
def _calibrating(what: str) -> Iterator[None]:
    """Say `what` where no noise can be found."""
    try:
        yield
    except (ValueError, RuntimeError, MemoryError, ZeroDivisionError) as error:
        what = f"{what} ({type(error).__name__})"
        raise GeneratorError(what, remedy="use a larger ε or δ") from None


@lru_cache(maxsize=256)
def remaining_sigma(epsilon: float, delta: float, spent: float, count: int) -> float:
    """Return the noise of `count` unit sums that follow one of noise `spent`, all within (ε, δ)."""
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    def events(sigma: float) -> Any:
        rest = dp_accounting.SelfComposedDpEvent(event_of(sigma, 1.0), count)
        return dp_accounting.ComposedDpEvent([event_of(spent, 1.0), rest])

    with _calibrating(f"nothing is left of ε = {epsilon:g} at δ = {delta:g}"):
        # Gaussians compose by their squares: the accountant is asked near the answer only.
        near = math.sqrt(count / (gaussian_mu(epsilon, delta) ** 2 - spent**-2))
        bracket = dp_accounting.ExplicitBracketInterval(0.97 * near, 1.03 * near)
        return float(
            dp_accounting.calibrate_dp_mechanism(PLDAccountant, events, epsilon, delta, bracket)
        )


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return δ(ε) of a Gaussian mechanism with means μ apart: Balle and Wang 2018, theorem 8.

    >>> round(gaussian_delta(1.0, 0.0), 4), round(gaussian_delta(1.0, 1.0), 4)
    (0.3829, 0.1269)
    """
    from scipy.special import log_ndtr, ndtr

    rest = math.exp(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu)))
    return max(0.0, float(ndtr(mu / 2 - epsilon / mu)) - rest)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return μ of the Gaussian mechanism that is exactly (ε, δ)."""
    from scipy.optimize import brentq

    return float(brentq(lambda mu: gaussian_delta(mu, epsilon) - delta, 1e-13, 100 + 2 * epsilon))


def event_of(sigma: float, rate: float, group: int = 1) -> Any:
    """Return a noised sum that `group` records enter or leave together, for the accountant.

    Where records are sampled, each is drawn by itself, so that a step holds a binomial number of
    the group: a mixture of Gaussians (Ganesh 2024, arXiv 2401.10294).
    """
    import dp_accounting

    if group == 1 or rate >= 1:
        plain = dp_accounting.GaussianDpEvent(sigma / group)
        return plain if rate >= 1 else dp_accounting.PoissonSampledDpEvent(rate, plain)
    from dp_accounting.dp_event import MixtureOfGaussiansDpEvent
    from scipy.stats import binom

    counts = range(group + 1)
    return MixtureOfGaussiansDpEvent(
        sigma, [float(count) for count in counts], binom.pmf(counts, group, rate).tolist()
    )


_Composed = tuple[tuple[float, float, int, int], ...]
"""For each event the noise for one record, the sampling rate, the count, and the group's size."""

_GROUP_GRID = 3e-3
"""Grid of a group's privacy loss. It errs upwards, by less than 0.001 in ε = 6, and a finer one
takes half a minute."""
_LARGEST = 700.0
"""The exponential of more than this overflows."""
_SAME_SIGMA = 1e-5
"""How far apart, as a share, searches for σ may end on two machines."""


@dataclass(frozen=True)
class GaussianEvent:
    """A noised sum: standard deviation `sigma`, and how far one record can move the sum.

    Attributes:
        what: what is summed, for people.
        sigma: the standard deviation of the noise.
        sensitivity: how far one record that is added moves the sum at most.
        replace_sensitivity: how far one that is replaced does; None if that is not known.
        count: how many such sums there are.
        rate: the chance that a record is in a sum (Poisson sampling), 1 where all are.
    """

    what: str
    sigma: float
    sensitivity: float = 1.0
    replace_sensitivity: float | None = None
    count: int = 1
    rate: float = 1.0

    def multiplier(self, adjacency: Adjacency) -> float:
        """Return the noise in the accountant's units: per record added, or per *two* replaced.

        The accountant's replace relation is that of signed vectors, which move a sum by 2. Sampled
        sums are accounted in that relation only.

        Args:
            adjacency: whether neighbours differ by a record more, or by one that is replaced.
        """
        if adjacency == "add" or self.replace_sensitivity is None or self.rate < 1:
            return self.sigma / self.sensitivity
        return 2 * self.sigma / self.replace_sensitivity

    def has_replace(self, group: int) -> bool:
        """Say whether `replace` is accounted: not for a group whose records are sampled singly.

        Args:
            group: how many records are in or out together.
        """
        return self.replace_sensitivity is not None and (group == 1 or self.rate >= 1)


@dataclass(frozen=True)
class Claim:
    """What a release promises.

    No events and ε = ∞ means that it promises nothing; no events and a finite ε, that the point
    (ε, δ) is stated by whoever made the release and taken at its word.

    Attributes:
        epsilon: the ε that is promised to one unit.
        delta: the δ that is.
        events: the noised sums that are accounted.
        adjacency: how neighbours differ.
        accountant: who accounted for the events, in words.
        public: what is taken as public.
        void: why the claim does not hold; None if it does.
        unit: what it protects, a record or a person.
        group: how many units are in or out together, for whom the curves are.
        steps: how many additions and removals put something else in the place of one unit; None
            where one other unit takes it.
    """

    epsilon: float
    delta: float
    events: tuple[GaussianEvent, ...] = ()
    adjacency: Adjacency = "add"
    accountant: str = "dp-accounting PLD"
    public: tuple[str, ...] = ()
    void: str | None = None
    unit: Unit = "record"
    group: int = 1
    steps: int | None = None

    @property
    def promises(self) -> bool:
        """Whether there is anything to hold the release to."""
        return math.isfinite(self.epsilon) and self.void is None

    @property
    def stated(self) -> bool:
        """Whether it is one (ε, δ) point that somebody states and nobody here accounted for."""
        return self.promises and not self.events

    def agrees(self, other: Claim) -> bool:
        """Say whether both promise the same: σ is found by a search, which machines round apart.

        Args:
            other: the claim to compare with.
        """
        if len(self.events) != len(other.events):
            return False
        pairs = list(zip(self.events, other.events, strict=True))
        near = all(math.isclose(one.sigma, two.sigma, rel_tol=_SAME_SIGMA) for one, two in pairs)
        alike = tuple(replace(one, sigma=two.sigma) for one, two in pairs)
        return near and replace(self, events=alike) == other

    def delta_at(self, epsilon: float, adjacency: Adjacency = "add") -> float:
        """Return δ(ε) of the accounted events, or what follows from the stated point.

        Args:
            epsilon: the ε to ask about.
            adjacency: whether neighbours differ by a record more, or by one that is replaced.
        """
        if not self.promises:
            return 1.0
        if self.stated:
            return _delta_of_point(self.point(adjacency), epsilon)
        if adjacency == "replace" and self.steps is not None:
            return self._stepwise().delta_at(epsilon, "add")
        if adjacency == "replace" and self.loose:
            growth = 1 + math.exp(min(epsilon / 2, _LARGEST))
            return min(1.0, growth * self.delta_at(epsilon / 2, "add"))
        return float(_accountant(self._composed(adjacency), adjacency).get_delta(epsilon))

    def epsilon_at(self, delta: float, adjacency: Adjacency = "add") -> float:
        """Return the smallest ε of the accounted events, or of the stated point, at this δ.

        Args:
            delta: the δ to ask about.
            adjacency: whether neighbours differ by a record more, or by one that is replaced.
        """
        if not self.promises:
            return math.inf
        if self.stated:
            return _epsilon_of_point(self.point(adjacency), delta)
        if adjacency == "replace" and self.steps is not None:
            return self._stepwise().epsilon_at(delta, "add")
        if adjacency == "replace" and self.loose:
            return _smallest(lambda epsilon: self.delta_at(epsilon, "replace") <= delta)
        return float(_accountant(self._composed(adjacency), adjacency).get_epsilon(delta))

    @property
    def loose(self) -> bool:
        """Whether `replace` is bounded by group privacy alone."""
        grouped = not all(event.has_replace(self.group) for event in self.events)
        return self.stated or grouped or self.steps is not None

    def for_group(self, size: int) -> Claim:
        """Return what is promised to a group.

        Args:
            size: how many records are in or out together.

        >>> stated_claim(1.0, 0.0).for_group(3).epsilon_at(0.0)
        3.0
        """
        return replace(self, group=size)

    def for_persons(self, most: int) -> Claim:
        """Return the claim as it holds for persons with at most `most` records.

        Where it protects records, that is the claim for a group of that size. Where it protects
        persons, it holds as it is; but what takes a person's place under `replace` are records of
        at most `most` others, each of whom counts as removed and added again.

        Args:
            most: how many records a person has at most.
        """
        if self.unit == "person":
            return replace(self, steps=2 * most + 1)
        return self.for_group(most)

    def _stepwise(self) -> Claim:
        assert self.steps is not None
        return replace(self, group=self.steps, steps=None)

    def point(self, adjacency: Adjacency) -> tuple[float, float]:
        """Return the stated (ε, δ) as group privacy has it: kε, and δ·(e^kε − 1)/(e^ε − 1).

        k is the size of the group; replacing is removing and adding, hence twice as many.

        Args:
            adjacency: whether neighbours differ by a record more, or by one that is replaced.
        """
        size = self.group
        if adjacency == "replace":
            size = self.steps or 2 * self.group
        growth = sum(math.exp(min(one * self.epsilon, _LARGEST)) for one in range(size))
        return size * self.epsilon, min(1.0, growth * self.delta)

    def _composed(self, adjacency: Adjacency) -> _Composed:
        return tuple((e.multiplier(adjacency), e.rate, e.count, self.group) for e in self.events)

    def to_json(self) -> dict[str, Any]:
        """Return the claim as JSON has it."""
        content = asdict(self)
        for name, usual in (("unit", "record"), ("group", 1), ("steps", None)):
            if content[name] == usual:  # keys of claims about records stay the same
                del content[name]
        content["epsilon"] = "inf" if math.isinf(self.epsilon) else self.epsilon
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Claim:
        """Return the claim of some JSON.

        Args:
            content: what `to_json` returned.
        """
        return cls(
            **{
                **content,
                "epsilon": float(content["epsilon"]),
                "events": tuple(GaussianEvent(**event) for event in content["events"]),
                "public": tuple(content["public"]),
            }
        )


def no_claim() -> Claim:
    return Claim(math.inf, 0.0)


def stated_claim(epsilon: float, delta: float) -> Claim:
    """Return the claim of a program that says it honours (ε, δ): taken at its word.

    Args:
        epsilon: the ε that is stated.
        delta: the δ that is stated.
    """
    return Claim(epsilon, delta, accountant="stated by the program, not accounted here")


@lru_cache(maxsize=256)
def _accountant(composed: _Composed, adjacency: Adjacency) -> Any:
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import PLDAccountant

    relation = {
        "add": NeighboringRelation.ADD_OR_REMOVE_ONE,
        "replace": NeighboringRelation.REPLACE_ONE,
    }[adjacency]
    mixed = any(rate < 1 and group > 1 for _, rate, _, group in composed)
    grid = {"value_discretization_interval": _GROUP_GRID} if mixed else {}
    accountant = PLDAccountant(relation, **grid)
    for multiplier, rate, count, group in composed:
        accountant.compose(event_of(multiplier, rate, group), count)
    return accountant


def _delta_of_point(point: tuple[float, float], epsilon: float) -> float:
    """Return the best δ(ε) that follows from one (ε, δ) point.

    The worst mechanism of that point tells all with probability δ and else answers by randomised
    response at ε, whose curve is known (Kairouz, Oh and Viswanath 2015).
    """
    top, delta = point
    if epsilon >= top:
        return delta
    return delta + (1 - delta) * -math.expm1(epsilon - top) / (1 + math.exp(-top))


def _epsilon_of_point(point: tuple[float, float], delta: float) -> float:
    """Return the smallest ε at which `_delta_of_point` is at most `delta`."""
    top, stated = point
    if delta < stated:
        return math.inf
    if stated >= 1:
        return 0.0
    rest = 1 - (delta - stated) / (1 - stated) * (1 + math.exp(-top))
    return max(0.0, top + math.log(rest)) if rest > 0 else 0.0


def _smallest(holds: Any) -> float:
    low, high = 0.0, 1.0
    while not holds(high):
        low, high = high, high * 2
        if high > 1e4:
            return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
