"""A check with planted members: every view names the count, and `explain` finds the rows."""

from __future__ import annotations

import html
import json
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import synthleak
from support.command_line import synthleak as cli
from synthleak.audit.facts import remarks_on
from synthleak.cli.audits import show
from synthleak.cli.options import How
from synthleak.corpus.readers.demo import Demo
from synthleak.explanations import Explanation

SIZE, GARBLED, COPIED, OTHERS = 500, 40, 3, 300


def garble(text: str, words: Sequence[str], draw: random.Random) -> str:
    """Replace one word in eight by a word of another record, and swap two neighbours."""
    made = [draw.choice(words) if draw.random() < 1 / 8 else word for word in text.split()]
    place = draw.randrange(len(made) - 1)
    made[place], made[place + 1] = made[place + 1], made[place]
    return " ".join(made)


def plant(texts: Sequence[str], seed: int = 1) -> tuple[list[str], dict[str, int]]:
    """Return a release, and the row of each member that it garbles or copies, by id."""
    draw = random.Random(seed)
    words = " ".join(texts[2 * SIZE :]).split()
    members = draw.sample(range(SIZE), GARBLED + COPIED)
    made = [
        (str(place), texts[place] if number < COPIED else garble(texts[place], words, draw))
        for number, place in enumerate(members)
    ]
    made += [("", text) for text in texts[2 * SIZE :][:OTHERS]]
    draw.shuffle(made)
    rows = {record: row for row, (record, _) in enumerate(made, start=1) if record}
    return [text for _, text in made], {str(place): rows[str(place)] for place in members}


def write(path: Path, texts: Sequence[str], first: int = 0) -> None:
    rows = ({"id": str(first + n), "text": text} for n, text in enumerate(texts))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


