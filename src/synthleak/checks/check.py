"""`synthleak.check`: audit the release you already have, from files or from memory (docs/method.md
§11)."""

from __future__ import annotations

import math
import tomllib
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synthleak.checks.arguments import keys_named_as
from synthleak.core.engine.progress import Progress
from synthleak.core.errors import UserError
from synthleak.core.places import Place
from synthleak.core.private_files import TemporaryHome
from synthleak.core.runtime import Runtime
from synthleak.core.spec import Spec, parse_spec
from synthleak.core.unit import Unit
from synthleak.core.validation import name_of_file, valid_name
from synthleak.corpus.sources import Rows, rows_in

if TYPE_CHECKING:
    from synthleak.audit.result import Audit


@keys_named_as("arguments")
def check(
    members: Any,
    holdout: Any,
    release: Any,
    *,
    reference: Any = None,
    pool: str | Sequence[str] | None = None,
    out: Place | str | None = None,
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
    mechanism: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] = (),
    encoder: str | Mapping[str, Any] = "static",
    seed: int = 0,
    name: str | None = None,
    runtime: Runtime | None = None,
    progress: Progress | None = None,
    extend: bool = False,
) -> Audit:
    """Ask whether a release gives its members away, against a holdout that it never saw.

    Each of `members`, `holdout`, `release` and `reference` is a path, a list of texts or of dicts,
    a pandas or polars frame or column, an Arrow table or a `datasets` dataset; `release` may also
    be a dict of several by name. `random_split` declares that members and holdout are a uniform
    random split, groups intact, made before the release; `coins` that each record had a fair coin
    of its own, recorded, which allows a bound on ε. With `unit="person"` it asks about whole
    groups, with at most `max_records` (10) records each (docs/method.md §15). `epsilon` and
    `delta` are what the release claims, and `mechanism` what adds its noise, such as `{"mu": 1.0}`
    or `{"sigma": 1.1, "rate": 0.01, "steps": 900}`: the claim is then a whole curve. Raises
    `UserError` where a classifier that never sees the release tells members from holdout, unless
    you `insist` on figures.

    Without `out` nothing is kept beyond the life of what is returned.

    >>> import synthleak
    >>> audit = synthleak.check("train.jsonl", "held.jsonl", ["a text", "..."])  # doctest: +SKIP
    >>> audit.cells, audit.copies, audit.records  # doctest: +SKIP
    """
    from synthleak.audit.run import run

    spec = check_spec(
        members,
        holdout,
        release,
        reference=reference,
        pool=pool,
        declared="coins" if coins else "random" if random_split else "unstated",
        insist=insist,
        fields={"id": id, "text": text, "labels": labels, "group": group},
        release_text=release_text or text,
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        encoder=encoder,
        seed=seed,
        name=name,
        unit=unit,
        max_records=max_records,
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


def check_spec(
    members: Any,
    holdout: Any,
    release: Any,
    *,
    reference: Any,
    pool: str | Sequence[str] | None,
    declared: str,
    insist: bool,
    fields: Mapping[str, str],
    release_text: str,
    epsilon: float,
    delta: float | None,
    encoder: str | Mapping[str, Any],
    seed: int,
    name: str | None,
    unit: Unit = "record",
    max_records: int | None = None,
    mechanism: str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] = (),
) -> Spec:
    """Return the spec of a check: what `synthleak init --for check` writes, filled in."""
    corpus: dict[str, Any] = {
        "reader": "split",
        "members": source(members, "members"),
        "holdout": source(holdout, "holdout"),
        "declared": declared,
        "insist": insist,
        **fields,
    }
    if reference is not None:
        corpus["reference"] = source(reference, "reference")
    if name is not None:
        corpus["name"] = name
    private = math.isfinite(epsilon)
    if delta is not None and not private:
        raise UserError("δ is given without ε", "generator.delta", "set generator.epsilon too")
    events = [
        _settings(one, f"--mechanism {one!r}", "key=value; key=value")
        if isinstance(one, str)
        else dict(one)
        for one in ([mechanism] if isinstance(mechanism, str | Mapping) else mechanism)
    ]
    if events and not private:
        raise UserError(
            "a mechanism is stated without ε", "generator.mechanism", "set generator.epsilon too"
        )
    several = release if isinstance(release, Mapping) else {_name(release): release}
    return parse_spec(
        {
            "seed": seed,
            "corpus": corpus,
            "encoders": {"pools": encoder, "evidence": encoder},
            "pool": pools_of(pool),
            "game": {
                "design": "given",
                "instances": 1,
                "unit": unit,
                **({} if max_records is None else {"max_records": max_records}),
            },
            "generator": [
                {
                    "kind": "given",
                    "name": valid_name(str(title), "release"),
                    "path": source(item, "release"),
                    "text": release_text,
                    "epsilon": [epsilon],
                    **({"private": True} if private else {}),
                    **({} if delta is None else {"delta": delta}),
                    **({"mechanism": events} if events else {}),
                }
                for title, item in several.items()
            ],
        }
    )


def source(data: Any, name: str) -> Path | Rows:
    """Return a path as it is, and anything else as rows."""
    return Path(data) if isinstance(data, str | Path) else rows_in(data, name)


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
    made: list[dict[str, Any]] = []
    for item in written:
        rule, _, rest = item.partition(":")
        taken = sum(other["rule"] == rule.strip() for other in made)
        title = rule.strip() + (f"-{taken + 1}" if taken else "")
        made.append(
            {
                "name": title,
                "rule": rule.strip(),
                **_settings(rest, f"--pool {item!r}", "rule: key=value; key=value"),
            }
        )
    return made


def _settings(written: str, where: str, form: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in written.split(";"))):
        key, equals, value = part.partition("=")
        if not equals:
            raise UserError(f"not a setting: {part!r}", where, f"write {form}")
        try:
            found[key.strip()] = tomllib.loads(f"value = {value.strip()}")["value"]
        except (ValueError, RecursionError):
            found[key.strip()] = value.strip()
    return found
