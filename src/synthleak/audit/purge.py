"""`synthleak purge`: remove private text and releases from a run folder; the results stay.

What is left can still be verified: headers of releases hold the hash of their texts and the claim,
and tables follow from evidence, which holds numbers alone (docs/security.md).
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from synthleak.audit.folder import CONFIDENTIAL, FAILED, PAGES, STORE, RunFolder
from synthleak.core.locations import Location, local
from synthleak.core.private_files import PRIVATE, working_in
from synthleak.core.store import FolderStore, is_artefact
from synthleak.core.whole_files import cannot_write, refuse_links

REMOVED = {
    "releases": f"{STORE}/text",
    "answers of language models": f"{STORE}/answers",
    "vectors of texts": f"{STORE}/vectors",
    "pools with canaries": f"{STORE}/written",
    "report with texts": CONFIDENTIAL,
    "input of failed programs": FAILED,
    "private temporary files": PRIVATE,
}
"""What a purge removes, and where it lies: texts, and vectors, from which texts can be guessed."""


@dataclass(frozen=True)
class Removed:
    """One kind of file that a purge removes."""

    what: str
    where: str
    files: int
    bytes: int


def _folder(out: Location | str) -> Path:
    removed = ", ".join(where for where in REMOVED.values() if where != PRIVATE)
    return local(out, "purge", f"delete {removed} with the bucket's own tools")


def removable(out: Location | str) -> list[Removed]:
    """List what a purge of this run folder would remove. Nothing is written."""
    root = _folder(out)
    manifest = RunFolder(root).begun()
    kinds = []
    pages = [("report with texts", name) for name in manifest.get(PAGES, ())]
    for what, where in [*REMOVED.items(), *pages]:
        sizes = [size for path in _files(root, where) if (size := _size(path)) is not None]
        if sizes:
            kinds.append(Removed(what, where, len(sizes), sum(sizes)))
    return kinds


def _files(root: Path, where: str) -> list[Path]:
    """Return the files of one kind, and no others that lie beside them; a link is refused."""
    refuse_links(root / where, root)
    if where.startswith(f"{STORE}/"):
        store = FolderStore(root / STORE)
        paths = [store.root / n for n in store.list(f"{Path(where).name}/") if is_artefact(n)]
    else:
        walked = os.walk(root / where)
        paths = [root / where, *(Path(at, name) for at, _, names in walked for name in names)]
    for path in paths if where != PRIVATE else ():  # programs may have left links there
        refuse_links(path, root)
    return paths


def _size(path: Path) -> int | None:
    """Return the bytes of a file, or none if it is not one, or has just gone."""
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def purge(out: Location | str, *, wait: bool = False) -> list[Removed]:
    """Remove texts, releases and vectors from a run folder, and return what was removed.

    The manifest says so first: a purge that was interrupted is finished by the next one.
    """
    root = _folder(out)
    left = [item for item in removable(out) if item.where == PRIVATE]  # holding it removes these
    with working_in(root, wait=wait):
        removed = [item for item in removable(out) if item.where != PRIVATE]
        if removed:
            kinds = tuple(f"{where.removeprefix(f'{STORE}/')}/" for where in REMOVED.values())
            counts: Counter[str] = Counter()
            for item in removed:
                counts[item.what] += item.files
            RunFolder(root).note_purge(counts, kinds)
        try:
            for item in removed:
                paths = [path for path in _files(root, item.where) if not path.is_dir()]
                for path in paths:
                    path.unlink()
                for folder in sorted({root / item.where, *(p.parent for p in paths)}, reverse=True):
                    with suppress(OSError):  # somebody else's files may lie there
                        folder.rmdir()
        except OSError as error:
            raise cannot_write(root, error) from None
    return [*removed, *left]
