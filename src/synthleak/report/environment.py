"""How templates are filled: everything escaped, nothing undefined, figures written one way."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from synthleak.report.page.numbers import budget, chance


@cache
def environment() -> Environment:
    """Return the environment that every page and fragment is rendered in.

    It is made once: it keeps the compiled templates, which take longer than filling them.
    """
    made = Environment(
        loader=PackageLoader("synthleak.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["budget"] = budget
    made.filters["chance"] = _chance
    made.filters["figure"] = lambda value: "–" if value is None else f"{value:.3f}"
    return made


def _chance(p: float | None) -> str:
    return "–" if p is None else "< 0.0001" if p < 0.0001 else chance(p)
