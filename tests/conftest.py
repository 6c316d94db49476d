"""Tiny audits that all tests may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.specs import tiny_spec
from synthleak.core.spec import LoadedSpec, parse_spec

os.environ.pop("COLUMNS", None)  # the width that a test runner sets would break tables
os.environ["SYNTHLEAK_CACHE"] = "none"  # tests leave nothing in the user's cache
os.environ["HF_HUB_OFFLINE"] = "1"  # a model that is not here is missing at once, not after retries
setattr(os, "fsync", lambda _: None)  # noqa: B010 - no test cuts the power

SLOW = (
    *("audit", "checks", "docs", "releases/lm", "studies", "core/test_ray_engine.py"),
    *("core/test_plugins.py", "core/test_registry.py", "core/test_pattern_growth.py"),
    *("analyses/test_planted_audits.py", "cli/test_commands.py", "cli/test_refused_output.py"),
    *("report/test_report_page.py", "report/test_figures.py", "report/test_explain.py"),
    *("report/test_figures_in_browser.py", "report/test_report_in_browser.py"),
    *("releases/test_revision.py", "releases/test_folder_generator.py", "test_contributing.py"),
    *("test_notebooks.py", "test_packaging.py", "test_private_texts.py", "test_selftest.py"),
    *("test_selftest_lm.py", "test_testing.py", "preflight"),
)
"""What `--quick` leaves out: files that play whole audits, or need a browser, Ray or torch."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="leave out files with slow tests")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    slow = {Path(__file__).parent / name for name in SLOW}
    return True if config.getoption("--quick") and collection_path in slow else None


@pytest.fixture
def tiny() -> Callable[..., LoadedSpec]:
    """Make a tiny spec, with some sections replaced."""

    def make(**changes: Any) -> LoadedSpec:
        return LoadedSpec(parse_spec(tiny_spec(**changes)))

    return make


@pytest.fixture
def spec_file(tmp_path: Path) -> Callable[[str], Path]:
    """Write a spec file and return its path."""

    def write(text: str) -> Path:
        path = tmp_path / "audit.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write
