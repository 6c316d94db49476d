"""Contracts of proxy families, prior attacks and analyses."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NoReturn

import numpy as np

from synthleak.analyses.analysis import Analysis, Study
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.encoders.encoder import Vectors
from synthleak.evidence.attack import Attack, observe
from synthleak.evidence.family import Family
from synthleak.evidence.observation import Floats, Observation, Targets, TextSet
from synthleak.evidence.table import look
from synthleak.testing.contract import CLOSE, Fail, check_settings, refuser, twice
from synthleak.testing.tiny import ODD_TEXTS, tiny_corpus, tiny_study

Encode = Callable[[Sequence[str]], Vectors]
_TARGETS = 16


def check_family(member: Family) -> None:
    """Hold a proxy family to its contract (docs/method.md §6).

    Args:
        member: the registered family.

    Raises:
        ContractError: with the reason, if it breaks its contract.
    """
    fail = refuser("proxy family", member)
    pickle.loads(pickle.dumps(member))
    corpus = tiny_corpus()
    texts = [record.text for record in corpus.records]
    targets, rest = texts[:_TARGETS], texts[_TARGETS:70]
    values = twice(lambda: _look(member, targets, rest, fail), np.array_equal, fail)
    if not np.array_equal(values, _look(member, targets, rest[::-1], fail)):
        fail("the order of an observation matters")
    some = _look(member, targets[3:6], rest, fail)
    if not np.allclose(some, values[3:6], rtol=CLOSE, atol=1e-9):
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
    """Hold a prior attack to its contract (docs/method.md §9).

    Args:
        attack: the attack, with its settings.

    Raises:
        ContractError: with the reason, if it breaks its contract.
    """
    fail = refuser("prior attack", attack)
    check_settings(attack, fail)
    for arm in attack.arms:
        if not 0 <= arm.column < attack.columns:
            fail(f"the arm {arm.name} counts column {arm.column} of {attack.columns}")
    texts = [record.text for record in tiny_corpus().records]
    targets, rest = texts[:_TARGETS], texts[_TARGETS:70]
    values = twice(lambda: _attack(attack, targets, rest, fail), np.array_equal, fail)
    if not np.array_equal(values, _attack(attack, targets, rest[::-1], fail)):
        fail("the order of an observation matters")
    for odd in ([], ["a"], ["Twice the same."] * 5, list(ODD_TEXTS)):
        _attack(attack, [*targets, *ODD_TEXTS[1:4]], odd, fail)


def check_analysis(made: Analysis) -> None:
    """Hold an analysis to its contract: its own rows of plain values, the same every time.

    Args:
        made: the registered analysis.

    Raises:
        ContractError: with the reason, if it breaks its contract.
    """
    fail = refuser("analysis", made)
    for study in (tiny_study(), Study((), ())):
        for row in twice(partial(made.rows, study), operator.eq, fail):
            for name, value in asdict(row).items():
                if value is not None and not isinstance(value, str | int | float):
                    fail(f"{name} is a {type(value).__name__}: a table holds words and numbers")


def _look(member: Family, targets: Sequence[str], texts: Sequence[str], fail: Fail) -> Floats:
    """Observe as the audit does, but refuse access to what is not in the key."""

    def encode(some: Sequence[str]) -> Vectors:
        if member.view == "lexical":
            fail("a lexical family asked for vectors: the encoder is not in its key")
        return Hashing().encode(some)

    asked = Targets(targets, encode)
    seen_only = "it reads R: a proxy sees targets and observation only"
    asked.auxiliary = _Forbidden(fail, seen_only)  # type: ignore[assignment]
    return _unchanged(lambda seen: look(member, asked, seen), Observation(texts, encode), fail)


def _attack(attack: Attack, targets: Sequence[str], texts: Sequence[str], fail: Fail) -> Floats:
    """Attack as the audit does, but refuse access to what is not in the key."""
    encode = Hashing().encode
    references: Any = TextSet([record.text for record in tiny_corpus().records[70:80]], encode)
    if not attack.uses_references:
        references = _Forbidden(fail, _undeclared("references", "uses_references"))
    asked = Targets(targets, encode, [record.text for record in tiny_corpus().records[80:]])
    if not attack.uses_auxiliary:
        asked.auxiliary = _Forbidden(  # type: ignore[assignment]
            fail, _undeclared("R", "uses_auxiliary")
        )
    observation = Observation(texts, encode)
    return _unchanged(lambda seen: observe(attack, asked, seen, references), observation, fail)


def _undeclared(what: str, flag: str) -> str:
    return f"it reads {what} but {flag} is false: {what} would not be in its key"


def _unchanged(
    observe_once: Callable[[Observation], Floats], observation: Observation, fail: Fail
) -> Floats:
    before = (observation.texts, [list(words) for words in observation.tokens])
    values = observe_once(observation)
    if before != (observation.texts, observation.tokens):
        fail("it changes the observation, which others read too")
    return values


class _Forbidden:
    """Takes the place of R or references where a plug-in may not read them."""

    def __init__(self, fail: Fail, reason: str) -> None:
        self._fail = fail
        self._reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        self._fail(self._reason)
