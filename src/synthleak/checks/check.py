"""`synthleak.check`: audit the release you already have, from files or from memory (docs/method.md
§11). Errors name the options or arguments that the user set, not keys of the spec of a check."""

from __future__ import annotations

import math
import re
import tomllib
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate, islice
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from synthleak.core.cell import Unit
from synthleak.core.engine.progress import Progress
from synthleak.core.errors import UserError
from synthleak.core.locations import Location
from synthleak.core.private_files import TemporaryHome
from synthleak.core.runtime import Runtime
from synthleak.core.spec import parse_spec
from synthleak.core.validation import name_of_file, valid_name
from synthleak.corpus.sources import Rows, source_of

if TYPE_CHECKING:
    from synthleak.audit.result import Audit


_NAMES = {
    r"corpus\.(text|id|labels|group|members|holdout|reference|name|insist)": r"\1",
    r"generator(?:\[\d+\])?\.path": "release",
    r"generator(?:\[\d+\])?\.text": "release_text",
    r"generator(?:\[\d+\])?\.(epsilon|delta|mechanism)(?:\[\d+\])?": r"\1",
    r"game\.(unit|max_records)": r"\1",
    r"game\.release_size": "sizes",
    r"encoders\.(?:pools|evidence)(?:\.kind)?": "encoder",
    r"pool\[\d+\]\.rule": "pool",
}
"""What `check` calls the keys of the spec that it writes."""

ALSO = ("coverage", "style")
"""Families that a check uses beside the 32 proxies: each finds leaks that those do not see, and
costs the others nothing that could be measured (docs/method.md §17). With coins, which canaries
have, `marker` joins them."""
Mechanism = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
_inside: ContextVar[bool] = ContextVar("inside", default=False)


@contextmanager
def keys_named_as(form: Literal["options", "arguments"]) -> Iterator[None]:
    """Rename the keys in a user's error; where calls are nested, the outermost decides.

    >>> with keys_named_as("options"), keys_named_as("arguments"):
    ...     raise UserError("-1: use a number above 0", "generator[0].epsilon[0]")
    Traceback (most recent call last):
    ...
    synthleak.core.errors.UserError: --epsilon: -1: use a number above 0
    """
    outermost = not _inside.get()
    token = _inside.set(True)
    try:
        yield
    except UserError as error:
        if outermost:
            error.where = _renamed(error.where, form)
            error.remedy = _renamed(error.remedy, form)
        raise
    finally:
        _inside.reset(token)


def _renamed(text: str | None, form: str) -> str | None:
    for key, name in _NAMES.items() if text else ():

        def written(match: re.Match[str], name: str = name) -> str:
            argument = match.expand(name)
            return f"--{argument.replace('_', '-')}" if form == "options" else argument

        # Not within the name of a file.
        text = re.sub(rf"(?<![\w/.-]){key}(?![\w-]|\.\w)", written, text or "")
    return text


