"""A program of `command` scores texts: after its release, each once, and mistakes are one line."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.specs import tiny_spec
from synthleak.audit.run import run
from synthleak.audit.verify import verify
from synthleak.core.errors import GeneratorError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import dump_toml
from synthleak.corpus.corpus import Record
from synthleak.releases.generators.command import KEEP_FAILED, SHOW_STDERR, Command
from synthleak.testing import check_generator, tiny_request

Make = Callable[..., Command]

TRAIN = ["sh", "train.sh", "{train}", "{out}", "{n}", "{model}", "{seed}"]
SCORE = ["sh", "score.sh", "{score_texts}", "{scores}", "{model}"]
LEARN = """cp "$1" "$4/seen"; seq "$3" | sed "s/.*/{\\"text\\": \\"& $5\\"}/" > "$2\""""
COUNT = 'while read -r line; do grep -cxF -- "$line" "$3/seen"; done < "$1" > "$2"; true'
"""A score of 1 for what was in the training file, else 0."""


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Make a generator whose model is its training file."""

    def build(scoring: str = COUNT, learning: str = LEARN, **settings: Any) -> Command:
        (tmp_path / "train.sh").write_text(learning, encoding="utf-8")
        (tmp_path / "score.sh").write_text(scoring, encoding="utf-8")
        known = {"argv": TRAIN, "score": SCORE}
        return Command.model_validate(known | settings, context={"base": tmp_path})

    return build


REQUEST = tiny_request()
ASKED = (REQUEST.records[2], Record("new", "nobody wrote this"), *REQUEST.records[:2])


def test_a_program_scores_what_it_learnt(make: Make) -> None:
    generator = make()
    assert generator.score_columns == ("score",)
    ((release, scores),) = generator.generate_and_score([REQUEST], (*ASKED, ASKED[1]))
    assert scores.tolist() == [[1], [0], [1], [1], [0]]
    assert release == generator.generate(REQUEST)
    ((nothing, again),) = generator.generate_and_score([REQUEST], ASKED, sample=False)
    assert nothing == [] and again.tolist() == scores[:4].tolist()
    check_generator(generator)


def test_texts_are_handed_over_after_the_release_and_in_one_order(
    make: Make, tmp_path: Path
) -> None:
    learn = f'{LEARN}; ls "$(dirname "$2")" > "{tmp_path}/while-training"'
    score = f'cat "$1" >> "{tmp_path}/texts"; cat "$(dirname "$1")"/train* > "{tmp_path}/left"; '
    generator = make(score + COUNT, learn)
    others = replace(REQUEST, records=REQUEST.records[1:])
    one, two = generator.generate_and_score([REQUEST, others], (*ASKED, ASKED[0]))
    assert one[1][:, 0].tolist() == [1, 0, 1, 1, 1] and two[1][:, 0].tolist() == [1, 0, 0, 1, 1]
    assert "score-texts" not in (tmp_path / "while-training").read_text()
    assert (tmp_path / "left").read_bytes() == b""  # nor does it see the training file again
    lines = (tmp_path / "texts").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 8 and lines[:4] == lines[4:] and len(set(lines)) == 4


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        ('echo 1 > "$2"', "its scores: too few numbers: 1, not 4; write one number a line"),
        ('seq 5 > "$2"', "too many numbers: 5, not 4"),
        ('seq 3 > "$2"; echo much >> "$2"', "its scores, line 4: not a finite number"),
        ('seq 3 > "$2"; echo nan >> "$2"', "its scores, line 4: not a finite number"),
        ('seq 3 > "$2"; echo 1e999 >> "$2"', "its scores, line 4: not a finite number"),
        ("true", r"the program succeeded but wrote no file to \{scores\}"),
        ('mkdir "$2"', r"wrote no file to \{scores\} but a folder: expected a number a line"),
        ('cat "$1" >&2; exit 3', "exit code 3; its stderr ends: |shows nothing"),
    ],
)
def test_mistakes_of_a_scoring_program_are_one_line(
    make: Make, monkeypatch: pytest.MonkeyPatch, score: str, expected: str
) -> None:
    monkeypatch.setenv(SHOW_STDERR, "1")
    with pytest.raises(GeneratorError, match=expected) as caught:
        list(make(score).generate_and_score([REQUEST], ASKED))
    said = str(caught.value)
    assert "\n" not in said and not any(record.text in said for record in ASKED)


def test_a_failed_scoring_can_be_repeated(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEEP_FAILED, str(tmp_path / "failed"))
    with pytest.raises(GeneratorError):
        list(make("exit 3").generate_and_score([REQUEST], ASKED))
    (tmp_path / "score.sh").write_text(COUNT)
    (again,) = (tmp_path / "failed").rglob("again.sh")
    subprocess.run(["sh", str(again)], check=True)
    assert sorted((again.parent / "scores.txt").read_text().split()) == ["0", "1", "1", "1"]


def test_placeholders_of_scores_are_asked_for_and_else_left_alone(
    make: Make, tmp_path: Path
) -> None:
    for score in (["sh", "{scores}", "{model}"], ["sh", "{score_texts}", "{model}"]):
        with pytest.raises(ValueError, match=r"score must pass \{score"):
            make(score=score)
    with pytest.raises(ValueError, match=r"argv must pass \{model\}"):
        make(argv=TRAIN[:-2])
    seen = tmp_path / "seen"
    learning = f'echo "$4" > "{seen}"; head -n "$3" "$1" > "$2"'
    make(learning=learning, score=[]).generate(REQUEST)
    assert seen.read_text() == "{model}\n"


def test_a_missing_scoring_program_is_found_before_any_work(make: Make, tmp_path: Path) -> None:
    generator = make(score=["python", "scores.py", *SCORE[2:]])
    with pytest.raises(GeneratorError, match=r"no file 'scores.py'.*score\[1\]|score\[1\]"):
        generator.check()


def test_the_scoring_program_is_part_of_the_key(make: Make, tmp_path: Path) -> None:
    first = make().identity()
    (tmp_path / "score.sh").write_text("true")
    assert make("true").identity() != first
    without = make(score=[]).identity()
    assert "score" not in without


def test_an_audit_has_the_rung_of_a_program(make: Make, tmp_path: Path) -> None:
    make()  # writes both programs
    program = {"kind": "command", "argv": TRAIN, "score": SCORE}
    spec = tiny_spec(
        pool=[{"name": "random", "rule": "random", "size": 6, "draws": 1}],
        game={"design": "cohort", "instances": 8, "records": 40, "release_size": 5},
        generator=[program],
        evidence={"families": ["bigram_logprob"], "model": True},
    )
    (tmp_path / "audit.toml").write_text(dump_toml(spec), encoding="utf-8")
    audit = run(tmp_path / "audit.toml", tmp_path / "run", runtime=Runtime(workers=1))
    with (audit.folder.results / "ladder.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["rung"] for row in rows] == ["claim", "model", "S3", "S2", "S1"]
    assert rows[1]["signal"].startswith("model_score") and float(rows[1]["auc"]) == 1.0
    assert rows[1]["verdict"] == "leak found"
    assert rows[1]["attacker_has"] == "the scores of its program"
    assert verify(tmp_path / "run", replay=8, trust_plugins=True).verified
