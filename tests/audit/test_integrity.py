"""What was altered since it was written is named and made again, never obeyed."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet
import pytest

from support.command_line import assert_one_line_mistake
from support.command_line import synthleak as type_in
from support.specs import tiny_spec
from synthleak import open_run, run
from synthleak.audit.finished import open_finished, status, write_report
from synthleak.audit.folder import NAMED_FILES, RunFolder, digest_of_file, own_digest
from synthleak.audit.gate import failing, parse_gate
from synthleak.audit.purge import purge
from synthleak.audit.verify import DIFFERS, verify
from synthleak.core.errors import StoreError, UserError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import damaged_in, seal, unseal

ONE = Runtime(workers=1)
SPEC = LoadedSpec(
    parse_spec(
        tiny_spec(
            game={"instances": 4, "records": 30, "rounds": 2, "candidates": 4},
            generator=[{"kind": "ngram"}],
            analyses={"also": ["meta"]},
        )
    )
)


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files but the manifest, which holds a time."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("integrity") / "run"
    run(SPEC, out, runtime=ONE)
    return out


@pytest.fixture
def out(finished: Path) -> Iterator[Path]:
    """Lend the finished run, and put every file back afterwards."""
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    yield finished
    for path in finished.rglob("*"):
        if path.is_file() and path not in before:
            path.unlink()
    for path, data in before.items():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)


def flip(path: Path, place: int, bit: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= bit
    path.write_bytes(data)


def without_digest(path: Path, store: Path) -> None:
    """Take the digest of an artefact away."""
    path.write_bytes(unseal(path.relative_to(store).as_posix(), path.read_bytes()))


def test_a_digit_changed_in_a_pool_changes_nothing(
    out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = contents(out)
    (pool,) = (out / "store/pool").iterdir()
    text = pool.read_text(encoding="utf-8")
    pool.write_text(
        re.sub(r"(\[\d*)(\d)", lambda m: m[1] + str((int(m[2]) + 1) % 10), text, count=1)
    )
    assert pool.read_text(encoding="utf-8") != text
    run(SPEC, out, runtime=ONE)
    assert f"pool/{pool.name} is damaged: it is made again" in caplog.messages
    assert contents(out) == before


def test_a_byte_flipped_in_evidence_alters_no_table(
    out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = contents(out)
    for path in (out / "store/figures").iterdir():
        path.unlink()
    path = sorted((out / "store/evidence").iterdir())[3]
    flip(path, 140)
    run(SPEC, out, runtime=ONE)
    assert f"evidence/{path.name} is damaged: it is made again" in caplog.messages
    assert contents(out) == before


def test_an_edited_table_does_not_pass_the_gate(
    out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before, gate = contents(out), parse_gate("auc > 0.01")
    path = out / "results/cells.parquet"
    table = pyarrow.parquet.read_table(path)
    place = table.schema.get_field_index("auc")
    zeros = pyarrow.array([0.0] * len(table), pyarrow.float64())
    pyarrow.parquet.write_table(table.set_column(place, table.schema.field(place), zeros), path)
    assert "results/cells.parquet" in status(out).summary and not status(out).finished
    with pytest.raises(UserError, match=r"altered since \(results/cells.parquet\); finish it with"):
        open_finished(out)
    with pytest.raises(UserError, match="altered since"):
        write_report(out)
    assert failing(gate, open_run(out).cells)
    audit = run(SPEC, out, runtime=ONE)
    assert f"{path} was altered or is missing: it is made again" in caplog.messages
    assert failing(gate, audit.cells) and contents(out) == before


def test_each_measurement_alone_is_made_again(out: Path) -> None:
    before = contents(out)
    for path in [*(out / "store/figures").iterdir(), *(out / "store/profile").glob("*.npy")]:
        flip(path, 40)
        run(SPEC, out, runtime=ONE)
        assert contents(out) == before


def test_no_flipped_byte_alters_anything(out: Path, caplog: pytest.LogCaptureFixture) -> None:
    before, rng = contents(out), Random(20)
    chosen = rng.sample(sorted(before), 40)
    for name in chosen:
        flip(out / name, rng.randrange(10**6), 1 << rng.randrange(8))
    run(SPEC, out, runtime=ONE)
    assert contents(out) == before
    said = " ".join(caplog.messages)
    unnamed = [name for name in chosen if name.removeprefix("store/") not in said]
    results = sum(not name.startswith("store/") for name in chosen)
    assert len(unnamed) == max(0, results - NAMED_FILES)
    assert all(not name.startswith("store/") for name in unnamed)
    assert not unnamed or f"and {len(unnamed)} more files of" in said
    assert damaged_in(open_run(out).setup.store) == [] and status(out).finished


def test_an_artefact_without_digest_is_damaged(out: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = contents(out)
    (pool,) = (out / "store/pool").iterdir()
    without_digest(pool, out / "store")
    run(SPEC, out, runtime=ONE)
    assert f"pool/{pool.name} is damaged: it is made again" in caplog.messages
    assert contents(out) == before


def test_a_deleted_text_is_made_again_where_it_is_needed(out: Path) -> None:
    before = contents(out)
    for kind in ("text", "evidence"):
        for path in (out / "store" / kind).iterdir():
            path.unlink()
    run(SPEC, out, runtime=ONE)
    assert contents(out) == before


@pytest.mark.parametrize("damage", [b"{", b"[]", b"{}", b"\xff\xfe", b'"text"', b"1"])
def test_a_damaged_manifest_is_rebuilt(
    out: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    before = contents(out)
    (out / "manifest.json").write_bytes(damage)
    with pytest.raises(StoreError, match=r"the manifest is damaged; run `synthleak run .*rebuilds"):
        status(out)
    run(out / "spec.toml", out, runtime=ONE)
    assert f"{out / 'manifest.json'} is damaged: it is rebuilt from the spec" in caplog.messages
    assert contents(out) == before and status(out).finished


def test_a_damaged_manifest_does_not_let_artefacts_without_digest_in(
    out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = contents(out)
    (pool,) = (out / "store/pool").iterdir()
    without_digest(pool, out / "store")
    (out / "manifest.json").write_bytes(b"{")
    run(SPEC, out, runtime=ONE)
    assert f"pool/{pool.name} is damaged: it is made again" in caplog.messages
    assert contents(out) == before


def test_an_edited_manifest_is_noticed(out: Path) -> None:
    path = out / "manifest.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"seed": 3', '"seed": 4'))
    with pytest.raises(StoreError, match="the manifest is damaged"):
        status(out)


@pytest.mark.parametrize(
    "change",
    [
        {"files": 5},
        {"files": ["/dev/zero"]},
        {"hashes": {"../../elsewhere": None}},
        {"hashes": []},
        {"purged": "now"},
        {"identity": []},
        {"synthleak": 3},
    ],
)
def test_a_strangers_manifest_is_not_followed(out: Path, change: dict[str, Any]) -> None:
    RunFolder(out)._put_manifest({**(RunFolder(out).manifest() or {}), **change})
    with pytest.raises(StoreError, match="the manifest is damaged"):
        open_run(out)


def test_identities_of_another_kind_differ(out: Path) -> None:
    manifest = RunFolder(out).manifest() or {}
    odd = {**manifest["identity"], "corpus": 3, "pools": "x"}
    RunFolder(out)._put_manifest({**manifest, "identity": odd, "key": "0"})
    with pytest.raises(StoreError, match="corpus is of another kind; pools is of"):
        run(SPEC, out, runtime=ONE)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_a_pipe_in_place_of_a_file_is_not_waited_for(out: Path) -> None:
    header = next((out / "store/release").iterdir())
    for path in (header, out / "results/cells.csv"):
        path.unlink()
        os.mkfifo(path)
    try:
        assert {"results/cells.csv"} == set(RunFolder(out).altered())
        assert not status(out).finished
    finally:
        header.unlink()
        (out / "results/cells.csv").unlink()


def test_another_seed_is_refused_although_the_manifest_is_damaged(out: Path) -> None:
    (out / "manifest.json").write_bytes(b"{")
    other = LoadedSpec(SPEC.spec.model_copy(update={"seed": 4}))
    with pytest.raises(StoreError, match=r"another spec \(seed was 3, is 4\)"):
        run(other, out, runtime=ONE)


def test_a_damaged_manifest_and_spec_give_one_line(out: Path) -> None:
    (out / "manifest.json").write_bytes(b"{")
    (out / "spec.toml").write_bytes(b"seed = = 3")
    with pytest.raises(StoreError, match="the manifest is damaged, and the spec cannot be used"):
        run(SPEC, out, runtime=ONE)


def rewritten(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest as an earlier or later version would have written it."""
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    content["digest"] = own_digest(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_a_folder_of_a_later_version_is_refused(out: Path) -> None:
    rewritten(out / "manifest.json", lambda content: content.update(synthleak="99.1"))
    with pytest.raises(StoreError, match=r"written by synthleak 99\.1, and this is .*; install"):
        status(out)
    with pytest.raises(StoreError, match=r"written by synthleak 99\.1"):
        run(SPEC, out, runtime=ONE)


def test_an_edited_spec_is_noticed(out: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = out / "spec.toml"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"seed = 3", b"seed = 4"))
    done = type_in("status", out, cwd=out.parent)
    assert_one_line_mistake(done, "the spec is not the one that this folder was made with")
    run(SPEC, out, runtime=ONE)
    assert path.read_bytes() == whole and status(out).finished


