"""A commitment: one hash of the question, filed before the answer, and compared with it after."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.command_line import assert_one_line_mistake
from support.command_line import synthleak as type_in
from support.specs import tiny_spec
from synthleak import check, commit, open_run, run, verify
from synthleak.audit.commitment import Commitment, read_commitment
from synthleak.audit.folder import RunFolder
from synthleak.audit.setup import Setup
from synthleak.audit.stages import set_up
from synthleak.audit.verify import DIFFERS, VERIFIED, Finding
from synthleak.core.errors import StoreError, UserError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import dump_toml, load_spec
from synthleak.core.store import MemoryStore
from synthleak.corpus.readers.demo import write_demo
from synthleak.preflight.split import json_lines

ONE = Runtime(workers=1)
GATE = "auc > 0.99 or claim_broken"
PROGRAM = (
    "import json, sys\n"
    "rows = [json.loads(line) for line in open(sys.argv[1])]\n"
    "texts = [rows[i % len(rows)] for i in range(int(sys.argv[3]))]\n"
    "open(sys.argv[2], 'w').write(''.join(json.dumps(t) + '\\n' for t in texts))\n"
)
PLUGIN = """
from synthleak.evidence import family
import numpy as np

@family("one_more", version=1, view="lexical", scale="difference", proxies={"one_more": "length"})
def one_more(targets, observation):
    "How long a record is."
    return np.array([len(words) for words in targets.tokens], dtype=float)[:, None]
"""


def spec_of(folder: Path) -> dict[str, Any]:
    """Write the files of a small audit of a program with a plug-in, and return its spec."""
    rows = [{"id": r.id, "text": r.text, "labels": list(r.labels)} for r in write_demo(160, 3)]
    (folder / "records.jsonl").write_bytes(json_lines(rows))
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    (folder / "more.py").write_text(PLUGIN, encoding="utf-8")
    argv = ["{python}", "program.py", "{train}", "{out}", "{n}"]
    return tiny_spec(
        plugins=["more.py"],
        corpus={"reader": "jsonl", "path": "records.jsonl", "name": "c", "description": "reviews"},
        game={"instances": 4, "records": 30, "rounds": 2, "candidates": 4},
        generator=[{"kind": "command", "argv": argv}],
        evidence={"families": ["cos", "one_more"]},
    )


def write_spec(folder: Path, spec: dict[str, Any]) -> Path:
    path = folder / "audit.toml"
    path.write_text(dump_toml(spec), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a spec, its commitment, and the audit that was made after it."""
    folder = tmp_path_factory.mktemp("committed")
    spec = write_spec(folder, spec_of(folder))
    commit(spec, folder / "filed.json", gate=GATE)
    run(spec, folder / "run", runtime=ONE, committed=folder / "filed.json")
    return folder


@pytest.fixture
def folder(committed: Path, tmp_path: Path) -> Path:
    """A copy of it, in another place: paths are not committed to."""
    return Path(shutil.copytree(committed, tmp_path / "copy"))


def setup_of(spec: Path) -> Setup:
    return set_up(load_spec(spec), MemoryStore())


def findings(out: Path, **options: Any) -> dict[str, Finding]:
    found = verify(out, trust_plugins=True, **options).findings
    return {finding.what: finding for finding in found}


def altered(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), encoding="utf-8")


def test_the_finished_audit_is_the_committed_one(committed: Path) -> None:
    filed = read_commitment(committed / "filed.json")
    for given in (None, committed / "filed.json", str(committed / "filed.json"), filed.hash):
        found = findings(committed / "run", committed=given)
        assert {finding.outcome for finding in found.values()} == {VERIFIED}
        assert filed.hash in found["commitment"].detail
        rows = len(open_run(committed / "run", trust_plugins=True).cells)
        assert found["gate"].detail.startswith(f"{GATE} holds in {rows} of {rows} rows")
    kept = committed / "run" / "commitment.json"
    assert kept.read_bytes() == (committed / "filed.json").read_bytes()


