"""Turn the published files of the four public corpora into `data/`, and check what lies there.

    data.py dmsafn all-data.csv                  Financial PhraseBank
    data.py goemotions FOLDER                    GoEmotions: dev.tsv and emotions.txt
    data.py mts_dialog FOLDER                    MTS-Dialog: the four CSV files of its main data set
    data.py eurlex FOLDER --folding DOMAINS      EURLEX57K, and the EuroVoc domains of its concepts
    data.py single                               of EUR-Lex laws equal but for numbers, the first
    data.py check                                compare what lies in data/ with the study's files

Each writes `data/NAME.jsonl.gz`, a record a line with `id`, `text` and `labels`, and compares its
lines with the study's by a checksum: exit status 1 says that they are others. `DOMAINS` is a CSV
file with the columns concept and label, or a JSON object of the same, the label in capitals as
EuroVoc prints it. The corpora's licences forbid that the texts are kept here (README.md).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from synthleak.core.errors import UserError
from synthleak.corpus.corpus import Record
from synthleak.paper.readers.published import Dmsafn, Eurlex57k

HERE = Path(__file__).parent
SHA256 = {
    "dmsafn": "416f5ad5b07f60041c910844a70e8da60a3154a3350d858b7a6e13f66988b891",
    "goemotions": "f37108e67165f3bb4a835b1850b375cddbcd09123bf64f8dd212b333f93efe02",
    "eurlex": "6f72b36ceefec8b5469d5b29df0dde6b094703a8d15c933d42b85c57290e3661",
    "mts_dialog": "ed09747f27c9d79d00b513810cd667dc7249952aec18c6342cb5a84b24460e2c",
}
"""Of the lines of each file, not of what gzip makes of them."""
MOST_WORDS = 214
DOMAINS = (
    *("AGRI-FOODSTUFFS", "FINANCE", "AGRICULTURE, FORESTRY AND FISHERIES", "GEOGRAPHY"),
    *("EUROPEAN UNION", "TRADE", "EMPLOYMENT AND WORKING CONDITIONS", "INTERNATIONAL RELATIONS"),
)
"""The eight that short laws are most often of."""
PARTS = {"tr": "TrainingSet", "va": "ValidationSet", "t1": "TestSet-1", "t2": "TestSet-2"}


def dmsafn(path: Path) -> Iterator[Record]:
    """Yield 80% of the sentences: those that scikit-learn's `train_test_split`, seed 42, trains on.

    It permutes the rows with NumPy's legacy generator and takes the test part first.
    """
    rows = list(Dmsafn(path=path).read_all())
    order = np.random.RandomState(42).permutation(len(rows))
    for place in order[-(-len(rows) // 5) :]:
        yield Record(f"fpb-{place:04d}", rows[place].text, rows[place].labels)


def goemotions(folder: Path) -> Iterator[Record]:
    """Yield the comments of the dev part, their emotions by name."""
    names = _text(folder / "emotions.txt").split()
    path = folder / "dev.tsv"
    for number, line in enumerate(_text(path).rstrip("\n").split("\n"), start=1):
        try:
            text, labels, name = line.split("\t")
            yield Record(name, text, tuple(names[int(label)] for label in labels.split(",")))
        except (ValueError, IndexError):
            where = f"{path}, line {number}"
            raise UserError("not a text, numbers of emotions and an id", where) from None


def mts_dialog(folder: Path) -> Iterator[Record]:
    """Yield the dialogues of all parts, labelled with the section of the note that they fill."""
    for short, part in PARTS.items():
        files = sorted(folder.rglob(f"*{part}*.csv"))
        if len(files) != 1:
            raise UserError(f"{len(files)} files are named *{part}*.csv", str(folder), "give one")
        with files[0].open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                if not {"ID", "section_header", "dialogue"} <= {k for k, v in row.items() if v}:
                    where = f"{files[0]}, row {row.get('ID') or '?'}"
                    raise UserError("ID, section_header or dialogue is missing", where)
                label = row["section_header"].strip().lower()
                yield Record(f"mtsd-{short}-{row['ID']}", row["dialogue"].strip(), (label,))


def eurlex(folder: Path, folding: Path, ids: Sequence[str]) -> Iterator[Record]:
    """Yield the laws of the study in its order, with those of the eight domains that they are of.

    They were drawn at random from the laws of at most 214 words whose texts differ, so their
    numbers are kept.
    """
    reader = Eurlex57k(path=folder, parts=("header", "recitals", "main_body"), folding=folding)
    laws = {law.id: law for law in reader.read_all()}
    if missing := [name for name in ids if name not in laws]:
        raise UserError(
            f"{len(missing)} laws of the study are not there or have no domain, e.g. {missing[0]}",
            str(folder),
            "name the folder that holds train, dev and test",
        )
    for name in ids:
        law = laws[name]
        if len(law.text.split()) > MOST_WORDS:
            raise UserError(
                f"{name} has more than {MOST_WORDS} words", str(folder), "fetch it again"
            )
        yield Record(name, law.text, tuple(label for label in law.labels if label in DOMAINS))


def single(args: argparse.Namespace) -> bool:
    """Write the laws of `data/eurlex.jsonl.gz` of which no earlier one differs in numbers alone."""
    path = args.to / "eurlex.jsonl.gz"
    if not path.is_file():
        raise UserError("the file is missing", str(path), "make it with `data.py eurlex` first")
    kept: dict[str, str] = {}
    for line in gzip.decompress(path.read_bytes()).decode().rstrip("\n").split("\n"):
        kept.setdefault(re.sub(r"\d+", "0", json.loads(line)["text"]), line)
    lines = "".join(line + "\n" for line in kept.values()).encode()
    (args.to / "eurlex-single.jsonl.gz").write_bytes(gzip.compress(lines, mtime=0))
    print(f"eurlex-single: {len(kept)} laws")
    return True


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot be read ({error})", str(path)) from None


def lines_of(records: Iterator[Record]) -> bytes:
    """Return records as the study's files hold them."""
    rows = ({"id": r.id, "text": r.text, "labels": list(r.labels)} for r in records)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def is_study(name: str, lines: bytes) -> bool:
    """Say whether these are the lines of the study's file, and print it."""
    found = hashlib.sha256(lines).hexdigest()
    same = found == SHA256[name]
    verdict = (
        "the study's file" if same else f"NOT the study's file, whose SHA-256 is {SHA256[name]}"
    )
    count = lines.count(b"\n")
    print(f"{name}: {count} records, SHA-256 {found}: {verdict}")
    return same


