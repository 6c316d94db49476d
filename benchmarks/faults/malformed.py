"""Malformed inputs: valid files of every kind, and seeded changes to them.

`cases` yields commands with the files that they read. Bytes are flipped, cut, doubled and moved,
encodings and line ends exchanged, marks, NULs and escape sequences put in; values change their
type, numbers grow, lists nest, texts hold half of a pair; tables have columns of every Arrow type;
files are bombs, pipes, devices or sparse; programs misbehave.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import random
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from misuse import KINDS, PLUGIN
from misuse import SPEC as PLUGIN_SPEC

MARKER = "quillerbyzax"
"""A word of every record that occurs nowhere else."""
MB = 1_000_000


@dataclass(frozen=True)
class Sparse:
    """A file that is larger than the disk space that it takes."""

    size: int


@dataclass(frozen=True)
class Link:
    """A link to something else."""

    to: str


@dataclass(frozen=True)
class Pipe:
    """A pipe that nobody writes to."""


@dataclass(frozen=True)
class Late:
    """A file that is only made when it is needed."""

    make: Callable[[], bytes]


Content = bytes | Sparse | Link | Pipe | Late
Files = dict[str, Content]


@dataclass(frozen=True)
class Case:
    """A command and the files that it reads.

    `gate` allows the exit code of a failed gate; what is `valid` must succeed.
    """

    name: str
    files: Files
    argv: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    gate: bool = False
    valid: bool = False

    def lay_out(self, folder: Path) -> None:
        """Write the files into a new folder."""
        folder.mkdir(parents=True)
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            match content:
                case Sparse(size):
                    with path.open("wb") as file:
                        file.truncate(size)
                case Link(to):
                    path.symlink_to(to)
                case Pipe():
                    os.mkfifo(path)
                case Late(make):
                    _write_in_a_fork(path, make)
                case _:
                    path.write_bytes(content)

    def paths(self, folder: Path) -> set[Path]:
        """Return the files and folders that were laid out, relative to the folder."""
        found = {Path(name) for name in self.files}
        return found | {parent for path in found for parent in path.parents}


def _write_in_a_fork(path: Path, make: Callable[[], bytes]) -> None:
    """Write a file whose making takes memory: the forks of this process would be charged for it."""
    child = os.fork()
    if child == 0:
        try:
            path.write_bytes(make())
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        raise OSError("a file could not be made")


# --- valid material ------------------------------------------------------------------------------


def rows(count: int, start: int = 0) -> list[dict[str, Any]]:
    """Return records that differ, each with the marker in its text."""
    drugs = ("zoloft", "prozac", "effexor", "cymbalta", "lexapro")
    return [
        {
            "id": f"r{n}",
            "text": f"Took {n * 7 % 90} mg of {drugs[n % 5]} for {n} days, {MARKER} and slept {n}h",
            "labels": [("sleep", "dose", "mood")[n % 3]],
            "group": f"p{n // 2}",
            "site": "ABC"[n % 3],
            "age": 20 + n % 60,
        }
        for n in range(start, start + count)
    ]


def sides() -> dict[str, list[dict[str, Any]]]:
    """Return members, holdout and release of a check; groups are whole, and sides alike."""
    made = rows(56)
    members = [row for n, row in enumerate(made) if n // 2 % 2 == 0]
    return {
        "members": members,
        "holdout": [r for r in made if r not in members],
        "release": rows(20, 50),
    }


def jsonl(records: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in records)


def delimited(records: list[dict[str, Any]], sign: str = ",") -> bytes:
    lines = [sign.join(records[0])]
    for row in records:
        cells = [";".join(cell) if isinstance(cell, list) else str(cell) for cell in row.values()]
        lines.append(sign.join(f'"{cell}"' if sign in cell else cell for cell in cells))
    return ("\n".join(lines) + "\n").encode()


def parquet(records: list[dict[str, Any]], **options: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records), sink, **options)
    return sink.getvalue()


def arrow(records: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa

    table, sink = pa.Table.from_pylist(records), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@cache
def workbook() -> bytes:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Sentence_Labeling"
    labels = ("ADR", "WD", "EF", "INF", "SSI", "DI", "Others")
    sheet.append(["id", "drug_id", "sentence_index", "sentences", *labels])
    for n, row in enumerate(rows(40)):
        marks = ["!" if n % 7 == k else None for k in range(7)]
        sheet.append([n, row["group"], 1, row["text"], *marks])
    sink = io.BytesIO()
    book.save(sink)
    return sink.getvalue()


def summaries() -> bytes:
    docs = "".join(
        f'<doc id="{n}"><text>{row["text"]}</text></doc>' for n, row in enumerate(rows(40))
    )
    return f'<?xml version="1.0" encoding="UTF-8"?><root><docs>{docs}</docs></root>'.encode()


def judgments() -> bytes:
    docs = "".join(f'<doc id="{n}" judgment="{"YN"[n % 2]}"/>' for n in range(40))
    inside = f'<diseases source="intuitive"><disease name="Asthma">{docs}</disease></diseases>'
    return f'<?xml version="1.0" encoding="UTF-8"?><diseaseset>{inside}</diseaseset>'.encode()


def laws() -> Files:
    return {
        f"laws/{n}.json": json.dumps(
            {
                "celex_id": f"3{n}",
                "title": row["text"],
                "header": "h",
                "recitals": "r",
                "main_body": ["one", "two"],
                "type": "Decision",
                "concepts": ["1", "2"][: 1 + n % 2],
            }
        ).encode()
        for n, row in enumerate(rows(40))
    }


def saved_dataset() -> Files:
    classes = {"_type": "ClassLabel", "names": ["sleep", "dose", "mood"]}
    plain = {"dtype": "string", "_type": "Value"}
    table = [{**row, "labels": [n % 3]} for n, row in enumerate(rows(40))]
    features = {"text": plain, "labels": {"feature": classes, "_type": "Sequence"}}
    return {
        "saved/data-00000-of-00001.arrow": arrow(table),
        "saved/state.json": json.dumps(
            {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": "train"}
        ).encode(),
        "saved/dataset_info.json": json.dumps({"features": features}).encode(),
    }


POOL = 'name = "some"\nrule = "random"\nsize = 4\ndraws = 1'


def spec(corpus: str, generator: str = 'kind = "echo"', pool: str = "") -> bytes:
    return f"""seed = 1