@keys_named_as("arguments")
def check(
    members: Any,
    holdout: Any,
    release: Any,
    *,
    reference: Any = None,
    pool: str | Sequence[str] | None = None,
    out: Location | str | None = None,
    random_split: bool = False,
    coins: bool = False,
    insist: bool = False,
    text: str = "text",
    release_text: str | None = None,
    id: str = "id",
    labels: str = "labels",
    group: str = "group",
    unit: Unit = "record",
    max_records: int | None = None,
    epsilon: float = math.inf,
    delta: float | None = None,
    mechanism: Mechanism = (),
    encoder: str | Mapping[str, Any] = "static",
    seed: int = 0,
    name: str | None = None,
    runtime: Runtime | None = None,
    progress: Progress | bool | None = None,
    extend: bool = False,
    sizes: Sequence[float] | None = None,
    series: bool = False,
) -> Audit:
    """Ask whether a release gives its members away, against a holdout that it never saw.

    Data are a path, a list of texts or of dicts, a pandas or polars frame or column, an Arrow table
    or a `datasets` dataset.

    Args:
        members: The records that the release was made from.
        holdout: Records of the same kind that its generator never saw.
        release: The synthetic records; or a dict of several releases by name, each judged by itself
            unless they are a `series`.
        reference: Further records that an attacker may have.
        pool: The records to ask about, as rules with settings (`"outlier: percentile=95"`); all by
            default.
        out: A run folder to keep the check in. Without it nothing is kept beyond the life of what
            is returned.
        random_split: Declare that members and holdout are a uniform random split, groups intact,
            made before the release.
        coins: Declare that each record had a fair coin of its own, recorded, which allows a bound
            on ε.
        insist: Give figures without a verdict where a classifier that never sees the release tells
            members from holdout.
        text: The field of the text in members, holdout and reference.
        release_text: The field of the text in the release; `text` by default.
        id: The field of the records' names.
        labels: The field of their labels.
        group: The field of what keeps records together, such as a person.
        unit: `"person"` asks about whole groups (docs/method.md §15).
        max_records: The most records of a person that take part; 10 by default.
        epsilon: The ε that the release claims; that of the `mechanism` at `delta` by default.
        delta: The δ that it claims.
        mechanism: What adds its noise, such as `{"mu": 1.0}` or
            `{"sigma": 1.1, "rate": 0.01, "steps": 900}`: the claim is then a whole curve.
        encoder: The encoder by which texts are compared, with its settings if it is a dict.
        seed: Seed for all random draws.
        name: What tables call the records; the name of the file by default.
        runtime: Where the work is done.
        progress: What is told how far the check is; False: nobody.
        extend: Go on in a folder that belongs to another check.
        sizes: Shares of the release that are checked too: up to how many texts is nothing found?
            1/16 and 1/4 where a sixteenth is 100 texts or more; `()` checks the whole alone.
        series: Several releases were published one after another: what do the first, the first two
            and so on tell together?

    Returns:
        The finished audit.

    Raises:
        UserError: If something cannot be read or used, or if a classifier that never sees the
            release tells members from holdout and you do not `insist`.

    >>> import synthleak
    >>> audit = synthleak.check("train.jsonl", "held.jsonl", ["a text", "..."])  # doctest: +SKIP
    >>> audit.cells, audit.copies, audit.records  # doctest: +SKIP
    """
    from synthleak.audit.run import run

    claims = _claims(epsilon, delta, mechanism)
    releases = release if isinstance(release, Mapping) else {_name(release): release}
    game = {"design": "given", "instances": 1, "unit": unit, "max_records": max_records}
    stated = {"kind": "given", "text": release_text or text, **claims}
    generators: list[dict[str, Any]] = [
        {"name": valid_name(str(title), "release"), "path": source_of(one, "release"), **stated}
        for title, one in releases.items()
    ]
    if series:
        if sizes:
            raise UserError("a series has sizes of its own", "game.release_size", "leave it out")
        generators = [_series([one["path"] for one in generators], stated)]
        game["release_size"] = _published(generators[0])
    elif shares := _usual_shares(generators) if sizes is None else [s for s in sizes if s != 1]:
        game["release_size"] = [*sorted(map(float, shares)), 1.0]
    corpus = {
        "reader": "split",
        "members": source_of(members, "members"),
        "holdout": source_of(holdout, "holdout"),
        "reference": None if reference is None else source_of(reference, "reference"),
        "declared": "coins" if coins else "random" if random_split else "unstated",
        "insist": insist,
        **{"id": id, "text": text, "labels": labels, "group": group, "name": name},
    }
    spec = parse_spec(
        {
            "seed": seed,
            "corpus": _stated(corpus),
            "encoders": {"pools": encoder, "evidence": encoder},
            "pool": pools_of(pool),
            "game": _stated(game),
            "evidence": {"also": (*ALSO, *["marker"] * coins)},
            "generator": generators,
        }
    )
    if out is not None:
        return run(spec, out, runtime=runtime, progress=progress, extend=extend)
    home = TemporaryHome()
    try:
        audit = run(spec, home.path, runtime=runtime, progress=progress)
    except BaseException:
        home.close()
        raise
    weakref.finalize(audit, home.close)  # the folder lives as long as the audit does
    return audit


SHARES, LEAST = (1 / 16, 1 / 4), 100
"""Shares of a release that are checked too, where the smallest of them has so many texts."""


def _usual_shares(sections: Sequence[Mapping[str, Any]]) -> Sequence[float]:
    """Return the shares that are checked unless told otherwise: none of a small release."""
    from synthleak.corpus.sources import numbered_rows
    from synthleak.releases.generators.given import KEY

    least = LEAST / SHARES[0]
    rows = (
        numbered_rows(one["path"], text=one["text"], encoding="utf-8", key=KEY) for one in sections
    )
    large = all(sum(1 for _ in islice(each, int(least))) == least for each in rows)
    return SHARES if large else ()


