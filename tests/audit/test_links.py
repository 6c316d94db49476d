"""Nothing outside a run folder is written or deleted, whatever links it holds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.command_line import assert_one_line_mistake
from support.command_line import synthleak as type_in
from support.specs import tiny_spec
from synthleak import open_run, run
from synthleak.audit.purge import purge, removable
from synthleak.core.errors import StoreError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import FolderStore

ONE = Runtime(workers=1)
GAME = {"instances": 4, "records": 30, "rounds": 2, "candidates": 4}


def spec_with(**changes: object) -> LoadedSpec:
    return LoadedSpec(parse_spec(tiny_spec(game=GAME, generator=[{"kind": "ngram"}], **changes)))


SPEC, MORE = spec_with(), spec_with(analyses={"also": ["meta"]})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("links") / "run"
    run(SPEC, out, runtime=ONE)
    return out


@pytest.fixture
def out(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def linked(out: Path, name: str) -> Path:
    """Move a part of a run folder elsewhere, and leave a link to it."""
    elsewhere = out.parent / "elsewhere"
    (out / name).rename(elsewhere)
    (out / name).symlink_to(elsewhere)
    return elsewhere


@pytest.mark.parametrize("name", ["store", "store/text"])
def test_a_purge_deletes_nothing_behind_a_link(out: Path, name: str) -> None:
    elsewhere = linked(out, name)
    before = contents(elsewhere)
    for attempt in (removable, purge):
        with pytest.raises(StoreError, match="a link, and what it leads to is not part of"):
            attempt(out)
    assert contents(elsewhere) == before
    assert_one_line_mistake(type_in("purge", out, "--yes", cwd=out.parent), "a link, and what")


def test_a_purge_refuses_a_linked_text(out: Path) -> None:
    text = sorted((out / "store/text").iterdir())[3]
    elsewhere = linked(out, f"store/text/{text.name}")
    before = contents(out)
    with pytest.raises(StoreError, match="a link"):
        purge(out)
    assert elsewhere.is_file() and contents(out) == before


@pytest.mark.parametrize(
    "name",
    [
        *("store", "results", "store/text", "store/evidence", "store/figures", "manifest.json"),
        *("spec.toml", "report.html", "artefacts.txt", "results/cells.csv"),
    ],
)
def test_a_run_writes_and_deletes_nothing_behind_a_link(out: Path, name: str) -> None:
    elsewhere = linked(out, name)
    if elsewhere.is_dir():
        (elsewhere / "strangers.csv").write_text("1,2", encoding="utf-8")
    about = elsewhere if elsewhere.is_dir() else elsewhere.parent / "run"
    before = contents(about)
    with pytest.raises(StoreError, match="a link, and what it leads to is not part of"):
        run(MORE, out, extend=True, runtime=ONE)
    assert contents(about) == before


def test_a_run_folder_that_is_itself_a_link_works(out: Path) -> None:
    link = out.parent / "link"
    link.symlink_to(out)
    run(MORE, link, extend=True, runtime=ONE)
    assert (out / "results/meta.csv").is_file() and purge(link)


def test_a_report_is_not_written_through_a_link(out: Path) -> None:
    elsewhere = linked(out, "report.html")
    page = elsewhere.read_bytes()
    with pytest.raises(StoreError, match="a link"):
        open_run(out).write_report()
    assert elsewhere.read_bytes() == page


def test_a_store_puts_nothing_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "store").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="a link"):
        FolderStore(tmp_path / "store").put("pool/k.json", b"{}")
    assert not any((tmp_path / "elsewhere").iterdir())


def test_files_of_others_stay_in_results_and_store(out: Path) -> None:
    for name in ("results/my-notes.csv", "store/text/notes.txt"):
        (out / name).write_text("mine", encoding="utf-8")
    (out / "results/copies.csv").write_text("stale", encoding="utf-8")
    run(MORE, out, extend=True, runtime=ONE)
    run(SPEC, out, extend=True, runtime=ONE)
    assert not (out / "results/meta.csv").exists() and not (out / "results/copies.csv").exists()
    purge(out)
    assert (out / "results/my-notes.csv").read_text(encoding="utf-8") == "mine"
    assert [path.name for path in (out / "store/text").iterdir()] == ["notes.txt"]


def test_a_purge_finds_pages_with_texts_under_other_names(out: Path) -> None:
    page = open_run(out).write_report(out / "shared/page.html", include_text=True)
    open_run(out).write_report(out.parent / "page.html", include_text=True)
    assert [item.where for item in removable(out)] == ["store/text", "shared/page.html"]
    run(MORE, out, extend=True, runtime=ONE)  # the manifest is written again
    run(spec_with(evidence={"families": ["cos"]}), out, extend=True, runtime=ONE)  # begun again
    purge(out)
    assert isinstance(page, Path) and not page.exists() and (out.parent / "page.html").is_file()