prior = []

[corpus]
{corpus}

[encoders]
pools = "hashing"
evidence = "hashing"

[[pool]]
{pool or POOL}

[game]
design = "lone"
instances = 4
records = 10
release_size = 10
rounds = 3
candidates = 3
references = 2
auxiliary = 0.5

[[generator]]
{generator}

[evidence]
families = ["cos"]
""".encode()


DATA = 'reader = "{}"\npath = "{}"'


# --- changes -------------------------------------------------------------------------------------

Change = Callable[[random.Random, bytes], bytes]

# fmt: off
BITS = [
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3\x28", b"\xed\xa0\x80", b"\r", b"\r\n", b"\n\n",
    b"\x1b[2J\x1b[31m", b"\x1b]0;owned\x07", b"\xc2\x9b2J", b'"', b"'", b"\\", b",", b";", b"\t",
    b"{", b"}", b"[", b"]", b"=", b"@SUM(1)", b"\xe2\x80\xa8", b"\xc2\x85", b"\x1a", b"\x7f",
    "\u202e".encode(), "𝔘".encode(), "\u0301".encode(), b"&bomb;", b"<!--", b"]]>", b"%s{0}${x}",
]
# fmt: on


def flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 3, 20])):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def overwrite(rng: random.Random, data: bytes) -> bytes:
    place, size = rng.randrange(len(data)), rng.choice([1, 4, 8, 64])
    return data[:place] + rng.randbytes(size) + data[place + size :]


def cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def behead(rng: random.Random, data: bytes) -> bytes:
    return data[rng.randrange(len(data)) :]


def excise(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + data[place + rng.choice([1, 2, 10, 200]) :]


def double(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    end = start + rng.choice([1, 10, 100, len(data)])
    return data[:end] + data[start:end] * rng.choice([1, 2, 50]) + data[end:]


def insert(rng: random.Random, data: bytes) -> bytes:
    place = rng.choice([0, rng.randrange(len(data)), len(data)])
    return data[:place] + rng.choice(BITS) * rng.choice([1, 1, 2, 3000]) + data[place:]


def zeros(rng: random.Random, data: bytes) -> bytes:
    place, size = rng.randrange(len(data)), rng.choice([1, 16, 4096])
    return data[:place] + bytes(size) + data[place + size :]


def endings(rng: random.Random, data: bytes) -> bytes:
    return data.replace(b"\n", rng.choice([b"\r", b"\r\n", b"\n\r", b"\x85", b"\x0b", b""]))


def encoding(rng: random.Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    codec = rng.choice(["utf-16", "utf-16-be", "utf-32", "utf-7", "cp500", "latin-1", "utf-8-sig"])
    return text.encode(codec, "replace")


def junk(rng: random.Random, data: bytes) -> bytes:
    return rng.choice(
        [b"", b"\n", b" ", b"\x00", b"null\n", b"{}\n", rng.randbytes(500), b"\xff" * 9]
    )


BYTES: list[Change] = [
    *(flip, overwrite, cut, behead, excise, double, insert, insert, zeros, endings, encoding, junk)
]


def nested(depth: int, opening: str = "[", closing: str = "]", core: str = "1") -> str:
    return opening * depth + core + closing * depth


# fmt: off
VALUES = [
    "null", "true", "-1", "0", "3.5", "1e999", "-1e999", "NaN", "Infinity", '""', '" "', "[]",
    "{}", "9" * 18, "9" * 30, "9" * 400, "9" * 5000, "-" + "9" * 4000, "1" + "0" * 4200, "1e400",
    "0.1e-9", '"\\ud800"', '"a\\udfff b"', '["\\ud83d"]', '{"\\ud800": 1}', '"\\u0000"',
    '"\\u001b[2J"', '"=cmd|x!A1"', '"+1"', '"-x"', '"@SUM(A1)"', '"../../etc/passwd"',
    '"a\\nb\\rc"', '"\\u202e"', nested(3), nested(60), nested(400), nested(950), nested(5000),
    nested(200_000), nested(60, '{"a":', "}"), nested(900, '{"a":', "}"),
    nested(100_000, '{"a":', "}"), '[1, "a", null]', '{"a": {"b": 1}}', '[{"a": 1}]', "[[[]]]",
    "[NaN]", "[1e999]", "[true]", '"' + "x" * 200_000 + '"', '"' + "y " * 300_000 + '"',
    "[" + "1," * 50_000 + "1]", "undefined", "'x'", "0x10", "--1", "1_000", "tru", '"unclosed',
    "[1,", "{,}", "01",
]
# fmt: on


def json_value(rng: random.Random, data: bytes) -> bytes:
    """Give one field of one line (or of the whole) another value, or take it away."""
    lines = data.split(b"\n")
    place = rng.choice([n for n, line in enumerate(lines) if line.startswith(b"{")] or [0])
    try:
        row = json.loads(lines[place])
    except ValueError:
        return flip(rng, data)
    holder = row
    while True:
        key: Any = (
            rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
        )
        if not isinstance(holder[key], dict | list) or not holder[key] or rng.random() < 0.4:
            break
        holder = holder[key]
    act = rng.random()
    if act < 0.1:
        del holder[key]
        lines[place] = json.dumps(row).encode()
    else:
        holder[key] = "@@@"
        written = json.dumps(row).replace('"@@@"', rng.choice(VALUES), 1)
        lines[place] = written.encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def json_values(rng: random.Random, data: bytes) -> bytes:
    """Give the same field of every line another value: the type of a whole column."""
    value, key = rng.choice(VALUES), rng.choice(["id", "text", "labels", "group", "site", "age"])
    made = []
    for line in data.split(b"\n"):
        if line.startswith(b"{"):
            row = json.loads(line)
            if key in row:
                row[key] = "@@@"
            made.append(json.dumps(row).replace('"@@@"', value if len(value) < 9000 else "7", 1))
    return "\n".join(made).encode("utf-8", "surrogatepass")


# fmt: off
CELLS = [
    '"', '""', 'a"b', '"open', "a,b", "a\tb", "", " ", "\x00", "\x1b[2J", "=1+1", "9" * 5000,
    "nan", "x" * 140_000, "é", "\ufeff", "a\rb", '"a\nb"', ";;;", ";", "\u2028", ",,,,,,,",
    "\t\t",
]
# fmt: on


def cell(rng: random.Random, data: bytes) -> bytes:
    """Change a cell, double or drop a column's name, or take the header away."""
    lines = data.decode().split("\n")
    sign = "\t" if "\t" in lines[0] else ","
    place = rng.choice([0, rng.randrange(len(lines) - 1)])
    cells = lines[place].split(sign)
    act = rng.random()
    if act < 0.1:
        return "\n".join(lines[1:]).encode()
    if act < 0.2:
        cells[-1] = cells[0]
    elif act < 0.3:
        cells.pop(rng.randrange(len(cells)))
    else:
        cells[rng.randrange(len(cells))] = rng.choice(CELLS)
    lines[place] = sign.join(cells)
    return "\n".join(lines).encode()


