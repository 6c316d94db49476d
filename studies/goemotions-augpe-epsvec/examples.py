"""Print some texts of the first release of every cell, and what the releases are good for.

usage: python examples.py RUN-FOLDER
"""

from __future__ import annotations

import sys
from dataclasses import asdict

from synthleak.findings import open_run
from synthleak.seeds import stream

audit = open_run(sys.argv[1])
for cell in audit.bench.cells:
    release = audit.release(cell, 0)
    print(f"\n{cell.generator}, ε = {cell.epsilon:g}")
    for place in stream(0, "examples").choice(len(release), 12, replace=False):
        print(f"  [{', '.join(release[place].labels)}] {release[place].text}")
for row in audit.utility:
    print()
    for name, value in asdict(row).items():
        print(f"{name:20} {value if isinstance(value, str) or value is None else f'{value:.3f}'}")
