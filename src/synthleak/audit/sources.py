"""Several audits at once: each an `Audit`, a run folder, or a pair of a name and one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from synthleak.audit.result import Audit
from synthleak.audit.status import open_finished
from synthleak.core.errors import UserError
from synthleak.core.places import Place, Url
from synthleak.report.compare.comparison import Compared
from synthleak.report.compare.comparison import compare as compare_results

AnyAudit = Audit | Place | str
Source = AnyAudit | tuple[str, AnyAudit]


def named_audits(
    sources: Sequence[Source] | AnyAudit,
    open_folder: Callable[[Place | str], Audit] = open_finished,
) -> list[tuple[str, Audit]]:
    """Open what is not open yet, and name each audit: as given, or after its folder.

    Folders of one name are told apart by their paths.
    """
    listed = [sources] if isinstance(sources, Audit | Path | Url | str) else list(sources)
    pairs = [one if isinstance(one, tuple) else (None, one) for one in listed]
    for _, one in pairs:
        if not isinstance(one, Audit | Path | Url | str):
            raise UserError(
                f"a {type(one).__name__} is not an audit",
                remedy="give audits, run folders, or pairs of a name and one of them",
            )
    audits = [one if isinstance(one, Audit) else open_folder(one) for _, one in pairs]
    folders = [audit.folder.root for audit in audits]
    short = [folder.resolve().name for folder in folders]
    own = short if len(set(short)) == len(short) else [str(folder) for folder in folders]
    names = [name or other for (name, _), other in zip(pairs, own, strict=True)]
    return list(zip(names, audits, strict=True))


def compare(audits: Sequence[Source] | AnyAudit, *others: Source) -> Compared:
    """Put audits side by side; the first is what the others are compared with.

    They are given as a list, or one by one.

    >>> import synthleak
    >>> synthleak.compare(["runs/without-dp", "runs/with-dp"])  # doctest: +SKIP
    >>> synthleak.compare("runs/without-dp", "runs/with-dp")  # doctest: +SKIP
    """
    named = named_audits([cast(Source, audits), *others] if others else audits)
    if len(named) < 2:
        raise UserError("one audit alone cannot be compared", "compare", "name two or more")
    return compare_results([(name, audit.results) for name, audit in named])
