"""A finished audit is verified by making things again; a purge keeps that true."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.command_line import assert_one_line_mistake
from support.command_line import synthleak as type_in
from support.specs import tiny_spec
from synthleak import check, open_run, run
from synthleak.audit.finished import status
from synthleak.audit.folder import RunFolder
from synthleak.audit.purge import purge, removable
from synthleak.audit.verify import DIFFERS, UNCHECKED, VERIFIED, Verification, verify
from synthleak.core.errors import StoreError, UserError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.corpus.readers.demo import Demo
from synthleak.encoders.encoder import dump_array, load_array
from synthleak.releases import Synthetic
from synthleak.releases.generators.ngram import Ngram
from synthleak.releases.release import dump_texts

ONE = Runtime(workers=1)
GAME = {"instances": 4, "records": 30, "rounds": 2, "candidates": 4}
SPEC = LoadedSpec(parse_spec(tiny_spec(game=GAME, generator=[{"kind": "ngram", "epsilon": [4]}])))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("verify") / "run"
    run(SPEC, out, runtime=ONE)
    return out


@pytest.fixture
def out(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def outcomes(found: Verification) -> dict[str, str]:
    return {finding.what: finding.outcome for finding in found.findings}


def differing(found: Verification) -> list[str]:
    return [finding.what for finding in found.findings if finding.outcome == DIFFERS]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def with_matching_hash(out: Path, name: str, data: bytes) -> None:
    """Alter a file as somebody would who wants it to pass: the manifest is written again."""
    (out / name).write_bytes(data)
    RunFolder(out)._note([name])


def test_an_untouched_audit_is_verified_and_nothing_is_written(out: Path) -> None:
    before = contents(out)
    found = verify(out, replay=9, draw=1)
    assert found.verified and set(outcomes(found).values()) == {VERIFIED}
    names = [finding.what for finding in found.findings]
    assert names[:7] == ["made by", "files", "store", "spec", "seed", "releases", "evidence"]
    assert len(names) == 8 + 9
    for kind in ("release ", "evidence ", ("figures of ", "profile of ", "attributes of ")):
        assert sum(name.startswith(kind) for name in names) == 3, names
    assert contents(out) == before
    assert verify(out, replay=9, draw=1) == found != verify(out, replay=9, draw=2)


def test_an_audit_with_optional_pools_is_verified(tmp_path: Path) -> None:
    game = {"design": "cohort", "instances": 4, "records": 60, "share_releases": True}
    some = {"rule": "outlier", "percentile": 92, "optional": True}
    pools = [{"name": "nobody", **some, "size": 1}, {"name": "some", **some, "size": 4}]
    spec = tiny_spec(game=game, pool=pools, generator=[{"kind": "echo"}])
    run(LoadedSpec(parse_spec(spec)), tmp_path / "run", runtime=ONE)
    assert list(open_run(tmp_path / "run").setup.pools) == ["some"]
    assert differing(verify(tmp_path / "run")) == []


def test_a_table_with_a_matching_hash_is_found(out: Path) -> None:
    table = (out / "results/cells.csv").read_bytes()
    with_matching_hash(out, "results/cells.csv", table.replace(b"outlier", b"inliers"))
    assert status(out).finished  # hashes match
    assert differing(verify(out)) == ["tables"]


def test_coins_that_the_seed_does_not_give_are_found(out: Path) -> None:
    store = RunFolder(out).store
    (name,) = store.list("plan/")
    other = LoadedSpec(SPEC.spec.model_copy(update={"seed": 4}))
    run(other, out.parent / "other", runtime=ONE)
    (theirs,) = RunFolder(out.parent / "other").store.list("plan/")
    store.put(name, RunFolder(out.parent / "other").store.get(theirs))
    found = verify(out)
    assert "seed" in differing(found)
    assert next(f.detail for f in found.findings if f.what == "seed") == name


def test_a_replay_finds_evidence_and_releases_that_were_made_up(out: Path) -> None:
    store = RunFolder(out).store
    for name in [*store.list("evidence/")]:
        values = np.asarray(load_array(store.get(name))) + 0.25
        store.put(name, dump_array(values))
    found = differing(verify(out, replay=6, draw=0))
    assert len([name for name in found if name.startswith("evidence ")]) == 2
    assert not [name for name in found if name.startswith("release ")]


def test_a_replay_finds_a_release_that_was_exchanged(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Ngram.generate
    monkeypatch.setattr(Ngram, "generate", lambda self, request: list(real(self, request))[::-1])
    found = differing(verify(out, replay=3))
    assert len(found) == 1 and found[0].startswith("release outlier/ngram/4, ")


def test_a_language_models_releases_are_checked_by_claim_and_shape(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ngram, "reproducible", property(lambda self: False))
    monkeypatch.setattr(Ngram, "generate", None)  # it must not be asked
    found = verify(out, replay=3)
    (release,) = [f for f in found.findings if f.what.startswith("release ")]
    assert found.verified and release.outcome == UNCHECKED
    assert "a language model gives other bytes" in release.detail
    claim = Ngram.claim
    monkeypatch.setattr(
        Ngram, "claim", lambda self, request: claim(self, request).__class__(9.0, 1e-5)
    )
    assert "releases" in differing(verify(out))


@pytest.mark.parametrize("name", ["manifest.json", "spec.toml", "results/cells.csv", "report.html"])
def test_an_altered_file_is_a_difference_and_not_an_error(out: Path, name: str) -> None:
    path = out / name
    path.write_bytes(path.read_bytes().replace(b"e", b"f", 3))
    assert not verify(out).verified


def test_a_folder_without_a_finished_audit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a run folder"):
        verify(tmp_path)


def test_exit_codes_for_pipelines(out: Path) -> None:
    done = type_in("verify", out, "--replay", 3, "--json", cwd=out.parent)
    assert done.returncode == 0 and json.loads(done.stdout)["verified"] is True
    table = (out / "results/cells.csv").read_bytes()
    with_matching_hash(out, "results/cells.csv", table.replace(b"outlier", b"inliers"))
    done = type_in("verify", out, cwd=out.parent)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "differs")
    assert type_in("verify", out.parent, cwd=out.parent).returncode == 2


@pytest.mark.parametrize("name", ["run/sign-off.html", "filed.md"])
def test_results_that_are_not_those_that_were_signed_are_found(out: Path, name: str) -> None:
    page = out.parent / name
    named = None if page.parent == out else page
    open_run(out).sign_off(page)
    assert outcomes(verify(out, signed=named))["sign-off"] == VERIFIED
    purge(out)
    (said,) = [f for f in verify(out, signed=named).findings if f.what == "sign-off"]
    assert said.outcome == VERIFIED and "written again since: manifest.json" in said.detail
    more = tiny_spec(game=GAME, generator=[{"kind": "ngram", "epsilon": [4, 1]}])
    run(LoadedSpec(parse_spec(more)), out, extend=True, runtime=ONE)
    found = verify(out, signed=named)
    assert differing(found) == ["sign-off"]
    typed = ["verify", out, *(["--signed", page] if named else [])]
    assert type_in(*typed, cwd=out.parent).returncode == 1


def test_a_table_that_was_altered_is_not_the_one_that_was_signed(out: Path) -> None:
    open_run(out).sign_off(out / "sign-off.html")
    with (out / "results/cells.csv").open("a") as file:
        file.write("x\n")
    assert outcomes(verify(out))["sign-off"] == DIFFERS


def test_a_page_that_is_no_sign_off_is_refused(out: Path) -> None:
    assert "sign-off" not in outcomes(verify(out))
    for page in (out / "report.html", out / "none.md"):
        with pytest.raises(UserError, match=r"sign-off with hashes|cannot be read"):
            verify(out, signed=page)
    (out / "sign-off.html").write_text("of an earlier version")
    assert outcomes(verify(out))["sign-off"] == UNCHECKED


def test_a_purge_removes_texts_and_leaves_an_audit_that_verifies(out: Path) -> None:
    texts = {r.text for cell in open_run(out).setup.cells for r in open_run(out).release(cell, 0)}
    open_run(out).write_report(include_text=True)
    results = {k: v for k, v in contents(out).items() if k.startswith("results")}
    assert [item.what for item in removable(out)] == ["releases", "report with texts"]
    removed = purge(out)
    assert [item.what for item in removed] == ["releases", "report with texts"]
    assert removed[0].files == 8 and removable(out) == []
    left = contents(out)
    assert not [name for name in left if name.startswith("store/text") or "confidential" in name]
    everything = b"\n".join(left.values()).decode(errors="replace")
    assert not [text for text in texts if text in everything]
    assert {k: v for k, v in left.items() if k.startswith("results")} == results
    found = verify(out, replay=9)
    assert found.verified and outcomes(found)["purged"] == UNCHECKED
    (said,) = [f.detail for f in found.findings if f.what == "purged"]
    assert said.startswith("8 releases, 1 report with texts were removed on 20")
    assert status(out).finished and purge(out) == []


def test_a_purged_audit_has_nothing_to_do_and_can_be_extended(out: Path) -> None:
    purge(out)
    more = tiny_spec(
        game=GAME,
        generator=[{"kind": "ngram", "epsilon": [4]}],
        evidence={"families": ["cos", "bigram_logprob", "dot"]},
    )
    audit = run(SPEC, out, runtime=ONE)
    before = {row.proxy for row in audit.proxies}
    assert not (out / "store/text").exists()
    run(LoadedSpec(parse_spec(more)), out, extend=True, runtime=ONE)
    assert {row.proxy for row in open_run(out).proxies} > before


def test_purge_lists_unless_told_to_remove(out: Path) -> None:
    before = contents(out)
    done = type_in("purge", out, cwd=out.parent)
    assert done.returncode == 0 and "nothing was removed: add --yes" in done.stdout
    assert contents(out) == before
    done = type_in("purge", out, "--yes", "--json", cwd=out.parent)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    assert [row["where"] for row in rows] == ["store/text"] and not (out / "store/text").exists()


def test_texts_that_were_purged_are_not_called_damaged(out: Path) -> None:
    record = open_run(out).records[0].record
    purge(out)
    when = RunFolder(out).manifest()["purged"]["at"].replace("T", " at ")[:19]  # type: ignore[index]
    done = type_in("explain", out, record, cwd=out.parent)
    assert_one_line_mistake(done, f"the texts of the releases were purged on {when} UTC")


@pytest.fixture(scope="module")
def files_of_a_check(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("check")
    records = [{"id": r.id, "text": r.text} for r in Demo(size=150, seed=8).read()]
    parts = {"members": records[:60], "holdout": records[60:120], "other": records[120:]}
    parts["release"] = [*records[:8], *records[125:145]]
    for name, part in parts.items():
        text = "".join(json.dumps(row) + "\n" for row in part)
        (home / f"{name}.jsonl").write_text(text, encoding="utf-8")
    sides = [home / f"{name}.jsonl" for name in ("members", "holdout", "release")]
    check(*sides, out=home / "run", encoder="hashing", runtime=ONE, random_split=True)
    return home


@pytest.fixture
def home(files_of_a_check: Path, tmp_path: Path) -> Path:
    shutil.copytree(files_of_a_check / "run", tmp_path / "run")
    return tmp_path


def test_a_check_is_verified_by_making_units_again(home: Path) -> None:
    found = verify(home / "run", replay=6)
    assert set(outcomes(found).values()) == {VERIFIED} and len(found.findings) == 14


def test_a_false_release_of_a_check_is_found(home: Path) -> None:
    (name,) = (home / "run/store/text").iterdir()
    store = RunFolder(home / "run").store
    release = [Synthetic("another text", ())] * 28
    store.put(f"text/{name.name}", dump_texts(release))  # with a matching digest
    assert "releases" in differing(verify(home / "run"))


def test_a_purge_leaves_a_check_that_verifies(home: Path) -> None:
    page = (home / "run/report.html").read_bytes()
    assert [item.what for item in purge(home / "run")] == ["releases"]
    found = verify(home / "run", replay=6)
    assert found.verified and outcomes(found)["tables"] == VERIFIED
    assert open_run(home / "run").write_report().read_bytes() == page
    assert status(home / "run").finished
    audit = open_run(home / "run")
    with pytest.raises(StoreError, match="the texts of the releases were purged on"):
        audit.release(audit.setup.cells[0], 0)


def test_a_release_that_is_gone_cannot_be_compared(files_of_a_check: Path, home: Path) -> None:
    release = files_of_a_check / "release.jsonl"
    data = release.read_bytes()
    release.unlink()
    try:
        found = verify(home / "run")
    finally:
        release.write_bytes(data)
    assert found.verified and outcomes(found)["records"] == UNCHECKED
