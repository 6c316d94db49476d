"""The recipes of docs/recipes.md: every wrapper keeps the contract of `command`.

A package that is installed is run for real. In the place of others stands a module with the few
calls that the wrapper makes, named and seeded as those of the version in the docs are.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from synthleak.releases import Request, Synthetic
from synthleak.releases.generators.command import Command
from synthleak.testing import tiny_request

DOCS = Path(__file__).parents[2] / "docs"
RECIPES = DOCS / "recipes"
MARKOVIFY = """
import random

class NewlineText:
    def __init__(self, input_text, *, well_formed=True):
        assert not well_formed
        self.words = input_text.replace("\\n", " ").split(" ")
        assert all(self.words)

    def make_sentence(self, init_state=None, *, tries=10, test_output=True):
        if test_output and random.random() < 0.5:
            return None  # no new combination was found
        return " ".join(random.choices(self.words, k=5))
"""
REALTABFORMER = """
import random
from pathlib import Path
from transformers import GPT2Config

class REaLTabFormer:
    def __init__(self, model_type, tabular_config=None, checkpoints_dir="rtf_checkpoints",
                 samples_save_dir="rtf_samples", full_save_dir="rtf_full_save", epochs=1000,
                 random_state=1029, *, use_cpu, report_to):
        assert model_type == "tabular" and use_cpu and report_to == "none"
        assert isinstance(tabular_config, GPT2Config)
        self.folders = (checkpoints_dir, samples_save_dir, full_save_dir)
        self.seed = random_state

    def fit(self, df, device="cuda", n_critic=5):
        assert device == "cpu" and n_critic == 0 and list(df.columns) == ["text", "label"]
        for folder in self.folders:
            Path(folder).mkdir(parents=True)
            df.to_csv(Path(folder, "kept.csv"))
        self.table = df

    def sample(self, n_samples=None, device="cuda"):
        assert device == "cpu"
        return self.table.sample(n_samples, replace=True, random_state=self.seed)
"""
MOSTLY = """
from tempfile import mkdtemp

class LanguageModel:
    def __init__(self, tgt_encoding_types=None, model=None, device=None, random_state=None):
        assert tgt_encoding_types == {"text": "LANGUAGE_TEXT"} and device == "cpu"
        assert model == "MOSTLY_AI/LSTMFromScratch-3m"
        self.seed = random_state

    def fit(self, X):
        X.to_csv(mkdtemp() + "/kept.csv")
        self.table = X
        return self

    def sample(self, n_samples=None):
        return self.table.sample(n_samples, replace=True, random_state=self.seed)
"""
INVINK = """
import random
from types import SimpleNamespace

def generate(prv_texts, model, description, *, pub_prompt, prv_prompt, epsilon, delta, num,
             batch_size, max_toks, random_seed, device_map, dtype):
    assert epsilon == 4 and delta == 1e-5 and max_toks != "auto"
    return SimpleNamespace(texts=random.Random(random_seed).choices(prv_texts, k=num))
"""
STUBS = {
    "markovify": {"markovify.py": MARKOVIFY},
    "realtabformer": {"realtabformer.py": REALTABFORMER},
    "invink": {"invink.py": INVINK},
    "mostlyai": {"mostlyai/__init__.py": "", "mostlyai/engine.py": MOSTLY},
}


def released(name: str, folder: Path, *words: str, seed: int = 7) -> list[Synthetic]:
    """Run a wrapper as an audit does, with stubs of what is not installed."""
    for package, files in STUBS.items():
        for at, code in files.items() if find_spec(package) is None else ():
            (folder / at).parent.mkdir(exist_ok=True)
            (folder / at).write_text(code, encoding="utf-8")
    argv = (sys.executable, str(RECIPES / name), "{train}", "{out}", "{n}", *words)
    work = folder / "work"
    work.mkdir(exist_ok=True)
    generator = Command(argv=argv, cwd=work, env=("PYTHONPATH",), private="{epsilon}" in words)
    release = list(generator.generate(request(seed)))
    assert list(work.iterdir()) == [], "nothing is left beside the spec"
    return release


def request(seed: int = 7) -> Request:
    """Return a small request with a finite budget."""
    return replace(tiny_request(), seed=seed, epsilon=4.0, delta=1e-5)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "words", "needs"),
    [
        ("markov.py", "{seed}", ()),
        ("tabformer.py", "{seed}", ("pandas", "transformers")),
        ("lstm.py", "{seed}", ("pandas",)),
        ("invisibleink.py", "{epsilon} {delta} {seed}", ()),
    ],
)
def test_a_wrapper_makes_releases_by_seed(
    name: str, words: str, needs: tuple[str, ...], folder: Path
) -> None:
    for package in needs:
        pytest.importorskip(package)
    release = released(name, folder, *words.split())
    assert release == released(name, folder, *words.split()), "the same seed, the same release"
    assert release != released(name, folder, *words.split(), seed=8)
    if name == "tabformer.py":
        assert {row.labels for row in release} <= {row.labels for row in request().records}


def test_opacus_sees_the_alphabet_that_the_script_gives_it(folder: Path) -> None:
    for package in ("torch", "transformers", "opacus"):
        pytest.importorskip(package)
    known = set("".join(record.text for record in request().records))
    words = ("{epsilon}", "{delta}", "{seed}")
    release = released("gpt.py", folder, *words, "characters")
    assert set("".join(row.text for row in release)) <= known
    assert release == released("gpt.py", folder, *words, "characters")
    any_byte = released("gpt.py", folder, *words, "bytes")
    assert not set("".join(row.text for row in any_byte)) <= known


def test_the_page_names_every_wrapper_and_its_length() -> None:
    page = (DOCS / "recipes.md").read_text(encoding="utf-8")
    lines = {name: int(n) for name, n in re.findall(r"\(recipes/(\w+\.py)\) \| (\d+) \|", page)}
    assert lines == {
        path.name: len(path.read_text(encoding="utf-8").splitlines())
        for path in RECIPES.glob("*.py")
    }
    for package in re.findall(r"^\| ([\w-]+) (\d[\d.]+) \| \[", page, re.MULTILINE):
        assert "==".join(package) in page, "installed in the version that was run"