def write(args: argparse.Namespace) -> bool:
    """Write the corpus that the command names, and say whether it is the study's."""
    name, records = args.corpus, READERS[args.corpus]
    if name == "eurlex":
        given = records(args.published, args.folding, _text(args.ids).split())
    else:
        given = records(args.published)
    lines = lines_of(given)
    args.to.mkdir(parents=True, exist_ok=True)
    (args.to / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines, mtime=0))
    return is_study(name, lines)


def check(args: argparse.Namespace) -> bool:
    """Compare every file of `data/`."""
    same = True
    for name in SHA256:
        path = args.to / f"{name}.jsonl.gz"
        if path.is_file():
            same &= is_study(name, gzip.decompress(path.read_bytes()))
        else:
            print(f"{name}: not in {args.to}")
            same = False
    return same


READERS: dict[str, Callable[..., Iterator[Record]]] = {
    "dmsafn": dmsafn,
    "goemotions": goemotions,
    "mts_dialog": mts_dialog,
    "eurlex": eurlex,
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=HERE / "data", help="default: data/ beside this")
    steps = parser.add_subparsers(required=True, metavar="CORPUS", dest="corpus")
    for name in READERS:
        step = steps.add_parser(name)
        step.set_defaults(step=write)
        step.add_argument("published", type=Path, help="the file or folder as published")
        if name == "eurlex":
            step.add_argument("--folding", type=Path, required=True)
            step.add_argument("--ids", type=Path, default=HERE / "eurlex_ids.txt")
    steps.add_parser("single").set_defaults(step=single)
    steps.add_parser("check").set_defaults(step=check)
    args = parser.parse_args(argv)
    try:
        same = args.step(args)
    except UserError as error:
        print(f"data.py: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
