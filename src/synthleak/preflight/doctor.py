"""Packages, cores, memory, disk and devices of this machine: `synthleak doctor`."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

import synthleak
from synthleak.core.registry import installed
from synthleak.core.runtime import available_cores

GIB = 2**30
STATES = ("ok", "wrong version", "missing")
"""Of a package, and of an extra that needs several: the worst of theirs."""
Row = dict[str, Any]


def examine(folder: Path) -> dict[str, Any]:
    """Return everything about this machine; `folder` is where runs would be kept."""
    return {
        "synthleak": synthleak.__version__,
        "machine": machine(folder),
        "device": device(),
        "packages": packages(),
        "extras": extras(),
        "plugins": plugins(),
    }


def machine(folder: Path) -> Row:
    memory = available_memory()
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": available_cores(),
        "memory_gib": None if memory is None else round(memory / GIB, 1),
        "disk_free_gib": round(shutil.disk_usage(folder).free / GIB, 1),
    }


def available_memory() -> int | None:
    """Return the memory limit in bytes: that of the machine, or of the control group."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(name).read_text(encoding="ascii")))
        except (OSError, ValueError):
            continue
    return total


def peak_memory() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def device() -> Row:
    """Return the device for language models; torch is imported only if it is installed."""
    if importlib.util.find_spec("torch") is None:
        note = "torch is not installed; generators that use language models need it"
        return _device("cpu", note, remedy="pip install torch")
    import torch

    if torch.cuda.is_available():
        facts = torch.cuda.get_device_properties(0)
        more = torch.cuda.device_count() - 1
        note = f"torch {torch.__version__}" + (f", and {more} more like it" if more else "")
        memory = round(facts.total_memory / GIB, 1)
        return _device("cuda", note, name=facts.name, memory_gib=memory)
    return _device("cpu", f"torch {torch.__version__} sees no GPU")


def _device(kind: str, note: str, **more: Any) -> Row:
    return {"device": kind, "name": "", "memory_gib": None, "note": note, "remedy": "", **more}


def packages() -> list[Row]:
    return [_package(wanted) for extra, wanted in _requirements() if extra is None]


def extras() -> list[Row]:
    groups: dict[str, list[Row]] = {}
    for extra, wanted in _requirements():
        if extra is not None:
            groups.setdefault(extra, []).append(_package(wanted))
    return [
        {
            "extra": name,
            "packages": ", ".join(f"{row['package']} {row['version']}".strip() for row in rows),
            "state": (state := max((row["state"] for row in rows), key=STATES.index)),
            "remedy": "" if state == "ok" else f"pip install 'synthleak[{name}]'",
        }
        for name, rows in sorted(groups.items())
    ]


def _requirements() -> Iterator[tuple[str | None, Requirement]]:
    """Yield the requirements of synthleak that apply to this system, each with its extra.

    The extra is the one that makes the requirement's marker true.
    """
    extras = metadata("synthleak").get_all("Provides-Extra") or []
    for line in requires("synthleak") or []:
        wanted = Requirement(line)
        for extra in (None, *extras):
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra or ""}):
                yield extra, wanted
                break


def plugins() -> list[Row]:
    """Return the plug-ins that other packages announce, and whether they can be loaded."""
    rows = []
    for point in installed():
        owner = point.dist.name if point.dist else "?"
        try:
            point.load()
            state, remedy = "ok", ""
        except Exception as error:
            state = f"cannot be loaded ({type(error).__name__}: {error})"
            remedy = f"update it, or pip uninstall {owner}"
        rows.append({"plug-in": point.name, "package": owner, "state": state, "remedy": remedy})
    return rows


def _package(wanted: Requirement) -> Row:
    try:
        present = version(wanted.name)
    except PackageNotFoundError:
        present = ""
    fits = wanted.specifier.contains(present, prereleases=True) if present else False
    state = "ok" if fits else "wrong version" if present else "missing"
    return {
        "package": wanted.name,
        "version": present,
        "wanted": str(wanted.specifier),
        "state": state,
        "remedy": "" if fits else f"pip install '{wanted.name}{wanted.specifier}'",
    }
