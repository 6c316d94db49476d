"""Take the pictures of docs/ from the report of `synthleak demo`, in Debian's Chromium.

synthleak demo --out runs/demo && python docs/make_pictures.py runs/demo/report.html
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parent
CELL = "#cell-1"
"""The cell whose figures are shown: outliers, without privacy."""
PARTS = {
    "headline": ("#verdict .verdict", None),
    "map": ("#map", None),
    "roc": (f"{CELL} .plot >> nth=0", None),
    "proxies": (f"{CELL} .plot >> nth=3", None),
    "records": (f"{CELL} .plot >> nth=5", None),
}
"""The part of the page that each picture shows, and its height if it is cut."""


def take(tab: Any, name: str, selector: str, height: int | None) -> None:
    """Save one part of the page as a picture.

    Args:
        tab: the page in a browser.
        name: of the picture.
        selector: of the part.
        height: in pixels; None keeps all of it.
    """
    part = tab.locator(selector)
    part.scroll_into_view_if_needed()
    tab.wait_for_timeout(500)
    box = {**part.bounding_box(), **({"height": height} if height else {})}
    above = tab.evaluate("window.scrollY")
    clip = {**box, "y": box["y"] + above}
    tab.screenshot(path=DOCS / f"pictures/{name}.png", clip=clip, full_page=True)


def main() -> None:
    """Take all pictures of the page that the command line names."""
    page = Path(sys.argv[1]).resolve()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        tab = browser.new_page(viewport={"width": 1400, "height": 1000}, color_scheme="light")
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready]")
        tab.screenshot(path=DOCS / "report.png")
        take(tab, "decisions", "#verdict table.decisions", None)
        take(tab, "who", "#who [data-sheet=records]", 560)
        tab.set_viewport_size({"width": 1160, "height": 1000})
        tab.locator(f"{CELL} summary").first.click()
        for name, (selector, height) in PARTS.items():
            take(tab, name, selector, height)
        browser.close()


if __name__ == "__main__":
    main()
