"""Folders forged by somebody who recomputes every digest: refused in one line, or shown.

A value of one file changes: a cell of a table, a value of a JSON file or of an array. Then all
digests are brought up to date, as only somebody does who knows the format.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from attempts import RUN, Attempt, measure_class

from synthleak.audit.folder import digest_of_file, own_digest
from synthleak.core.store import seal, unseal

COUNT = 120
VALUES: tuple[Any, ...] = (
    *(None, True, 0, -1, 7, 2**40, 2**62, 0.5, -0.5, 1e308, float("nan"), float("inf")),
    *("", "x", "\x1b[2J", "=1+1", "9" * 400, [], {}, [1], {"a": 1}, [[[]]]),
)
READING = (("report", RUN), ("compare", RUN, RUN), ("figures", RUN, "--out", "drawn"))
FURTHER = (
    *(("status", RUN), ("explain", RUN, "r00008"), ("verify", RUN), ("analyse", RUN)),
    *(("report", RUN, "--sign-off"), ("report", RUN, "--summary", "said.xml"), ("purge", RUN)),
)


def forged_json(rng: Random, data: bytes) -> tuple[str, bytes]:
    """Replace or remove one value, wherever it stands."""
    content = json.loads(data)
    parents: list[tuple[Any, Any, str]] = []
    waiting = [("", content)]
    while waiting:
        where, value = waiting.pop()
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            parents.append((value, key, f"{where}.{key}"))
            if isinstance(item, dict | list):
                waiting.append((f"{where}.{key}", item))
    if not parents:
        return "empty", b"[]" if isinstance(content, dict) else b"{}"
    holder, key, where = rng.choice(parents)
    if rng.random() < 0.25:
        del holder[key]
        return f"{where} removed", json.dumps(content).encode()
    holder[key] = rng.choice(VALUES)
    return f"{where} = {str(holder[key])[:12]!r}", json.dumps(content).encode()


def forged_table(rng: Random, data: bytes) -> tuple[str, bytes]:
    """Change a column, or the number of rows, of a Parquet file."""
    table = pyarrow.parquet.read_table(io.BytesIO(data))
    column = rng.choice(table.column_names)
    place = table.column_names.index(column)
    what, value = rng.choice(["value", "value", "value", "column", "rows", "gone"]), None
    if what == "gone":
        table = table.drop_columns([column])
    elif what == "rows":
        table = rng.choice(
            [table.slice(0, 0), table.slice(0, 1), pyarrow.concat_tables([table] * 3)]
        )
    else:
        plain = [v for v in VALUES if not isinstance(v, list | dict | bool)]
        kind = table.schema.field(column).type
        while True:
            value = rng.choice(plain)
            cells = table.column(column).to_pylist()
            if what == "value" and cells:
                cells[rng.randrange(len(cells))] = value
            else:
                cells = [value] * len(cells)
            try:
                array = pyarrow.array(cells, type=kind if what == "value" else None)
            except (pyarrow.ArrowException, OverflowError):
                continue
            table = table.set_column(place, column, array)
            break
    sink = io.BytesIO()
    pyarrow.parquet.write_table(table, sink)
    return f"{what} {column} = {str(value)[:12]!r}", sink.getvalue()


def forged_array(rng: Random, data: bytes) -> tuple[str, bytes]:
    """Change the shape, the type or the content of an array."""
    array = np.load(io.BytesIO(data))
    what = rng.choice(["nan", "cut", "flat", "type", "negative", "empty"])
    changed = {
        "nan": lambda: np.full(array.shape, np.nan),
        "cut": lambda: array[: len(array) // 2],
        "flat": array.ravel,
        "type": lambda: array.astype("U5"),
        "negative": lambda: ~array if array.dtype.kind == "u" else -1 - array,
        "empty": lambda: array[:0],
    }[what]()
    sink = io.BytesIO()
    np.save(sink, changed.astype(array.dtype) if what == "negative" else changed)
    return what, sink.getvalue()


def forged_bytes(rng: Random, data: bytes) -> tuple[str, bytes]:
    """Change some bytes of a file of another kind."""
    at = rng.randrange(max(1, len(data)))
    return f"byte {at}", data[:at] + rng.randbytes(3) + data[at + 3 :]


FORGERIES = {".json": forged_json, ".parquet": forged_table, ".npy": forged_array}


def forge(home: Path, name: str, seed: str) -> str:
    """Change one file of a run folder and all digests; return what was changed."""
    run, rng = home / RUN, Random(seed)
    path, stored = run / name, name.startswith("store/")
    data = path.read_bytes()
    data = unseal(name.removeprefix("store/"), data) if stored else data
    packed = name.endswith(".gz")
    data = gzip.decompress(data) if packed else data
    ending = Path(name.removesuffix(".gz")).suffix
    what, data = FORGERIES.get(ending, forged_bytes)(rng, data)
    data = gzip.compress(data) if packed else data
    path.write_bytes(seal(name.removeprefix("store/"), data) if stored else data)
    manifest = json.loads((run / "manifest.json").read_text())
    if isinstance(manifest.get("hashes"), dict):
        for noted in manifest["hashes"]:
            manifest["hashes"][noted] = digest_of_file(run / noted)
    manifest["digest"] = own_digest(manifest)
    (run / "manifest.json").write_text(json.dumps(manifest))
    return what


def attempts(template: Path, rng: Random, count: int) -> Iterator[Attempt]:
    """Yield forgeries of every kind of file, in turn."""
    kinds: dict[str, list[str]] = {}
    for path in sorted((template / RUN).rglob("*")):
        name = path.relative_to(template / RUN)
        if path.is_file() and path.suffix not in (".csv", ".html"):
            kind = str(name.parent) if name.parts[0] == "store" else str(name)
            kinds.setdefault(kind, []).append(str(name))
    for number in range(count):
        kind = list(kinds)[number % len(kinds)]
        name, seed = rng.choice(kinds[kind]), f"{rng.random()}"

        def prepare(home: Path, name: str = name, seed: str = seed) -> None:
            forge(home, name, seed)

        yield Attempt(f"{name} ({seed})", prepare, (*READING, rng.choice(FURTHER)))


measure = partial(measure_class, attempts, count=COUNT)
