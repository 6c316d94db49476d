"""Predicates: a small language for questions to a table row, such as ``site == 'B' and age >= 80``.

Names stand for columns; numbers, 'strings', true, false, none and [lists] are values; the words are
``and or not in``, the signs ``== != < <= > >=`` and parentheses. Nothing is ever evaluated as
Python. The value written in the predicate decides how a cell is read: beside a number a cell counts
as a number, beside a string as text, so that ``age >= 80`` also works on a CSV file, where every
cell is text. A missing cell satisfies no comparison.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
Test = Callable[[Row], list[str]]
"""Returns the clauses by which a row satisfies a predicate, with their values; none if it fails."""

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
  | (?P<string>'[^']*'|"[^"]*")
  | (?P<sign>==|!=|<=|>=|=|<|>|\(|\)|\[|\]|,)
  | (?P<quoted>`[^`]+`)
  | (?P<name>[^\W\d][\w.-]*)
    )""",
    re.VERBOSE,
)
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "none": None, "inf": math.inf}
_WORDS = {"and", "or", "not", "in"}
_DEEPEST = 50
_FALSE = {"", "0", "0.0", "false", "no", "none", "nan"}


@dataclass(frozen=True)
class Operand:
    """A column or a written value."""

    name: str | None
    value: Any = None

    def of(self, row: Row) -> Any:
        return self.value if self.name is None else row.get(self.name)

    def shown(self, row: Row) -> str:
        """Write it with its value in a row.

        >>> Operand("copied_p").shown({"copied_p": 0.00312345}), Operand(None, 0.05).shown({})
        ('copied_p = 0.0031', '0.05')
        """
        value = self.of(row)
        if value is None:
            return self.name or "none"
        if self.name is None:
            return f"{value:g}" if isinstance(value, float) else repr(value)
        return f"{self.name} = {value:{'.2g' if isinstance(value, float) else ''}}"


@dataclass(frozen=True)
class Predicate:
    """A question that every row answers with yes or no."""

    text: str
    names: tuple[str, ...]
    test: Test
    comparisons: tuple[tuple[Operand, Operand | None], ...] = ()
    """What is compared with what; nothing, where a column stands alone as a mark."""

    def __call__(self, row: Row) -> bool:
        return bool(self.test(row))


def parse_predicate(text: str) -> Predicate:
    """Read a predicate; a mistake is a `ValueError` that says where it stands.

    >>> old = parse_predicate("site in ['A', 'B'] and not (age < 80)")
    >>> old.names, old({"site": "B", "age": "81"}), old({"site": "C", "age": 90})
    (('site', 'age'), True, False)
    >>> parse_predicate("age >=")
    Traceback (most recent call last):
    ...
    ValueError: a value is missing at the end
    """
    reader = _Reader(text)
    test = reader.either()
    if reader.here is not None:
        raise ValueError(f"{reader.here.text!r} at character {reader.here.at} is not understood")
    return Predicate(text, tuple(dict.fromkeys(reader.names)), test, tuple(reader.comparisons))


def is_marked(value: Any) -> bool:
    """Say whether a cell holds a mark: anything but nothing, zero, false or no.

    >>> [is_marked(x) for x in (1, "!", "yes", True, 0, " ", "False", None, float("nan"))]
    [True, True, True, True, False, False, False, False, False]
    """
    return value is not None and str(value).strip().casefold() not in _FALSE


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


