"""The contract checks: good plug-ins pass, and each way to be bad is refused with its reason."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import Field

from synthleak.core.errors import ContractError, UserError
from synthleak.core.runtime import Runtime
from synthleak.core.seeds import stream
from synthleak.corpus import Reader, Record
from synthleak.corpus.readers.demo import Demo
from synthleak.encoders import Encoder, Vectors
from synthleak.evidence import Arm, Attack, Family, Floats, Observation, Proxy, Targets, TextSet
from synthleak.plan import Plan, Trials
from synthleak.plan.lone import Lone
from synthleak.pools import Ground, Rule
from synthleak.releases import Claim, Generator, Request, Synthetic, no_claim, stated_claim
from synthleak.testing import (
    assert_no_leak,
    check_attack,
    check_design,
    check_encoder,
    check_family,
    check_generator,
    check_reader,
    check_rule,
    tiny_corpus,
    tiny_request,
)


class GoodReader(Reader):
    kind: ClassVar[str] = "good"

    def read(self) -> Iterator[Record]:
        yield from (Record(str(i), f"text {i}", ("A", "B")) for i in range(5))


class EmptyReader(GoodReader):
    def read(self) -> Iterator[Record]:
        return iter(())


class BlankReader(GoodReader):
    def read(self) -> Iterator[Record]:
        yield Record("1", "  ")


class UnsortedReader(GoodReader):
    def read(self) -> Iterator[Record]:
        yield Record("1", "x", ("B", "A"))


class RandomReader(GoodReader):
    def read(self) -> Iterator[Record]:
        yield Record("1", f"x {random.random()}")


class Unregistered(GoodReader):
    kind: ClassVar[str] = ""


class GoodEncoder(Encoder):
    kind: ClassVar[str] = "good"

    def encode(self, texts: Sequence[str]) -> Vectors:
        rows = [[len(text), text.count("a")] for text in texts]
        return np.array(rows, dtype=np.float32).reshape(-1, 2)


class DoubleEncoder(GoodEncoder):
    def encode(self, texts: Sequence[str]) -> Any:
        return super().encode(texts).astype(np.float64)


class ShortEncoder(GoodEncoder):
    def encode(self, texts: Sequence[str]) -> Vectors:
        return super().encode(texts)[1:]


class NanEncoder(GoodEncoder):
    def encode(self, texts: Sequence[str]) -> Vectors:
        vectors = super().encode(texts)
        return np.where(vectors[:, :1] == 0, np.float32(np.inf), vectors)


class CentringEncoder(GoodEncoder):
    def encode(self, texts: Sequence[str]) -> Vectors:
        vectors = super().encode(texts)
        centred: Vectors = vectors - vectors.mean(axis=0)
        return centred


class RandomEncoder(GoodEncoder):
    def encode(self, texts: Sequence[str]) -> Vectors:
        return np.random.random((len(texts), 2)).astype(np.float32)  # noqa: NPY002 - the sin


class EatingEncoder(GoodEncoder):
    def encode(self, texts: Sequence[str]) -> Vectors:
        vectors = super().encode(texts)
        if isinstance(texts, list) and len(texts) > 1:
            texts[0] = "eaten"
        return vectors


class GoodRule(Rule):
    kind: ClassVar[str] = "good"

    def select(self, ground: Ground) -> Sequence[int]:
        return sorted(ground.rng.choice(len(ground.corpus), 5, replace=False).tolist())


class PeekingRule(GoodRule):
    def select(self, ground: Ground) -> Sequence[int]:
        return np.argsort(ground.vectors()[:, 0])[:4].tolist()


class TwiceRule(GoodRule):
    def select(self, ground: Ground) -> Sequence[int]:
        return [1, 1, 2]


class FarRule(GoodRule):
    def select(self, ground: Ground) -> Sequence[int]:
        return [1, len(ground.corpus)]


class NamingRule(GoodRule):
    def select(self, ground: Ground) -> Sequence[Any]:
        return [record.id for record in ground.corpus.records[:3]]


class LuckyRule(GoodRule):
    def select(self, ground: Ground) -> Sequence[int]:
        return random.sample(range(len(ground.corpus)), 5)


class GoodGenerator(Generator):
    kind: ClassVar[str] = "good"

    def generate(self, request: Request) -> Sequence[Synthetic]:
        rng = stream(request.seed, "good")
        picks = rng.integers(len(request.records), size=request.size)
        return [Synthetic(request.records[i].text, request.records[i].labels) for i in picks]


class PrivateGenerator(GoodGenerator):
    @property
    def private_by_design(self) -> bool:
        return True

    def claim(self, request: Request) -> Claim:
        if np.isinf(request.epsilon):
            return no_claim()
        return stated_claim(request.epsilon, request.delta)


class RoundGenerator(GoodGenerator):
    strength: float = 10


class SecretiveGenerator(GoodGenerator):
    strength: float = Field(default=1.0, exclude=True)

    def identity(self) -> dict[str, Any]:
        return super().identity() | {"strength": self.strength}


class SmallGenerator(GoodGenerator):
    def generate(self, request: Request) -> Sequence[Synthetic]:
        return super().generate(request)[1:]


class LuckyGenerator(GoodGenerator):
    def generate(self, request: Request) -> Sequence[Synthetic]:
        return super().generate(replace(request, seed=random.randrange(10**9)))


class DeafGenerator(GoodGenerator):
    def generate(self, request: Request) -> Sequence[Synthetic]:
        return super().generate(replace(request, seed=0))


class LyingGenerator(GoodGenerator):
    @property
    def ignores_seed(self) -> bool:
        return True


class CrowdGenerator(GoodGenerator):
    def generate_many(self, requests: Sequence[Request]) -> Iterator[Sequence[Synthetic]]:
        for number, request in enumerate(requests):
            yield self.generate(replace(request, seed=request.seed + number))


class ScoringGenerator(GoodGenerator):
    @property
    def score_columns(self) -> tuple[str, ...]:
        return ("sum", "mean")

    def generate_and_score(
        self, requests: Sequence[Request], records: Sequence[Any], *, sample: bool = True
    ) -> Iterator[tuple[Sequence[Synthetic], Any]]:
        for request in requests:
            yield self.generate(request), np.zeros((len(records), 2))


class TunedGenerator(ScoringGenerator):
    def generate_and_score(
        self, requests: Sequence[Request], records: Sequence[Any], *, sample: bool = True
    ) -> Iterator[tuple[Sequence[Synthetic], Any]]:
        return super().generate_and_score([replace(r, seed=9) for r in requests], records)


class NosyGenerator(GoodGenerator):
    def generate(self, request: Request) -> Sequence[Synthetic]:
        return [Synthetic(f"{r.text} {request.records[0].id}") for r in super().generate(request)]


class EatingGenerator(GoodGenerator):
    def generate(self, request: Request) -> Sequence[Synthetic]:
        request.records[0].meta["seen"] = True  # type: ignore[index]
        return super().generate(request)


class StringGenerator(GoodGenerator):
    def generate(self, request: Request) -> Sequence[Any]:
        return [record.text for record in super().generate(request)]


class SilentGenerator(PrivateGenerator):
    def claim(self, request: Request) -> Claim:
        return no_claim()


class BoastingGenerator(PrivateGenerator):
    def claim(self, request: Request) -> Claim:
        return replace(super().claim(request), epsilon=request.epsilon * 3)


class CountingGenerator(PrivateGenerator):
    def claim(self, request: Request) -> Claim:
        return replace(super().claim(request), public=(f"{len(request.records)} records",))


def overlap(targets: Targets, observation: Observation) -> Floats:
    """Return the largest share of the target's words that one text holds."""
    return np.array(
        [
            [max(len({*x} & {*c}) / max(len({*x}), 1) for c in observation.tokens)]
            for x in targets.tokens
        ]
    )