def test_an_edited_page_is_noticed_and_written_again(out: Path) -> None:
    page = out / "report.html"
    whole = page.read_bytes()
    flip(page, 5000)
    assert "report.html" in status(out).summary
    write_report(out)
    assert page.read_bytes() == whole and status(out).finished


def test_a_page_of_another_version_is_not_taken_for_damage(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synthleak.audit.result.render", lambda results, include_text: b"newer")
    assert open_run(out).write_report().read_bytes() == b"newer"
    assert status(out).finished


def test_results_are_replaced_as_a_whole(out: Path) -> None:
    assert (out / "results/meta.csv").is_file()
    (out / "results/copies.csv").write_text("stale", encoding="utf-8")
    fewer = LoadedSpec(SPEC.spec.model_copy(update={"analyses": type(SPEC.spec.analyses)()}))
    run(fewer, out, runtime=ONE)
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    there = {f"results/{path.name}" for path in (out / "results").iterdir()}
    assert there == {name for name in manifest["files"] if name.startswith("results/")}
    assert "results/meta.csv" not in there


def test_status_writes_nothing(out: Path) -> None:
    for kind in ("pool", "plan"):
        for path in (out / "store" / kind).iterdir():
            path.unlink()
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*")}
    status(out)
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*")} == before


KINDS = sorted(
    ["attributes", "evidence", "figures", "meta", "plan", "pool", "profile", "release", "text"]
)


def test_every_kind_of_artefact_is_tried(out: Path) -> None:
    assert sorted(path.name for path in (out / "store").iterdir()) == [*KINDS, "utility"]


@pytest.mark.parametrize("kind", [*KINDS, "utility"])
@pytest.mark.parametrize("how_many", ["one", "all"])
def test_a_lost_artefact_is_named_and_rebuilt(
    out: Path, kind: str, how_many: str, caplog: pytest.LogCaptureFixture
) -> None:
    before, paths = contents(out), sorted((out / "store" / kind).iterdir())
    lost = paths if how_many == "all" else paths[-1:]
    for path in lost:
        path.unlink()
    name = f"{kind}/{lost[0].name}"
    state = status(out)
    assert not state.finished and f"missing in the store: {name}" in state.summary
    (said,) = [finding for finding in verify(out).findings if finding.what == "store"]
    assert said.outcome == DIFFERS and f"{name} is missing" in said.detail
    if kind == "text":
        assert open_finished(out).cells  # the results are whole
    run(SPEC, out, runtime=ONE)
    assert f"{lost[0]} is missing: it is made again if it is needed" in caplog.messages
    assert contents(out) == before and status(out).finished
    assert verify(out).verified


def test_a_lost_text_is_noticed_although_the_manifest_is_damaged(out: Path) -> None:
    before = contents(out)
    for path in (out / "store/text").iterdir():
        path.unlink()
    (out / "manifest.json").write_bytes(b"{}")
    run(out / "spec.toml", out, runtime=ONE)
    assert contents(out) == before


def test_a_purge_hides_no_loss(out: Path) -> None:
    lost = sorted((out / "store/evidence").iterdir())[0]
    lost.unlink()
    purge(out)
    assert f"missing in the store: evidence/{lost.name};" in status(out).summary


def test_texts_lost_after_a_purge_are_missed(out: Path) -> None:
    purge(out)
    assert status(out).finished
    more = tiny_spec(
        game={"instances": 4, "records": 30, "rounds": 2, "candidates": 4},
        generator=[{"kind": "ngram", "epsilon": [float("inf"), 4]}],
    )
    run(LoadedSpec(parse_spec(more)), out, extend=True, runtime=ONE)
    assert status(out).finished and any((out / "store/text").iterdir())
    for path in (out / "store/text").iterdir():
        path.unlink()
    assert "missing in the store: text/" in status(out).summary


@pytest.mark.parametrize("change", [b"", b"text/../../x", b"\x1b[2J", b"text/other.jsonl.gz"])
def test_an_edited_list_of_artefacts_is_written_again(out: Path, change: bytes) -> None:
    path = out / "artefacts.txt"
    whole = path.read_bytes()
    path.write_bytes(change)
    assert "artefacts.txt" in status(out).summary
    assert not verify(out).verified
    run(SPEC, out, runtime=ONE)
    assert path.read_bytes() == whole and status(out).finished


def forge(run: Path, name: str, change: Callable[[Any], Any]) -> None:
    """Change what a file holds, and every digest, as only somebody does who knows the format."""
    path = next(iter(sorted(run.glob(name))))
    stored = str(path.relative_to(run / "store")) if name.startswith("store") else None
    data = path.read_bytes() if stored is None else unseal(stored, path.read_bytes())
    if path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path)
        pyarrow.parquet.write_table(change(table), path)
    else:
        packed = path.suffix == ".gz"
        content = json.loads(gzip.decompress(data) if packed else data)
        changed = json.dumps(change(content) or content).encode()
        changed = gzip.compress(changed) if packed else changed
        path.write_bytes(changed if stored is None else seal(stored, changed))
    manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
    manifest["hashes"] = {name: digest_of_file(run / name) for name in manifest["hashes"]}
    manifest["digest"] = own_digest(manifest)
    (run / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def column(name: str, value: object) -> Callable[[Any], Any]:
    def change(table: Any) -> Any:
        kind, place = table.schema.field(name).type, table.column_names.index(name)
        cells = [value, *table.column(name).to_pylist()[1:]]
        return table.set_column(place, name, pyarrow.array(cells, type=kind))

    return change


FORGERIES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "an unknown attacker": ("results/cells.parquet", column("scenario", "S9")),
    "no cells": ("results/cells.parquet", lambda table: table.slice(0, 0)),
    "a proxy without a figure": ("results/proxies.parquet", column("auc", None)),
    "an analysis without a figure": ("results/views.parquet", column("scenario", None)),
    "no analyses": ("results/summary.json", lambda content: content.update(analyses=7)),
    "an unknown analysis": (
        "results/summary.json",
        lambda content: content["analyses"].update(x={"rows": 1, "lacks": None}),
    ),
    "a record that is a word": (
        "store/plan/*",
        lambda content: content["sets"][0][2].__setitem__(0, "x"),
    ),
    "a record that is not there": (
        "store/plan/*",
        lambda content: content["sets"][0][2].__setitem__(0, 10**6),
    ),
    "a record of a huge number": (
        "store/plan/*",
        lambda content: content["sets"][0][2].__setitem__(0, 10**40),
    ),
    "figures that are cut off": (
        "store/figures/*",
        lambda content: content[:1] if isinstance(content, list) else dict([*content.items()][:1]),
    ),
    "a release without a size": ("store/release/*", lambda content: content.update(size=None)),
    "a promise that is a list": (
        "store/release/*",
        lambda content: content["claim"].update(epsilon=[]),
    ),
    "a missing figure": (
        "store/figures/*",
        lambda content: (
            [{**row, "auc": []} for row in content]
            if isinstance(content, list)
            else {**content, "rows": []}
        ),
    ),
    "a huge figure": ("store/utility/*", lambda content: content.update(private=1e308)),
}


@pytest.mark.parametrize("what", FORGERIES)
def test_a_forged_folder_is_refused_in_one_line_or_read(
    finished: Path, tmp_path: Path, what: str
) -> None:
    forged = shutil.copytree(finished, tmp_path / "run")
    forge(forged, *FORGERIES[what])
    figures = ("figures", "--out", str(tmp_path / "f"))
    for words in (("report",), ("compare", str(forged)), figures, ("verify",)):
        done = type_in(words[0], str(forged), *words[1:], cwd=tmp_path)
        assert done.returncode in ((0, 1, 2) if words == ("verify",) else (0, 2)), done.stderr
        said = [line for line in done.stderr.splitlines() if line.startswith("synthleak: ")]
        assert len(said) == (done.returncode == 2) and "Traceback" not in done.stderr


def test_forged_tables_are_not_read(finished: Path, tmp_path: Path) -> None:
    forged = shutil.copytree(finished, tmp_path / "run")
    forge(forged, "results/cells.parquet", column("verdict", "no leak found"))
    assert open_run(forged).cells == open_run(finished).cells
