"""Every command and code block of the README and the docs runs, or says why it is not run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from support.doc_blocks import COMMAND, LANGUAGES, Reader, blocks_of, follow
from synthleak import Runtime, run
from synthleak.core.spec import dump_toml, load_spec
from synthleak.corpus.readers.demo import write_demo
from synthleak.preflight.split import json_lines

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FILES = {"train": slice(0, 50), "held": slice(50, 100), "synthetic": slice(100, 150)}
SPEC: dict[str, Any] = {
    "seed": 3,
    "corpus": {"reader": "demo", "size": 160, "name": "psytar"},
    "encoders": {"pools": "hashing", "evidence": "hashing"},
    "pool": [
        {"name": "outlier", "rule": "outlier", "percentile": 92, "size": 6},
        {"name": "random", "rule": "random", "match": "outlier", "draws": 1},
    ],
    "game": {"design": "cohort", "instances": 8, "records": 40},
    "generator": [{"kind": "ngram", "epsilon": [float("inf")]}],
    "evidence": {"families": ["cos", "char_overlap"]},
    "prior": [],
}
RUNS = {
    "psytar": ("audit", "without-dp", "vendor-a"),
    "eurlex": ("with-dp", "vendor-b", "other"),
}
"""Two small audits, and the other names that pages have for them."""


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files and finished audits that pages speak of."""
    root = tmp_path_factory.mktemp("docs")
    records = list(write_demo(200, 2))
    for name, part in FILES.items():
        rows = [{"id": r.id, "text": r.text, "labels": list(r.labels)} for r in records[part]]
        (root / f"{name}.jsonl").write_bytes(json_lines(rows))
    (root / "audit.toml").write_text(dump_toml(SPEC), encoding="utf-8")
    for seed, (corpus, others) in enumerate(RUNS.items(), start=3):
        spec = {**SPEC, "seed": seed, "corpus": {**SPEC["corpus"], "name": corpus}}
        path = root / "spec.toml"
        path.write_text(dump_toml(spec), encoding="utf-8")
        made = root / "runs" / corpus
        run(load_spec(path), made, runtime=Runtime(workers=1))
        for other in others:
            shutil.copytree(made, root / "runs" / other)
    return root


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_name_their_language(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in blocks_of(text):
        where = f"{page.name}, line {block.line}"
        assert block.language in LANGUAGES, f"{where}: a block without a known language"
        hidden = block.language in ("text", "yaml", "json") and COMMAND.search(block.code)
        assert not hidden or block.reason, f"{where}: commands are `sh` or `console`"
    fences = [line for line in text.splitlines() if line.lstrip().startswith("```")]
    assert len(fences) == 2 * len(blocks_of(text)), f"{page.name}: a block that is not read"


RUN = [
    page
    for page in PAGES
    if page.stem != "tutorial"
    and any(
        b.language not in ("text", "mermaid") and not b.reason
        for b in blocks_of(page.read_text("utf-8"))
    )
]


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_page(page: Path, folder: Path, world: Path) -> None:
    shutil.copytree(world, folder, dirs_exist_ok=True)
    texts = [record.text for record in write_demo(200, 2)]
    members, holdout, release = (texts[part] for part in FILES.values())
    follow(page, Reader(folder, {"members": members, "holdout": holdout, "release": release}))