def columns() -> dict[str, Callable[[int], Any]]:
    """Return Arrow columns of every type, also with values that Python cannot hold."""
    import pyarrow as pa

    def filled(value: Any, kind: Any) -> Callable[[int], Any]:
        return lambda n: pa.array([value] * n, kind)

    def raw(kind: Any, *buffers: Any) -> Callable[[int], Any]:
        def make(n: int) -> Any:
            return pa.Array.from_buffers(kind, n, [None, *(pa.py_buffer(b * n) for b in buffers)])

        return make

    wide = (2**62).to_bytes(8, "little")

    def bad_text(n: int) -> Any:
        return pa.array([b"\xff\xfe\xed\xa0\x80"] * n, pa.binary()).view(pa.string())

    def looping(n: int) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array([0] * n), pa.array(["one"]))

    return {
        "timestamp ns": raw(pa.timestamp("ns"), (123456789123456789).to_bytes(8, "little")),
        "timestamp far": raw(pa.timestamp("us"), wide),
        "timestamp s far": raw(pa.timestamp("s"), wide),
        "timestamp no zone": raw(pa.timestamp("us", "Nowhere/Land"), bytes(8)),
        "date far": raw(pa.date64(), wide),
        "date32 far": raw(pa.date32(), (2**31 - 1).to_bytes(4, "little")),
        "time far": raw(pa.time64("ns"), wide),
        "duration far": raw(pa.duration("s"), wide),
        "duration": raw(pa.duration("ns"), (7).to_bytes(8, "little")),
        "bad text": bad_text,
        "binary": filled(b"\xff\x00", pa.binary()),
        "decimal": filled("12345678901234567890", pa.string()),
        "large text": filled("x", pa.large_string()),
        "null": pa.nulls,
        "dictionary": looping,
        "float nan": filled(float("nan"), pa.float64()),
        "float inf": filled(float("inf"), pa.float64()),
        "half": lambda n: pa.array([1.5] * n, pa.float32()),
        "uint64": filled(2**64 - 1, pa.uint64()),
        "bool": filled(True, pa.bool_()),
        "struct": filled(
            {"a": {"b": [1]}}, pa.struct([("a", pa.struct([("b", pa.list_(pa.int8()))]))])
        ),
        "map": filled([("k", 1)], pa.map_(pa.string(), pa.int64())),
        "lists": filled([[["x"]]], pa.list_(pa.list_(pa.list_(pa.string())))),
        "empty": filled("", pa.string()),
        "blank": filled(" \n", pa.string()),
        "surrogate": lambda n: pa.array(["\x00\x1b[2J"] * n),
        "many": lambda n: pa.array([f"{MARKER} {k}" for k in range(n)]),
    }


def column(rng: random.Random, records: list[dict[str, Any]]) -> tuple[str, Any]:
    """Return a table with one column of another type."""
    import pyarrow as pa

    table = pa.Table.from_pylist(records)
    kind, make = rng.choice(list(columns().items()))
    name = rng.choice(["id", "text", "labels", "group", "site", "new"])
    if name in table.column_names:
        place = table.column_names.index(name)
        table = table.set_column(place, name, make(len(records)))
    else:
        table = table.append_column(name, make(len(records)))
    return f"{kind} as {name}", table


def packed_table(table: Any, form: str) -> bytes | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    try:
        if form == "parquet":
            pq.write_table(table, sink)
        else:
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
    except (pa.ArrowException, ValueError, OverflowError):
        return None
    return sink.getvalue()


# fmt: off
TOML = [
    "1", "-1", "0", "1e8", "1e308", "inf", "-inf", "nan", "true", '""', '" "', "[]", "{}", "[[]]",
    "9" * 18, "9" * 19, "9" * 30, "9" * 5000, "0x" + "f" * 5000, "100000000",
    "9000000000000000000", '"\\u0000"', '"a\\u0000b.jsonl"', '"' + "x" * 300 + '"',
    '"' + "d/" * 3000 + '"', '"\\u001b[2J"', '"../../../etc/shadow"', '"/dev/zero"',
    '"/dev/full"', '"."', '""', '"~"', '"*"', '"my notes"', "1979-05-27T07:32:00Z", "07:32:00",
    '[1, "a"]', "{a = 1}", '["a", "a"]', "[-1]", '["inf", 1]', nested(60), nested(2000),
    nested(60, "{a=", "}"), '"""multi\nline"""', "'", '"\\uD800"', "+-1", '"hex"', '"rot13"',
    '"idna"', '"utf-7"', '"undefined"', '"utf-16"', '"punycode"', '"zlib"', '"lone"', '"cohort"',
    '"given"', '"auto"', '"all"', '"outlier"', '"echo"', '"ngram"', '"jsonl"',
]
# fmt: on
# fmt: off
KEYS = [
    "seed", "reader", "path", "name", "description", "encoding", "id", "text", "labels", "group",
    "label_separator", "rule", "size", "draws", "match", "percentile", "where", "kind", "epsilon",
    "delta", "label_prior", "design", "instances", "records", "release_size", "adjacency",
    "rounds", "candidates", "references", "auxiliary", "families", "pools", "evidence", "plugins",
    "prior", "delimiter", "quote", "columns", "split", "unknown", "corpus", "game", "also", "lof",
    "order", "unit", "max_records", "share_releases", "repeats", "optional",
]
# fmt: on


