"""The records that a pool leaves: candidates, and auxiliary ones (docs/method.md §1, §3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthleak.core.errors import PoolError
from synthleak.core.seeds import stream
from synthleak.core.unit import counted
from synthleak.corpus.corpus import Corpus, Split
from synthleak.pools.groups import blocks_of, groups_of
from synthleak.pools.persons import Persons
from synthleak.pools.pool import Given, PersonRecords, Pool


def split(
    corpus: Corpus,
    name: str,
    targets: Sequence[int],
    *,
    auxiliary: float,
    seed: int,
    origins: Sequence[str] | None = None,
    persons: Persons | None = None,
) -> Pool:
    """Split what the targets leave into candidates C and auxiliary R.

    Where records carry a group, the target's whole group leaves both, so that no other record of
    the same person can replace the target (docs/method.md §1). Where targets are `persons`, whole
    persons go to C and to R.
    """
    origins = (name,) * len(targets) if origins is None else tuple(origins)
    if corpus.split is not None:
        return _as_given(corpus, corpus.split, name, targets, origins, seed, persons)
    if persons is not None:
        return _split_persons(name, targets, persons, auxiliary, seed, origins)
    records = corpus.records
    inside = set(targets)
    groups = {records[t].group for t in targets if t < len(records)} - {None}
    rest = [
        position
        for position, record in enumerate(records)
        if position not in inside and (record.group is None or record.group not in groups)
    ]
    if len(rest) < 4:
        raise PoolError(
            f"the pool {name!r} of {counted(len(inside), 'record')} leaves {len(rest)}"
            f" of {len(records)}",
            remedy="give its rule a smaller size",
        )
    order = stream(seed, "split", name).permutation(len(rest))
    cut = min(max(round(len(rest) * auxiliary), 1), len(rest) - 1)
    shuffled = [rest[i] for i in order]
    return Pool(
        name=name,
        targets=tuple(targets),
        origins=origins,
        candidates=tuple(sorted(shuffled[cut:])),
        auxiliary=tuple(sorted(shuffled[:cut])),
    )


def _split_persons(
    name: str,
    targets: Sequence[int],
    persons: Persons,
    auxiliary: float,
    seed: int,
    origins: tuple[str, ...],
) -> Pool:
    """Split the persons that the targets leave, so that R has about its share of the records."""
    asked = [persons.owner[target] for target in targets]
    rest = [own for person, own in enumerate(persons.records) if person not in set(asked)]
    if len(rest) < 4:
        raise PoolError(
            f"the pool {name!r} of {counted(len(asked), 'person')} leaves {len(rest)}"
            f" of {len(persons.records)}",
            remedy="give its rule a smaller size",
        )
    shuffled = [rest[i] for i in stream(seed, "split", name).permutation(len(rest)).tolist()]
    taken = np.cumsum([len(own) for own in shuffled])
    cut = int(np.abs(taken[:-1] - auxiliary * taken[-1]).argmin()) + 1
    sides = [tuple(sorted(side)) for side in (shuffled[cut:], shuffled[:cut])]
    candidates, known = (tuple(sorted(p for own in side for p in own)) for side in sides)
    return Pool(
        name=name,
        targets=tuple(targets),
        origins=origins,
        candidates=candidates,
        auxiliary=known,
        persons=PersonRecords(tuple(persons.records[p] for p in asked), *sides),
    )


def _as_given(
    corpus: Corpus,
    split: Split,
    name: str,
    targets: Sequence[int],
    origins: tuple[str, ...],
    seed: int,
    persons: Persons | None,
) -> Pool:
    """Take the roles of the records as they are; groups that came whole stay whole.

    Targets are shuffled before anything is computed: files list members first, so their position
    would tell who was in (docs/method.md §11).
    """
    groups = groups_of(corpus)
    kept = [place for place, target in enumerate(targets) if target not in groups.left_out]
    order = [kept[place] for place in stream(seed, "order", name).permutation(len(kept))]
    targets = [targets[place] for place in order]
    origins = tuple(origins[place] for place in order)
    member = tuple(split.roles[target] == "members" for target in targets)
    if all(member) or not any(member):
        raise PoolError(
            f"the pool {name!r} holds {sum(member)} members and {len(member) - sum(member)} of the"
            " holdout: there is nobody to compare with",
            remedy="loosen its rule",
        )
    return Pool(
        name=name,
        targets=tuple(targets),
        origins=origins,
        candidates=tuple(split.positions("members")),
        auxiliary=tuple(_reference(corpus, split, persons)),
        given=Given(
            member,
            blocks_of(corpus, targets),
            split.declared == "coins",
            groups.unit == "either" and persons is None,
        ),
        persons=None
        if persons is None
        else PersonRecords(tuple(persons.records[persons.owner[t]] for t in targets), (), ()),
    )


def _reference(corpus: Corpus, split: Split, persons: Persons | None) -> list[int]:
    """Return the reference; where persons are asked about, without records of their own.

    A baseline that holds other records of one side's persons would tell the sides apart.
    """
    places = split.positions("reference")
    if persons is None:
        return places
    asked = {corpus.person_names[p] for p in split.positions("members", "holdout")}
    return [place for place in places if corpus.person_names[place] not in asked]