def distance(targets: Targets, observation: Observation) -> Floats:
    return 1 - overlap(targets, observation)


def relative(targets: Targets, observation: Observation) -> Floats:
    values = overlap(targets, observation)
    return values - values.mean()


def noisy(targets: Targets, observation: Observation) -> Floats:
    return overlap(targets, observation) + np.random.random((len(targets), 1))  # noqa: NPY002


def undefined(targets: Targets, observation: Observation) -> Floats:
    return np.array([[1 / len(x) if x else np.nan] for x in targets.tokens])


def flat(targets: Targets, observation: Observation) -> Floats:
    return overlap(targets, observation)[:, 0]


def encoding(targets: Targets, observation: Observation) -> Floats:
    return (targets.vectors @ observation.vectors.T).max(axis=1, keepdims=True)


def informed(targets: Targets, observation: Observation) -> Floats:
    return overlap(targets, observation) * len(targets.auxiliary.texts)


def sorting(targets: Targets, observation: Observation) -> Floats:
    values = overlap(targets, observation)
    for words in observation.tokens:
        words.sort()
    return values


def member(look: Any, **changes: Any) -> Family:
    proxies = (Proxy("one", "one", "lexical", "ratio", "a test"),)
    return replace(Family("one", 1, proxies, look), **changes)


