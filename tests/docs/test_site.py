"""The site: it builds without a warning, and every page of the docs is on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")

ROOT = Path(__file__).parents[2]


def test_site_builds_without_warnings(tmp_path: Path) -> None:
    """Warnings are dead links and anchors, pages missing from the navigation, bad docstrings."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    pages = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.html")}
    written = {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")}
    assert written <= pages
    spec = (tmp_path / "spec.html").read_text(encoding="utf-8")
    commands = (tmp_path / "cli.html").read_text(encoding="utf-8")
    catalogue = (tmp_path / "catalogue.html").read_text(encoding="utf-8")
    assert "cos_radius" in catalogue and "eurlex57k" in catalogue
    assert "share_releases" in spec and "--random-split" in commands
    requests = [name for name in pages if 'src="http' in (tmp_path / name).read_text("utf-8")]
    assert requests == [], "the site works without a network"
