"""For authors of plug-ins: tiny material, and a contract check for every shelf.

>>> from synthleak.releases.generators.echo import Echo
>>> check_generator(Echo(p=0.5))

A check returns nothing, or raises a `ContractError` with the reason. What it asks is what the rest
of the house relies on: results that are the same on every machine and in any company, keys that
hold all that a result depends on, and nothing seen that an attacker would not see.
"""

from __future__ import annotations

import copy
import math
import operator
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import lru_cache, partial
from typing import Any, NoReturn

import numpy as np

from synthleak.analyses.analysis import Analysis, Study
from synthleak.analyses.cells import CellRow
from synthleak.corpus.corpus import Corpus, Reader, Record, assemble
from synthleak.corpus.readers.demo import Demo
from synthleak.encoders.encoder import Encoder, Vectors
from synthleak.encoders.shelf.hashing import Hashing
from synthleak.errors import ContractError
from synthleak.evidence.attack import Attack, strike
from synthleak.evidence.family import Family
from synthleak.evidence.observation import Floats, Observation, Targets, TextSet
from synthleak.evidence.table import look
from synthleak.identity import digest
from synthleak.plan.plan import EVERY_ROUND, Design, Plan
from synthleak.pools.pool import Given, Ground, Pool, Rule, split
from synthleak.registry import Plugin
from synthleak.releases.claim import Claim
from synthleak.releases.release import Generator, Request, Synthetic, public_side
from synthleak.seeds import stream
from synthleak.spec import GameSection

__all__ = [
    "check_analysis",
    "check_attack",
    "check_design",
    "check_encoder",
    "check_family",
    "check_generator",
    "check_reader",
    "check_rule",
    "tiny_corpus",
    "tiny_ground",
    "tiny_pool",
    "tiny_request",
    "tiny_study",
]

ODD_TEXTS = (
    "",
    "!!!",
    "naïve ÉTÉ 你好 🙂",
    "a",
    "word " * 300,
    "Twice the same.",
    "Twice the same.",
)
_CLOSE = 1e-4
_TARGETS = 16


@lru_cache(maxsize=8)
def tiny_corpus(size: int = 120, seed: int = 1) -> Corpus:
    """Return a small corpus of invented patient messages."""
    return assemble(Demo(size=size, seed=seed), name="tiny")


