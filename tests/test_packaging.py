"""What a package index shows, what is in the package, and what CI runs."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

import synthleak

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


def test_wheel_and_sdist_hold_the_package(tmp_path: Path) -> None:
    build = pytest.importorskip("hatchling.build", reason="needs the extra dev: hatchling")
    with contextlib.chdir(ROOT):
        wheel, source = build.build_wheel(str(tmp_path)), build.build_sdist(str(tmp_path))
    assert wheel == f"synthleak-{synthleak.__version__}-py3-none-any.whl"
    package = ROOT / "src"
    wanted = {
        path.relative_to(package).as_posix()
        for path in (package / "synthleak").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(tmp_path / wheel) as file:
        names = [name for name in file.namelist() if ".dist-info/" not in name]
        metadata = file.read(f"synthleak-{synthleak.__version__}.dist-info/METADATA").decode()
    assert set(names) == wanted
    assert {Path(name).suffix for name in wanted} >= {".py", ".toml", ".html", ".md", ".css", ".js"}
    assert "\nRequires-Dist: numpy>=1.26\n" in metadata and "](docs/" not in metadata
    with tarfile.open(tmp_path / source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "docs/tutorial.md", "LICENSE", "tests/test_packaging.py"} <= held


def test_corpora_and_runs_of_the_study_are_not_published(tmp_path: Path) -> None:
    """A checkout in which the study was run holds private texts beside its scripts."""
    build = pytest.importorskip("hatchling.build", reason="needs the extra dev: hatchling")
    for name in ("pyproject.toml", "README.md", "LICENSE", "src/synthleak/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    paper = tmp_path / "studies/paper"
    for name in ("data/records.jsonl", "runs/one/store/text/x.json", "slice.py"):
        (paper / name).parent.mkdir(parents=True, exist_ok=True)
        (paper / name).write_text("private", encoding="utf-8")
    with contextlib.chdir(tmp_path):
        source = build.build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / source) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in held if name.startswith("studies")} == {"studies/paper/slice.py"}


def test_version_is_said_once_everywhere() -> None:
    version = synthleak.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    (date,) = re.findall(
        rf"^## {re.escape(version)} \((\d{{4}}-\d\d-\d\d)\)$", changes, re.MULTILINE
    )
    assert f"\nversion: {version}\ndate-released: {date}\n" in citation


def test_container_installs_what_ci_builds() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    (python,) = re.findall(r"^FROM .*python:(3\.\d+)-slim$", text, re.MULTILINE)
    assert f"Programming Language :: Python :: {python}" in PROJECT["project"]["classifiers"]
    (copied,) = re.findall(r"^COPY (.+) /tmp/$", text, re.MULTILINE)
    let_in = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert [f"!{name}" for name in copied.split()] == let_in[2:] and let_in[1] == "*"
    (command,) = re.findall(r'^ENTRYPOINT \["(\w+)"\]$', text, re.MULTILINE)
    assert command in PROJECT["project"]["scripts"]


def test_package_script_knows_every_extra() -> None:
    asked = [sys.executable, str(ROOT / ".ci" / "package"), "nothing"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    users = set(PROJECT["project"]["optional-dependencies"]) - {"dev", "docs"}
    assert done.returncode == 1 and done.stderr.startswith("unknown: nothing; known: core, sdist")
    assert users <= set(re.split(r"[:,;] ", done.stderr.strip()))
