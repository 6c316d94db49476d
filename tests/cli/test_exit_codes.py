"""Exit codes: a crash is neither a failed gate nor a mistake of the user."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.command_line import assert_one_line_mistake, synthleak
from support.specs import tiny_spec
from synthleak.cli import main as command_line
from synthleak.core.errors import SpecError
from synthleak.core.spec import dump_toml
from synthleak.report.figures.figure import runtime_script

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


def test_a_plug_in_that_raises_is_named(tmp_path: Path) -> None:
    code = """
from synthleak.pools import Rule, rules

@rules.register("broken", version=1)
class Broken(Rule):
    "Raises."
    def select(self, ground):
        raise ZeroDivisionError(ground.corpus.records[0].text)
"""
    (tmp_path / "broken.py").write_text(code, encoding="utf-8")
    spec = tiny_spec(plugins=["broken.py"], pool=[{"name": "a", "rule": "broken"}])
    (tmp_path / "audit.toml").write_text(dump_toml(spec), encoding="utf-8")
    done = synthleak("run", "audit.toml", "--out", "out", cwd=tmp_path)
    assert_one_line_mistake(done, "broken.py, line 8: ZeroDivisionError; correct it")


def test_a_missing_package_of_the_page_costs_no_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "audit.toml").write_text(dump_toml(tiny_spec()), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    words = ["synthleak", "run", "audit.toml", "--out", "run", "--workers", "1", "--quiet"]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(command_line, "end_on_signals", lambda: None)
    runtime_script.cache_clear()
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "vl_convert", None)  # as where it is not installed
        with pytest.raises(SystemExit) as ended:
            command_line.main()
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.count("\n") == 1
    assert "the page needs the package vl_convert, which is not installed; the tables are" in said
    assert (tmp_path / "run/results/cells.csv").is_file()
    assert not (tmp_path / "run/report.html").exists()
    command_line.main()
    assert (tmp_path / "run/report.html").is_file()


def test_a_package_that_is_missing_anywhere_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module, code in (("jinja2", 2), ("synthleak.nothing", 3)):

        def crash(missing: str = module, **_: object) -> None:
            raise ModuleNotFoundError(name=missing)

        monkeypatch.setattr(command_line.cli, "main", crash)
        monkeypatch.setattr(command_line, "end_on_signals", lambda: None)
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        assert ended.value.code == code
        assert ("the package jinja2 is not installed" in capsys.readouterr().err) == (code == 2)