MOST_IN_SERIES = 10
"""Releases of a series: as many as there may be sizes."""


def _series(sources: Sequence[Path | Rows], stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the generator that reads releases in the order in which they were published."""
    if not 1 < len(sources) <= MOST_IN_SERIES:
        raise UserError(
            f"a series of {len(sources)}",
            "generator.path",
            f"name 2 to {MOST_IN_SERIES} releases, the first one first",
        )
    first, *later = sources
    return {"name": "series", "path": first, "series": tuple(later), **stated}


def _published(section: Mapping[str, Any]) -> list[int]:
    """Return how many texts were known after each release of a series."""
    from synthleak.releases.generators.given import GivenRelease

    reader = GivenRelease(path=section["path"], text=section["text"])
    files = [section["path"], *section["series"]]
    return list(accumulate(len(reader.read(file)) for file in files))


def _claims(epsilon: float, delta: float | None, mechanism: Mechanism) -> dict[str, Any]:
    """Return what a release states of its privacy; the ε of a mechanism follows from its δ."""
    for value, key in ((epsilon, "epsilon"), (delta, "delta")):
        if value is not None and (isinstance(value, bool) or not isinstance(value, Real)):
            raise UserError(f"{value!r} is not a number", f"generator.{key}", "write a number")
    events = [
        _settings(one, f"--mechanism {one!r}", "key=value; key=value")
        if isinstance(one, str)
        else dict(one)
        for one in ([mechanism] if isinstance(mechanism, str | Mapping) else mechanism)
    ]
    if math.isinf(epsilon) and events and delta is not None:
        epsilon = _epsilon_of(events, delta)
    if math.isfinite(epsilon):
        stated = {"private": True, "delta": delta, "mechanism": events or None}
        return {"epsilon": [epsilon], **_stated(stated)}
    if delta is not None:
        raise UserError("δ is given without ε", "generator.delta", "set generator.epsilon too")
    if events:
        raise UserError(
            "a mechanism is stated without ε or δ",
            "generator.mechanism",
            "set generator.delta, from which its ε follows, or generator.epsilon",
        )
    return {"epsilon": [epsilon]}


def _epsilon_of(events: Sequence[Mapping[str, Any]], delta: float) -> float:
    """Return the ε of a stated mechanism at δ, rounded up; 1 if its settings are refused later."""
    from synthleak.releases.generator import StatedEvent, accounted_claim

    try:
        stated = [StatedEvent(**one) for one in events]
    except ValueError:
        return 1.0
    if not 0 < delta < 1:
        return 1.0
    return math.ceil(1000 * accounted_claim(stated, 1.0, delta).epsilon_at(delta)) / 1000


def _stated(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if value is not None}


def _name(release: Any) -> str:
    return name_of_file(Path(release), "release") if isinstance(release, str | Path) else "release"


def pools_of(pool: str | Sequence[str] | None) -> list[dict[str, Any]]:
    """Read pools as the command line writes them: a rule, then its settings.

    >>> pools_of("outlier: percentile=95; lof=10")
    [{'name': 'outlier', 'rule': 'outlier', 'percentile': 95, 'lof': 10}]
    >>> pools_of(None)
    [{'name': 'all', 'rule': 'all'}]
    """
    written = ["all"] if pool is None else [pool] if isinstance(pool, str) else list(pool)
    pools: list[dict[str, Any]] = []
    for item in written:
        rule, _, rest = item.partition(":")
        taken = sum(other["rule"] == rule.strip() for other in pools)
        title = rule.strip() + (f"-{taken + 1}" if taken else "")
        pools.append(
            {
                "name": title,
                "rule": rule.strip(),
                **_settings(rest, f"--pool {item!r}", "rule: key=value; key=value"),
            }
        )
    return pools


def _settings(written: str, where: str, form: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in written.split(";"))):
        key, equals, value = part.partition("=")
        if not equals:
            raise UserError(f"not a setting: {part!r}", where, f"write {form}")
        try:
            settings[key.strip()] = tomllib.loads(f"value = {value.strip()}")["value"]
        except (ValueError, RecursionError):
            settings[key.strip()] = value.strip()
    return settings