def setting(rng: random.Random, data: bytes) -> bytes:
    """Give a key of a spec another value, or add one somewhere."""
    lines = data.decode().split("\n")
    set_here = [n for n, line in enumerate(lines) if " = " in line]
    if rng.random() < 0.75:
        place = rng.choice(set_here)
        lines[place] = f"{lines[place].partition(' = ')[0]} = {rng.choice(TOML)}"
    else:
        lines.insert(rng.choice(set_here), f"{rng.choice(KEYS)} = {rng.choice(TOML)}")
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def dotted(rng: random.Random, data: bytes) -> bytes:
    key = ".".join("a" * rng.choice([60, 3000]))
    return data + f"\n{rng.choice(['', 'x.'])}{key} = 1\n".encode()


# fmt: off
PREDICATES = [
    "site == 'A'", "age >= 80 and site in ['A', 'B']", "not not not age",
    "(" * 40 + "age" + ")" * 40, "(" * 5000 + "age", "not " * 5000 + "age",
    "age == " + "9" * 5000, "age > 1e999", "age <", "", "'", "`age` == none", "id == '\x00'",
    "a" * 10_000, "age == age == age", "[1,2]", "x in []", "\ud800",
    " or ".join(["age == 1"] * 20_000), "p_holm < 0.01", "auc > 0.5", "p_holm < '0.01'", "auc",
    "scenario == 'S1' and auc >= 0", "nothing < 1", "auc > nan", "__import__('os')",
    "auc >= -inf",
]
# fmt: on


# --- surfaces ------------------------------------------------------------------------------------


def reader_case(rng: random.Random) -> Case:
    """Change a corpus file and look at it with `corpus`."""
    kind = rng.choice(
        [
            *("jsonl", "jsonl", "jsonl", "jsonl.gz", "csv", "csv", "csv.gz", "tsv", "parquet"),
            *("parquet", "datasets", "datasets", "n2c2", "eurlex57k", "dmsafn", "psytar", "ids"),
        ]
    )
    how, files, corpus, pool = READERS[kind.partition(".")[0]](rng, kind)
    if rng.random() < 0.1:
        corpus += f"\nencoding = {rng.choice(TOML)}"
    return Case(f"reader {kind}: {how}", {**files, "s.toml": spec(corpus, pool=pool)}, CORPUS)


CORPUS = ["corpus", "s.toml", "--json"]
Made = tuple[str, Files, str, str]


def _changed(rng: random.Random, data: bytes, changes: list[Change]) -> tuple[str, bytes]:
    change = rng.choice(changes)
    made = change(rng, data)
    if rng.random() < 0.15:
        made = rng.choice(BYTES)(rng, made or b"x")
    return change.__name__, made


def _jsonl(rng: random.Random, kind: str) -> Made:
    how, data = _changed(rng, jsonl(rows(40)), [json_value, json_value, json_values, *BYTES])
    if kind.endswith(".gz"):
        data = gzip.compress(data)
        if rng.random() < 0.6:
            data = rng.choice(BYTES)(rng, data)
    return how, {f"d.{kind}": data}, DATA.format("jsonl", f"d.{kind}"), ""


def _delimited(rng: random.Random, kind: str) -> Made:
    sign = "\t" if kind == "tsv" else ","
    how, data = _changed(rng, delimited(rows(40), sign), [cell, cell, cell, *BYTES])
    if kind.endswith(".gz"):
        data = rng.choice([*BYTES, *[lambda _, same: same] * 3])(rng, gzip.compress(data))
    corpus = DATA.format(kind.partition(".")[0], f"d.{kind}")
    if rng.random() < 0.2:
        key = rng.choice(["delimiter", "quote", "columns", "labels", "id", "text"])
        corpus += f"\n{key} = {rng.choice(TOML)}"
    return how, {f"d.{kind}": data}, corpus, ""


def _parquet(rng: random.Random, kind: str) -> Made:
    if rng.random() < 0.5:
        how, table = column(rng, rows(40))
        data = packed_table(table, "parquet")
        if data is not None:
            return how, {"d.parquet": data}, DATA.format("parquet", "d.parquet"), ""
    how, data = _changed(rng, parquet(rows(40)), BYTES)
    return how, {"d.parquet": data}, DATA.format("parquet", "d.parquet"), ""


def _datasets(rng: random.Random, kind: str) -> Made:
    files = saved_dataset()
    name = rng.choice(list(files))
    content = files[name]
    assert isinstance(content, bytes)
    if name.endswith(".arrow"):
        how, table = column(rng, rows(40))
        data = packed_table(table, "arrow")
        if data is None or rng.random() < 0.5:
            how, data = _changed(rng, content, BYTES)
    else:
        how, data = _changed(rng, content, [json_value] * 9 + BYTES)
    if rng.random() < 0.1:
        index = json_value(rng, b'{"splits": ["train", "test"]}')
        return (
            "splits",
            {**files, "saved/dataset_dict.json": index},
            DATA.format("datasets", "saved"),
            "",
        )
    return f"{name[6:]} {how}", {**files, name: data}, DATA.format("datasets", "saved"), ""


