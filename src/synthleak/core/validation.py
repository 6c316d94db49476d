"""Settings that are checked on construction, with errors in one form."""

from __future__ import annotations

import difflib
import errno
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from synthleak.core.errors import SpecError
from synthleak.core.reading import DEEPEST


class Frozen(BaseModel):
    """A settings object: checked on construction, never changed after, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)

    @field_validator("*", mode="before")
    @classmethod
    def _plain_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse a number that is a string or a boolean, where only numbers are meant."""
        kinds = _kinds(cls.model_fields[str(info.field_name)].annotation)
        for item in value if isinstance(value, list | tuple) else [value]:
            if not kinds & {int, float} or type(item) in kinds:
                continue
            if isinstance(item, bool):
                raise ValueError("use a number, not true or false")
            if isinstance(item, str) and _is_finite(item):
                raise ValueError("use a number, without quotation marks")
        return value


def _kinds(annotation: Any) -> set[Any]:
    """Return the types and literal values that an annotation allows, inside lists too.

    >>> _kinds(Annotated[list[int] | None, "at least one"]) == {int, type(None)}
    True
    """
    if get_origin(annotation) is Annotated:
        return _kinds(get_args(annotation)[0])
    inside = get_args(annotation)
    return set().union(*map(_kinds, inside)) if inside else {annotation}


def _is_finite(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _resolve(path: Path, info: ValidationInfo) -> Path:
    """Return a path that the system accepts, whether or not something is there."""
    base = (info.context or {}).get("base")
    path = path if base is None else Path(base) / path
    try:
        str(path).encode()
        path.stat()
    except UnicodeError:
        raise ValueError("a path of a spec must be valid Unicode; rename the file") from None
    except ValueError:
        raise ValueError("a path cannot hold a NUL character") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ValueError("too long for a path on this system") from None
    return path


DataPath = Annotated[Path, AfterValidator(_resolve)]
"""A path in the spec: relative ones are looked up beside the spec file."""


def listed(value: Any) -> Any:
    """Let a key that holds a list hold one thing too; for use before other checks.

    >>> listed("a"), listed(["a", "b"])
    (['a'], ['a', 'b'])
    """
    return value if isinstance(value, list | tuple) else [value]


def nearest(word: str, known: Iterable[str], *, close: int = 1, most: int | None = None) -> str:
    """Suggest what to write instead of `word`: `close` similar names, else `most` of all.

    >>> nearest("outlyer", ["outlier", "rare"])
    "did you mean 'outlier'?"
    >>> nearest("x", ["outlier", "rare"])
    'known: outlier, rare'
    >>> nearest("p-0042", ["p-00042", "p-00043", "q", "p-10042"], close=3)
    "did you mean 'p-10042', 'p-00042' or 'p-00043'?"
    >>> nearest("x", [f"{n:05}" for n in range(3871)], close=3, most=3)
    'known: 00000, 00001, 00002 and 3,868 more'
    """
    known = list(known)
    similar = [repr(name) for name in difflib.get_close_matches(word, known, n=close)]
    if similar:
        return f"did you mean {' or '.join(filter(None, [', '.join(similar[:-1]), similar[-1]]))}?"
    shown = known if most is None else known[:most]
    more = f" and {len(known) - len(shown):,} more" if len(shown) < len(known) else ""
    return f"known: {', '.join(shown)}{more}"


_COLUMN = re.compile(r"[^\W\d][\w.:/-]{0,39}")


def nearest_column(word: str, columns: Iterable[str]) -> str:
    """Suggest a column of a file; names are shown only if none of them could be a record's text.

    The first line of a file without a header is a record.

    >>> nearest_column("txt", ["id", "text"])
    "did you mean 'text'?"
    >>> nearest_column("text", ["17", "Took 20mg of Zoloft"])
    'there are 2 columns, whose names are not shown: they may be a record; is there a header?'
    """
    columns = [str(name) for name in columns]
    if all(_COLUMN.fullmatch(name) for name in columns):
        return nearest(word, columns)
    if len(columns) == 1 and re.search("[;\t]", columns[0]):
        return "only one column was found: is the delimiter ';' or a tab? .tsv is read with tabs"
    if len(columns) == 1:
        return (
            "there is one column, whose name is not shown: it may be a record; is there a header?"
        )
    return (
        f"there are {len(columns)} columns, whose names are not shown: they may be a record;"
        " is there a header?"
    )


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
"""What a corpus, a pool and a generator may be called."""


def valid_name(text: str, default: str) -> str:
    """Write a name in the characters that names may have, or return `default`.

    >>> [valid_name(text, "corpus") for text in ("my notes", "Ärzte (2)", "病")]
    ['my-notes', 'Arzte-2', 'corpus']
    """
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", plain).strip("-._+") or default


def name_of_file(path: Path, default: str = "corpus") -> str:
    """Return a valid name for what a file holds: its own without the endings.

    >>> name_of_file(Path("data/my notes.jsonl.gz"))
    'my-notes'
    """
    return valid_name(path.name.partition(".")[0], default)


def key_path(parts: Sequence[str | int]) -> str:
    """Write a path of keys as a reader of TOML would.

    >>> key_path(("generator", 1, "epsilon", 0))
    'generator[1].epsilon[0]'
    """
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path


def spec_error(
    error: ValidationError, prefix: Sequence[str | int], fields: Iterable[str]
) -> SpecError:
    """Turn the first problem of a validation into one line with key, value and what would do."""
    problems = error.errors(include_url=False)
    # A misspelt key also leaves its own key missing: say the first, it explains both.
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    end = len(problem["loc"]) - (problem["type"] == "extra_forbidden")
    between, key = problem["loc"][:end], problem["loc"][end:]
    location = (*(part for part in between if not _is_internal(part)), *key)
    where = key_path((*prefix, *location))
    value = problem.get("input")
    match problem["type"]:
        case "extra_forbidden":
            return SpecError("unknown key", where, nearest(str(location[-1]), fields))
        case "missing":
            return SpecError("this key is required", where)
        case "value_error":
            of_section = isinstance(value, dict)
            reason = str(problem["ctx"]["error"])
            return SpecError(reason if of_section else f"{_shown(value)}: {reason}", where)
        case _:
            return SpecError(f"{_shown(value)}: {_sentence(problem['msg'])}", where)


def _is_internal(part: str | int) -> bool:
    """Pydantic names the branch of a union it tried; a user never wrote that."""
    return isinstance(part, str) and (
        "[" in part or part.startswith("constrained-") or part in _BRANCHES
    )


_BRANCHES = {"float", "int", "str", "bool", "EncoderSection"}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def check_nesting(content: Any) -> None:
    """Refuse what a spec never needs and what could not even be shown in an error.

    Whole numbers have 64 bits in TOML; Python reads any, and writes none of over 4,300 digits.
    """
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), content)]
    while waiting:
        keys, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [((*keys, str(key)), item) for key, item in value.items()]
        elif isinstance(value, list | tuple):
            waiting += [((*keys, position), item) for position, item in enumerate(value)]
        elif isinstance(value, int) and abs(value) >= 2**63:
            raise SpecError("the number is too large", key_path(keys[:6]), "use one of 64 bits")
        if len(keys) > DEEPEST:
            raise SpecError(
                f"keys and lists are nested more than {DEEPEST} deep", key_path(keys[:6])
            )


def _sentence(message: str) -> str:
    return message.replace("Input should be", "should be").replace("Input", "input")
