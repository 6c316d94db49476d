"""What a package index shows, what is in the package, and what CI runs."""

from __future__ import annotations

import contextlib
import os
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
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import synthleak

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LINK = re.compile(r"\]\(([^)]+)\)")
PIN = re.compile(
    r"^([\w.-]+)==([^\s;]+)(?: ; (.+?))?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.M
)
LOCKS = sorted(path.stem for path in (ROOT / "locks").iterdir())


def locked(name: str, *, here: bool = False) -> dict[str, str]:
    """Return the versions that a lock names; those that are installed `here` only, if asked."""
    text = (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8")
    pins = PIN.findall(text)
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", "    --"))]
    assert len(pins) == len(lines), "a line without hashes"
    return {
        canonicalize_name(package): version
        for package, version, marker, _ in pins
        if not here or not marker or Marker(marker).evaluate()
    }


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def names_of(wanted: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(line).name) for line in wanted}


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


def built(checkout: Path, out: Path) -> list[bytes]:
    """Build in a process of its own: file times and modes are those of the checkout."""
    out.mkdir()
    code = (
        "import sys, hatchling.build as b; b.build_wheel(sys.argv[1]); b.build_sdist(sys.argv[1])"
    )
    subprocess.run([sys.executable, "-c", code, str(out)], cwd=checkout, check=True)
    return [path.read_bytes() for path in sorted(out.iterdir())]


def test_wheel_and_sdist_built_twice_are_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("hatchling.build", reason="needs the extra dev: hatchling")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = built(ROOT, tmp_path / "first")
    (source,) = (tmp_path / "first").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        assert {member.mtime for member in archive} == {1700000000}
        archive.extractall(tmp_path, filter="data")
    checkout = tmp_path / source.name.removesuffix(".tar.gz")
    for path in checkout.rglob("*"):
        os.utime(path, (1e9, 1e9))
        path.chmod(path.stat().st_mode & ~0o077)
    assert built(checkout, tmp_path / "second") == first
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000002")
    assert [a == b for a, b in zip(built(ROOT, tmp_path / "third"), first, strict=True)] == [
        False,
        False,
    ]


@pytest.mark.parametrize("name", LOCKS)
def test_locks_hold_the_versions_of_the_constraints(name: str) -> None:
    versions = pinned()
    other = {n: v for n, v in locked(name).items() if versions.get(n, v) != v}
    assert not other, "write the locks again with .ci/lock"
    if name in ("core", "dev", "smollm2"):
        assert locked(name, here=True).keys() <= versions.keys()


def test_locks_hold_all_that_is_installed() -> None:
    project = PROJECT["project"]
    assert names_of(project["dependencies"]) <= locked("core").keys()
    assert names_of(PROJECT["build-system"]["requires"]) <= locked("build").keys()
    extras = (line for lines in project["optional-dependencies"].values() for line in lines)
    assert names_of([*extras]) - locked("dev").keys() == {"torch"}
    everywhere = {name for lock in LOCKS for name in locked(lock)}
    assert pinned().keys() - everywhere == {"torch"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    script = (ROOT / ".ci" / "lock").read_text(encoding="utf-8")
    (extras_installed,) = re.findall(r"'\.\[(.+)\]'", makefile)
    assert re.findall(r"--extra ([\w-]+)", script) == extras_installed.split(",")


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
    assert "pip install --no-cache-dir --require-hashes -r /tmp/core.txt" in text
    assert "--no-index --no-deps /tmp/synthleak-*.whl" in text
    (command,) = re.findall(r'^ENTRYPOINT \["(\w+)"\]$', text, re.MULTILINE)
    assert command in PROJECT["project"]["scripts"]


def test_package_script_knows_every_extra() -> None:
    asked = [sys.executable, str(ROOT / ".ci" / "package"), "nothing"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    users = set(PROJECT["project"]["optional-dependencies"]) - {"dev", "docs"}
    assert done.returncode == 1 and done.stderr.startswith("unknown: nothing; known: core, sdist")
    assert users <= set(re.split(r"[:,;] ", done.stderr.strip()))
