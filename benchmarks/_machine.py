"""What times depend on besides the code."""

from __future__ import annotations

import platform
import re
from pathlib import Path


def processor(file: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the host's processor."""
    try:
        names = re.findall(r"^model name\s*:\s*(.+)$", file.read_text("utf-8"), re.MULTILINE)
    except OSError:
        names = []
    return names[0].strip() if names else platform.processor() or platform.machine()
