"""What a page needs to draw figures: one script, one style sheet, no request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache

from synthleak.report.figures.figure import CONFIG, VEGA_LITE, palette, read


@cache
def runtime_script() -> str:
    """Return the script: Vega, Vega-Lite, Vega-Embed and `synthleakFigure(element, spec)`.

    It needs neither eval nor inline styles: Vega-Embed carries Vega's expression interpreter.
    Bundling takes a few seconds, so it is done once per process.
    """
    from vl_convert import javascript_bundle

    mount = read("mount.js").replace("CONFIG", json.dumps(CONFIG), 1)
    script = javascript_bundle(mount, vl_version=VEGA_LITE)
    # Nothing in the script may end the script element that it stands in.
    return script.replace("</script", "<\\/script")


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
