"""One small audit for all tests of the page, with a corpus that does its worst."""

from __future__ import annotations

import json

import pytest

from support.specs import tiny_spec
from synthleak import Audit, Runtime, check, run
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.corpus import Record
from synthleak.corpus.readers.demo import write_demo

HOSTILE = '<img src=x onerror="globalThis.hacked=1">'
DESCRIPTION = "</title></script><script>globalThis.hacked=2</script>"


@pytest.fixture(scope="session")
def private() -> list[Record]:
    """Return the records that the page must not quote."""
    return list(write_demo(160, 5))


@pytest.fixture(scope="session")
def audit(private: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """Run the audit; some ids are markup."""
    root = tmp_path_factory.mktemp("report")
    lines = [
        json.dumps(
            {"id": f"{HOSTILE}{i}" if i % 7 == 0 else r.id, "text": r.text, "labels": r.labels}
        )
        for i, r in enumerate(private)
    ]
    (root / "corpus.jsonl").write_text("\n".join(lines), encoding="utf-8")
    spec = {
        "seed": 4,
        "corpus": {
            "reader": "jsonl",
            "path": str(root / "corpus.jsonl"),
            "name": "worst",
            "description": DESCRIPTION,
        },
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": [
            {"name": "outlier", "rule": "outlier", "percentile": 92},
            {"name": "random", "rule": "random", "match": "outlier", "draws": 1},
        ],
        "game": {"instances": 12, "records": 30, "rounds": 4, "candidates": 5},
        "generator": [{"kind": "ngram", "epsilon": [float("inf"), 2.0]}],
        "evidence": {"families": ["cos", "bigram_logprob"]},
    }
    return run(LoadedSpec(parse_spec(spec)), root / "run", runtime=Runtime(workers=1))


@pytest.fixture(scope="session")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """Run a cohort whose generator copies private records, so that records are named."""
    spec = tiny_spec(
        pool=[{"name": "few", "rule": "outlier", "percentile": 92, "size": 6}],
        game={"design": "cohort", "instances": 16, "records": 60},
        generator=[{"kind": "echo", "p": 0.9}],
        evidence={"families": ["sequence_overlap"]},
    )
    root = tmp_path_factory.mktemp("leaky")
    return run(LoadedSpec(parse_spec(spec)), root / "run", runtime=Runtime(workers=1))


COPIED = 40


@pytest.fixture(scope="session")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    """Check a release that copies some members word for word, the last member first."""
    messages = [record.text for record in write_demo(1320, 6)]
    texts = [" ".join(messages[place : place + 4]) for place in range(0, len(messages), 4)]
    members, holdout, others = texts[:100], texts[100:250], texts[250:]
    rows = {
        name: [{"id": f"{name}-{i}", "text": text} for i, text in enumerate(some)]
        for name, some in (("m", members), ("h", holdout))
    }
    release = [*others, *reversed(members[-COPIED:])]
    return check(
        rows["m"],
        rows["h"],
        {"spring": release},
        random_split=True,
        encoder="hashing",
        out=tmp_path_factory.mktemp("checked") / "run",
        runtime=Runtime(workers=1),
    )
