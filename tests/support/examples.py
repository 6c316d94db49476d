"""Settings with which the contract tests try each plug-in that has no default for everything.

An example writes the files that it needs into a folder and returns the settings.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from synthleak.releases.exchange import (
    MANIFEST,
    Slot,
    content_hash,
    dump_manifest,
    dump_training,
    ticket_of,
)
from synthleak.testing import tiny_corpus, tiny_request

Settings = dict[str, Any]
Example = Callable[[Path], Settings]
ROWS = [
    {"id": str(i), "text": f"record {i} says {i * i}", "labels": f"L{i % 3};M"} for i in range(9)
]


def plain_text(folder: Path) -> Settings:
    """Return a file with a text per paragraph: the example of a reader that has no other."""
    return written(folder / "records.txt", "\n\n".join(row["text"] for row in ROWS))


def written(path: Path, text: str) -> Settings:
    path.write_text(text, encoding="utf-8")
    return {"path": str(path)}


def jsonl(folder: Path, name: str = "records.jsonl") -> Settings:
    return written(folder / name, "\n".join(map(json.dumps, ROWS)))


def table(mark: str) -> Example:
    lines = [mark.join(ROWS[0]), *(mark.join(row.values()) for row in ROWS)]
    return lambda folder: written(folder / "records.txt", "\n".join(lines))


def parquet(folder: Path) -> Settings:
    import pyarrow as pa
    from pyarrow.parquet import write_table

    write_table(pa.Table.from_pylist(ROWS), folder / "records.parquet")
    return {"path": str(folder / "records.parquet")}


def datasets(folder: Path) -> Settings:
    import pyarrow as pa

    rows = pa.Table.from_pylist(ROWS)
    with pa.ipc.new_stream(folder / "data-00000-of-00001.arrow", rows.schema) as stream:
        stream.write_table(rows)
    return {"path": str(folder)}


def split(folder: Path) -> Settings:
    names = ("members", "holdout")
    return {name: jsonl(folder, f"{name}.jsonl")["path"] for name in names}


def psytar(folder: Path) -> Settings:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    page = book.create_sheet("Sentence_Labeling")
    labels = ["ADR", "WD", "EF", "INF", "SSI", "DI", "Others"]
    page.append(["id", "drug_id", "sentence_index", "sentences", *labels, "rating"])
    for row in ROWS:
        page.append([row["id"], "drug.1", 1, row["text"], 1, *[None] * 6, 4])
    book.save(folder / "PsyTAR_dataset.xlsx")
    return {"path": str(folder / "PsyTAR_dataset.xlsx")}


def dmsafn(folder: Path) -> Settings:
    return written(folder / "all-data.csv", "\n".join(f"neutral,{row['text']}" for row in ROWS))


def eurlex57k(folder: Path) -> Settings:
    place = folder / "laws" / "train"
    place.mkdir(parents=True)
    for row in ROWS:
        law = {"celex_id": row["id"], "title": row["text"], "concepts": ["10"]}
        (place / f"{row['id']}.json").write_text(json.dumps(law), encoding="utf-8")
    return {"path": str(folder / "laws")}


def n2c2(folder: Path) -> Settings:
    docs = "".join(f'<doc id="{r["id"]}"><text>{r["text"]}</text></doc>' for r in ROWS)
    judged = "".join(f'<doc id="{row["id"]}" judgment="Y"/>' for row in ROWS)
    disease = f'<diseases source="intuitive"><disease name="Asthma">{judged}</disease></diseases>'
    return {
        "records": [written(folder / "a.xml", f"<root><docs>{docs}</docs></root>")["path"]],
        "annotations": [written(folder / "b.xml", f"<diseaseset>{disease}</diseaseset>")["path"]],
    }


def ids(folder: Path) -> Settings:
    return written(folder / "ids.txt", "\n".join(r.id for r in tiny_corpus().records[5:9]))


def program(folder: Path) -> Settings:
    code = "{ line[(NR * 7919 + {seed}) % 10007] = $0 } END { for (i in line) print line[i] }"
    shell = f"awk '{code}' {{train}} | head -n {{n}} > {{out}}"
    return {"argv": ["sh", "-c", shell]}


def exported(folder: Path) -> Settings:
    """Return an exported plan that holds the requests of `check_generator`, with releases."""
    asked = tiny_request()
    slots = []
    for number, request in enumerate(
        (asked, replace(asked, seed=2), replace(asked, seed=3, records=asked.records[1:]))
    ):
        data = dump_training(request.records)
        slots.append(
            Slot(
                pool="tiny",
                set=f"set-{number}",
                train_hash=content_hash(data),
                nominal=request.nominal,
                size=request.size,
                epsilon=request.epsilon,
                delta=request.delta,
                seed=request.seed,
                ticket=ticket_of(request),
            )
        )
        texts = [json.dumps({"text": f"text {number} {i}"}) for i in range(request.size)]
        (folder / slots[-1].file).parent.mkdir(parents=True)
        (folder / slots[-1].train).write_bytes(data)
        written(folder / slots[-1].file, "\n".join(texts))
    (folder / MANIFEST).write_bytes(dump_manifest(slots, "folder"))
    return {"path": str(folder)}


def language_model(**settings: Any) -> Example:
    """Return a tiny random model on the CPU, in a precision in which batches do not matter."""

    def write(folder: Path) -> Settings:
        pytest.importorskip("transformers")
        from support.tiny_backbone import write_backbone

        backbone = write_backbone(folder / "backbone")
        return {"backbone": backbone, "device": "cpu", "dtype": "float64", **settings}

    return write


def sentence_model(folder: Path) -> Settings:
    from support.model_folder import write_model

    return {"model": str(write_model(folder / "model")), "device": "cpu"}


EXAMPLES: dict[tuple[str, str], Example] = {
    ("pool rule", "canary"): lambda _: {"size": 6},
    ("reader", "jsonl"): jsonl,
    ("reader", "csv"): table(","),
    ("reader", "tsv"): table("\t"),
    ("reader", "parquet"): parquet,
    ("reader", "datasets"): datasets,
    ("reader", "split"): split,
    ("reader", "psytar"): psytar,
    ("reader", "dmsafn"): dmsafn,
    ("reader", "eurlex57k"): eurlex57k,
    ("reader", "n2c2"): n2c2,
    ("encoder", "sentence-transformers"): sentence_model,
    ("pool rule", "ids"): ids,
    ("pool rule", "labels"): lambda _: {"any": ["sleep"]},
    ("pool rule", "random"): lambda _: {"match": "earlier"},
    ("pool rule", "rare"): lambda _: {"max_frequency": 8},
    ("pool rule", "union"): lambda _: {"of": ["earlier", "later"]},
    ("pool rule", "where"): lambda _: {"where": "id != 'x'"},
    ("generator", "command"): program,
    ("generator", "folder"): exported,
    ("generator", "given"): jsonl,
    ("opt-in proxy family", "lm"): language_model(
        epochs=4, batch_size=16, rank=4, max_tokens=16, learning_rate=2e-2
    ),
    ("generator", "dpsgd"): language_model(epochs=1, batch_size=4, rank=2, max_tokens=12),
    ("generator", "augpe"): language_model(encoder="hashing", rounds=2, variations=2, max_tokens=8),
    ("generator", "epsvec"): language_model(
        encoder="hashing", candidates=4, references=2, max_tokens=8
    ),
}
