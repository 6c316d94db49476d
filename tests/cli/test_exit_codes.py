"""Exit codes: a crash is neither a failed gate nor a mistake of the user."""

from __future__ import annotations

import pytest

from synthleak.cli import main as command_line
from synthleak.core.errors import SpecError

PRIVATE = "Took 20mg of Zoloft on Monday"


@pytest.mark.parametrize(
    ("error", "code"), [(KeyError(PRIVATE), 3), (MemoryError(), 3), (SpecError("seed = -1"), 2)]
)
def test_a_crash_has_an_exit_code_of_its_own(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(**_: object) -> None:
        raise error

    monkeypatch.setattr(command_line.cli, "main", crash)
    monkeypatch.setattr(command_line, "end_on_signals", lambda: None)
    monkeypatch.delenv(command_line.DEBUG, raising=False)
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    said = capsys.readouterr().err
    assert ended.value.code == code
    assert said.count("\n") == 1 and PRIVATE not in said
    if code == 3:
        assert f"internal error: {type(error).__name__} in cli/main.py, line " in said
        assert "please report" in said


def test_a_traceback_is_shown_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def crash(**_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(command_line.cli, "main", crash)
    monkeypatch.setattr(command_line, "end_on_signals", lambda: None)
    monkeypatch.setenv(command_line.DEBUG, "1")
    with pytest.raises(SystemExit):
        command_line.main()
    assert capsys.readouterr().err.startswith("Traceback")
