"""Opening somebody's run folder runs no code of theirs unless the user says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import synthleak
from support.specs import tiny_spec
from synthleak.cli.main import cli
from synthleak.core.errors import StoreError, UserError
from synthleak.core.registry import trusting, use_files
from synthleak.core.runtime import Runtime
from synthleak.core.spec import dump_toml

CODE = """
from pathlib import Path
from synthleak.pools import Rule, rules

Path({ran!r}).touch()

@rules.register("theirs", version=1)
class Theirs(Rule):
    "Every eighth record."
    def select(self, ground):
        return range(0, len(ground.corpus.records), 8)
"""
READING = (
    ("status", "{run}"),
    ("report", "{run}"),
    ("explain", "{run}", "00008"),
    ("compare", "{run}", "{run}"),
    ("tables", "{run}"),
    ("figures", "{run}"),
    ("analyse", "{run}", "--workers", "1"),
    ("adjudicate", "{run}", "--list"),
    ("verify", "{run}"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run whose spec names a file, which tells when it runs."""
    home = tmp_path_factory.mktemp("stranger")
    (home / "theirs.py").write_text(CODE.format(ran=str(home / "first")), encoding="utf-8")
    spec = tiny_spec(
        plugins=["theirs.py"],
        pool=[{"name": "theirs", "rule": "theirs"}],
        game={"instances": 4, "records": 30, "rounds": 2, "candidates": 4},
        generator=[{"kind": "echo"}],
    )
    (home / "audit.toml").write_text(dump_toml(spec), encoding="utf-8")
    synthleak.run(home / "audit.toml", home / "run", runtime=Runtime(workers=1))
    # The file is another one now, so that this process has not loaded it.
    (home / "theirs.py").write_text(CODE.format(ran=str(home / "ran")), encoding="utf-8")
    return home


@pytest.fixture(autouse=True)
def untrusting(folder: Path) -> Iterator[None]:
    yield
    trusting.set(False)
    use_files([])
    (folder / "ran").unlink(missing_ok=True)


@pytest.mark.parametrize("words", READING, ids=lambda words: words[0])
def test_a_reading_command_runs_no_plugin_of_the_folder(
    folder: Path, words: tuple[str, ...]
) -> None:
    typed = [word.format(run=folder / "run") for word in words]
    with pytest.raises(UserError) as caught:
        cli.main(typed, standalone_mode=False)
    said = str(caught.value)
    assert "its spec names 1 plug-in file, and opening it would run their code; add" in said
    assert "--trust-code" in said and "\n" not in said
    assert not (folder / "ran").exists()
    assert any(
        option.name == "trust_code"
        for option in cli.get_command(click.Context(cli), words[0]).params  # type: ignore[union-attr]
    )


def test_plugins_are_loaded_for_those_who_trust_them(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["status", str(folder / "run"), "--trust-code"], standalone_mode=False)
    assert (folder / "ran").exists()
    assert capsys.readouterr().err == ""
    cli.main(["status", str(folder / "run"), "--trust-plugins"], standalone_mode=False)
    assert capsys.readouterr().err == "synthleak: --trust-plugins is now called --trust-code\n"
    with pytest.raises(UserError, match="--trust-code"):
        trusting.set(False)
        synthleak.open_run(folder / "run")
    assert synthleak.open_run(folder / "run", trust_plugins=True).setup.pools


def test_a_damaged_manifest_does_not_let_the_folders_plugins_in(folder: Path) -> None:
    manifest = folder / "run/manifest.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(b"{")
    mine = synthleak.parse_spec(tiny_spec())
    try:
        with pytest.raises(StoreError, match=r"damaged, and the spec cannot be used .* run their"):
            synthleak.run(mine, folder / "run", runtime=Runtime(workers=1))
        assert not (folder / "ran").exists()
    finally:
        manifest.write_bytes(whole)
