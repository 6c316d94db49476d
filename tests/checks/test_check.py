"""A whole check: files or memory in, copies, split, verdict and tables out."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

import synthleak
from support.command_line import synthleak as cli
from synthleak.audit.facts import remarks_on
from synthleak.audit.gate import parse_gate, undecided
from synthleak.audit.summary import markdown
from synthleak.cli.reading import lines_of
from synthleak.core.cell import Cell
from synthleak.core.errors import UserError
from synthleak.core.spec import Spec
from synthleak.corpus.readers.demo import Demo, write_demo

RECORDS = [{"id": r.id, "text": r.text} for r in Demo(size=260, seed=8).read()]
MEMBERS, HOLDOUT, REFERENCE = RECORDS[:70], RECORDS[70:140], RECORDS[140:170]
OTHERS = [record["text"] for record in RECORDS[170:240]]
RELEASE = [*(record["text"] for record in MEMBERS[:12]), *OTHERS[:58]]
ONE = synthleak.Runtime(workers=1)


def checked(release: Any = RELEASE, **options: Any) -> synthleak.Audit:
    settings: dict[str, Any] = {"encoder": "hashing", "runtime": ONE, "random_split": True}
    return synthleak.check(MEMBERS, HOLDOUT, release, **{**settings, **options})


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> synthleak.Audit:
    return checked(reference=REFERENCE, out=tmp_path_factory.mktemp("check") / "run")


def test_copies_are_listed_by_id_and_row(audit: synthleak.Audit) -> None:
    listed = [(c.side, c.record, c.row, c.kind) for c in audit.copies if c.kind == "verbatim"]
    assert listed == [("members", MEMBERS[i]["id"], i + 1, "verbatim") for i in range(12)]


def test_copied_members_are_found_and_come_first(audit: synthleak.Audit) -> None:
    assert {row.verdict for row in audit.cells} == {"leak found"}
    assert [row.scenario for row in audit.cells] == ["S1", "S2"]
    assert len(audit.proxies) == 70  # 32 proxies, and 3 of further families
    assert {row.record for row in audit.records} == {record["id"] for record in MEMBERS}
    first = {row.record for row in audit.records[:12]}
    assert len(first & {record["id"] for record in MEMBERS[:12]}) >= 9
    assert all(
        a.p_value <= b.p_value for a, b in zip(audit.records, audit.records[1:], strict=False)
    )


def test_a_summary_of_one_cell_does_not_speak_of_cells(audit: synthleak.Audit) -> None:
    page = markdown(audit, parse_gate("auc > 2"))
    assert "--fail-if does not hold in the one cell." in page


def test_an_explanation_says_member_or_held_out(audit: synthleak.Audit) -> None:
    for records, role, release in (
        (MEMBERS, "a member: the release was made from it", "release (with it): score"),
        (HOLDOUT, "held out: the release was made without it", "release (without it): score"),
    ):
        lines = lines_of(synthleak.explain(audit, records[0]["id"]))
        assert "no ε stated" in lines[0] and lines[1] == role
        whole = "\n".join(lines)
        assert release in whole
        assert "coin" not in whole and "inf" not in whole and "needs releases" not in whole


def test_a_recorded_coin_and_a_stated_epsilon_are_named() -> None:
    audit = checked(random_split=False, coins=True, epsilon=2.0, delta=1e-5)
    lines = lines_of(synthleak.explain(audit, MEMBERS[0]["id"]))
    assert "ε = 2" in lines[0]
    assert lines[1] == "a member: the release was made from it, by its own coin"


def test_cells_count_copies_and_named_members(audit: synthleak.Audit) -> None:
    for row in audit.cells:
        assert (row.copied_members, row.copied_holdout) == tuple(
            sum(copy.side == side for copy in audit.copies) for side in ("members", "holdout")
        )
        assert row.copied_members is not None and row.copied_members >= 12
        assert row.copied_p is not None and row.copied_p < 0.001
        assert row.named == len(audit.named) >= 12 == row.verbatim_members


def test_an_audit_prints_its_verdict_and_lists_what_is_public(audit: synthleak.Audit) -> None:
    assert str(audit) == audit.headline
    assert "headline" in dir(audit) and not [name for name in dir(audit) if name[0] == "_"]
    assert all(hasattr(audit, name) for name in dir(audit))


def test_no_bound_on_epsilon_without_coins(audit: synthleak.Audit) -> None:
    assert all(row.epsilon_lower is None for row in audit.cells)
    assert any(remark.name == "No bound on ε" for remark in remarks_on(audit.setup))


def test_the_folder_keeps_the_contract(audit: synthleak.Audit) -> None:
    results = audit.folder.results
    names = {path.stem for path in results.glob("*.csv")}
    assert {"cells", "proxies", "records", "copies", "prior", "comparison"} <= names
    with (results / "copies.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(audit.copies)
    told = json.loads((results / "summary.json").read_text(encoding="utf-8"))
    assert told["check"]["declared"] == "random" and told["pools"]["all"]["release_size"] == 70
    page = audit.folder.root / "report.html"
    text = page.read_text(encoding="utf-8")
    assert "Blind test of the split" in text and "Another release of the same generator" in text
    assert not any(record["text"] in text for record in MEMBERS)
    assert MEMBERS[3]["text"] not in (results / "summary.json").read_text(encoding="utf-8")


def test_records_from_memory_cannot_be_read_again(audit: synthleak.Audit) -> None:
    with pytest.raises(UserError, match=r"came from memory; call synthleak\.check again"):
        synthleak.open_run(audit.folder.root)
    again = checked(reference=REFERENCE, out=audit.folder.root)
    assert [row.auc for row in again.cells] == [row.auc for row in audit.cells]


def test_an_independent_release_gives_none_found_and_says_what_it_rests_on() -> None:
    made = checked(OTHERS, random_split=False)
    assert [row.verdict for row in made.cells] == ["none found at this power"]
    assert [row.scenario for row in made.cells] == ["S1"]
    assert {row.family for row in made.study.prior} == {"canary"}  # DOMIAS needs a reference

    assert "nobody has declared that" in made.headline


def test_a_release_with_several_oddities_says_each_in_one_line() -> None:
    members = [*MEMBERS, HOLDOUT[0], MEMBERS[5]]
    german = ["Der Patient nahm die Tabletten am Morgen und schlief danach."] * 3
    release = [*german, "", HOLDOUT[1]["text"], *OTHERS[:20]]
    made = synthleak.check(members, HOLDOUT, release, runtime=ONE, encoder="static")
    said = {remark.name: remark.text for remark in remarks_on(made.setup)}
    assert said["Overlap"].startswith("1 of 70 records of the holdout are among the members")
    assert said["Few records"].endswith("are few; leaks are easily missed")
    assert "release release contains 1 of 70 of the holdout" in said["Holdout in the release"]
    assert said["Blank"] == "release release: 1 of 25 records hold no text"
    assert said["Few in the release"].startswith("release release: 25 records are few")
    duplicates = [r.text for r in remarks_on(made.setup) if r.name == "Duplicates"]
    assert duplicates == [
        "members: 1 of 72 records repeat an earlier one",
        "release release: 2 of 25 records repeat an earlier one",
    ]
    assert all("\n" not in remark.text for remark in remarks_on(made.setup))


def test_coins_allow_a_bound() -> None:
    made = checked(random_split=False, coins=True, epsilon=1.0, delta=1e-5)
    row = made.cells[0]
    assert row.epsilon_lower is not None and row.epsilon_claim is not None
    assert row.epsilon_max is not None and row.epsilon_max > row.epsilon_lower


SORTED = sorted(Demo(size=600, seed=8).read(), key=lambda record: record.labels)
TOPICAL = [{"id": r.id, "text": r.text} for r in [*SORTED[:90], *SORTED[-90:]]]


def test_a_topical_split_stops_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the split is not exchangeable") as caught:
        synthleak.check(TOPICAL[:90], TOPICAL[90:], OTHERS, out=tmp_path / "run", runtime=ONE)
    assert "\n" not in str(caught.value) and not (tmp_path / "run").exists()


DISHES = ("面条", "米饭", "鸡汤", "豆腐", "饺子", "青菜")
SPORTS = ("足球", "篮球", "游泳", "跑步", "乒乓", "滑雪")
DAYS = [f"第{n}天" for n in range(90)]
CHINESE = {
    "members": [f"{day}我吃了{DISHES[n % 6]}很香" for n, day in enumerate(DAYS)],
    "holdout": [f"{day}我看了{SPORTS[n % 6]}很累" for n, day in enumerate(DAYS)],
}
PLAIN = [record["text"] for record in RECORDS]
UNFAIR = {
    "topics in a language without spaces": (CHINESE["members"], CHINESE["holdout"]),
    "written in capitals": (PLAIN[:90], [text.upper() for text in PLAIN[90:180]]),
    "punctuated otherwise": (PLAIN[:90], [text.replace(".", ";") for text in PLAIN[90:180]]),
    "before and after": (
        [f"{text} seen in 20{11 + n % 8}" for n, text in enumerate(PLAIN[:90])],
        [f"{text} seen in 20{21 + n % 4}" for n, text in enumerate(PLAIN[90:180])],
    ),
}


@pytest.mark.parametrize("kind", UNFAIR)
def test_a_split_by_anything_but_chance_is_caught(kind: str) -> None:
    members, holdout = UNFAIR[kind]
    with pytest.raises(UserError, match="the split is not exchangeable"):
        synthleak.check(members, holdout, OTHERS, encoder="hashing", runtime=ONE)


def test_what_is_odd_is_said_also_where_a_check_stops() -> None:
    with pytest.raises(UserError, match=r"members: 90 of 180 records repeat an earlier one") as e:
        synthleak.check([*TOPICAL[:90]] * 2, TOPICAL[90:], OTHERS, runtime=ONE)
    assert "\n" not in str(e.value)


def test_a_holdout_that_is_no_holdout_gets_no_verdict() -> None:
    with pytest.raises(UserError, match="every record of the holdout is among the members"):
        synthleak.check(MEMBERS, MEMBERS[:60], RELEASE, runtime=ONE)
    made = synthleak.check(
        MEMBERS, MEMBERS[:60], RELEASE, insist=True, encoder="hashing", runtime=ONE
    )
    assert {row.verdict for row in made.cells} == {
        "cannot say: every record of the holdout is among the members"
    }


def test_who_insists_gets_figures_without_a_verdict() -> None:
    made = synthleak.check(
        TOPICAL[:90], TOPICAL[90:], OTHERS, insist=True, encoder="hashing", runtime=ONE
    )
    (row,) = made.cells
    assert row.verdict == "cannot say: the split is not exchangeable"
    assert row.auc > 0.6 and row.null_auc95 is not None
    tests = (row.p_value, row.p_cell, row.p_holm, row.crossfit_p, row.named, row.epsilon_lower)
    assert tests == (None,) * 6 and made.named == [] and made._nearest == []
    assert all(record.q_value is None for record in made.records)
    assert any(remark.name == "The split is not exchangeable" for remark in remarks_on(made.setup))


def test_several_releases_and_pools_are_cells_of_one_spec() -> None:
    releases, pools = {"a b": OTHERS, "c": RELEASE}, ["all", "outlier: percentile=80; lof=5"]
    setup = checked(releases, pool=pools).setup
    assert [(cell.pool, cell.generator) for cell in setup.cells] == [
        ("all", "a-b"),
        ("all", "c"),
        ("outlier", "a-b"),
        ("outlier", "c"),
    ]
    assert isinstance(setup.cells[0], Cell) and len(setup.pools["outlier"].targets) < 70


@pytest.fixture
def files(tmp_path: Path) -> Path:
    def write(name: str, rows: list[dict[str, str]]) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / name).write_text(lines, encoding="utf-8")

    write("train.jsonl", MEMBERS)
    write("held.jsonl", HOLDOUT)
    write("synthetic.jsonl", [{"output": text} for text in RELEASE])
    return tmp_path


COMMAND = ("check", "--members", "train.jsonl", "--holdout", "held.jsonl", "--release")


def test_the_command_and_its_spec_give_the_same_tables(files: Path) -> None:
    options = ("--release-text", "output", "--encoder", "hashing", "--workers", "1")
    done = cli(*COMMAND, "synthetic.jsonl", *options, "--random-split", "--out", "one", cwd=files)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "Do not publish as anonymous: of 70 private records tested, 13 can be recognised"
    )
    assert "Copies in synthetic: 12 of 70 members" not in done.stdout  # a caveat that is not shown
    words = [*COMMAND, "synthetic.jsonl", *options, "--random-split", "--out", "one", "--caveats"]
    every = cli(*words, cwd=files).stdout
    assert "Copies in synthetic: 12 of 70 members and 0 of 70 holdout records stand" in every
    assert "More with --caveats" in done.stdout and "More with" not in every
    assert MEMBERS[0]["text"] not in done.stdout
    table, copies, remark = (
        done.stdout.index(word) for word in ("verdict ", "copies (", "What the verdict rests on")
    )
    assert table < copies < remark
    with_text = ("--random-split", "--out", "one", "--include-text")
    shown = cli(*COMMAND, "synthetic.jsonl", *options, *with_text, cwd=files)
    assert "".join(MEMBERS[0]["text"].split()) in "".join(shown.stdout.split())
    gate = ("--random-split", "--out", "one", "--quiet", "--fail-if", "copied_members > 0")
    failed = cli(*COMMAND, "synthetic.jsonl", *options, *gate, cwd=files)
    assert failed.returncode == 1 and "copied_members = 12 > 0: fails" in failed.stderr
    assert cli("init", "--for", "check", "check.toml", cwd=files).returncode == 0
    text = (files / "check.toml").read_text(encoding="utf-8")
    for old, new in (
        ('declared = "unstated"', 'declared = "random"'),
        ('name = "release"', 'name = "synthetic"'),
        ('path = "synthetic.jsonl"\ntext = "text"', 'path = "synthetic.jsonl"\ntext = "output"'),
        ('= "static"', '= "hashing"'),
    ):
        assert old in text
        text = text.replace(old, new)
    (files / "check.toml").write_text(text, encoding="utf-8")
    again = cli("run", "check.toml", "--out", "two", "--workers", "1", cwd=files)
    assert again.returncode == 0, again.stderr
    for name in ("cells", "proxies", "records", "copies", "prior"):
        one, two = (files / run / "results" / f"{name}.csv" for run in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_frames_and_files_give_the_same_figures(files: Path) -> None:
    pandas = pytest.importorskip("pandas")
    options: dict[str, Any] = {"encoder": "hashing", "runtime": ONE, "release_text": "output"}
    options["random_split"] = True
    paths = [files / f"{name}.jsonl" for name in ("train", "held", "synthetic")]
    one = synthleak.check(*paths, **options)
    frames = [pandas.read_json(path, lines=True, dtype=False) for path in paths]
    two = synthleak.check(*frames, **options)
    for name in ("cells", "proxies", "records", "copies"):
        tables = [
            audit.to_pandas(name).drop(columns=["corpus", "generator"]) for audit in (one, two)
        ]
        pandas.testing.assert_frame_equal(*tables, check_exact=True)
    assert one.headline == two.headline


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*COMMAND, "none.jsonl"), "none.jsonl: no such file; check --release"),
        (
            (*COMMAND, "synthetic.jsonl"),
            "set --release-text to its field (known: output)",
        ),
        ((*COMMAND, "held.jsonl", "--pool", "outlier: x"), "not a setting: 'x'"),
        ((*COMMAND, "held.jsonl", "--pool", "outlyer"), "did you mean 'outlier'?"),
        ((*COMMAND, "held.jsonl", "--text", "body"), "set --text to the field"),
        ((*COMMAND, "held.jsonl", "--group", "patient"), "the field 'patient'; set --group to"),
        ((*COMMAND, "held.jsonl", "--id", "nope"), "--members and --holdout: no record has the"),
        ((*COMMAND, "held.jsonl", "--delta", "1e-5"), "--delta: δ is given without ε; set --epsil"),
        ((*COMMAND, "held.jsonl", "--epsilon", "0"), ": --epsilon: 0.0: use a number above 0"),
        (
            (*COMMAND, "held.jsonl", "--epsilon", "1", "--delta", "2"),
            ": --delta: 2.0: should be less than 1",
        ),
        ((*COMMAND, "held.jsonl", "--unit", "person"), "--unit: no record says whose it is; name "),
        ((*COMMAND, "held.jsonl", "--unit", "person"), "the field of the person with --group, or"),
        ((*COMMAND, "held.jsonl", "--encoder", "statik"), "--encoder: unknown encoder 'statik'"),
        (COMMAND[:-1], "Missing option '--release'"),
    ],
)
def test_a_mistake_is_one_line(files: Path, words: tuple[str, ...], said: str) -> None:
    done = cli(*words, "--out", "x", cwd=files)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1 and said in done.stderr
    assert not (files / "x").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"text": "body"}, r"^members, record 1: no field 'body'; set text to the field of"),
        ({"group": "patient"}, r"^members and holdout: .* 'patient'; set group to a field"),
        ({"delta": 1e-5}, r"^delta: δ is given without ε; set epsilon too$"),
        ({"epsilon": 0}, r"^epsilon: 0: use a number above 0"),
    ],
)
def test_python_mistakes_name_arguments(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        synthleak.check(MEMBERS, HOLDOUT, RELEASE, **arguments)


@pytest.mark.parametrize("situation", ["lone", "cohort", "command", "vendor", "check"])
def test_every_situation_has_a_spec_whose_settings_hold(tmp_path: Path, situation: str) -> None:
    from synthleak.audit.stages import build_plugins
    from synthleak.core.spec import load_spec

    path = tmp_path / "audit.toml"
    assert cli("init", "--for", situation, path, cwd=tmp_path).returncode == 0
    loaded = load_spec(path)
    made = build_plugins(loaded)
    expected = {"check": "given", "lone": "lone"}.get(situation, "cohort")
    assert loaded.spec.game.design == expected
    assert loaded.spec.seed == Spec.model_fields["seed"].default
    kinds = {"check": "given", "vendor": "folder", "command": "command"}
    assert [generator.kind for _, generator in made.generators] == [kinds.get(situation, "ngram")]


@pytest.mark.parametrize("held_out", [5, 300])
def test_too_few_members_cannot_say(held_out: int, tmp_path: Path) -> None:
    """Five members: an AUC of 0.9 would often be missed, whatever the holdout."""
    texts = [record.text for record in write_demo(2 * held_out + 65, 3)]
    audit = synthleak.check(texts[:5], texts[5 : 5 + held_out], texts[-60:], random_split=True)
    assert audit.leak_found is None and audit.headline.startswith(
        "Undecided: 5 private records are too few to tell"
    )
    assert all(row.cannot_say for row in audit.cells)
    assert all(row.power_auc is None or row.power_auc > 0.9 for row in audit.cells)
    assert undecided(parse_gate("leak_found"), audit.cells) == audit.cells
    report, said = _pages(audit, tmp_path)
    assert "of 100 are" not in report and 'class="dots"' not in report
    assert "Undecided: this check cannot tell." in said
    assert "Too few to say who can be recognised." in said


def test_few_members_are_counted_without_dots(tmp_path: Path) -> None:
    texts = [record.text for record in write_demo(400, 3)]
    audit = synthleak.check(texts[:12], texts[12:312], texts[312:], random_split=True)
    assert audit.leak_found is False
    report, said = _pages(audit, tmp_path)
    assert re.search(r"of 12 are (recognised, where|guessed right, no more than) pure guess", said)
    assert "of 100 are" not in report and 'class="dots"' not in report


def _pages(audit: synthleak.Audit, folder: Path) -> tuple[str, str]:
    """Return the report, and the sign-off without marks."""
    audit.write_report(folder / "report.html")
    audit.sign_off(folder / "sign-off.md")
    report, said = (folder / name for name in ("report.html", "sign-off.md"))
    return report.read_text("utf-8"), said.read_text("utf-8")


@pytest.mark.parametrize("name", ["epsilon", "delta"])
def test_a_claim_that_is_not_a_number_is_a_mistake(name: str) -> None:
    claim = {"epsilon": 1.0, "delta": 1e-5, name: "one"}
    with pytest.raises(UserError, match=rf"^{name}: 'one' is not a number; write a number$"):
        synthleak.check(MEMBERS, HOLDOUT, RELEASE, **claim)  # type: ignore[arg-type]