class GoodAttack(Attack):
    kind: ClassVar[str] = "good"
    columns: ClassVar[int] = 1
    arms: ClassVar[tuple[Arm, ...]] = (Arm("a", "S1", 0, "lexical", "as it is", "a test"),)

    def look(
        self, targets: Targets, observation: Observation, references: TextSet | None
    ) -> Floats:
        return overlap(targets, observation)


class InformedAttack(GoodAttack):
    def look(
        self, targets: Targets, observation: Observation, references: TextSet | None
    ) -> Floats:
        assert references is not None
        return overlap(targets, observation) * len(references.texts)


class ManyArmedAttack(GoodAttack):
    arms: ClassVar[tuple[Arm, ...]] = (Arm("b", "S1", 3, "lexical", "as it is", "a test"),)


class NamelessDesign(Lone):
    def draw(self, pool: Any, game: Any, seed: int) -> Plan:
        plan = super().draw(pool, game, seed)
        return replace(plan, sets=tuple(replace(item, name="set") for item in plan.sets))


class DishonestDesign(Lone):
    def draw(self, pool: Any, game: Any, seed: int) -> Plan:
        plan = super().draw(pool, game, seed)
        return replace(plan, trials=replace(plan.trials, member=~plan.trials.member))


class ShortDesign(Lone):
    def redraw(self, plan: Plan, game: Any, rng: np.random.Generator) -> Trials:
        trials = super().redraw(plan, game, rng)
        return Trials(
            *(getattr(trials, f)[1:] for f in ("set", "target", "member", "round", "weight"))
        )


@pytest.mark.parametrize(
    ("check", "plugin"),
    [
        (check_reader, GoodReader()),
        (check_encoder, GoodEncoder()),
        (check_rule, GoodRule()),
        (check_generator, GoodGenerator()),
        (check_generator, ScoringGenerator()),
        (check_generator, PrivateGenerator()),
        (check_generator, RoundGenerator()),
        (check_family, member(overlap)),
        (check_attack, GoodAttack()),
        (check_design, Lone()),
    ],
    ids=lambda item: getattr(item, "__name__", type(item).__name__),
)
def test_good_plugins_pass(check: Callable[[Any], None], plugin: Any) -> None:
    check(plugin)