def test_the_hash_is_that_of_the_file_and_hides_what_went_into_it(committed: Path) -> None:
    content = json.loads((committed / "filed.json").read_text(encoding="utf-8"))
    filed = content.pop("hash")
    content["committed"] = content["committed"].replace("Z", "+00:00")
    written = json.dumps(["commitment", content], sort_keys=True, separators=(",", ":"))
    assert hashlib.sha256(written.encode()).hexdigest() == filed

    def salted(name: str, part: Any) -> str:
        written = json.dumps([content["nonce"], name, part], separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(written.encode()).hexdigest()

    assert content["parts"]["seed"] == salted("seed", 3)
    again = commit(committed / "audit.toml", gate=GATE)
    assert again.nonce != content["nonce"] and again.hash != filed
    assert set(again.parts) == set(content["parts"])
    assert not set(again.parts.values()) & set(content["parts"].values())


def test_the_file_holds_nothing_of_the_records_and_is_its_owners(committed: Path) -> None:
    path = committed / "filed.json"
    text = path.read_text(encoding="utf-8")
    assert not [r.id for r in write_demo(160, 3) if r.text in text or f'"{r.id}"' in text]
    assert str(committed) not in text and path.stat().st_mode & 0o077 == 0


def edited(name: str, old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8")
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    return change


CHANGES = {
    "seed": edited("audit.toml", "seed = 3", "seed = 4"),
    "corpus": edited("records.jsonl", '"text": "', '"text": "So '),
    "encoders": edited("audit.toml", 'evidence = "hashing"', 'evidence = "static"'),
    "pools": edited("audit.toml", "percentile = 92", "percentile = 93"),
    "game": edited("audit.toml", "rounds = 2", "rounds = 1"),
    "generators": edited("program.py", "import json", "import  json"),
    "families": edited("audit.toml", '"cos"', '"bigram_logprob"'),
    "priors": edited("audit.toml", "prior = []", ""),
    "analyses": edited("audit.toml", "redraws = 0", 'redraws = 0\nalso = ["meta"]'),
    "public side": edited("audit.toml", "reviews", "letters"),
    "plug-in files": edited("more.py", "import numpy as np", "import numpy as np  # changed"),
}


@pytest.mark.parametrize("redraws", ["1000", '"auto"'])
def test_other_redraws_are_another_audit(redraws: str, folder: Path) -> None:
    filed = read_commitment(folder / "filed.json")
    edited("audit.toml", "redraws = 0", f"redraws = {redraws}")(folder)
    assert filed.differences(setup_of(folder / "audit.toml")) == ["analyses"]


@pytest.mark.parametrize("part", CHANGES)
def test_another_audit_is_refused_and_its_part_named(part: str, folder: Path) -> None:
    CHANGES[part](folder)
    with pytest.raises(UserError, match="not the committed one") as error:
        run(folder / "audit.toml", folder / "other", committed=folder / "filed.json")
    assert part in error.value.what.partition("these differ: ")[2].split(", ")
    assert "\n" not in str(error.value) and not (folder / "other").exists()


def test_other_coins_alone_are_named(committed: Path) -> None:
    setup = setup_of(committed / "audit.toml")
    filed = read_commitment(committed / "filed.json")
    assert filed.differences(setup) == []
    ((name, plan),) = setup.plans.items()
    flipped = replace(plan.trials, member=np.flip(plan.trials.member))
    setup.plans[name] = replace(plan, trials=flipped)
    assert filed.differences(setup) == ["plan"]
    setup.plans[name] = plan
    ((name, pool),) = setup.pools.items()
    setup.pools[name] = replace(pool, targets=pool.targets[::-1])
    assert filed.differences(setup) == ["pool members"]


def test_verify_names_what_is_not_as_committed(folder: Path) -> None:
    spec = load_spec(folder / "audit.toml")
    commit(spec, folder / "later.json")
    CHANGES["game"](folder)
    commit(folder / "audit.toml", folder / "other.json")
    found = findings(folder / "run", committed=folder / "other.json")["commitment"]
    assert found.outcome == DIFFERS and found.detail.startswith("game, plan")
    late = read_commitment(folder / "later.json").committed + timedelta(hours=1)
    filed = Commitment.model_construct(
        **{**dict(read_commitment(folder / "later.json")), "committed": late}
    )
    setup = open_run(folder / "run", trust_plugins=True).setup
    manifest = RunFolder(folder / "run").manifest()
    assert filed.differences(setup, manifest) == ["time (the audit was finished before)"]
    older = filed.model_copy(update={"synthleak": "0.0.1"})
    (said,) = older.differences(setup)
    assert said.startswith("version of synthleak (committed 0.0.1")


def test_an_audit_that_was_finished_before_is_refused(folder: Path) -> None:
    (folder / "run" / "commitment.json").unlink()
    manifest = RunFolder(folder / "run").manifest()
    assert manifest is not None
    manifest["made"] = "2020-01-01T00:00:00+00:00"
    RunFolder(folder / "run")._put_manifest(manifest)
    found = findings(folder / "run", committed=folder / "filed.json")
    assert found["commitment"].detail == "time (the audit was finished before)"
    with pytest.raises(UserError, match="finished before"):
        run(folder / "audit.toml", folder / "run", committed=folder / "filed.json")
    assert not (folder / "run" / "commitment.json").exists()
    shutil.copy(folder / "filed.json", folder / "run" / "commitment.json")
    with pytest.raises(UserError, match="finished before"):
        open_run(folder / "run", trust_plugins=True).sign_off()


def test_an_extended_audit_is_no_longer_the_committed_one(folder: Path) -> None:
    CHANGES["families"](folder)
    run(folder / "audit.toml", folder / "run", extend=True, runtime=ONE)
    found = findings(folder / "run")
    assert found["commitment"].outcome == DIFFERS and found["commitment"].detail == "families"
    with pytest.raises(UserError, match="not the committed one"):
        open_run(folder / "run", trust_plugins=True).sign_off()


def test_a_hash_is_compared_with_what_the_folder_keeps(folder: Path) -> None:
    filed = read_commitment(folder / "filed.json")
    found = findings(folder / "run", committed="0" * 64)
    assert found["commitment"].outcome == DIFFERS and filed.hash in found["commitment"].detail
    kept = folder / "run" / "commitment.json"
    altered(kept, gate="auc > 2")
    assert findings(folder / "run")["kept commitment"].outcome == DIFFERS
    with pytest.raises(UserError, match="its hash is another"):
        verify(folder / "run", committed=kept, trust_plugins=True)
    kept.unlink()
    assert "commitment" not in findings(folder / "run")
    with pytest.raises(UserError, match="not a commitment"):
        verify(folder / "run", committed=f"{filed.hash}\n", trust_plugins=True)
    with pytest.raises(UserError, match="a hash alone cannot be compared"):
        verify(folder / "run", committed=filed.hash, trust_plugins=True)


def test_a_lost_or_replaced_commitment_is_missed(folder: Path) -> None:
    kept, spec = folder / "run" / "commitment.json", folder / "audit.toml"
    commit(spec, folder / "second.json", gate="auc > 2")
    for what in ("lost", "run again", "made again", "extended", "replaced"):
        kept.unlink()
        if what == "replaced":
            shutil.copy(folder / "second.json", kept)
        if what == "made again":
            (folder / "run" / "results" / "cells.csv").unlink()
        if what == "extended":
            CHANGES["families"](folder)
        if what in ("run again", "made again", "extended"):
            run(spec, folder / "run", extend=True, runtime=ONE)
        for given in (None, folder / "filed.json"):
            found = findings(folder / "run", committed=given)["kept commitment"]
            assert found.outcome == DIFFERS and "missing" in found.detail, what
        if what == "extended":
            edited("audit.toml", '"bigram_logprob"', '"cos"')(folder)
            run(spec, folder / "run", extend=True, runtime=ONE)
        shutil.copy(folder / "filed.json", kept)
        assert {found.outcome for found in findings(folder / "run").values()} == {VERIFIED}


def test_lost_releases_of_a_committed_audit_are_named(folder: Path) -> None:
    shutil.rmtree(folder / "run" / "store" / "release")
    found = findings(folder / "run", committed=folder / "filed.json")
    assert found["commitment"].outcome == VERIFIED
    assert found["gate"].outcome == found["store"].outcome == DIFFERS


def test_a_folder_keeps_one_commitment(folder: Path) -> None:
    commit(folder / "audit.toml", folder / "second.json")
    altered_time = json.loads((folder / "run" / "manifest.json").read_text("utf-8"))
    altered_time["made"] = "2999-01-01T00:00:00+00:00"
    RunFolder(folder / "run")._put_manifest(altered_time)
    with pytest.raises(StoreError, match="keeps another commitment"):
        run(folder / "audit.toml", folder / "run", committed=folder / "second.json")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"hash": 1}', b"\xff", b"[" * 100_000])
def test_what_is_no_commitment_is_refused_in_one_line(content: bytes, folder: Path) -> None:
    (folder / "filed.json").write_bytes(content)
    with pytest.raises(UserError, match="not a commitment") as error:
        verify(folder / "run", committed=folder / "filed.json", trust_plugins=True)
    assert "\n" not in str(error.value)
    with pytest.raises(UserError, match="not a commitment"):
        run(folder / "audit.toml", folder / "run", committed=folder / "missing.json")


def test_a_commitment_is_not_replaced(folder: Path) -> None:
    before = (folder / "filed.json").read_bytes()
    with pytest.raises(UserError, match="cannot be checked without its file"):
        commit(folder / "audit.toml", folder / "filed.json")
    with pytest.raises(UserError, match="no column"):
        commit(folder / "audit.toml", folder / "new.json", gate="nothing < 1")
    assert (folder / "filed.json").read_bytes() == before and not (folder / "new.json").exists()


@pytest.mark.parametrize("ending", ["html", "md"])
def test_the_sign_off_carries_hash_time_and_gate(ending: str, folder: Path) -> None:
    filed = read_commitment(folder / "filed.json")
    audit = open_run(folder / "run", trust_plugins=True)
    page = audit.sign_off(folder / f"signed.{ending}").read_text(encoding="utf-8")
    assert page.count(filed.hash) == 1 and filed.nonce not in page
    assert f"{filed.committed:%Y-%m-%d %H:%M:%S} UTC" in page
    assert f"holds in {len(audit.cells)} of {len(audit.cells)} rows" in page
    signed = folder / f"signed.{ending}"
    assert findings(folder / "run", signed=signed)["sign-off"].outcome == VERIFIED
    (folder / "run" / "commitment.json").unlink()
    assert "committed" not in audit.sign_off(signed).read_text(encoding="utf-8")


def test_a_check_is_committed_to_before_its_release_exists(tmp_path: Path) -> None:
    rows = [{"id": r.id, "text": r.text} for r in write_demo(120, 2)]
    for name, part in (("train", rows[:50]), ("held", rows[50:100])):
        (tmp_path / f"{name}.jsonl").write_bytes(json_lines(part))
    done = type_in("init", "--for", "check", "check.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    edited("check.toml", 'evidence = "static"', 'evidence = "hashing"')(tmp_path)
    filed = commit(tmp_path / "check.toml", tmp_path / "filed.json", gate="leak_found")
    (tmp_path / "synthetic.jsonl").write_bytes(json_lines(rows[100:]))
    out = tmp_path / "run"
    run(tmp_path / "check.toml", out, runtime=ONE, committed=tmp_path / "filed.json")
    assert findings(out, committed=filed.hash)["commitment"].outcome == VERIFIED
    moved = [*rows[1:50], rows[0]], rows[50:100]
    audit = check(*moved, rows[100:], out=tmp_path / "other", runtime=ONE, encoder="hashing")
    assert "corpus" in filed.differences(audit.setup)


def test_commands_commit_run_and_verify(folder: Path) -> None:
    shutil.rmtree(folder / "run")
    gate = ("--fail-if", "auc > 0.01")
    done = type_in("plan", "commit", "audit.toml", *gate, cwd=folder)
    assert done.returncode == 0, done.stderr
    file = folder / "audit.commitment.json"
    filed = read_commitment(file)
    assert done.stdout.splitlines()[0] == filed.hash
    words = ("run", "audit.toml", "--out", "run", "--workers", 1, "-q", "--committed", file)
    done = type_in(*words, "--fail-if", "auc > 0.5", cwd=folder)
    assert_one_line_mistake(done, "--fail-if", "auc > 0.01")
    assert not (folder / "run").exists()
    done = type_in(*words, cwd=folder)
    assert done.returncode == 1 and "--fail-if holds in" in done.stderr
    done = type_in("verify", "run", "--committed", filed.hash, "--trust-code", cwd=folder)
    assert done.returncode == 0 and "auc > 0.01 holds in" in done.stdout
    done = type_in("verify", "run", "--committed", "absent", "--trust-code", cwd=folder)
    assert_one_line_mistake(done, "absent", "not a commitment")
    as_json = ("plan", "commit", "audit.toml", "--out", "more.json", "--json")
    said = json.loads(type_in(*as_json, cwd=folder).stdout)
    assert said["hash"] == read_commitment(folder / "more.json").hash