def _n2c2(rng: random.Random, kind: str) -> Made:
    files: Files = {"r.xml": summaries(), "a.xml": judgments()}
    name = rng.choice(list(files))
    how, data = _changed(rng, files[name], BYTES)  # type: ignore[arg-type]
    if rng.random() < 0.3:
        how, codec = (
            "declared",
            rng.choice(["x-none", "utf-16", "hex", "idna", "EBCDIC-CP-US", "\x00"]),
        )
        data = summaries().replace(b"UTF-8", codec.encode())
    elif rng.random() < 0.1:
        entities = "".join(
            f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "lol"}">' for n in range(9)
        )
        how = "entities"
        data = summaries().replace(b"<root>", f"<!DOCTYPE r [{entities}]><root>&e8;".encode())
    elif rng.random() < 0.1:
        how, data = "deep", b"<a>" * 100_000 + b"</a>" * 100_000
    corpus = 'reader = "n2c2"\nrecords = "r.xml"\nannotations = "a.xml"'
    return f"{name} {how}", {**files, name: data}, corpus, ""


def _eurlex(rng: random.Random, kind: str) -> Made:
    files = laws()
    name = rng.choice(list(files))
    how, data = _changed(rng, files[name], [json_value] * 9 + BYTES)  # type: ignore[arg-type]
    return how, {**files, name: data}, DATA.format("eurlex57k", "laws"), ""


def _dmsafn(rng: random.Random, kind: str) -> Made:
    lines = [f'neutral,"{row["text"]}"' for row in rows(40)]
    how, data = _changed(rng, "\n".join(lines).encode() + b"\n", [cell, *BYTES])
    return how, {"d.csv": data}, DATA.format("dmsafn", "d.csv"), ""


def _psytar(rng: random.Random, kind: str) -> Made:
    data, how = workbook(), "inside"
    if rng.random() < 0.5:
        how, data = _changed(rng, data, BYTES)
        return how, {"d.xlsx": data}, DATA.format("psytar", "d.xlsx"), ""
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(sink, "w") as new:
        chosen = rng.choice(old.namelist())
        for name in old.namelist():
            part = old.read(name)
            new.writestr(name, rng.choice(BYTES)(rng, part) if name == chosen else part)
    return f"{how} {chosen}", {"d.xlsx": sink.getvalue()}, DATA.format("psytar", "d.xlsx"), ""


def _ids(rng: random.Random, kind: str) -> Made:
    ending = rng.choice(["txt", "csv", "jsonl", "tsv"])
    wanted = rows(6)
    valid = {
        "txt": "\n".join(row["id"] for row in wanted).encode() + b"\n",
        "csv": delimited(wanted),
        "tsv": delimited(wanted, "\t"),
        "jsonl": jsonl(wanted),
    }[ending]
    how, data = _changed(rng, valid, [json_value, *BYTES] if ending == "jsonl" else BYTES)
    files: Files = {"d.jsonl": jsonl(rows(40)), f"i.{ending}": data}
    return (
        how,
        files,
        DATA.format("jsonl", "d.jsonl"),
        f'name = "p"\nrule = "ids"\npath = "i.{ending}"',
    )


READERS: dict[str, Callable[[random.Random, str], Made]] = {
    **{"jsonl": _jsonl, "csv": _delimited, "tsv": _delimited, "parquet": _parquet, "ids": _ids},
    **{"datasets": _datasets, "n2c2": _n2c2, "eurlex57k": _eurlex, "dmsafn": _dmsafn},
    "psytar": _psytar,
}


def spec_case(rng: random.Random) -> Case:
    """Change a spec and read it with a command that writes nothing, or run it."""
    generator = 'kind = "ngram"\nepsilon = [inf, 2]' if rng.random() < 0.3 else 'kind = "echo"'
    pool = ""
    if rng.random() < 0.15:
        text = json.dumps(rng.choice(PREDICATES), ensure_ascii=False)
        pool = f'name = "p"\nrule = "where"\nwhere = {text}'
    data = spec(
        DATA.format("jsonl", "d.jsonl"), generator, pool.encode("utf-8", "replace").decode()
    )
    how, made = _changed(rng, data, [setting] * 12 + [dotted, *BYTES])
    argv = rng.choice([CORPUS, CORPUS, ["plan", "show", "s.toml"], RUN])
    return Case(f"spec {argv[0]}: {how}", {"s.toml": made, "d.jsonl": jsonl(rows(60))}, argv)


WORDS = (
    *("age", "site", "id", "text", "labels", "group", "nothing", "'A'", '"B"', "7", "-1", "1e9"),
    *("==", "!=", "<", ">=", "in", "not", "and", "or", "(", ")", "[", "]", ",", "none", "true"),
    *("nan", "inf", "''", "=", "~", "\u202e", "日", "9" * 400, ".", "`", "not in"),
)
"""What conditions are made of, and what looks like it."""


def predicate_case(rng: random.Random) -> Case:
    """Select a pool by a condition of random words."""
    condition = " ".join(rng.choices(WORDS, k=rng.choice([1, 3, 3, 5, 9, 300])))
    pool = f'name = "p"\nrule = "where"\nwhere = {json.dumps(condition, ensure_ascii=False)}'
    files: Files = {
        "s.toml": spec(DATA.format("jsonl", "d.jsonl"), pool=pool),
        "d.jsonl": jsonl(rows(60)),
    }
    return Case(f"predicate: {len(condition)} characters", files, CORPUS)


def plugin_case(rng: random.Random) -> Case:
    """Change the source of plug-ins, and run them."""
    plain = PLUGIN.format(**{**dict.fromkeys(KINDS, "return"), "reader": "yield"}).encode()
    how, changed = _changed(rng, plain, BYTES)
    files: Files = {"s.toml": PLUGIN_SPEC.encode(), "mine.py": changed}
    return Case(f"plugin: {how}", files, RUN)


RUN = ["run", "s.toml", "--out", "out", "--workers", "1", "-q"]


