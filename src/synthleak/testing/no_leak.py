"""For test suites: a release that gives its members away fails a test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from synthleak.audit.gate import RECOMMENDED, clauses, failing, parse_gate, undecided

if TYPE_CHECKING:
    from synthleak.audit.result import Audit


def assert_no_leak(
    members: Any,
    holdout: Any,
    release: Any,
    *,
    fail_if: str = RECOMMENDED,
    allow_cannot_say: bool = False,
    **options: Any,
) -> Audit:
    """Fail if a release gives its members away, or if nothing can be said.

    Args:
        members: The records that the release was made from, as `synthleak.check` takes them.
        holdout: Records of the same kind that its generator never saw.
        release: The synthetic records.
        fail_if: A condition on columns of `cells.csv` (docs/ci.md).
        allow_cannot_say: Pass where nothing can be said, as with too few records.
        **options: Further arguments of `synthleak.check`, such as `random_split=True`.

    Returns:
        The audit, of which nothing is kept beyond the life of what is returned.

    Raises:
        AssertionError: With the verdict, and the clauses of the condition that hold.

    >>> from synthleak.testing import assert_no_leak
    >>> assert_no_leak(members, holdout, release, random_split=True)  # doctest: +SKIP
    """
    from synthleak.checks.check import check

    gate = parse_gate(fail_if)
    audit = check(members, holdout, release, **{"progress": False, **options})
    rows = failing(gate, audit.cells)
    if rows:
        held = "; ".join(dict.fromkeys(clauses(gate, row) for row in rows))
        raise AssertionError(f"{audit.headline} ({held})")
    if undecided(gate, audit.cells) and not allow_cannot_say:
        raise AssertionError(f"{audit.headline} (allow_cannot_say=True lets it pass)")
    return audit
