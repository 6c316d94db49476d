"""The run folder: resolved spec, manifest, store and results, and whose they are.

`store/` serves any spec; `results/` belongs to one. A changed spec on an old folder is refused
unless the folder is to be extended (design/identity.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import synthleak
from synthleak.audit.setup import Setup, identity_of
from synthleak.core.errors import StoreError, UserError
from synthleak.core.identity import digest, plain
from synthleak.core.registry import Plugin
from synthleak.core.spec import LoadedSpec, load_spec
from synthleak.core.store import FolderStore, cannot_write, write_whole
from synthleak.core.toml import dump_toml

SPEC = "spec.toml"
MANIFEST = "manifest.json"
STORE = "store"
RESULTS = "results"
REPORT = "report.html"
CONFIDENTIAL = "report-confidential.html"


@dataclass(frozen=True)
class RunFolder:
    """One run folder on disk."""

    root: Path

    @property
    def store(self) -> FolderStore:
        """The store of the folder."""
        return FolderStore(self.root / STORE)

    @property
    def results(self) -> Path:
        """Where the tables lie."""
        return self.root / RESULTS

    def manifest(self) -> dict[str, Any] | None:
        """Return the manifest, or None if no audit was started here."""
        path = self.root / MANIFEST
        if not path.is_file():
            return None
        try:
            content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise StoreError(
                "the manifest is damaged", str(path), "choose another folder"
            ) from None
        return content

    def spec(self) -> LoadedSpec:
        """Return the spec that this folder belongs to."""
        if self.manifest() is None:
            raise UserError("not a run folder", str(self.root), "name one made by `run`")
        return load_spec(self.root / SPEC)

    def admit(self, setup: Setup, *, extend: bool) -> list[str] | None:
        """Return what is new in an audit: None if the folder is already this audit's own."""
        before = self.manifest()
        if before is None:
            if self.root.is_dir() and any(self.root.iterdir()):
                raise StoreError(
                    "the folder is not empty and holds no audit",
                    str(self.root),
                    "choose another folder",
                )
            return []
        if before["key"] == digest(identity_of(setup)):
            return None
        news = changes(before["identity"], setup)
        if not extend:
            raise StoreError(
                f"the folder belongs to another spec ({'; '.join(news)})",
                str(self.root),
                "add --extend to go on in it, or choose another folder",
            )
        return news

    def begin(self, setup: Setup, *, new: bool) -> None:
        """Say whose folder this is, before anything else is put into it.

        The manifest comes first: a folder without one is somebody else's. If the spec did not
        follow, because the disk was full or the machine stopped, it is written the next time.
        """
        if new:
            self._write_manifest(setup, findings=None, files=[])
        text = dump_toml(resolved(setup))
        path = self.root / SPEC
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            self.write(SPEC, text)

    def finish(
        self, setup: Setup, findings: str, files: Mapping[str, bytes], *, seconds: float
    ) -> None:
        """Write the results, and last the manifest that says that they are whole."""
        for name, data in files.items():
            self.write(name, data)
        made = datetime.now(UTC).isoformat(timespec="seconds")
        self._write_manifest(
            setup, findings=findings, files=sorted(files), made=made, seconds=round(seconds, 1)
        )

    def holds(self, findings: str) -> bool:
        """Say whether the results are there and made from this evidence."""
        manifest = self.manifest()
        return (
            manifest is not None
            and manifest["findings"] == findings
            and all((self.root / name).is_file() for name in manifest["files"])
        )

    def _write_manifest(self, setup: Setup, **facts: Any) -> None:
        identity = identity_of(setup)
        content = {
            "synthleak": synthleak.__version__,
            "key": digest(identity),
            **facts,
            "identity": plain(identity),
        }
        self.write(MANIFEST, json.dumps(content, indent=1) + "\n")

    def write(self, name: str, text: str | bytes) -> None:
        """Write one file of the folder, whole."""
        path = self.root / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text if isinstance(text, bytes) else text.encode())
        except OSError as error:
            raise cannot_write(path, error) from None


def changes(old: Mapping[str, Any], setup: Setup) -> list[str]:
    """Say in a few words what differs between a folder's identity and a new audit's."""
    new: dict[str, Any] = plain(identity_of(setup))
    found: list[str] = []
    for key, now in new.items():
        was = old.get(key, {})
        if was == now:
            continue
        if key in ("pools", "generators", "families", "priors"):
            found += [f"{key[:-1]} {name} is new" for name in now if name not in was]
            found += [f"{key[:-1]} {name} is gone" for name in was if name not in now]
            for name in now:
                if name in was and was[name] != now[name]:
                    found += _differences(f"{name}.", was[name], now[name])
        elif key == "corpus" and was.get("name") == now["name"]:
            found.append("the records of the corpus have changed")
        elif isinstance(now, dict):
            found += _differences(f"{key}.", was, now)
        else:
            found.append(f"{key} was {was}, is {now}")
    return found


def _differences(prefix: str, was: Any, now: Any) -> list[str]:
    if not isinstance(was, dict) or not isinstance(now, dict):
        return [f"{prefix.rstrip('.')} was {was}, is {now}"]
    return [
        f"{prefix}{key} was {was.get(key)}, is {now.get(key)}"
        for key in {**was, **now}
        if was.get(key) != now.get(key)
    ]


def resolved(setup: Setup) -> dict[str, Any]:
    """Return the spec with every default written out, so that the folder explains itself."""
    spec, plugins = setup.spec, setup.plugins
    return {
        "seed": spec.seed,
        "plugins": [file.path.resolve() for file in setup.files] or None,
        "corpus": {
            "reader": spec.corpus.reader,
            "name": setup.corpus.name,
            "description": spec.corpus.description,
            **settings_of(plugins.reader),
        },
        "encoders": {
            "pools": {"kind": plugins.pool_encoder.kind, **settings_of(plugins.pool_encoder)},
            "evidence": {"kind": plugins.encoder.kind, **settings_of(plugins.encoder)},
        },
        "pool": [
            {"name": order.name, "rule": order.rule.kind, **settings_of(order.rule)}
            for order in plugins.orders
        ],
        "game": spec.game.model_dump(),
        "generator": [
            {
                "name": section.name,
                "kind": section.kind,
                "epsilon": list(section.epsilon),
                "delta": section.delta,
                "label_prior": section.label_prior,
                **settings_of(generator),
            }
            for section, generator in plugins.generators
        ],
        "evidence": {"families": [member.name for member in plugins.families]},
        "prior": [{"kind": attack.kind, **attack.model_dump()} for attack in plugins.attacks],
        "analyses": {"also": list(spec.analyses.also)},
    }


def settings_of(plugin: Plugin) -> dict[str, Any]:
    """Return the settings of a plug-in: paths hold from any folder, plug-ins within by kind."""

    def spelled(key: str, value: Any) -> Any:
        within = getattr(plugin, key)
        if isinstance(within, Plugin):
            return {"kind": within.kind, **settings_of(within)}
        return absolute(value)

    def absolute(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [absolute(item) for item in value]
        return value.resolve() if isinstance(value, Path) else value

    return {key: spelled(key, value) for key, value in plugin.model_dump().items()}
