"""Copies in a check: they name members where they are more than the holdout's, and only there."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import pytest

import synthleak
from support.command_line import synthleak as cli
from synthleak.audit.gate import failing, parse_gate
from synthleak.corpus.readers.demo import Demo

SIZE, COPIED = 200, 8
TEXTS = list(dict.fromkeys(record.text for record in Demo(size=900, seed=21).read()))
RECOMMENDED = "leak_found or claim_broken or copied_p <= 0.05"


def rows(texts: list[str], prefix: str, each: int = 1) -> list[dict[str, str]]:
    return [
        {"id": f"{prefix}{n}", "text": text, "group": f"{prefix}{n // each}"}
        for n, text in enumerate(texts)
    ]


def audited(**options: Any) -> synthleak.Audit:
    """Check a release that copies a few members, too few to be named by their ranks alone."""
    each = 2 if options.get("unit") == "person" else 1
    return synthleak.check(
        rows(TEXTS[:SIZE], "m", each),
        rows(TEXTS[SIZE : 2 * SIZE], "h", each),
        [*TEXTS[: COPIED * each : each], *TEXTS[2 * SIZE : 2 * SIZE + 200]],
        random_split=True,
        encoder="hashing",
        runtime=synthleak.Runtime(workers=1),
        **options,
    )


@pytest.mark.parametrize("unit", ["record", "person"])
def test_copied_members_are_named_by_their_copies(unit: str) -> None:
    audit = audited(unit=unit)
    (row,) = audit.cells
    assert (row.verbatim_members, row.verbatim_holdout) == (COPIED, 0)
    assert row.copied_p is not None and row.copied_p <= 0.05
    by_rank = [one for one in audit.records if one.q_value is not None and one.q_value <= 0.1]
    named = {one.record for one in audit.named}
    assert len(by_rank) < COPIED <= len(named)
    assert {f"m{n}" for n in range(COPIED)} <= named
    assert row.named == len(named) == len({one.record for one in audit._nearest})
    assert failing(parse_gate(RECOMMENDED), audit.cells) == [row]


def test_a_copy_that_the_holdout_explains_names_nobody() -> None:
    """Of greetings that stand on both sides, a copy does not tell whose it is."""
    greetings, copied = [f"Thank you, {name}." for name in ("Ann", "Bo", "Cy", "Di", "Ed")], 12
    audit = synthleak.check(
        rows([*TEXTS[:SIZE], *greetings], "m"),
        rows([*TEXTS[SIZE : 2 * SIZE], *greetings], "h"),
        [*TEXTS[:copied], *greetings, *TEXTS[2 * SIZE : 2 * SIZE + 200]],
        random_split=True,
        encoder="hashing",
        runtime=synthleak.Runtime(workers=1),
    )
    (row,) = audit.cells
    assert (row.verbatim_members, row.verbatim_holdout) == (copied + 5, 5)
    assert row.copied_p is not None and row.copied_p <= 0.05
    named = {one.record for one in audit.named}
    assert {f"m{n}" for n in range(copied)} <= named
    assert named.isdisjoint(f"m{SIZE + n}" for n in range(len(greetings)))


def write(path: Path, texts: list[str]) -> None:
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")


def test_common_phrases_stop_no_pipeline(tmp_path: Path) -> None:
    """Members, holdout and release repeat the same greetings: nobody is copied."""
    greetings = [f"Thank you, {name}." for name in ("Ann", "Bo", "Cy", "Di", "Ed")]
    parts = {"train": TEXTS[:100], "held": TEXTS[100:200], "synthetic": TEXTS[200:300]}
    for name, texts in parts.items():
        write(tmp_path / f"{name}.txt", [*greetings, *texts])
    files = ("--members", "train.txt", "--holdout", "held.txt", "--release", "synthetic.txt")
    options = ("--random-split", "--encoder", "hashing", "--workers", "1", "--out", "run", "-q")
    command = ("check", *files, *options)
    assert cli(*command, "--fail-if", RECOMMENDED, cwd=tmp_path).returncode == 0
    old = cli(*command, "--fail-if", "copied_members > 0", cwd=tmp_path)
    assert old.returncode == 1 and "S1: copied_members = 5 > 0: fails" in old.stderr
    page = html.unescape((tmp_path / "run/report.html").read_text(encoding="utf-8"))
    assert "Not yet" not in page and "Remove the synthetic texts" not in page
    assert "which chance alone could give" in page
    audit = synthleak.open_run(tmp_path / "run")
    assert audit.named == [] and audit.cells[0].verbatim_holdout == len(greetings)
