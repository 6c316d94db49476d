"""`folder`: releases made elsewhere, and everything that people mix up on the way."""

from __future__ import annotations

import hashlib
import json
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.shuffle_program import AWK, SHUFFLE
from support.specs import tiny_spec
from synthleak import Audit, open_run, run
from synthleak.audit.setup import records_at
from synthleak.core.errors import GeneratorError, StoreError, UserError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, dump_toml, load_spec
from synthleak.preflight.export import Exported, export_plan
from synthleak.releases import exchange as exchange_files
from synthleak.releases.exchange import read_manifest

ONE = Runtime(workers=1)
INF = float("inf")
COMMAND = {"name": "shuffle", "kind": "command", "argv": [*AWK, "eps={epsilon}"], "private": True}
FOLDER = {"name": "shuffle", "kind": "folder", "path": "exchange", "private": True}

pytestmark = pytest.mark.skipif(shutil.which("awk") is None, reason="there is no awk")


class Exchange:
    """A folder with a spec, an export and releases."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "exchange"
        (root / "shuffle.awk").write_text(SHUFFLE, encoding="utf-8")

    def spec(
        self, generator: dict[str, Any], generators: Sequence[dict[str, Any]] = (), **changes: Any
    ) -> LoadedSpec:
        both = [*generators, {"epsilon": [INF, 2], **generator}]
        game = {"instances": 6, "records": 30, "rounds": 3, "release_size": 20}
        content = tiny_spec(
            **{"generator": both, "game": game, "evidence": {"families": ["cos"]}} | changes
        )
        path = self.root / "audit.toml"
        path.write_text(dump_toml(content), encoding="utf-8")
        return load_spec(path)

    def export(self, **changes: Any) -> Exported:
        return export_plan(self.spec(FOLDER, **changes), self.folder)

    def generate(self, limit: int | None = None) -> None:
        """Work through tasks.tsv, as a shell loop would."""
        lines = (self.folder / "tasks.tsv").read_text(encoding="utf-8").splitlines()
        for line in lines[1:][:limit]:
            train, out, n, _, _, _, seed = line.split("\t")
            words = {"{seed}": seed, "{n}": n, "{out}": out, "{train}": train}
            argv = [
                "../shuffle.awk" if word == "shuffle.awk" else _fill(word, words) for word in AWK
            ]
            subprocess.run(argv, cwd=self.folder, check=True)

    def run(self, **changes: Any) -> Audit:
        return run(self.spec(FOLDER, **changes), self.root / "run", runtime=ONE)


def _fill(word: str, words: dict[str, str]) -> str:
    for blank, value in words.items():
        word = word.replace(blank, value)
    return word


@pytest.fixture
def exchange(tmp_path: Path) -> Exchange:
    return Exchange(tmp_path)


def results(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "results").iterdir()}


def test_command_and_folder_give_identical_tables(exchange: Exchange) -> None:
    by_command = exchange.root / "by-command"
    run(exchange.spec(COMMAND), by_command, runtime=Runtime(workers=2))
    done = exchange.export()
    # 6 games and 4 references, at two budgets.
    assert (done.sets, done.releases) == (10, 20)
    exchange.generate()
    audit = exchange.run()
    assert results(exchange.root / "run") == results(by_command)
    assert (exchange.root / "run/report.html").read_bytes() == (
        by_command / "report.html"
    ).read_bytes()
    assert audit.claim(audit.setup.cells[1]).stated
    assert open_run(by_command).cells == audit.cells
    assert "stated by the program" in (by_command / "report.html").read_text(encoding="utf-8")


def test_the_loop_of_the_guide_makes_what_is_awaited(exchange: Exchange) -> None:
    guide = Path(__file__).parents[2] / "docs" / "generators.md"
    loop = (
        guide.read_text(encoding="utf-8").partition("```sh\ncd exchange\n")[2].partition("```")[0]
    )
    exchange.export()
    subprocess.run(["sh", "-c", loop], cwd=exchange.folder, check=True)
    assert exchange.run().cells


def test_an_export_says_nothing_of_membership_or_purpose(exchange: Exchange) -> None:
    exchange.export()
    assert stat.S_IMODE(exchange.folder.stat().st_mode) == 0o700
    names = " ".join(str(path.relative_to(exchange.folder)) for path in exchange.folder.rglob("*"))
    papers = (exchange.folder / "manifest.json").read_text(encoding="utf-8") + names
    for word in ("instance", "reference", "member", "target", "coin"):
        assert word not in papers
    manifest = json.loads((exchange.folder / "manifest.json").read_text(encoding="utf-8"))
    sets = manifest["sets"]
    assert [entry["set"] for entry in sets] == [f"set-{i:04d}" for i in range(1, 11)]
    sizes = [set(_texts(exchange.folder / entry["train"])) for entry in sets]
    assert {len(texts) for texts in sizes} == {30}
    rows = (exchange.folder / sets[0]["train"]).read_text(encoding="utf-8").splitlines()
    assert all(set(json.loads(row)) == {"text", "labels"} for row in rows)


def _texts(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


def test_games_and_references_are_mixed_in_the_order_of_names(exchange: Exchange) -> None:
    from synthleak.audit.stages import set_up
    from synthleak.core.store import MemoryStore

    exchange.export()
    setup = set_up(exchange.spec(FOLDER), MemoryStore())
    plan = setup.plans["outlier"]
    kinds = {
        tuple(record.text for record in records_at(setup, item.records)): item.name.partition("-")[
            0
        ]
        for item in plan.sets
        if item.form == "release"
    }
    found = [
        kinds[tuple(_texts(path))]
        for path in sorted((exchange.folder / "outlier").glob("*/train.jsonl"))
    ]
    assert sorted(found) == ["instance"] * 6 + ["reference"] * 4
    assert found != sorted(found) and found != sorted(found, reverse=True)


def test_a_partial_folder_is_reported_as_partial_and_kept(exchange: Exchange) -> None:
    exchange.export()
    exchange.generate(limit=7)
    with pytest.raises(
        GeneratorError,
        match=r"generator shuffle: 7 of 20 releases found; missing e\.g\. "
        r"outlier/set-\d{4}/release-(inf|2)\.jsonl; add the missing ones and run again",
    ):
        exchange.run()
    kept = sorted((exchange.root / "run/store/release").iterdir())
    assert len(kept) == 7
    times = [path.stat().st_mtime_ns for path in kept]
    exchange.generate()
    exchange.run()
    assert [path.stat().st_mtime_ns for path in kept] == times


def test_a_replaced_release_is_noticed(exchange: Exchange) -> None:
    exchange.export()
    exchange.generate()
    exchange.run()
    before = results(exchange.root / "run")
    stored = len(list((exchange.root / "run/store/release").iterdir()))
    for path in (exchange.folder / "outlier").glob("*/release-inf.jsonl"):
        lines = path.read_text(encoding="utf-8").splitlines()
        path.write_text("\n".join(['{"text": "quite another"}', *lines[1:]]), encoding="utf-8")
    exchange.run()
    assert len(list((exchange.root / "run/store/release").iterdir())) == stored + 10
    assert results(exchange.root / "run") != before


def test_the_section_may_be_renamed_after_the_export(exchange: Exchange) -> None:
    exchange.export()
    exchange.generate()
    audit = run(exchange.spec({**FOLDER, "name": "mine"}), exchange.root / "run", runtime=ONE)
    assert {row.generator for row in audit.cells} == {"mine"}


def first(exchange: Exchange, name: str) -> Path:
    return exchange.folder / "outlier" / "set-0001" / name


def test_swapped_set_folders_are_found(exchange: Exchange) -> None:
    exchange.export()
    exchange.generate()
    one, two = exchange.folder / "outlier/set-0001", exchange.folder / "outlier/set-0002"
    one.rename(exchange.root / "aside")
    two.rename(one)
    (exchange.root / "aside").rename(two)
    with pytest.raises(GeneratorError, match=r"set-0001/train\.jsonl: the training file is not"):
        exchange.run()
    assert not (exchange.root / "run").exists()


def test_training_files_may_be_deleted_after_the_releases_exist(exchange: Exchange) -> None:
    exchange.export()
    exchange.generate()
    for path in exchange.folder.rglob("train.jsonl"):
        path.unlink()
    assert exchange.run().cells


def test_copies_of_one_release_are_refused_unless_allowed(exchange: Exchange) -> None:
    exchange.export()
    exchange.generate()
    other = exchange.folder / "outlier/set-0002/release-inf.jsonl"
    shutil.copy(first(exchange, "release-inf.jsonl"), other)
    with pytest.raises(
        GeneratorError,
        match=r"set-0001/release-inf\.jsonl and outlier/set-0002/release-inf\.jsonl are identical",
    ):
        exchange.run()
    spec = exchange.spec({**FOLDER, "allow_identical": True})
    assert run(spec, exchange.root / "run", runtime=ONE).cells


def test_lines_that_say_whose_they_are_betray_a_swap(exchange: Exchange) -> None:
    exchange.export()
    exchange.generate()
    for name in ("set-0001", "set-0002"):
        path = exchange.folder / "outlier" / name / "release-inf.jsonl"
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        stamped = "\n".join(json.dumps({**row, "set": name}) for row in rows)
        path.write_text(stamped, encoding="utf-8")
    assert exchange.run().cells
    one, two = first(exchange, "release-inf.jsonl"), exchange.folder / "outlier/set-0002"
    one.rename(exchange.root / "aside")
    (two / "release-inf.jsonl").rename(one)
    (exchange.root / "aside").rename(two / "release-inf.jsonl")
    with pytest.raises(GeneratorError, match=r"line 1: the line says that it belongs to 'set-000"):
        exchange.run()


@pytest.mark.parametrize(
    "changes",
    [{"seed": 4}, {"corpus": {"reader": "demo", "size": 170}}],
    ids=["seed", "corpus"],
)
def test_an_export_of_another_plan_is_refused(exchange: Exchange, changes: dict[str, Any]) -> None:
    exchange.export()
    exchange.generate()
    with pytest.raises(GeneratorError, match="the folder was exported for another plan"):
        exchange.run(**changes)
    assert not (exchange.root / "run").exists()
    with pytest.raises(StoreError, match=r"was exported for another plan .* choose another folder"):
        exchange.export(**changes)


def test_more_budgets_can_be_exported_into_the_same_folder(exchange: Exchange) -> None:
    exchange.export()
    exchange.generate()
    kept = first(exchange, "release-2.jsonl").stat().st_mtime_ns
    more = {**FOLDER, "epsilon": [INF, 2, 0.5]}
    with pytest.raises(GeneratorError, match=r"exported for another plan: .*epsilon"):
        run(exchange.spec(more), exchange.root / "run", runtime=ONE)
    assert export_plan(exchange.spec(more), exchange.folder).releases == 30
    assert first(exchange, "release-2.jsonl").stat().st_mtime_ns == kept
    with pytest.raises(GeneratorError, match=r"20 of 30 .* missing e\.g\. .*/release-0\.5\.jsonl"):
        run(exchange.spec(more), exchange.root / "run", runtime=ONE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", r"release-inf\.jsonl: .*empty"),
        ('{"text": "x"}\n' * 19, "too few records: 19, not 20"),
        ('{"text": "x"}\n' * 21, "too many records: 21, not 20"),
        ('{"text": "x"}\nnonsense\n', r"release-inf\.jsonl, line 2: not valid JSON"),
    ],
)
def test_a_broken_release_is_named_with_its_line(
    exchange: Exchange, text: str, expected: str
) -> None:
    exchange.export()
    exchange.generate()
    first(exchange, "release-inf.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(GeneratorError, match=expected):
        exchange.run()


def test_folder_without_a_manifest_is_refused(exchange: Exchange) -> None:
    with pytest.raises(GeneratorError, match=r"exchange: .*manifest\.json.*plan export"):
        exchange.run()
    exchange.export()
    (exchange.folder / "manifest.json").write_text('{"sets": [{}]}', encoding="utf-8")
    with pytest.raises(GeneratorError, match=r"manifest\.json: the manifest is damaged"):
        exchange.run()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("n", INF),
        ("n", "9" * 5000),
        ("epsilon", float("nan")),
        ("delta", [0.1]),
        ("seed", INF),
        ("ticket", ["a"]),
        ("pool", "../../elsewhere"),
        ("set", {"a": 1}),
        ("nominal", None),
        ("train_sha256", 5),
        ("releases", {"n": 1}),
    ],
)
def test_a_manifest_with_other_types_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    release = {"n": 2, "epsilon": "inf", "delta": 0.1, "seed": 1, "ticket": "t"}
    entry = {"pool": "p", "set": "set-0001", "train_sha256": "0", "nominal": 2}
    content = {"sets": [{**entry, "releases": [release]}]}
    (tmp_path / "manifest.json").write_text(json.dumps(content), encoding="utf-8")
    assert len(read_manifest(tmp_path)) == 1
    (release if key in release else content["sets"][0])[key] = value
    (tmp_path / "manifest.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(GeneratorError, match=r"manifest\.json: the manifest is damaged"):
        read_manifest(tmp_path)


@pytest.mark.parametrize("name", ["manifest.json", "*/*/train.jsonl", "*/*/release-inf.jsonl"])
def test_a_huge_file_of_an_exchange_is_not_even_hashed(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    exchange.export()
    exchange.generate()
    path = next(exchange.folder.glob(name))
    with path.open("r+b") as file:
        file.truncate(2_000_000)
    monkeypatch.setenv("SYNTHLEAK_MAX_FILE_MB", "1")
    hashed: list[Path] = []
    original = exchange_files.file_hash
    monkeypatch.setattr(
        sys.modules["synthleak.releases.generators.folder"],
        "file_hash",
        lambda path: (hashed.append(path), original(path))[1],
    )
    with pytest.raises(GeneratorError, match="the file is larger than the limit of 1 MB") as caught:
        exchange.run()
    assert str(path) in str(caught.value) and path not in hashed


def test_an_export_leaves_other_peoples_folders_alone(exchange: Exchange) -> None:
    exchange.folder.mkdir()
    (exchange.folder / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(StoreError, match="the folder is not empty and holds no export"):
        exchange.export()
    assert [path.name for path in exchange.folder.iterdir()] == ["thesis.txt"]


def test_an_export_that_fails_leaves_nothing(
    exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes, **how: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("synthleak.preflight.export.write_whole", full)
    with pytest.raises(StoreError, match="the disk is full"):
        exchange.export()
    assert sorted(path.name for path in exchange.root.iterdir()) == ["audit.toml", "shuffle.awk"]


def test_which_generator_is_exported_must_be_clear(exchange: Exchange) -> None:
    loaded = exchange.spec(COMMAND, generators=[{"kind": "echo"}])
    with pytest.raises(UserError, match="choose one with --generator NAME"):
        export_plan(loaded, exchange.folder)
    with pytest.raises(UserError, match="unknown generator 'shufle'; did you mean 'shuffle'"):
        export_plan(loaded, exchange.folder, "shufle")
    assert export_plan(loaded, exchange.folder, "shuffle").releases == 20


def test_a_kit_is_all_that_a_vendor_needs(exchange: Exchange) -> None:
    kit, vendor = exchange.root / "kit.zip", exchange.root / "vendor"
    export_plan(exchange.spec(FOLDER), exchange.folder, kit=kit)
    assert stat.S_IMODE(kit.stat().st_mode) == 0o600
    with zipfile.ZipFile(kit) as archive:
        archive.extractall(vendor)
    subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=vendor, check=True)
    page = (vendor / "README.txt").read_text(encoding="utf-8")
    assert not [w for w in ("instance", "reference", "member", "target", "coin") if w in page]
    awk = 'awk -v seed="$seed" -v n="$n" -v out="$out" -f ../shuffle.awk "$train"'
    start = page.index("tail -n +2")
    loop = page[start : page.index("done\n", start) + 5]
    loop = "\n".join(
        awk if line.strip().startswith("generate ") else line for line in loop.split("\n")
    )
    subprocess.run(["sh", "-c", loop], cwd=vendor, check=True)
    back = sorted(vendor.rglob("release-*"))
    assert len(back) == 40  # 20 releases, each with the hash of its training file
    for path in back[:20]:
        shutil.copy(path, exchange.folder / path.relative_to(vendor))
    with pytest.raises(GeneratorError, match=r"10 of 20 releases found; missing e\.g\. "):
        exchange.run()
    for path in back:
        shutil.copy(path, exchange.folder / path.relative_to(vendor))
    assert exchange.run().cells


def test_a_release_of_a_kit_must_name_its_training_file(exchange: Exchange) -> None:
    export_plan(exchange.spec(FOLDER), exchange.folder, kit=exchange.root / "kit.zip")
    exchange.generate()
    with pytest.raises(GeneratorError, match=r"from which training file .*; write it with: sha256"):
        exchange.run()
    for path in exchange.folder.rglob("release-*.jsonl"):
        train = hashlib.sha256((path.parent / "train.jsonl").read_bytes()).hexdigest()
        path.with_name(f"{path.name}.made-from").write_text(f"{train}  train.jsonl\n")
    one, two = (first(exchange, f"../set-000{n}/release-2.jsonl.made-from") for n in (1, 2))
    swapped = one.read_bytes()
    one.write_bytes(two.read_bytes())
    with pytest.raises(
        GeneratorError, match=r"set-0001/release-2\.jsonl: the release was made from"
    ):
        exchange.run()
    assert not (exchange.root / "run").exists()
    one.write_bytes(swapped)
    assert exchange.run().cells


def test_a_vendor_cannot_untie_a_kit(exchange: Exchange) -> None:
    export_plan(exchange.spec(FOLDER), exchange.folder, kit=exchange.root / "kit.zip")
    exchange.generate()
    path = exchange.folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    assert manifest.pop("tied")
    path.write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(GeneratorError, match=r"from which training file .*; write it with: sha256"):
        exchange.run()


def test_a_kit_without_a_folder_holds_the_same(exchange: Exchange) -> None:
    one, two = exchange.root / "one.zip", exchange.root / "two.zip"
    export_plan(exchange.spec(FOLDER), None, kit=one)
    export_plan(exchange.spec(FOLDER), exchange.folder, kit=two)
    assert one.read_bytes() == two.read_bytes()
    with zipfile.ZipFile(one) as archive:
        for name in archive.namelist():
            if name not in ("README.txt", "SHA256SUMS"):
                assert archive.read(name) == (exchange.folder / name).read_bytes()


def test_what_a_killed_export_left_is_removed(exchange: Exchange) -> None:
    left = exchange.root / ".exchange.part"
    left.mkdir()
    (left / "train.jsonl").write_text("{}", encoding="utf-8")
    exchange.export()
    assert not left.exists() and exchange.folder.is_dir()
