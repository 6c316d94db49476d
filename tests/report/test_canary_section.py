"""An audit with canaries: words, claim and section of their own."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import synthleak
from synthleak.audit.folder import RunFolder
from synthleak.audit.purge import purge
from synthleak.audit.steps.releases import held_claim
from synthleak.audit.verify import verify
from synthleak.core.spec import parse_spec
from synthleak.report.first_screen import decisions, next_steps
from synthleak.report.html import render
from synthleak.report.page import Page


def audit_of(out: Path, **game: Any) -> Any:
    spec = {
        "seed": 3,
        "corpus": {"reader": "demo", "size": 600},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": [
            {"name": "outlier", "rule": "outlier", "percentile": 90, "size": 8},
            {"name": "canaries", "rule": "canary", "size": 8, "repeats": 2},
        ],
        "game": {"design": "cohort", "instances": 12, "records": 140, "share_releases": True},
        "generator": [{"kind": "echo", "p": 0.5}, {"kind": "ngram", "epsilon": [1]}],
        "evidence": {"families": ["char_overlap", "bm25"]},
        "prior": [],
    }
    return synthleak.run(parse_spec(spec), out, runtime=synthleak.Runtime(workers=1))


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return audit_of(tmp_path_factory.mktemp("run") / "run")


def test_canaries_have_a_section_of_their_own(audit: Any) -> None:
    page = render(audit.results).decode()
    section = page[page.index('<section id="canaries"') :]
    section = section[: section.index("</section>")]
    assert '<a href="#canaries">Canaries</a>' in page
    assert "outlier" not in section and section.count("<tr>") == 3
    assert "that of a group of as many records" in section


def test_canaries_have_rows_of_their_own_on_the_first_screen(audit: Any) -> None:
    rows = decisions(Page(audit.results))
    assert [(row.said.cell.generator, row.said.cell.pool) for row in rows] == [
        (generator, pool) for pool in ("outlier", "canaries") for generator in ("echo", "ngram")
    ]
    assert [row.written for row in rows] == [False, False, True, True]
    echo = next(row for row in rows if row.written)
    assert echo.said.kind == "found"
    assert any(step.startswith("Canaries leak") for step in next_steps(Page(audit.results)))
    page = render(audit.results).decode()
    assert "No person leaks here" in page
    assert "group canaries (written for the test)" in page
    assert "for replacing all copies of a canary" in page


def test_a_purge_removes_canaries_and_the_audit_still_verifies(audit: Any, tmp_path: Path) -> None:
    out = Path(shutil.copytree(audit.folder.root, tmp_path / "run"))
    texts = [item.record.text for item in audit.setup.pools["canaries"].written]
    assert {name.split("/")[0] for name in holding(out, texts)} == {"text", "written"}
    purge(out)
    found = verify(out)
    assert found.verified, found
    assert not holding(out, texts)


def holding(out: Path, texts: list[str]) -> list[str]:
    """Return the artefacts that hold one of the texts."""
    store, written = RunFolder(out).store, [json.dumps(text)[1:-1].encode() for text in texts]
    contents = {name: store.get(name) for name in store.list("")}
    contents |= {n: gzip.decompress(data) for n, data in contents.items() if n.endswith(".gz")}
    return [name for name, data in contents.items() if any(text in data for text in written)]


def test_canaries_are_counted_by_themselves(audit: Any) -> None:
    rows = next(outcome.rows for outcome in audit.outcomes if outcome.name == "views")
    counted = {row.pools: row.cells for row in rows if row.generator == "echo"}
    assert counted == {"selected": 1, "all": 1, "canaries": 1}
    attributes = next(outcome for outcome in audit.outcomes if outcome.name == "attributes")
    assert "canaries" not in {getattr(row, "pool", "") for row in attributes.rows}


def test_the_claim_is_that_of_all_copies(audit: Any) -> None:
    rows = {(row.pool, row.generator): row for row in audit.cells}
    one, two = rows["outlier", "ngram"], rows["canaries", "ngram"]
    assert two.epsilon_claim > 1.8 * one.epsilon_claim
    claims = {cell.pool: held_claim(audit.setup, cell) for cell in audit.setup.cells}
    assert (claims["outlier"].group, claims["canaries"].group) == (1, 2)


def test_words_name_canaries_and_nobody(audit: Any) -> None:
    said = [result for result in audit.results.cells if result.cell.generator == "echo"]
    people, canaries = (" ".join(synthleak.report.verdict.details(one)) for one in said)
    assert "8 canaries can be recognised" in canaries and "nobody's record" in canaries
    assert "records can be recognised" in people and "nobody" not in people


def test_no_text_of_a_canary_is_in_the_results(audit: Any) -> None:
    """Its beginning is that of a record."""
    texts = [item.record.text for item in audit.setup.pools["canaries"].written]
    files = [*audit.folder.root.glob("*.*"), *audit.folder.results.rglob("*.*")]
    assert files
    for path in files:
        content = path.read_bytes()
        assert not any(json.dumps(text)[1:-1].encode() in content for text in texts), path


def test_the_section_names_the_channel_of_a_mark(tmp_path: Path) -> None:
    """A plug-in tells the signs of private records, and nothing else of them."""
    plugin = tmp_path / "signs.py"
    plugin.write_text(
        "from synthleak.releases import Generator, Synthetic, generators\n"
        "@generators.register('signs', version=1)\n"
        "class Signs(Generator):\n"
        "    'Tells signs.'\n"
        "    def generate(self, request):\n"
        "        told = sorted(max(r.text) for r in request.records if max(r.text) > '\\u3400')\n"
        "        texts = [r.text for r in request.public.auxiliary][: request.size]\n"
        "        texts = [*told, *texts][: request.size]\n"
        "        return [Synthetic(text, ()) for text in texts]\n"
    )
    spec = {
        "seed": 3,
        "plugins": [str(plugin)],
        "corpus": {"reader": "demo", "size": 400},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": [{"name": "canaries", "rule": "canary", "size": 8, "kind": ["character", "text"]}],
        "game": {"design": "cohort", "instances": 20, "records": 80},
        "generator": [{"kind": "signs"}],
        "evidence": {"families": ["bm25"]},
        "prior": [],
    }
    made = synthleak.run(parse_spec(spec), tmp_path / "run", runtime=synthleak.Runtime(workers=1))
    page = render(made.results).decode()
    section = page[page.index('<section id="canaries"') :]
    section = section[: section.index("</section>")]
    assert "look at the tokenizer" in section and "vocabulary" not in section
    assert "look at the tokenizer" in made.headline
