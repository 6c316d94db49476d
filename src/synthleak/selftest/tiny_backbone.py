"""A tiny causal language model with random weights, for audits and tests on a CPU.

It needs the extra `llm`: import this module only where a model is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

MARKS = ("<pad>", "<unk>", "<end>")


def tiny_model(
    words: Sequence[str],
    *,
    special: Sequence[str] = (),
    hidden: int = 16,
    layers: int = 1,
    context: int = 512,
) -> tuple[Any, Any]:
    """Return a tokenizer of words, split at spaces, and a Llama whose weights are always the same.

    `special` are further marks of the tokenizer.
    """
    vocabulary = {word: n for n, word in enumerate(dict.fromkeys([*MARKS, *special, *words]))}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw,
        unk_token="<unk>",
        eos_token="<end>",
        pad_token="<pad>",
        additional_special_tokens=list(special),
    )
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden,
        intermediate_size=hidden * 3 // 2,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        eos_token_id=MARKS.index("<end>"),
        bos_token_id=MARKS.index("<pad>"),
        pad_token_id=MARKS.index("<pad>"),
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return tokenizer, transformers.LlamaForCausalLM(config)
