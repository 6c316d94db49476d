"""What a package index shows, and what CI runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINK = re.compile(r"\]\(([^)]+)\)")


def test_links_of_the_readme_lead_to_files() -> None:
    links = LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_readme_on_a_package_index_has_no_relative_link() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for change in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"][
        "substitutions"
    ]:
        text = re.sub(change["pattern"], change["replacement"], text)
    assert [link for link in LINK.findall(text) if not link.startswith("https://")] == []
    assert "from zero to a defended verdict (`docs/tutorial.md`)" in text


def test_ci_covers_every_python_that_is_promised() -> None:
    rows = [
        line.split()
        for line in (ROOT / ".ci" / "matrix").read_text(encoding="utf-8").splitlines()
        if not line.startswith("#")
    ]
    promised = [
        line.rpartition(" ")[2]
        for line in PROJECT["project"]["classifiers"]
        if line.startswith("Programming Language :: Python :: 3.")
    ]
    assert {python for _, python, _ in rows} >= {f"python{version}" for version in promised}
    extras = [extra for *_, extra in rows if extra != "-"]
    assert extras and all((ROOT / extra).is_file() for extra in extras)


def test_ci_tries_the_oldest_transformers_that_is_allowed() -> None:
    (wanted,) = (
        line
        for line in PROJECT["project"]["optional-dependencies"]["llm"]
        if "transformers" in line
    )
    oldest = wanted.partition(">=")[2]
    pins = (ROOT / ".ci" / f"transformers-{oldest}.txt").read_text(encoding="utf-8")
    assert f"transformers=={oldest}.0\n" in pins