@pytest.mark.parametrize(
    ("check", "plugin", "reason"),
    [
        (check_reader, EmptyReader(), "it read no record"),
        (check_reader, BlankReader(), "record 1 has no text"),
        (check_reader, UnsortedReader(), "record 1: labels must be a sorted tuple"),
        (check_reader, RandomReader(), "reading twice gives different records"),
        (check_reader, Unregistered(), "it is not registered"),
        (check_encoder, DoubleEncoder(), "vectors must be a float32 array"),
        (check_encoder, ShortEncoder(), r"19 texts gave vectors of shape \(18, 2\)"),
        (check_encoder, NanEncoder(), "a vector is not finite"),
        (check_encoder, CentringEncoder(), "a text's vector depends on its batch"),
        (check_encoder, RandomEncoder(), "two calls with one seed differ"),
        (check_encoder, EatingEncoder(), "it changes the texts|two calls with one seed differ"),
        (
            check_generator,
            SecretiveGenerator(strength=2),
            "where a run folder spells its settings out",
        ),
        (check_rule, PeekingRule(), "it reads vectors but uses_vectors is false"),
        (check_rule, TwiceRule(), "it selects a record twice"),
        (check_rule, FarRule(), "it selects a position that the corpus does not have"),
        (check_rule, NamingRule(), "it must return positions"),
        (check_rule, LuckyRule(), "two calls with one seed differ"),
        (check_generator, SmallGenerator(), "it made 11 records where 12 were asked for"),
        (check_generator, LuckyGenerator(), "two calls with one seed differ"),
        (check_generator, DeafGenerator(), "another seed makes the same release"),
        (check_generator, LyingGenerator(), "it declares ignores_seed"),
        (check_generator, CrowdGenerator(), "generate_many and generate make different releases"),
        (check_generator, TunedGenerator(), "who is scored must not matter"),
        (check_generator, NosyGenerator(), "it reads id, group or meta"),
        (check_generator, EatingGenerator(), "it changes the records that it is given"),
        (check_generator, StringGenerator(), "a release must hold Synthetic records"),
        (check_generator, SilentGenerator(), "it takes ε = 2 and promises nothing"),
        (check_generator, BoastingGenerator(), "its claim does not reach ε = 2"),
        (check_generator, CountingGenerator(), "its claim depends on the private records"),
        (check_family, member(distance), "one falls when the observation holds the target"),
        (check_family, member(relative), "a target's value depends on the other targets"),
        (check_family, member(noisy), "two calls with one seed differ"),
        (check_family, member(undefined), "a value that is not finite"),
        (check_family, member(flat), r"returned \(16,\) values, not \(16, 1\)"),
        (check_family, member(encoding), "a lexical family asked for vectors"),
        (
            check_family,
            member(informed),
            "it reads R: a proxy sees targets and observation only",
        ),
        (check_family, member(sorting), "it changes the observation"),
        (check_attack, InformedAttack(), "it reads references but uses_references is false"),
        (check_attack, ManyArmedAttack(), "the arm b counts column 3 of 1"),
        (check_design, NamelessDesign(), "two sets have one name"),
        (check_design, DishonestDesign(), "does not tell the truth about membership"),
        (check_design, ShortDesign(), "a redraw has another number of trials"),
    ],
    ids=lambda item: getattr(item, "__name__", type(item).__name__)[:30],
)
def test_bad_plugins_are_refused_with_a_reason(
    check: Callable[[Any], None], plugin: Any, reason: str
) -> None:
    with pytest.raises(ContractError, match=reason):
        check(plugin)


def test_a_plugin_that_no_worker_can_have_is_refused() -> None:
    class Local(GoodGenerator):
        pass

    with pytest.raises(ContractError, match="it cannot be sent to a worker"):
        check_generator(Local())


def test_checks_leave_the_global_generators_as_they_were() -> None:
    random.seed(5)
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
    check_generator(GoodGenerator())
    check_family(member(overlap))
    assert before == (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index]  # noqa: NPY002


def test_tiny_material_is_tiny_and_the_same_each_time() -> None:
    assert len(tiny_corpus()) <= 120
    assert tiny_request().records == tiny_request().records
    assert len(tiny_request(nominal=20).records) == 20


def test_a_release_that_gives_members_away_fails_a_test() -> None:
    texts = [record.text for record in Demo(size=180).read()]
    members, holdout, others = texts[:60], texts[60:120], texts[120:]
    how = {"random_split": True, "encoder": "hashing", "runtime": Runtime(workers=1)}
    with pytest.raises(AssertionError, match=r"\(p_holm = .* <= 0.01"):
        assert_no_leak(members, holdout, members[:20] + others[20:], **how)
    assert assert_no_leak(members, holdout, others, **how).leak_found is False
    with pytest.raises(AssertionError, match=r"allow_cannot_say=True lets it pass"):
        assert_no_leak(members[:2], holdout[:2], others, **how)
    with pytest.raises(UserError, match="no column"):
        assert_no_leak(members, holdout, others, fail_if="leaks")
