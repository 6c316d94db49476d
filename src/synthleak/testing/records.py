"""Contracts of readers, encoders, pool rules, designs and generators."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.core.text import fold
from synthleak.corpus.corpus import Reader, Record, assemble
from synthleak.encoders.encoder import Encoder, Vectors
from synthleak.plan.plan import EVERY_ROUND, Design, Plan
from synthleak.pools.selection import Ground, Material, Rule, Writer
from synthleak.releases.claim import Claim
from synthleak.releases.generator import Generator
from synthleak.releases.release import Request, Synthetic
from synthleak.testing.contract import CLOSE, Fail, check_settings, refuser, twice
from synthleak.testing.tiny import (
    ODD_TEXTS,
    given_pool,
    tiny_corpus,
    tiny_ground,
    tiny_pool,
    tiny_request,
)


def check_reader(reader: Reader) -> None:
    """Hold a reader to its contract: whole records, the same each time.

    Args:
        reader: the reader, with its settings; it is read twice.

    Raises:
        ContractError: with the reason, if it breaks its contract.
    """
    fail = refuser("reader", reader)
    check_settings(reader, fail)
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
    if records != list(reader.read()):
        fail("reading twice gives different records")
    if not reader.default_name():
        fail("it has no name for the corpus")
    assemble(reader)


def check_encoder(encoder: Encoder) -> None:
    """Hold an encoder to its contract: float32, finite, every text by itself.

    Args:
        encoder: the encoder, with its settings.

    Raises:
        ContractError: with the reason, if it breaks its contract.
    """
    fail = refuser("encoder", encoder)
    check_settings(encoder, fail)
    texts = [*(record.text for record in tiny_corpus(50).records[:12]), *ODD_TEXTS]
    given = list(texts)
    vectors = twice(lambda: encoder.encode(texts), np.array_equal, fail)
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
    for other, cause in ((backwards, "order"), (alone, "batch")):
        if other.shape != vectors.shape or not np.allclose(other, vectors, atol=CLOSE):
            fail(f"a text's vector depends on its {cause}")


def check_rule(rule: Rule, ground: Callable[[], Ground] = tiny_ground) -> None:
    """Hold a pool rule to its contract: positions of the corpus, by the given randomness alone.

    Args:
        rule: the rule, with its settings.
        ground: makes what the rule looks at; it is called for every try.

    Raises:
        ContractError: with the reason, if it breaks its contract.
    """
    fail = refuser("pool rule", rule)
    check_settings(rule, fail)
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

    chosen = twice(select, lambda a, b: a == b, fail)
    if asked and not rule.uses_vectors:
        fail("it reads vectors but uses_vectors is false: the encoder would not be in its key")
    if not all(isinstance(position, int | np.integer) for position in chosen):
        fail("it must return positions, that is whole numbers")
    if len(set(chosen)) < len(chosen):
        fail("it selects a record twice")
    if isinstance(rule, Writer):
        _check_written(rule, chosen, fail)
    elif chosen and not 0 <= min(chosen) <= max(chosen) < len(ground().corpus):
        fail("it selects a position that the corpus does not have")


def _check_written(rule: Writer, chosen: Sequence[int], fail: Fail) -> None:
    """Hold a rule that writes its targets to its contract: new positions, new texts."""
    corpus = tiny_corpus(240)
    pool = tiny_pool(corpus)
    known = [corpus.records[place] for place in (*pool.auxiliary, *pool.candidates)]
    cut = len(pool.auxiliary)

    def write() -> list[tuple[str, tuple[str, ...]]]:
        return list(rule.write(Material(corpus, known[:cut], known[cut:], stream(3, "written"))))

    made = twice(write, lambda a, b: a == b, fail)
    if len(made) != rule.size or len(chosen) != rule.size:
        fail(
            f"it writes {len(made)} records for {len(chosen)} positions, and its size says"
            f" {rule.size}"
        )
    texts = [fold(text) for text, _ in made]
    if len(set(texts)) < len(texts) or set(texts) & {fold(record.text) for record in known}:
        fail("it writes a text that is there already")
    if not all(_are_labels(labels) for _, labels in made):
        fail("labels must be a sorted tuple of different strings")


def check_design(design: Design) -> None:
    """Hold a design to its contract: trials that tell the truth, coins that can be tossed again.

    Args:
        design: an instance of the design.

    Raises:
        ContractError: with the reason, if it breaks its contract.
    """
    fail = refuser("design", design)
    pool = tiny_pool(tiny_corpus(240))
    if design.given:
        pool = given_pool(pool)
    game = GameSection(instances=8, records=60, rounds=3, candidates=4)
    plan = twice(
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


def check_generator(generator: Generator, *, size: int = 12) -> None:
    """Hold a generator to its contract, without privacy and, if it offers it, at ε = 2.

    Args:
        generator: the generator, with its settings.
        size: texts of each release that it is asked for.

    Raises:
        ContractError: with the reason, if it breaks its contract.
    """
    fail = refuser("generator", generator)
    check_settings(generator, fail)
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
    release = twice(lambda: list(generator.generate(request)), lambda a, b: a == b, fail)
    if request.records != given:
        fail("it changes the records that it is given")
    if len(release) != request.size and not generator.any_size:
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
            "another seed makes the same release: declare ignores_seed"
            if alone[1] == release
            else "it declares ignores_seed, and another seed makes another release"
        )
    together = [list(made) for made in generator.generate_many([request, *others])]
    if together != alone:
        fail("generate_many and generate make different releases: the batch must not matter")
    if generator.score_columns:
        scored = generator.generate_and_score([request, *others], request.records)
        if [list(made) for made, _ in scored] != alone:
            fail("generate_and_score makes other releases: who is scored must not matter")
    renamed = [replace(r, id=f"x{r.id}", group="g", meta={"site": "B"}) for r in request.records]
    if list(generator.generate(replace(request, records=tuple(renamed)))) != release:
        fail("it reads id, group or meta, which are in no key: use text and labels only")


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


def _are_labels(labels: object) -> bool:
    return (
        isinstance(labels, tuple)
        and all(isinstance(label, str) for label in labels)
        and list(labels) == sorted(set(labels))
    )