MESSAGES = [record.text for record in Demo(size=5200, seed=11).read()]
TEXTS = [" ".join(MESSAGES[place : place + 4]) for place in range(0, len(MESSAGES), 4)]
"""Four messages a record: as with dialogues, a garbled one is still unlike any other."""
RELEASE, PLANTED = plant(TEXTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("planted")
    write(root / "train.jsonl", TEXTS[:SIZE])
    write(root / "held.jsonl", TEXTS[SIZE : 2 * SIZE], SIZE)
    write(root / "synthetic.jsonl", RELEASE)
    return root


@pytest.fixture(scope="module")
def audit(folder: Path) -> synthleak.Audit:
    return synthleak.check(
        folder / "train.jsonl",
        folder / "held.jsonl",
        folder / "synthetic.jsonl",
        random_split=True,
        out=folder / "run",
        runtime=synthleak.Runtime(workers=1),
    )


def test_the_headline_counts_people_and_copies(audit: synthleak.Audit) -> None:
    (row,) = audit.cells
    named = [one.record for one in audit.records if one.q_value <= 0.1]
    assert row.named == len(named) and len(PLANTED.keys() & set(named)) >= 35
    assert len(set(named) - PLANTED.keys()) <= 0.2 * len(named)
    assert audit.headline.startswith(
        f"Do not publish as anonymous: of {SIZE} private records tested, {len(named)} can be"
        " recognised as having been used."
    )
    copies = f"{row.copied_members} of {SIZE} private records are copied word for word or nearly"
    assert row.copied_p is not None and row.copied_members >= COPIED
    assert (copies in audit.headline) == (row.copied_p <= 0.01)
    behind = json.loads((audit.folder.results / "summary.json").read_text(encoding="utf-8"))
    assert f"of {row.deciding_proxy} (p = " in behind["cells"][0]["verdict"]
    assert "An attacker who fixed the method in advance" in behind["cells"][0]["verdict"]
    assert not re.search(r"AUC|p =|ε", audit.headline) and row.grade == "strong"


def test_an_audit_answers_in_one_word(audit: synthleak.Audit, tmp_path: Path) -> None:
    assert audit.leak_found is True
    assert len(audit.named) == audit.cells[0].named
    assert all(row.q_value <= 0.1 for row in audit.named)
    copies = audit.to_pandas("copies")
    assert len(copies) and list(copies["row_position"] + 1) == list(copies["row"])
    frame = audit.to_pandas("records")
    assert list(frame.columns).index("nearest_row_position") == (
        list(frame.columns).index("nearest_row") + 1
    )
    assert list(frame["record"]) == [row.record for row in audit.records]
    assert list(audit.to_pandas()["named"]) == [len(audit.named)]
    with pytest.raises(synthleak.UserError, match="no table 'cell'; did you mean 'cells'"):
        audit.to_pandas("cell")
    written = audit.write_report(tmp_path / "page.html")
    assert written.read_bytes() == (audit.folder.root / "report.html").read_bytes()


def test_pandas_is_needed_for_frames_alone(
    audit: synthleak.Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert audit.named
    with pytest.raises(synthleak.UserError, match="needs the package pandas; pip install pandas"):
        audit.to_pandas("cells")


def test_every_view_has_the_same_headline(audit: synthleak.Audit, folder: Path) -> None:
    summary = json.loads((folder / "run/results/summary.json").read_text(encoding="utf-8"))
    assert summary["headline"] == audit.headline
    page = html.unescape((folder / "run/report.html").read_text(encoding="utf-8"))
    assert audit.headline in " ".join(re.sub(r"<[^>]+>", "", page).split())
    assert audit.headline in html.unescape(audit._repr_html_())
    words = ("check", "--members", "train.jsonl", "--holdout", "held.jsonl", "--release")
    options = ("synthetic.jsonl", "--random-split", "--out", "run", "--workers", "1")
    assert audit.headline in " ".join(cli(*words, *options, cwd=folder).stdout.split())
    told = json.loads(cli(*words, *options, "--json", cwd=folder).stdout)
    assert told["headline"] == audit.headline


def test_notebook_shows_named_members_copies_and_remarks(audit: synthleak.Audit) -> None:
    shown = html.unescape(audit._repr_html_())
    first = min(audit.named, key=lambda row: (row.q_value, row.p_value))
    assert f"<td>{first.record}</td><td>all</td>" in shown
    for copy in audit.copies[:COPIED]:
        assert f"<td>{copy.record}</td><td>{copy.side}</td>" in shown
    assert remarks_on(audit.setup) and all(
        remark.text in shown for remark in remarks_on(audit.setup)
    )
    assert not [text for text in TEXTS if text in shown]


def test_a_check_fits_80_columns(
    audit: synthleak.Audit, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        show(audit, How(quiet=False, as_json=False, workers=1))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    (row,) = [line for line in lines if line.startswith("all ")]
    assert row.split()[:5] == ["all", "synthetic", "–", "leak", "found"]
    assert f"{len(audit.named)} of {SIZE}" in row


def test_a_check_says_that_no_epsilon_was_stated(audit: synthleak.Audit, folder: Path) -> None:
    page = (folder / "run/report.html").read_text(encoding="utf-8")
    text = re.sub(r"<(script|style)\b.*?</\1>", "", page, flags=re.S)
    assert "no ε stated" in text
    assert not re.findall(r".{30}synthetic without privacy.{10}", text)
    assert all("without privacy" not in one.name for one in audit.results.cells)


def test_records_name_signal_and_nearest_row(audit: synthleak.Audit) -> None:
    rows = {row.record: row for row in audit.records}
    assert {row.scenario for row in audit.records} == {"S1"}
    assert {row.proxy for row in audit.records} <= {row.proxy for row in audit.proxies}
    copied = {copy.record: copy for copy in audit.copies if copy.kind == "verbatim"}
    assert copied.keys() == set(list(PLANTED)[:COPIED])
    for record, copy in copied.items():
        assert rows[record].nearest_row == copy.row == PLANTED[record]
        assert rows[record].similarity == 1.0
    right = [rows[record].nearest_row == row for record, row in PLANTED.items()]
    assert sum(right) >= 0.9 * len(right)


def first_row(found: Explanation) -> int:
    return found.signals[0].releases[0].matches[0].row


def test_explain_points_at_the_rows_of_named_members(audit: synthleak.Audit) -> None:
    rows = {row.record: row for row in audit.records}
    right = 0
    for record in list(PLANTED)[:10]:
        found = synthleak.explain(audit, record)
        assert found.signals[0].proxy == rows[record].proxy
        right += first_row(found) == PLANTED[record]
        if record in list(PLANTED)[:COPIED]:
            assert first_row(found) == PLANTED[record]
    assert right >= 9