def check_case(rng: random.Random) -> Case:
    """Change one of the files of a check, or its options."""
    records_of = sides()
    files: Files = {}
    argv = [
        "check",
        "--out",
        "out",
        "--random-split",
        "--encoder",
        "hashing",
        "--workers",
        "1",
        "-q",
    ]
    changed = rng.choice([*records_of, "option"])
    how = ""
    for side, records in records_of.items():
        kind = rng.choice(["jsonl", "csv", "tsv", "parquet", "arrow", "txt", "jsonl.gz"])
        data = _written(records, kind)
        if side == changed:
            how, data = _changed_file(rng, records, data, kind)
        files[f"{side}.{kind}"] = data
        argv += [f"--{side}", f"{side}.{kind}"]
    gate = False
    if changed == "option":
        option, values = rng.choice(list(OPTIONS.items()))
        value = rng.choice(values)
        argv += [option, value.encode("utf-8", "replace").decode()]
        how, gate = f"{option}", option == "--fail-if"
    return Case(f"check {changed}: {how}", files, argv, gate=gate)


OPTIONS = {
    "--text": ["nothing", "", "\n", "id"],
    "--id": ["text", "", "age"],
    "--labels": ["text", "site", ""],
    "--group": ["text", "nothing"],
    "--epsilon": ["nan", "-1", "0", "1e999", "x", "3"],
    "--delta": ["nan", "2", "0", "-1", "1e-400"],
    "--seed": ["-1", "9" * 30, "9" * 5000, "x"],
    "--encoder": ["nothing", "", "\x1b[2J"],
    "--pool": [
        "all",
        "outlier: percentile=" + "9" * 5000,
        "where: where=" + "(" * 999,
        "x: y",
        "random",
        "ids: path=/dev/zero",
        "outlier: percentile=" + nested(3000),
        "all: x=\x1b[2J",
        ":",
        "=",
    ],
    "--fail-if": [text for text in PREDICATES if "\x00" not in text],
    "--out": ["x" * 300, "d/" * 3000 + "x", "/proc/none", "/dev/null/x"],
    "--members": ["/dev/zero", "/dev/null", ".", "x" * 5000, "no such file.jsonl"],
    "--reference": ["/dev/zero", "members.jsonl", "x\n.jsonl"],
    "--workers": ["0", "-1", "x"],
    "--unit": ["person", "people"],
    "--max-records": ["0", "-1", "9" * 5000],
    "--summary": ["/dev/null", "/dev/full.xml", ".", "x.txt", "/proc/x.md", "x" * 300 + ".md"],
}


def _written(records: list[dict[str, Any]], kind: str) -> bytes:
    writers: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
        "csv": delimited,
        "tsv": lambda those: delimited(those, "\t"),
        "parquet": parquet,
        "arrow": arrow,
        "txt": lambda those: "\n".join(row["text"] for row in those).encode(),
        "jsonl": jsonl,
        "jsonl.gz": lambda those: gzip.compress(jsonl(those)),
    }
    return writers[kind](records)


def _changed_file(
    rng: random.Random, records: list[dict[str, Any]], data: bytes, kind: str
) -> tuple[str, bytes]:
    changes = {"jsonl": [json_value] * 8, "csv": [cell] * 5, "tsv": [cell] * 5}.get(kind, [])
    if kind in ("parquet", "arrow") and rng.random() < 0.6:
        how, table = column(rng, records)
        made = packed_table(table, kind)
        if made is not None:
            return f"{kind} {how}", made
    how, made = _changed(rng, data, [*changes, *BYTES])
    return f"{kind} {how}", made


@cache
def exported(kit: bool = False) -> Files:
    """Return an exported plan with a valid release beside each training file.

    The manifest of a kit is tied: each release comes with the hash of its training file.
    """
    import tempfile

    from synthleak.core.spec import load_spec
    from synthleak.preflight.export import export_plan

    with tempfile.TemporaryDirectory() as home:
        root = Path(home)
        (root / "d.jsonl").write_bytes(jsonl(rows(60)))
        (root / "s.toml").write_bytes(_folder_spec())
        packed = root / "kit.zip" if kit else None
        export_plan(load_spec(root / "s.toml"), root / "plan", kit=packed)
        files: Files = {"d.jsonl": jsonl(rows(60)), "s.toml": _folder_spec()}
        for path in sorted((root / "plan").rglob("*")):
            if path.is_file():
                name = path.relative_to(root).as_posix()
                files[name] = path.read_bytes()
                if path.name == "train.jsonl":
                    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
                    for line in lines:
                        line["text"] = f"{line['text']} {path.parent.name}"
                    release = name.replace("train", "release-inf")
                    files[release] = jsonl(lines)
                    if kit:
                        note = sha256(path.read_bytes()).hexdigest()
                        files[f"{release}.made-from"] = note.encode()
        return files


def _folder_spec() -> bytes:
    return spec(DATA.format("jsonl", "d.jsonl"), 'kind = "folder"\npath = "plan"')


def folder_case(rng: random.Random) -> Case:
    """Change the manifest, a training file or a release of an exported plan, and run."""
    files = dict(exported())
    names = [name for name in files if name.startswith("plan/") and not name.endswith(".tsv")]
    name = rng.choice(["plan/manifest.json", rng.choice(names)])
    content = files[name]
    assert isinstance(content, bytes)
    if name.endswith("manifest.json"):
        flat = json.dumps(json.loads(content)).encode()
        how, data = _changed(rng, flat, [json_value] * 12 + BYTES)
    else:
        how, data = _changed(rng, content, [json_value] * 8 + BYTES)
    return Case(f"folder {Path(name).stem}: {how}", {**files, name: data}, RUN)


def kit_case(rng: random.Random) -> Case:
    """Change what comes back with a kit: the manifest, a release, or the hash beside it."""
    files = dict(exported(kit=True))
    names = [name for name in files if name.startswith("plan/") and not name.endswith(".tsv")]
    name = rng.choice(["plan/manifest.json", rng.choice(names)])
    content = files[name]
    assert isinstance(content, bytes)
    how, data = _changed(rng, content, BYTES)
    if name.endswith((".json", ".jsonl")) and rng.random() < 0.6:
        how, data = _changed(rng, content, [json_value])
    if rng.random() < 0.1:
        del files[name]
        return Case(f"kit {Path(name).name}: removed", files, RUN)
    return Case(f"kit {Path(name).name}: {how}", {**files, name: data}, RUN)


