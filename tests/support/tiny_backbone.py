"""A tiny random Llama with a tokenizer of words, in a folder, as a backbone for tests."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from synthleak.corpus.corpus import Record
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, shared_backbone
from synthleak.releases.release import Public, Request, public_side

TEXT = (
    "the pill made me sleep all day and my head hurt again i am happy with this doctor who"
    " said it would stop soon but pain came back after lunch so we tried another one today"
)
WORDS = TEXT.split()
CHAT = (
    "{% for m in messages %}<user> {{ m['content'] }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<bot> {% endif %}"
)
DESCRIPTION = "short messages about a pill"


def write_backbone(
    folder: Path, *, chat: bool = True, context: int = 512, bos: bool = False, layers: int = 4
) -> str:
    """Write model and tokenizer into a folder, and return its name.

    With `bos` the tokenizer begins every text with `<user>` and ends it with `<bot>`.
    """
    marks = ["<pad>", "<unk>", "<end>", "<user>", "<bot>", "\n"]
    vocabulary = {word: n for n, word in enumerate([*marks, *dict.fromkeys(WORDS), ":", "."])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    if bos:
        raw.post_processor = processors.TemplateProcessing(
            single="<user> $A <bot>", special_tokens=[("<user>", 3), ("<bot>", 4)]
        )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw,
        unk_token="<unk>",
        eos_token="<end>",
        pad_token="<pad>",
        additional_special_tokens=["<user>", "<bot>"],
    )
    if chat:
        tokenizer.chat_template = CHAT
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        eos_token_id=2,
        bos_token_id=0,
        pad_token_id=0,
        initializer_range=0.3,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def tiny_shared_backbone(folder: str) -> SharedBackbone:
    return shared_backbone(folder, "cpu", "float64")


RECORDS = tuple(
    Record(str(n), " ".join(WORDS[(n * 5) % 20 :][: 4 + n % 6]), labels)
    for n, labels in enumerate([("sleep",), ("pain",), ("sleep",), ("joy", "pain")] * 4)
)


def side_of(records: tuple[Record, ...] = RECORDS) -> Public:
    return public_side(records, {r.labels: 1 for r in records}, description=DESCRIPTION)


def ask(
    epsilon: float = float("inf"),
    *,
    seed: int = 1,
    size: int = 8,
    records: tuple[Record, ...] = RECORDS,
    side: Public | None = None,
    nominal: int = 16,
) -> Request:
    delta = 1 / nominal**2
    return Request(records, nominal, size, epsilon, delta, side or side_of(), seed)
