"""Disclosures from end to end: in a check, in games, on the page and in gates."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

import synthleak
from support.command_line import synthleak as cli
from support.specs import tiny_spec
from synthleak.audit.gate import RECOMMENDED, failing, parse_gate
from synthleak.audit.steps.disclosures import DISCLOSURES
from synthleak.core.spec import parse_spec
from synthleak.corpus.readers.demo import Demo
from synthleak.metrics.null import holm

SIZE, TOLD = 150, 12
TEXTS = list(dict.fromkeys(record.text for record in Demo(size=900, seed=21).read()))


def ended(texts: list[str], first: int) -> list[str]:
    """End every text with a number of its own."""
    return [f"{text} Ring {first + 7919 * n}." for n, text in enumerate(texts)]


MEMBERS = ended(TEXTS[:SIZE], 3_000_001)
HOLDOUT = ended(TEXTS[SIZE : 2 * SIZE], 5_000_002)
OTHERS = TEXTS[2 * SIZE : 3 * SIZE]
TELLING = [
    *(f"{text} Ring {m.split()[-1]}" for text, m in zip(OTHERS, MEMBERS[:TOLD], strict=False)),
    *ended(OTHERS[TOLD:], 7_000_003),
]


def checked(release: list[str], **options: Any) -> synthleak.Audit:
    rows = [
        [{"id": f"{side}{n}", "text": text} for n, text in enumerate(t)]
        for side, t in (("m", MEMBERS), ("h", HOLDOUT))
    ]
    return synthleak.check(
        *rows,
        release,
        random_split=True,
        encoder="hashing",
        runtime=synthleak.Runtime(workers=1),
        **options,
    )


def test_numbers_of_members_in_texts_of_others_are_found() -> None:
    audit = checked(TELLING)
    (row,) = audit.cells
    assert row.disclosed_p is not None and row.disclosed_p <= 0.01
    assert row.disclosed is not None and row.disclosed >= TOLD
    numbers = [one for one in audit.disclosures if one.length == 7 and one.kind == "number"]
    assert [(one.side, one.record, one.row) for one in sorted(numbers, key=lambda o: o.row)] == [
        ("members", f"m{n}", n + 1) for n in range(TOLD)
    ]
    for one in numbers:
        text = MEMBERS[one.row - 1]
        assert text[one.start : one.end] in TELLING[one.row - 1]
        assert one.p_value is not None and one.q_value is not None
    assert "that no other record has is repeated for 1" in audit.headline
    assert failing(parse_gate(RECOMMENDED), audit.cells) == [row]
    told = synthleak.explain(audit, "m3")
    assert 4 in [one.row for one in told.disclosures if one.kind == "number"]


def test_an_independent_release_gives_no_alarm() -> None:
    (row,) = checked(ended(OTHERS, 7_000_003)).cells
    assert row.disclosed_p is not None and row.disclosed_p > 0.05


def test_no_text_is_kept_or_shown_unless_asked(tmp_path: Path) -> None:
    for name, texts in (("m", MEMBERS), ("h", HOLDOUT), ("r", TELLING)):
        (tmp_path / f"{name}.txt").write_text("".join(f"{t}\n" for t in texts), encoding="utf-8")
    files = ("--members", "m.txt", "--holdout", "h.txt", "--release", "r.txt", "--out", "run")
    command = ("check", *files, "--random-split", "--encoder", "hashing", "--workers", "1")
    plain, asked = cli(*command, cwd=tmp_path), cli(*command, "--include-text", cwd=tmp_path)
    number = MEMBERS[0].split()[-1].rstrip(".")
    assert (
        "disclosures, copies aside (" in plain.stdout and number not in plain.stdout + plain.stderr
    )
    assert number in asked.stdout
    for path in [*(tmp_path / "run/results").iterdir(), tmp_path / "run/report.html"]:
        assert number.encode() not in path.read_bytes(), path
    page = html.unescape((tmp_path / "run/report.html").read_text(encoding="utf-8"))
    assert "A passage, name or number that no other record has is repeated for" in page
    assert cli("report", "run", "--sign-off", "s.md", cwd=tmp_path).returncode == 0
    signed = (tmp_path / "s.md").read_text(encoding="utf-8")
    risks = signed.partition("## The three risks")[2].partition("## ")[0]
    assert "**Inference:**" in risks and "found, of " in risks and number not in signed


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_a_game_tells_of_copies_and_disclosures(design: str, tmp_path: Path) -> None:
    game = {"design": design, "instances": 24, "records": 40, "rounds": 4, "candidates": 5}
    spec = tiny_spec(
        pool=[{"name": "few", "rule": "random", "size": 8}],
        game=game,
        generator=[{"kind": "echo", "p": 1.0}, {"kind": "bystander"}],
    )
    audit = synthleak.run(parse_spec(spec), tmp_path / "run", runtime=synthleak.Runtime(workers=1))
    rows = {row.generator: row for row in audit.cells}
    echo, bystander = rows["echo"], rows["bystander"]
    assert (echo.copied_members, echo.copied_holdout) == (
        echo.verbatim_members,
        0,
    ) and echo.copied_p
    assert echo.copied_members > 0 and echo.copied_p <= 0.05 and echo.verbatim_rows == 1.0
    assert echo.disclosed and not echo.disclosed_holdout
    assert echo.disclosed_p is not None and echo.disclosed_p <= 0.05
    assert bystander.verbatim_rows == 0 and bystander.copied_p == 1.0
    assert bystander.disclosed_p is not None and bystander.disclosed_p > 0.05
    assert "copied word for word where they were used, and 0 where they were not" in audit.headline
    raw = [DISCLOSURES.get(audit.setup, cell).p for cell in audit.setup.cells]
    assert [row.disclosed_p for row in audit.cells if row.scenario == "S1"] == holm(raw)
    sides = {(one.generator, one.side) for one in audit.disclosures}
    assert ("echo", "in") in sides and ("echo", "out") not in sides
    page = re.sub("<[^>]+>", "", audit.write_report().read_text(encoding="utf-8"))
    assert "100% of all rows are private records, word for word" in page
