"""What the author of a generator imports comes from one place, and is light."""

from __future__ import annotations

import subprocess
import sys

NAMES = "Claim, GaussianEvent, Generator, Public, Request, Synthetic, generators"


def test_plugin_names_import_without_torch() -> None:
    code = (
        f"import sys; from synthleak.releases import {NAMES};"
        "print([m for m in ('torch', 'transformers', 'dp_accounting') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
