"""What a page needs to draw figures: one script, one style sheet, no request."""

from __future__ import annotations

import json
from collections.abc import Mapping

from synthleak.report.figures.figure import CONFIG, palette, read


def runtime_script() -> str:
    """Return the script: Vega, Vega-Lite, the interpreter and `synthleakFigure(element, spec)`.

    It needs neither eval nor inline styles. It holds no closing script tag.
    """
    return read("vega.js") + read("mount.js").replace("CONFIG", json.dumps(CONFIG), 1)


def runtime_style() -> str:
    """Return the style sheet: the palette of both themes as CSS variables, and the tooltip.

    A page may fix the theme with `data-theme` on its root; print is always light.
    """
    light, dark = (_variables(palette()[theme]) for theme in ("light", "dark"))
    return (
        f":root {{ {light} }}\n"
        "@media (prefers-color-scheme: dark) {"
        f' :root:not([data-theme="light"]) {{ {dark} }} }}\n'
        f':root[data-theme="dark"] {{ {dark} }}\n'
        f'@media print {{ :root, :root[data-theme="dark"],'
        f' :root:not([data-theme="light"]) {{ {light} }} }}\n'
    ) + read("figures.css")


def _variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--sl-{name}: {colour};" for name, colour in colours.items())