PROGRAMS = {
    "prints its training file": 'cat "$1" >&2; exit 3',
    "prints it encoded": 'base64 "$1" >&2; exit 3',
    "prints escapes": "printf '\\033[2J\\033]0;x\\007' >&2; exit 1",
    "removes its folder": 'rm -rf "$(dirname "$1")"; exit 0',
    "removes its folder and fails": 'rm -rf "$(dirname "$1")"; exit 4',
    "removes its training file": 'rm "$1"; cp release "$2"',
    "writes nothing": "exit 0",
    "writes a folder": 'mkdir "$2"',
    "writes a pipe": 'mkfifo "$2"',
    "links to a device": 'ln -s /dev/zero "$2"',
    "writes a sparse file": 'truncate -s 3G "$2"',
    "writes one long line": 'head -c 30000000 /dev/zero | tr "\\0" x > "$2"',
    "writes an unreadable file": 'cp release "$2"; chmod 0 "$2"',
    "kills itself": "kill -9 $$",
    "starts another and ends": 'sleep 30 & cp release "$2"',
    "closes its outputs": "exec 1>&- 2>&-; exit 5",
    "is not text": "\x7fELF\x00\x01",
    "takes long": "sleep 60",
}


def command_case(rng: random.Random) -> Case:
    """Let a program write a malformed release, or misbehave."""
    files: Files = {"d.jsonl": jsonl(rows(60))}
    generator = 'kind = "command"\nargv = ["sh", "make.sh", "{train}", "{out}"]\ntimeout = 2'
    release = jsonl([{"text": f"{row['text']} again", "labels": row["labels"]} for row in rows(10)])
    if rng.random() < 0.35:
        how, script = rng.choice(list(PROGRAMS.items()))
    elif rng.random() < 0.2:
        how, script = "spec", 'cp release "$2"'
        generator = setting(rng, generator.encode()).decode("utf-8", "replace")
    else:
        script = 'cp release "$2"'
        how, release = _changed(rng, release, [json_value] * 8 + [json_values, *BYTES])
    files |= {"make.sh": script.encode(), "release": release}
    files["s.toml"] = spec(DATA.format("jsonl", "d.jsonl"), generator)
    return Case(f"command {how}", files, RUN)


def canaries_case(rng: random.Random) -> Case:
    """Change the data that canaries are written into, or an option."""
    drawn = random.Random(1)
    letters = ["bdfgklmnprst", "aeiou", "bdfgklmnprst", "aeiou", "nrst"]
    made = rows(150)
    for row in made:
        words = ["".join(drawn.choice(some) for some in letters) for _ in range(20)]
        row["text"] = " ".join([*words[:10], MARKER, *words[10:]])
    kind = rng.choice(["jsonl", "csv", "tsv", "parquet", "arrow", "txt", "jsonl.gz"])
    argv = ["canaries", "--data", f"d.{kind}", "--out", "out", "--size", "6", "--words", "8"]
    data = _written(made, kind)
    if rng.random() < 0.3:
        option, values = rng.choice(list(CANARY_OPTIONS.items()))
        how, argv = option, [*argv, option, rng.choice(values)]
    else:
        how, data = _changed_file(rng, made, data, kind)
    return Case(f"canaries {how}", {f"d.{kind}": data}, argv)


CANARY_OPTIONS = {
    "--text": ["id", "labels", "group", "nothing", ""],
    "--id": ["text", "labels", "age", "nothing"],
    "--labels": ["text", "id", "site", "age"],
    "--size": ["1", "0", "99999999999", "9" * 5000, "x"],
    "--words": ["1", "1000", "9" * 30],
    "--prefix": ["nan", "-1", "1", "0", "1e999"],
    "--seed": ["-1", "9" * 30, "x"],
    "--auxiliary": ["/dev/zero", ".", "nothing.jsonl", "x" * 5000],
    "--out": ["/dev/null", "/dev/null/x", "/proc/none", "x" * 300, "."],
}