def tiny_pool(corpus: Corpus | None = None) -> Pool:
    """Return ten targets with candidates and auxiliary records."""
    corpus = corpus or tiny_corpus()
    return split(corpus, "tiny", range(0, len(corpus), len(corpus) // 10), auxiliary=0.5, seed=1)


def tiny_ground(seed: int = 1) -> Ground:
    """Return what a pool rule may look at; the pool `earlier` is taken."""
    corpus = tiny_corpus()
    vectors = Hashing().encode([record.text for record in corpus.records])
    return Ground(corpus, vectors.copy, {"earlier": (3, 14, 15)}, stream(seed, "tiny"))


def tiny_request(
    *, epsilon: float = float("inf"), seed: int = 1, size: int = 12, nominal: int = 24
) -> Request:
    """Return a set of private records to make a release from."""
    corpus = tiny_corpus()
    pool = tiny_pool(corpus)
    records = [corpus.records[position] for position in pool.candidates[:nominal]]
    public = public_side([corpus.records[p] for p in pool.auxiliary], corpus.combinations)
    return Request(
        records=tuple(records),
        nominal=nominal,
        size=size,
        epsilon=epsilon,
        delta=1 / nominal**2,
        public=public,
        seed=seed,
    )


def check_reader(reader: Reader) -> None:
    """Hold a reader to its contract: whole records, the same each time."""
    fail = _refuser("reader", reader)
    _check_settings(reader, fail)
    records = list(reader.read())
    if not records:
        fail("it read no record")
    for number, record in enumerate(records, start=1):
        if not isinstance(record, Record):
            fail(f"item {number} is a {type(record).__name__}, not a Record")
        if not isinstance(record.id, str) or not isinstance(record.text, str):
            fail(f"record {number}: id and text must be strings")
        if not record.text.strip():
            fail(f"record {number} has no text")
        if not _are_labels(record.labels):
            fail(f"record {number}: labels must be a sorted tuple of different strings")
    if [_facts(record) for record in records] != [_facts(record) for record in reader.read()]:
        fail("reading twice gives different records")
    if not reader.default_name():
        fail("it has no name for the corpus")
    assemble(reader)


def check_encoder(encoder: Encoder) -> None:
    """Hold an encoder to its contract: float32, finite, every text by itself."""
    fail = _refuser("encoder", encoder)
    _check_settings(encoder, fail)
    texts = [*(record.text for record in tiny_corpus(50).records[:12]), *ODD_TEXTS]
    given = list(texts)
    vectors = _twice(lambda: encoder.encode(texts), np.array_equal, fail)
    if texts != given:
        fail("it changes the texts that it is given")
    if not isinstance(vectors, np.ndarray) or vectors.dtype != np.float32:
        fail("vectors must be a float32 array")
    if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.shape[1] < 1:
        fail(f"{len(texts)} texts gave vectors of shape {vectors.shape}")
    if not np.isfinite(vectors).all():
        fail("a vector is not finite")
    backwards = encoder.encode(texts[::-1])[::-1]
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    for other, company in ((backwards, "order"), (alone, "company")):
        if other.shape != vectors.shape or not np.allclose(other, vectors, atol=_CLOSE):
            fail(f"a text's vector depends on its {company}")


def check_rule(rule: Rule, ground: Callable[[], Ground] = tiny_ground) -> None:
    """Hold a pool rule to its contract: positions of the corpus, by the given randomness alone.

    `ground` makes what the rule looks at; it is called anew for every try.
    """
    fail = _refuser("pool rule", rule)
    _check_settings(rule, fail)
    if rule.count() < 1:
        fail("count() is below 1")
    asked: list[int] = []

    def select() -> list[int]:
        before = ground()
        earlier = {name: tuple(taken) for name, taken in before.earlier.items()}

        def vectors() -> Vectors:
            asked.append(1)
            return before.vectors()

        chosen = list(rule.select(replace(before, vectors=vectors)))
        if {name: tuple(taken) for name, taken in before.earlier.items()} != earlier:
            fail("it changes the earlier pools")
        return chosen

    chosen = _twice(select, lambda a, b: a == b, fail)
    if asked and not rule.uses_vectors:
        fail("it looks at vectors but uses_vectors is false: the encoder would not be in its key")
    if not all(isinstance(position, int | np.integer) for position in chosen):
        fail("it must return positions, that is whole numbers")
    if len(set(chosen)) < len(chosen):
        fail("it selects a record twice")
    if chosen and not 0 <= min(chosen) <= max(chosen) < len(ground().corpus):
        fail("it selects a position that the corpus does not have")


def check_generator(generator: Generator, *, size: int = 12) -> None:
    """Hold a generator to its contract, without privacy and, if it offers it, at ε = 2."""
    fail = _refuser("generator", generator)
    _check_settings(generator, fail)
    if generator.batch < 1:
        fail("batch is below 1")
    for epsilon in (float("inf"), *([2.0] if generator.private_by_design else [])):
        request = tiny_request(epsilon=epsilon, size=size)
        if not 0 < generator.default_delta(request.nominal) < 1:
            fail("default_delta must lie between 0 and 1")
        _check_releases(generator, request, fail)
        _check_claim(generator, request, fail)


def _check_releases(generator: Generator, request: Request, fail: Fail) -> None:
    given = copy.deepcopy(request.records)
    release = _twice(lambda: list(generator.generate(request)), lambda a, b: a == b, fail)
    if request.records != given:
        fail("it changes the records that it is given")
    if len(release) != request.size:
        fail(f"it made {len(release)} records where {request.size} were asked for")
    for record in release:
        if not isinstance(record, Synthetic) or not isinstance(record.text, str):
            fail("a release must hold Synthetic records with a text")
        if not isinstance(record.labels, tuple):
            fail("labels must be a tuple")
    others = [replace(request, seed=2), replace(request, seed=3, records=request.records[1:])]
    alone = [release, *(list(generator.generate(other)) for other in others)]
    if (alone[1] == release) != generator.ignores_seed:
        fail(
            "another seed makes the same release: say so with ignores_seed"
            if alone[1] == release
            else "it says that it ignores the seed, and another seed makes another release"
        )
    together = [list(made) for made in generator.generate_many([request, *others])]
    if together != alone:
        fail("generate_many makes other releases than generate does: company must not matter")
    renamed = [replace(r, id=f"x{r.id}", group="g", meta={"site": "B"}) for r in request.records]
    if list(generator.generate(replace(request, records=tuple(renamed)))) != release:
        fail("it looks at id, group or meta, which are in no key: text and labels are all it gets")


def _check_claim(generator: Generator, request: Request, fail: Fail) -> None:
    claim = generator.claim(request)
    if not isinstance(claim, Claim):
        fail(f"claim() returned a {type(claim).__name__}")
    if generator.claim(replace(request, seed=9, records=request.records[1:])) != claim:
        fail("its claim depends on the private records or the seed")
    if Claim.from_json(claim.to_json()) != claim:
        fail("its claim does not survive JSON")
    if not np.isfinite(request.epsilon):
        return
    if claim.void is None and not claim.promises:
        fail(f"it takes ε = {request.epsilon:g} and promises nothing")
    if claim.promises and claim.delta_at(request.epsilon) > request.delta * 1.01:
        fail(f"its claim does not reach ε = {request.epsilon:g} at δ = {request.delta:g}")


def check_family(member: Family) -> None:
    """Hold a proxy family to its contract (METHOD §6)."""
    fail = _refuser("proxy family", member)
    pickle.loads(pickle.dumps(member))
    corpus = tiny_corpus()
    texts = [record.text for record in corpus.records]
    targets, rest = texts[:_TARGETS], texts[_TARGETS:70]
    values = _twice(lambda: _look(member, targets, rest, fail), np.array_equal, fail)
    if not np.array_equal(values, _look(member, targets, rest[::-1], fail)):
        fail("the order of an observation matters")
    some = _look(member, targets[3:6], rest, fail)
    if not np.allclose(some, values[3:6], rtol=_CLOSE, atol=1e-9):
        fail("a target's value depends on the other targets")
    for odd in ([], ["a"], ["Twice the same."] * 5, list(ODD_TEXTS), [*rest, *targets]):
        _look(member, [*targets, *ODD_TEXTS[1:4]], odd, fail)
    gain = np.array(
        [
            _look(member, [target], [*rest[1:], target], fail)[0] - values[row]
            for row, target in enumerate(targets)
        ]
    )
    # Far more than chance: a fitted model may fall for some targets by the luck of its draws.
    noise = gain.std(axis=0) / np.sqrt(len(targets))
    for proxy, falls in zip(member.proxies, gain.mean(axis=0) < -3 * noise - 1e-9, strict=True):
        if falls:
            fail(f"{proxy.name} falls when the observation holds the target: higher means member")


def check_attack(attack: Attack) -> None:
    """Hold a prior attack to its contract (METHOD §9)."""
    fail = _refuser("prior attack", attack)
    _check_settings(attack, fail)
    for arm in attack.arms:
        if not 0 <= arm.column < attack.columns:
            fail(f"the arm {arm.name} counts column {arm.column} of {attack.columns}")
    texts = [record.text for record in tiny_corpus().records]
    targets, rest = texts[:_TARGETS], texts[_TARGETS:70]
    values = _twice(lambda: _strike(attack, targets, rest, fail), np.array_equal, fail)
    if not np.array_equal(values, _strike(attack, targets, rest[::-1], fail)):
        fail("the order of an observation matters")
    for odd in ([], ["a"], ["Twice the same."] * 5, list(ODD_TEXTS)):
        _strike(attack, [*targets, *ODD_TEXTS[1:4]], odd, fail)


def check_analysis(made: Analysis) -> None:
    """Hold an analysis to its contract: its own rows of plain values, the same every time."""
    fail = _refuser("analysis", made)
    for study in (tiny_study(), Study((), ())):
        for row in _twice(partial(made.rows, study), operator.eq, fail):
            for name, value in asdict(row).items():
                if value is not None and not isinstance(value, str | int | float):
                    fail(f"{name} is a {type(value).__name__}: a table holds words and numbers")


def tiny_study() -> Study:
    """Return the tables of a small audit, made by hand."""
    samples: dict[str, Any] = {"str": "x", "int": 3, "float": 0.5, "float | None": 0.5}
    plain = {name: samples[kind] for name, kind in CellRow.__annotations__.items()}
    cells = [
        CellRow(**(plain | {"epsilon": epsilon, "scenario": scenario, "view": view}))
        for epsilon in (math.inf, 1.0)
        for scenario, view in (("S1", "lexical"), ("S2", "embedding"))
    ]
    return Study(tuple(cells), ())


def _look(member: Family, targets: Sequence[str], texts: Sequence[str], fail: Fail) -> Floats:
    """Look as the audit does, but refuse what is not in the family's key."""

    def encode(some: Sequence[str]) -> Vectors:
        if member.view == "lexical":
            fail("a lexical family asked for vectors: the encoder is not in its key")
        return Hashing().encode(some)

    asked = _asked(targets, encode, member.uses_auxiliary, fail)
    return _untouched(lambda seen: look(member, asked, seen), Observation(texts, encode), fail)


def _strike(attack: Attack, targets: Sequence[str], texts: Sequence[str], fail: Fail) -> Floats:
    """Strike as the audit does, but refuse what is not in the attack's key."""
    encode = Hashing().encode
    references: Any = TextSet([record.text for record in tiny_corpus().records[70:80]], encode)
    if not attack.uses_references:
        references = _Forbidden(fail, "references", "uses_references")
    asked = _asked(targets, encode, attack.uses_auxiliary, fail)
    observation = Observation(texts, encode)
    return _untouched(lambda seen: strike(attack, asked, seen, references), observation, fail)


def _asked(targets: Sequence[str], encode: Encode, uses_auxiliary: bool, fail: Fail) -> Targets:
    domain = [record.text for record in tiny_corpus().records[80:]]
    asked = Targets(targets, encode, domain if uses_auxiliary else [])
    if not uses_auxiliary:
        asked.auxiliary = _Forbidden(fail, "R", "uses_auxiliary")  # type: ignore[assignment]
    return asked


def _untouched(
    glance: Callable[[Observation], Floats], observation: Observation, fail: Fail
) -> Floats:
    before = (observation.texts, [list(words) for words in observation.tokens])
    values = glance(observation)
    if before != (observation.texts, observation.tokens):
        fail("it changes the observation that others will look at")
    return values


class _Forbidden:
    """Stands where R or references would be, for those who did not say that they use them."""

    def __init__(self, fail: Fail, what: str, flag: str) -> None:
        self._fail = fail
        self._reason = f"it looks at {what} but {flag} is false: {what} would not be in its key"

    def __getattr__(self, name: str) -> NoReturn:
        self._fail(self._reason)


def check_design(design: Design) -> None:
    """Hold a design to its contract: trials that tell the truth, coins that can be tossed again."""
    fail = _refuser("design", design)
    pool = tiny_pool(tiny_corpus(240))
    if design.given:
        pool = _given_pool(pool)
    game = GameSection(instances=8, records=60, rounds=3, candidates=4)
    plan = _twice(
        lambda: design.draw(pool, game, 5), lambda a, b: a.to_bytes() == b.to_bytes(), fail
    )
    if Plan.from_bytes(plan.to_bytes()).to_bytes() != plan.to_bytes():
        fail("its plan does not survive the store")
    names = [item.name for item in plan.sets]
    if len(set(names)) < len(names):
        fail("two sets have one name")
    trials = plan.trials
    for position, target, member in zip(trials.set, trials.target, trials.member, strict=True):
        item = plan.sets[position]
        if item.form != "release":
            fail(f"a trial asks about {item.name}, which no generator sees")
        if bool(member) != (plan.targets[target] in item.records):
            fail(f"a trial on {item.name} does not tell the truth about membership")
    for baseline in plan.baselines:
        if baseline.uses.shape != (len(plan.targets), len(plan.sets)):
            fail(f"the baseline of {baseline.scenario} has the shape {baseline.uses.shape}")
    again = design.redraw(plan, game, stream(1, "redraw"))
    rows = [int((t.round <= 0).sum() - (t.round < EVERY_ROUND).sum()) for t in (trials, again)]
    if rows[0] != rows[1] or again.rounds != trials.rounds:
        fail("a redraw has another number of trials or rounds")


def _given_pool(pool: Pool) -> Pool:
    """Say of every other target that it was in."""
    member = tuple(place % 2 == 0 for place in range(len(pool.targets)))
    inside = [target for target, was in zip(pool.targets, member, strict=True) if was]
    return replace(
        pool,
        candidates=tuple(sorted({*pool.candidates, *inside})),
        given=Given(member, tuple(range(len(member))), coins=False),
    )


Fail = Callable[[str], NoReturn]
Encode = Callable[[Sequence[str]], Vectors]


def _refuser(shelf: str, plugin: object) -> Fail:
    name = getattr(plugin, "kind", "") or getattr(plugin, "name", "") or type(plugin).__name__

    def fail(reason: str) -> NoReturn:
        raise ContractError(f"{shelf} {name!r}: {reason}")

    return fail


def _check_settings(plugin: Plugin, fail: Fail) -> None:
    if not plugin.kind:
        fail("it is on no shelf: decorate it with register(name, version=1)")
    key = digest(plugin.identity())
    try:
        again = pickle.loads(pickle.dumps(plugin))
    except Exception as error:
        fail(f"it cannot be sent to a worker ({type(error).__name__})")
    if digest(again.identity()) != key:
        fail("its identity changes on the way to a worker")


def _twice(make: Callable[[], Any], same: Callable[[Any, Any], bool], fail: Fail) -> Any:
    """Make something under two states of the global generators: they must not matter."""
    with _global_seed(1):
        first = make()
    with _global_seed(2):
        second = make()
    if not same(first, second):
        fail("it does not give the same twice: draw from synthleak.seeds.stream, by the given seed")
    return first


@contextmanager
def _global_seed(seed: int) -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002 - others may use it
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002


def _are_labels(labels: object) -> bool:
    return (
        isinstance(labels, tuple)
        and all(isinstance(label, str) for label in labels)
        and list(labels) == sorted(set(labels))
    )


def _facts(record: Record) -> tuple[object, ...]:
    return record.id, record.text, record.labels, record.group, dict(record.meta)
