"""Converted copies of GGUF backbones: the same numbers, and never a damaged or outdated copy."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

gguf = pytest.importorskip("gguf")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from synthleak.releases.lm import backbone  # noqa: E402
from synthleak.releases.lm.backbone import Backbone, depth_of, load_backbone  # noqa: E402

FILE = "tiny.gguf"
LETTERS = list("abcdefghijklmnopqrstuvwxyz.Ġ")
MARKS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WIDTH, HEADS, KV_HEADS, HIDDEN, LAYERS = 64, 4, 2, 96, 2


def write_gguf(path: Path, seed: int = 0) -> None:
    """Write a random Llama with quantised layers and a tokenizer of letters and one merge."""
    writer = gguf.GGUFWriter(str(path), "llama")
    tokens = [*MARKS, *LETTERS, "th"]
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * len(MARKS) + [1] * (len(LETTERS) + 1))
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    rng = np.random.default_rng(seed)

    def add(name: str, *shape: int) -> None:
        values = rng.normal(size=shape).astype(np.float32)
        if len(shape) == 1 or shape[1] % 32:
            writer.add_tensor(name, values)
        else:
            kind = gguf.GGMLQuantizationType.Q4_1
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    add("token_embd.weight", len(tokens), WIDTH)
    add("output_norm.weight", WIDTH)
    narrow = WIDTH // HEADS * KV_HEADS
    for layer in range(LAYERS):
        add(f"blk.{layer}.attn_norm.weight", WIDTH)
        add(f"blk.{layer}.ffn_norm.weight", WIDTH)
        add(f"blk.{layer}.attn_q.weight", WIDTH, WIDTH)
        add(f"blk.{layer}.attn_k.weight", narrow, WIDTH)
        add(f"blk.{layer}.attn_v.weight", narrow, WIDTH)
        add(f"blk.{layer}.attn_output.weight", WIDTH, WIDTH)
        add(f"blk.{layer}.ffn_gate.weight", HIDDEN, WIDTH)
        add(f"blk.{layer}.ffn_up.weight", HIDDEN, WIDTH)
        add(f"blk.{layer}.ffn_down.weight", WIDTH, HIDDEN)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tiny GGUF file that stands for `smollm2`, with an empty cache."""
    path = tmp_path / FILE
    write_gguf(path)
    monkeypatch.setenv(backbone.VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(
        backbone, "_source_of", lambda name, revision: (str(tmp_path), {"gguf_file": FILE})
    )
    yield path
    load_backbone.cache_clear()
    depth_of.cache_clear()


def load(dtype: str = "float32") -> Backbone:
    return load_backbone.__wrapped__("smollm2", "cpu", dtype)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Counts how often a GGUF file is read."""
    files: list[str] = []
    usual = gguf.GGUFReader

    class Reader(usual):  # type: ignore[misc, valid-type]
        def __init__(self, path: Any, *args: Any) -> None:
            files.append(str(path))
            super().__init__(path, *args)

    monkeypatch.setattr(gguf, "GGUFReader", Reader)
    return files


def copies(source: Path) -> list[Path]:
    return sorted((source.parent / "cache" / "backbones").iterdir())


def assert_same(one: Backbone, other: Backbone) -> None:
    mine, yours = one.model.state_dict(), other.model.state_dict()
    assert list(mine) == list(yours)
    for name in mine:
        assert mine[name].dtype == yours[name].dtype
        assert torch.equal(mine[name], yours[name])
    for (name, buffer), (_, its) in zip(
        one.model.named_buffers(), other.model.named_buffers(), strict=True
    ):
        assert torch.equal(buffer, its), name
    tokens = torch.tensor([one.encode("the other path.")])
    assert tokens.tolist() == [other.encode("the other path.")]
    assert torch.equal(one.model(tokens).logits, other.model(tokens).logits)
    serialised = [each.tokenizer.backend_tokenizer.to_str() for each in (one, other)]
    assert serialised[0] == serialised[1]
    assert one.tokenizer.special_tokens_map == other.tokenizer.special_tokens_map
    assert one.tokenizer.chat_template == other.tokenizer.chat_template
    assert (one.end, one.context, one.opening) == (other.end, other.context, other.opening)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_copy_gives_the_same_numbers(source: Path, parsed: list[str], dtype: str) -> None:
    direct = load(dtype)
    assert parsed == [str(source)]
    copied = load(dtype)
    assert parsed == [str(source)]
    assert_same(direct, copied)
    assert [path.name.rpartition("-")[2] for path in copies(source)] == [dtype]


def test_depth_comes_from_the_copy(source: Path, parsed: list[str]) -> None:
    load()
    del parsed[:]
    assert depth_of.__wrapped__("smollm2") == LAYERS
    assert parsed == []


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_damaged_copy_is_replaced(source: Path, parsed: list[str], name: str) -> None:
    direct = load()
    (folder,) = copies(source)
    data = bytearray((folder / name).read_bytes())
    data[-40] ^= 1
    (folder / name).write_bytes(data)
    assert_same(load(), direct)
    assert len(parsed) == 2
    assert_same(load(), direct)
    assert len(parsed) == 2
    assert copies(source) == [folder]


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"made_by": 1}'])
def test_unreadable_contents_are_replaced(source: Path, parsed: list[str], damage: bytes) -> None:
    direct = load()
    (copies(source)[0] / backbone.CONTENTS).write_bytes(damage)
    assert_same(load(), direct)
    assert len(parsed) == 2


def test_copy_by_other_versions_is_replaced(
    source: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load()
    monkeypatch.setattr(backbone, "VERSION", backbone.VERSION + 1)
    load()
    assert len(parsed) == 2
    (folder,) = copies(source)
    assert json.loads((folder / backbone.CONTENTS).read_bytes())["made_by"] == backbone._made_by()


def test_another_file_gets_its_own_copy(source: Path, parsed: list[str]) -> None:
    load()
    write_gguf(source, seed=1)
    changed = load()
    assert len(parsed) == 2
    assert_same(load(), changed)
    assert len(copies(source)) == 2


def test_cache_that_cannot_be_written_keeps_nothing(
    source: Path, parsed: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    (source.parent / "cache").write_text("a file where the folder should be")
    with caplog.at_level(logging.INFO, "synthleak.lm"):
        load()
        load()
    assert len(parsed) == 2
    assert "no converted copy of tiny.gguf was kept" in caplog.text
    assert (source.parent / "cache").is_file()


def test_full_disk_leaves_no_part(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import safetensors.torch

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors.torch, "save_model", full)
    load()
    assert copies(source) == []


def test_packed_tensors_are_not_copied(source: Path) -> None:
    loaded = load()
    copy = backbone.Copy(source, "float16")
    copy.write(loaded.model, loaded.tokenizer)
    assert [path.name.rpartition("-")[2] for path in copies(source)] == ["float32"]


def test_none_switches_copies_off(
    source: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(backbone.VARIABLE, "none")
    load()
    load()
    assert len(parsed) == 2
    assert not (source.parent / "cache").exists()


def test_abandoned_parts_are_removed(source: Path) -> None:
    folder = source.parent / "cache" / "backbones"
    (folder / ".killed.part").mkdir(parents=True)
    (folder / ".busy.part").mkdir()
    os.utime(folder / ".killed.part", (0, 0))
    load()
    assert [path.name for path in copies(source)][:1] == [".busy.part"]
    assert len(copies(source)) == 2


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(backbone.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert backbone.cache_folder() == Path("/caches/synthleak")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert backbone.cache_folder() == Path("/home/someone/.cache/synthleak")
    monkeypatch.setenv(backbone.VARIABLE, "/mine")
    assert backbone.cache_folder() == Path("/mine")
