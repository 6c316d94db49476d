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
    """Find the line that sets `key` (such as ``generator[1].epsilon[0]``), or its section."""
    wanted = re.match(r"(?P<section>\w+)(?:\[(?P<index>\d+)\])?(?:\.(?P<rest>\w+))?", key)
    if wanted is None:
        return None
    section, index = wanted["section"], int(wanted["index"] or 0)
    current, seen, header = "", -1, None
    for number, line in enumerate(text.splitlines(), start=1):
        if title := re.match(r"\s*\[+\s*([\w.]+)\s*\]+", line):
            current = title[1].partition(".")[0]
            seen += current == section
            if current == section and seen == index:
                header = number
        setting = re.match(r"\s*([\w-]+)\s*=", line)
        if setting and not current and setting[1] == section:
            return number
        if setting and current == section and seen == index and setting[1] == wanted["rest"]:
            return number
    return header