class _Reader:
    """Reads a predicate from left to right, one rule of its grammar per method."""

    def __init__(self, text: str) -> None:
        self.names: list[str] = []
        self.comparisons: list[tuple[Operand, Operand | None]] = []
        self._depth = 0
        self._tokens = list(_cut(text))
        self._read = 0

    @property
    def here(self) -> _Token | None:
        return self._tokens[self._read] if self._read < len(self._tokens) else None

    def either(self) -> Test:
        tests = [self._both()]
        while self._take("or"):
            tests.append(self._both())
        return lambda row: [clause for test in tests for clause in test(row)]

    def _both(self) -> Test:
        tests = [self._turned()]
        while self._take("and"):
            tests.append(self._turned())

        def both(row: Row) -> list[str]:
            satisfied = [test(row) for test in tests]
            return [clause for clauses in satisfied for clause in clauses] if all(satisfied) else []

        return both

    def _turned(self) -> Test:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError(f"parentheses and nots are nested more than {_DEEPEST} deep")
        try:
            if self._take("not"):
                start = self._read
                test = self._turned()
                words = ["not", *(token.text for token in self._tokens[start : self._read])]
                return lambda row: [] if test(row) else [" ".join(words)]
            if self._take("("):
                test = self.either()
                self._need(")")
                return test
            return self._comparison()
        finally:
            self._depth -= 1

    def _comparison(self) -> Test:
        left = self._operand()
        sign = self.here
        if sign is not None and sign.kind == "sign" and sign.text in _ORDER:
            self._read += 1
            right = self._operand()
            self.comparisons.append((left, right))
            order = _ORDER[sign.text]
            return lambda row: (
                [f"{left.shown(row)} {sign.text} {right.shown(row)}"]
                if _compare(left, order, right, row)
                else []
            )
        outside = self._take("not")
        if outside or self._follows("in"):
            self._need("in")
            self._need("[")
            members = [self._operand()]
            while self._take(","):
                members.append(self._operand())
            self._need("]")
            self.comparisons += [(left, member) for member in members]
            listed = ", ".join(member.shown({}) for member in members)
            within = f"{'not ' * outside}in [{listed}]"
            return lambda row: (
                [f"{left.shown(row)} {within}"] if _within(left, members, row, outside) else []
            )
        self.comparisons.append((left, None))
        return lambda row: [str(left.name or left.value)] if is_marked(left.of(row)) else []

    def _operand(self) -> Operand:
        token = self.here
        if token is None:
            raise ValueError("a value is missing at the end")
        if token.kind == "sign" or (token.kind == "name" and token.text in _WORDS):
            raise ValueError(f"a value is missing before {token.text!r} at character {token.at}")
        self._read += 1
        if token.kind == "number":
            return Operand(None, float(token.text))
        if token.kind == "string":
            return Operand(None, token.text[1:-1])
        if token.kind == "name" and token.text in _CONSTANTS:
            return Operand(None, _CONSTANTS[token.text])
        name = token.text.strip("`")
        self.names.append(name)
        return Operand(name)

    def _follows(self, text: str) -> bool:
        token = self.here
        return token is not None and token.kind in ("sign", "name") and token.text == text

    def _take(self, text: str) -> bool:
        taken = self._follows(text)
        self._read += taken
        return taken

    def _need(self, text: str) -> None:
        if not self._take(text):
            where = f"at character {self.here.at}" if self.here else "at the end"
            raise ValueError(f"{text!r} is missing {where}")


def _cut(text: str) -> Iterator[_Token]:
    start, end = 0, len(text.rstrip())
    while start < end:
        match = _TOKEN.match(text, start)
        if match is None:
            at = start + len(text[start:]) - len(text[start:].lstrip())
            raise ValueError(f"{text[at]!r} at character {at + 1} is not understood")
        kind = str(match.lastgroup)
        yield _Token(kind, match[kind], match.start(kind) + 1)
        start = match.end()


def _compare(left: Operand, order: Callable[[Any, Any], bool], right: Operand, row: Row) -> bool:
    written = [side.value for side in (left, right) if side.name is None]
    one, two = left.of(row), right.of(row)
    if None in written:  # `age == none` asks whether the cell is missing
        other = two if one is None else one
        return order(_is_missing(other), True) if order in (operator.eq, operator.ne) else False
    if _is_missing(one) or _is_missing(two):
        return False
    if any(isinstance(value, bool) for value in written):
        return order(is_marked(one), is_marked(two))
    if any(isinstance(value, str) for value in written):
        return order(str(one), str(two))
    numbers = _number(one), _number(two)
    if None not in numbers:
        return order(*numbers)
    return False if written else order(str(one), str(two))


def _within(left: Operand, members: list[Operand], row: Row, outside: bool) -> bool:
    if _is_missing(left.of(row)):
        return False
    return any(_compare(left, operator.eq, member, row) for member in members) != outside


def _is_missing(value: Any) -> bool:
    """An empty cell of a CSV file counts as missing, as null does."""
    return value is None or value == ""


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number
