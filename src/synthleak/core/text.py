"""How text is cut up: folding, tokens, character grams, entity spans (docs/method.md §1, §6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator

_TOKEN = re.compile(r"\w+")
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_ENTITY = re.compile(
    # Plain words hold no entity: passing over a run of them at once halves the time.
    r"(?<!\S)(?:[a-z]++[.,;:!?]?+(?:\s++|$))++"
    r"|(?P<url>https?://[^\s<>\"']*[^\s<>\"'.,;:!?)\]]|www\.[^\s<>\"']*[^\s<>\"'.,;:!?)\]])"
    # An address starts where its run of letters does: else a script without spaces takes for ever.
    r"|(?P<email>(?<![\w.+-])[\w.+-]++@[\w-]++(?:\.[\w-]+)+)"
    r"|(?P<number>\d+(?:[.,:/-]\d+)*)"
    r"|(?P<capitals>\b[^\W\d_a-zà-öø-ÿ]{2,}\b)"
    r"|(?P<name>\b[A-ZÀ-ÖØ-Þ][^\W\d_]+(?:\s+[A-ZÀ-ÖØ-Þ][^\W\d_]+)*)"
)
_MIXED = re.compile(r"(?<![\w/-])(?=[\w/-]*\d)(?=[\w/-]*[^\W\d_])[\w/-]++")
"""A run that holds digits and letters. It is looked through once, from where it starts."""
_DIGIT = re.compile(r"\d")
_IDENTIFIER = re.compile(r"\b\w++(?:[-/]\w++)*+")
_TO_LAST_DIGIT = re.compile(r"[\w/-]*\d")
_TO_LAST_LETTER = re.compile(r"[\w/-]*[^\W\d_]")
_BEFORE_IDENTIFIERS = (None, "url", "email")
"""What is preferred to an identifier that starts in the same place."""
_POINTING: dict[str | None, Callable[[str], bool]] = {
    "number": lambda span: sum(map(str.isdigit, span)) >= 4,
    "code": lambda span: len(span) >= 5,
    **dict.fromkeys(("name", "url", "e-mail"), bool),
}
"""What may point to one person."""


def fold(text: str) -> str:
    """Fold case and white space: the form in which two texts count as the same.

    >>> fold("  Dr. GREY\\n said ")
    'dr. grey said'
    """
    return " ".join(text.casefold().split())


def tokens(text: str) -> list[str]:
    r"""Return the lower-cased ``\w+`` tokens of a text.

    >>> tokens("Took 20mg, at 8pm!")
    ['took', '20mg', 'at', '8pm']
    """
    return _TOKEN.findall(text.lower())


def words(text: str) -> list[str]:
    """Return the words of a text as they are written; an apostrophe does not end one.

    >>> words("I don't see Dr. O’Brien!")
    ['I', "don't", 'see', 'Dr', 'O’Brien']
    """
    return _WORD.findall(text)


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return where each of these words begins and ends."""
    return [match.span() for match in _WORD.finditer(text)]


def char_grams(text: str, n: int = 5) -> set[str]:
    """Return the set of character n-grams of the folded text; a shorter text is one gram.

    >>> sorted(char_grams("Abc def"))
    ['abc d', 'bc de', 'c def']
    >>> char_grams("abc"), char_grams("")
    ({'abc'}, set())
    """
    folded = fold(text)
    if len(folded) <= n:
        return {folded} if folded else set()
    return {folded[start : start + n] for start in range(len(folded) - n + 1)}


def entities(text: str) -> list[str]:
    """Return the entity-like spans of a text, folded, in order.

    Numbers, identifiers (letters and digits mixed), words in capitals, e-mail and web addresses,
    and capitalised spans that do not merely open a sentence.

    >>> entities("Dr Maria Olsen raised it to 40 mg on 3/4. See www.x.org or AB-12.")
    ['maria olsen', '40', '3/4', 'www.x.org', 'ab-12']
    """
    folded_spans = []
    for match in _spans(text):
        if match.re is _ENTITY and match.lastgroup is None:
            continue
        span = match.group()
        if match.lastgroup == "name" and _opens_sentence(text, match.start()):
            span = span.partition(" ")[2].strip()
        if span:
            folded_spans.append(fold(span))
    return folded_spans


def identifiers(text: str) -> list[tuple[str, int, int]]:
    """Return what may point to one person, in order: its kind, where it begins and ends.

    E-mail and web addresses, numbers of at least 4 digits, codes (letters and digits mixed, at
    least 5 characters), and capitalised names inside a sentence.

    >>> text = "Dr Maria Olsen, 555-0199, raised it to 40 mg. See AB-129 at x@y.org."
    >>> [(kind, text[begin:end]) for kind, begin, end in identifiers(text)]
    [('name', 'Maria Olsen'), ('number', '555-0199'), ('code', 'AB-129'), ('e-mail', 'x@y.org')]
    """
    found = []
    for match in _spans(text):
        kind = "code" if match.re is _IDENTIFIER else match.lastgroup
        begin, end = match.span()
        if kind == "name":
            last = end - len(match.group().split()[-1])
            code = _MIXED.match(text, last)  # such as AB-12 after a capitalised word
            if _opens_sentence(text, begin):
                begin = end - len("".join(match.group().split(maxsplit=1)[1:]))
            if code and begin <= last:
                found.append(("name", begin, last - 1))
                kind, begin, end = "code", *code.span()
        kind = "e-mail" if kind == "email" else kind
        if kind in _POINTING and _POINTING[kind](text[begin:end]):
            found.append((str(kind), begin, end))
    return [one for one in found if one[1] < one[2]]


def _spans(text: str) -> Iterator[re.Match[str]]:
    """Yield entities and runs of plain words one after another, in time linear in the text."""
    if not _DIGIT.search(text) or not _MIXED.search(text):  # most texts have no identifier
        yield from _ENTITY.finditer(text)
        return
    identifiers = _identifiers(text)
    next(identifiers)
    other, identifier, start = _ENTITY.search(text), identifiers.send(0), 0
    while other or identifier:
        if other and other.start() < start:
            other = _ENTITY.search(text, start)
        elif identifier and identifier.start() < start:
            identifier = identifiers.send(start)
        elif identifier is None or (
            other
            and (other.start(), other.lastgroup not in _BEFORE_IDENTIFIERS)
            < (identifier.start(), True)
        ):
            assert other is not None
            yield other
            start = other.end()
        else:
            yield identifier
            start = identifier.end()


def _identifiers(text: str) -> Generator[re.Match[str] | None, int, None]:
    """Answer with the first identifier from a place on: digits and letters follow in its run."""
    start = yield None
    for run in _MIXED.finditer(text):
        ends = (_TO_LAST_DIGIT.match(text, *run.span()), _TO_LAST_LETTER.match(text, *run.span()))
        last = min(end.end() for end in ends if end)
        while identifier := _IDENTIFIER.search(text, max(start, run.start()), run.end()):
            if identifier.start() >= last:
                break
            start = yield identifier
    while True:
        yield None


def _opens_sentence(text: str, start: int) -> bool:
    """Look back over spaces and quotes, no farther: a long document costs no more than a short."""
    position = start - 1
    while position >= 0 and text[position] in " \t\"'(":
        position -= 1
    return position < 0 or text[position] in ".!?\n"