def packed(unit: bytes, size: int) -> Late:
    """Return a gzip file that unpacks to `size` bytes of one repeated unit.

    A gzip file may have many members, each of which is unpacked after the other.
    """
    block = unit * (20 * MB // len(unit))
    return Late(lambda: gzip.compress(block, 1, mtime=0) * (size // len(block)))


SLOW = ("lines.jsonl.gz", "empty lines.jsonl.gz", "tiny lines.jsonl.gz")
"""Read up to the limit on records: seconds of work, so once each."""


def large_cases() -> Iterator[Case]:
    """Yield files that are larger than they look, or endless."""
    own = sides()
    line = b'{"text": "' + b"a" * 90 + b'"}\n'
    bombs: dict[str, Content] = {
        "zeros.jsonl.gz": packed(bytes(1000), 3000 * MB),
        "lines.jsonl.gz": packed(line, 1500 * MB),
        "empty lines.jsonl.gz": packed(b"\n", 900 * MB),
        "tiny lines.jsonl.gz": packed(b'{"text":"a"}\n', 600 * MB),
        "quoted.csv.gz": packed(b'text\n"' + b"a\n" * 500, 1500 * MB),
        "commas.csv.gz": packed(b"," * 1000, 1500 * MB),
        "long line.jsonl": Late(lambda: b'{"text": "' + b"word " * (20 * MB) + b'"}\n'),
        "long cell.csv": Late(lambda: b'text\n"' + b"word " * (20 * MB) + b'"\n'),
        "long text.txt": Late(lambda: b"word " * (20 * MB)),
        "sparse.jsonl": Sparse(3000 * MB),
        "sparse.csv": Sparse(3000 * MB),
        "sparse.parquet": Sparse(3000 * MB),
        "sparse small.jsonl": Sparse(400 * MB),
        "device.jsonl": Link("/dev/zero"),
        "device.parquet": Link("/dev/urandom"),
        "pipe.jsonl": Pipe(),
        "pipe.csv.gz": Pipe(),
        "loop.jsonl": Link("loop.jsonl"),
        "repeated.parquet": Late(_repeated),
        "rows.parquet": Late(_many_rows),
        **{f"{name}.arrow": Late(partial(_packed_table, name, "arrow")) for name in UNPACKED},
        **{f"{name}.parquet": Late(partial(_packed_table, name, "parquet")) for name in UNPACKED},
    }
    for name, content in bombs.items():
        kind = {"jsonl": "jsonl", "csv": "csv", "parquet": "parquet", "txt": "csv"}.get(
            name.removesuffix(".gz").rpartition(".")[2]
        )
        if kind is not None:
            corpus = DATA.format(kind, name)
            yield Case(f"large corpus {name}", {name: content, "s.toml": spec(corpus)}, CORPUS)
        files = {"m.jsonl": jsonl(own["members"]), "h.jsonl": jsonl(own["holdout"]), name: content}
        argv = ["check", "--members", "m.jsonl", "--holdout", "h.jsonl", "--release", name]
        argv += ["--out", "out", "--encoder", "hashing", "--workers", "1", "-q"]
        if name not in SLOW:
            yield Case(f"large release {name}", files, argv)
    for key in ("instances", "rounds", "candidates", "references", "release_size", "records"):
        for value in ("1e8", "100000000", "9000000000000000000"):
            data = spec(DATA.format("jsonl", "d.jsonl")).decode()
            text = "\n".join(
                f"{key} = {value}" if line.startswith(f"{key} ") else line
                for line in data.split("\n")
            )
            files: Files = {"s.toml": text.encode(), "d.jsonl": jsonl(rows(60))}
            yield Case(f"large game {key} = {value}", files, RUN)
    export = dict(exported())
    name = next(name for name in export if "release-inf" in name)
    yield Case("large folder sparse", {**export, name: Sparse(3000 * MB)}, RUN)
    yield Case("large folder device", {**export, name: Link("/dev/zero")}, RUN)
    yield Case("large folder pipe", {**export, name: Pipe()}, RUN)
    yield Case("large folder manifest", {**export, "plan/manifest.json": Sparse(3000 * MB)}, RUN)
    for content in (Sparse(3000 * MB), Link("/dev/zero"), Pipe(), b"x" * (20 * MB)):
        yield Case(f"large spec {type(content).__name__}", {"s.toml": content}, CORPUS)


def _repeated() -> bytes:
    """Return a table that stores a long text once and names it in many rows."""
    import pyarrow as pa

    text = pa.DictionaryArray.from_arrays(
        pa.array([0] * 200_000, pa.int32()), pa.array([f"{MARKER} " * 80_000])
    )
    return packed_table(pa.table({"text": text}), "parquet") or b""


UNPACKED = ("packed", "long", "lists")
"""Tables of some kilobytes: zeros, a text in many rows, and one in a list many times."""


def _packed_table(name: str, kind: str) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def repeated(text: str, count: int) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([text]))

    size = 600 * MB
    ends = pa.array([0, size], pa.int64()).buffers()[1]
    zeros = pa.LargeStringArray.from_buffers(1, ends, pa.py_buffer(bytes(size)))
    columns = {
        "packed": lambda: {"text": zeros},
        "long": lambda: {"text": ["a"] * 300, "x": repeated(f"{MARKER} " * (10 * MB), 300)},
        "lists": lambda: {
            "text": ["a"],
            "x": pa.ListArray.from_arrays([0, 100_000], repeated(f"{MARKER} " * 100_000, 100_000)),
        },
    }
    sink = io.BytesIO()
    table = pa.table(columns[name]())
    if kind == "parquet":
        pq.write_table(table, sink, compression="zstd", store_schema=False)
    else:
        packed = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(sink, table.schema, options=packed) as file:
            file.write_table(table)
    return sink.getvalue()


def _many_rows() -> bytes:
    import pyarrow as pa

    return packed_table(pa.table({"text": pa.array(["a"] * 6_000_000)}), "parquet") or b""


# fmt: off
NAMES = [
    "my notes", "naïve café", "病歴", 'a"b', "a'b\nc\td", "-rf", "=1+1;$x`y`%20", ".hidden",
    "\x1b[2J", "[x]{y}#1", "a" * 240,
]
# fmt: on


def name_cases() -> Iterator[Case]:
    """Yield valid files under any name that the system accepts: each command must succeed."""
    own = sides()
    for name in NAMES:
        text = json.dumps(f"{name}.jsonl", ensure_ascii=True).replace("\\u007f", "\\u007F")
        files: Files = {
            f"{name}.jsonl": jsonl(rows(60)),
            "s.toml": spec(f'reader = "jsonl"\npath = {text}'),
        }
        yield Case(f"name corpus {name!r}", files, RUN, valid=True)
        files = {
            "m.jsonl": jsonl(own["members"]),
            "h.jsonl": jsonl(own["holdout"]),
            f"{name}.jsonl": jsonl(own["release"]),
        }
        argv = ["check", "--members=m.jsonl", "--holdout=h.jsonl", f"--release={name}.jsonl"]
        argv += ["--random-split", "--out=out", "--encoder=hashing", "--workers=1", "-q"]
        yield Case(f"name release {name!r}", files, argv, valid=True)


Surface = tuple[Callable[[random.Random], Case], float]
SURFACES: list[Surface] = [
    *((reader_case, 0.44), (spec_case, 0.18), (check_case, 0.1)),
    *((folder_case, 0.06), (kit_case, 0.02)),
    *((command_case, 0.05), (canaries_case, 0.04), (predicate_case, 0.06), (plugin_case, 0.05)),
]


def cases(seed: int, count: int, only: str = "", more: Sequence[Surface] = ()) -> Iterator[Case]:
    """Yield `count` cases, the same for the same seed: odd names and sizes, then changes."""
    made = 0
    for case in itertools.chain(name_cases(), large_cases()):
        if made < count and case.name.startswith(only):
            made += 1
            yield case
    makers, weights = zip(*SURFACES, *more, strict=True)
    number = 0
    while made < count:
        rng = random.Random(f"{seed} {number}")
        number += 1
        case = rng.choices(makers, weights)[0](rng)
        if case.name.startswith(only):
            made += 1
            yield case
