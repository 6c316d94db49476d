"""The three lines of the README: from a data frame to a verdict."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from synthleak.corpus.readers.demo import Demo

README = Path(__file__).parents[2] / "README.md"


def test_three_lines_lead_from_a_frame_to_a_verdict(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pandas = pytest.importorskip("pandas")
    lines = re.search(r"three lines:.*?```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert lines is not None
    *first, last = [line for line in lines[1].split("\n") if line]
    assert len(first) == 2
    known = {"records": pandas.DataFrame({"text": [one.text for one in Demo(size=120).read()]})}
    exec("\n".join(first), known)
    known["release"] = known["parts"].members  # every member is given away
    exec(last, known)
    assert re.search(r"\b60\b", capsys.readouterr().out)
