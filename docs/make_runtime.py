"""Make the script that draws figures in a page: Vega, Vega-Lite and the interpreter, in one file.

    python docs/make_runtime.py

Downloads the three packages at the versions below with `npm pack` and joins their published builds
unchanged. The interpreter, which is published as a module only, is wrapped as a function.
"""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from pathlib import Path

VERSIONS = {"vega": "6.4.0", "vega-lite": "6.4.3", "vega-interpreter": "2.3.2"}
BUILDS = {
    "vega": "vega.min.js",
    "vega-lite": "vega-lite.min.js",
    "vega-interpreter": "vega-interpreter.js",
}
RUNTIME = Path(__file__).parents[1] / "src/synthleak/report/figures/runtime"


def fetched(name: str, folder: Path) -> tuple[str, str]:
    """Return the build and the licence of one package."""
    asked = ["npm", "pack", "--silent", f"{name}@{VERSIONS[name]}"]
    made = subprocess.run(asked, cwd=folder, check=True, capture_output=True, text=True)
    with tarfile.open(folder / made.stdout.strip()) as archive:
        return tuple(  # type: ignore[return-value]
            _read(archive, f"package/{path}") for path in (f"build/{BUILDS[name]}", "LICENSE")
        )


def _read(archive: tarfile.TarFile, path: str) -> str:
    member = archive.extractfile(path)
    assert member is not None, path
    return member.read().decode()


def without_maps(script: str) -> str:
    """Drop the line that names a source map: a page must ask for nothing."""
    lines = script.splitlines()
    return "\n".join(line for line in lines if not line.startswith("//# sourceMappingURL"))


def wrapped(module: str) -> str:
    """Turn the interpreter's module into a function's body; what it imports, Vega exports."""
    first, _, rest = module.partition("\n")
    names = first.removeprefix("import ").partition(" from ")[0]
    body = rest.replace("export { expression as expressionInterpreter };", "")
    assert "export" not in body and "import" not in body
    return (
        "(function () {\n"
        f"const {names} = vega;\n{body}\n"
        "globalThis.vegaInterpreter = { expressionInterpreter: expression };\n})();"
    )


def main() -> None:
    """Write `vega.js` and `LICENSE.vega.txt`."""
    with tempfile.TemporaryDirectory() as folder:
        found = {name: fetched(name, Path(folder)) for name in VERSIONS}
    scripts = {name: without_maps(build) for name, (build, _) in found.items()}
    scripts["vega-interpreter"] = wrapped(scripts["vega-interpreter"])
    joined = "\n".join(
        f"/*! {name} {VERSIONS[name]}, BSD-3-Clause, see LICENSE.vega.txt */\n{script}"
        for name, script in scripts.items()
    )
    assert "</script" not in joined.lower()
    (RUNTIME / "vega.js").write_text(joined + "\n", encoding="utf-8")
    notes = [
        f"{name} {VERSIONS[name]}\n\n{licence.strip()}\n" for name, (_, licence) in found.items()
    ]
    head = (
        "vega.js joins the published builds of the packages below. Vega's build carries modules\n"
        "of D3 (ISC, copyright Mike Bostock) and topojson-client (ISC, copyright Mike Bostock).\n"
    )
    (RUNTIME / "LICENSE.vega.txt").write_text("\n\n".join([head, *notes]), encoding="utf-8")


if __name__ == "__main__":
    main()
