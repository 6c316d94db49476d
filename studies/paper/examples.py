"""Print texts of every cell, what share of them is odd, and what the releases are good for.

usage: python examples.py RUN-FOLDER
"""

from __future__ import annotations

import re
import sys
from dataclasses import asdict

from synthleak.analyses.cells import Cell
from synthleak.audit.result import Audit, open_run
from synthleak.audit.steps.releases import request_for
from synthleak.core.errors import UserError
from synthleak.core.seeds import stream

RELEASES = 6
TASK = re.compile(
    r"(?i)\b(rephras|paraphras|rewrit|rewrot|revised|piece of writing|original (text|comment)"
    r"|here'?s (a|the|my|your)|here is (a|the)|happy to (help|assist)"
    r"|(this|the|your) (text|sentence)|language model|an? ai\b|chatbot)"
)


def shares(audit: Audit, cell: Cell) -> dict[str, float]:
    """Return shares of the texts of a cell's first releases."""
    found: list[tuple[bool, ...]] = []
    for number in range(RELEASES):
        item = audit.setup.plans[cell.pool].sets[number]
        private = {record.text for record in request_for(audit.setup, cell, item).records}
        for record in audit.release(cell, number):
            words = set(re.findall(r"\w+", record.text.lower()))
            found.append(
                (
                    not words,
                    bool(TASK.search(record.text)),
                    bool(words) and words <= {"and", *" ".join(record.labels).lower().split()},
                    bool(re.search(r"\[(insert|user)", record.text.lower())),
                    bool(re.search(r"[\w,]$", record.text)),
                    record.text in private,
                )
            )
    names = (
        *("no word", "of the task", "label alone", "a blank", "no end mark"),
        "a private text verbatim",
    )
    return {name: sum(row[n] for row in found) / len(found) for n, name in enumerate(names)}


def main() -> None:
    """Print the examples and shares of the run folder that is named."""
    if len(sys.argv) != 2:
        print("usage: python examples.py RUN-FOLDER", file=sys.stderr)
        sys.exit(2)
    try:
        audit = open_run(sys.argv[1])
    except UserError as error:
        print(f"examples.py: {error}", file=sys.stderr)
        sys.exit(2)
    for cell in audit.setup.cells:
        release = audit.release(cell, 0)
        print(f"\n{cell.generator}, ε = {cell.epsilon:g}")
        for place in stream(0, "examples").choice(len(release), 12, replace=False):
            print(f"  [{', '.join(release[place].labels)}] {release[place].text}")
        print(
            "  " + ", ".join(f"{name} {share:.2%}" for name, share in shares(audit, cell).items())
        )
    for row in audit.tables["utility"][1]:
        print()
        for name, value in asdict(row).items():
            print(
                f"{name:20} {value if isinstance(value, str) or value is None else f'{value:.3f}'}"
            )


if __name__ == "__main__":
    main()
