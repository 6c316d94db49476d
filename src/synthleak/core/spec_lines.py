"""The lines of a spec file: an error names the one that sets its key."""

from __future__ import annotations

import re
from pathlib import Path

from synthleak.core.errors import SpecError


def point(error: SpecError, path: Path | None, text: str) -> SpecError:
    """Return the error with the line of the file that sets its key."""
    if path is None or error.where is None or error.where.startswith(str(path)):
        return error
    line = _line_of(error.where, text)
    place = f"{path}, line {line}" if line else str(path)
    return type(error)(error.what, f"{place}, {error.where}", error.remedy)


def _line_of(key: str, text: str) -> int | None:
    """Find the line that sets `key` (such as ``generator[1].epsilon[0]``), or its table."""
    wanted = re.match(r"([\w-]+)(?:\[(\d+)\])?", key)
    if wanted is None:
        return None
    section, index = wanted[1], int(wanted[2] or 0)
    path = re.findall(r"\.([\w-]+)", key)
    found, depth, seen = None, -1, -1
    table: list[str] | None = []  # that a line is in, by its path; none if it is another section's
    for number, line in enumerate(text.splitlines(), start=1):
        title = re.match(r"\s*\[+\s*([\w.-]+)\s*\]+\s*(#.*)?$", line)
        setting = re.match(r"\s*([\w-]+)\s*=", line)
        if title:
            table = title[1].split(".")
            if table[0] == section and (len(table) == 1 or seen < 0):
                seen += 1
            if table[0] != section or seen != index:
                table = None
        if table is None or not (title or setting):
            continue
        place = table if title or not setting else [*table, setting[1]]
        if place == [section, *path][: len(place)] and len(place) > depth:
            found, depth = number, len(place)
    return found
