"""Numbers as the page shows them: looked up in a table, rounded, with the whole value beside.

`<data value="0.8044169999999999" data-from="cells/0/crossfit_auc">0.804</data>` says what is shown
and where it stands, so that a test (or a reader) can hold every number to its table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from markupsafe import Markup

from synthleak.core.cell import format_epsilon
from synthleak.report.page.material import Material

NOTHING = "–"


def fixed(value: float, places: int) -> str:
    """Return a number to `places` decimals, halves away from zero, as a browser rounds it.

    >>> fixed(0.8125, 3), fixed(-0.5, 0), fixed(-0.0004, 3)
    ('0.813', '−1', '0.000')
    """
    if not abs(value) < 1e15:  # no figure of an audit: shown as it is
        return f"{value:g}".replace("-", "−")
    made = Decimal(value).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    return f"{abs(made) if made == 0 else made:f}".replace("-", "−")


def figure(value: float) -> str:
    """Return an AUC, a rate or a bound to three places.

    >>> figure(0.80441), figure(1.0)
    ('0.804', '1.000')
    """
    return fixed(value, 3)


def signed(value: float) -> str:
    """Return a difference with its sign.

    >>> signed(0.2311), signed(-0.0123), signed(0.0)
    ('+0.231', '−0.012', '0.000')
    """
    shown = fixed(value, 3)
    return f"+{shown}" if value > 0 and shown != "0.000" else shown


def beyond(value: float) -> str:
    """Return how far a figure lies above its chance limit.

    >>> beyond(0.2311), beyond(-0.042)
    ('+0.23', '−0.04')
    """
    shown = fixed(value, 2)
    return f"+{shown}" if value > 0 else shown


def chance(value: float) -> str:
    """Return a p-value, finer where it is small.

    >>> chance(0.00049975), chance(0.0323), chance(1.0)
    ('0.0005', '0.032', '1.00')
    """
    return fixed(value, 4 if value < 0.01 else 3 if value < 0.1 else 2)


def budget(value: float) -> str:
    """Return an ε.

    >>> budget(math.inf), budget(4.0), budget(0.5), budget(8.734)
    ('∞', '4', '0.5', '8.734')
    """
    return format_epsilon(value)


def tiny(value: float) -> str:
    """Return a δ.

    >>> tiny(2.5e-05), tiny(0.01)
    ('2.5e-05', '0.01')
    """
    return f"{value:.2g}"


def per_hundred(value: float) -> str:
    """Return a share as a count out of 100.

    >>> per_hundred(0.4612)
    '46'
    """
    return fixed(100 * value, 0)


def percent(value: float) -> str:
    """Return a share in per cent.

    >>> percent(0.987)
    '99%'
    """
    return fixed(100 * value, 0) + "%"


def count(value: float) -> str:
    """Return a whole number.

    >>> count(5000)
    '5,000'
    """
    return f"{value:,.0f}"


def words(value: Any) -> str:
    """Return anything else as it is."""
    return str(value)


HOW: Mapping[str, Callable[[Any], str]] = {
    shown.__name__: shown
    for shown in (figure, signed, beyond, chance, budget, tiny, per_hundred, percent, count, words)
}


def tagged(value: Any, source: str, how: str) -> Markup:
    """Return a value as the page shows it, with the whole of it and where it stands."""
    whole = "" if value is None else repr(value) if isinstance(value, float) else str(value)
    shown = NOTHING if value is None else HOW[how](value)
    return Markup('<data value="{}" data-from="{}" data-how="{}">{}</data>').format(
        whole, source, how, shown
    )


@dataclass(frozen=True)
class Numbers:
    """The numbers of one page, by address."""

    material: Material

    def value(self, source: str) -> Any:
        """Return what stands at an address: `cells/0/auc`, or a path such as `summary/corpus`."""
        table, *path = source.split("/")
        if table != "summary":
            return getattr(self.material.rows(table)[int(path[0])], path[1])
        found: Any = self.material.summary
        for part in path:
            if found is None:
                break
            found = found[int(part)] if isinstance(found, list) else found[part]
        return math.inf if found == "inf" else found

    def at(self, source: str, how: str = "figure") -> Markup:
        """Show what stands at an address."""
        return tagged(self.value(source), source, how)

    def of(self, table: str, row: int, column: str, how: str = "figure") -> Markup:
        """Show one field of one row of a table."""
        return self.at(f"{table}/{row}/{column}", how)

    def said(self, path: str, how: str = "figure") -> Markup:
        """Show what stands at a path of the summary, such as `cells/0/crossfit/value`."""
        return self.at(f"summary/{path}", how)
