"""Run the notebooks in docs/notebooks, each in an empty folder, and keep what they print."""

from __future__ import annotations

import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parent / "notebooks"


def executed(path: Path) -> nbformat.NotebookNode:
    """Return a notebook with the outputs of today; a cell that fails raises."""
    made = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            made, timeout=300, record_timing=False, resources={"metadata": {"path": folder}}
        )
        client.execute()
    made.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return made


if __name__ == "__main__":
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        nbformat.write(executed(path), path)
