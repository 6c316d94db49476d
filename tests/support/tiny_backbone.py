"""A tiny random Llama with a tokenizer of words, in a folder, as a backbone for tests."""

from __future__ import annotations

from pathlib import Path

from tokenizers import processors

from synthleak.corpus import Record
from synthleak.releases import Public, Request
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, shared_backbone
from synthleak.releases.release import public_side
from synthleak.selftest.tiny_backbone import tiny_model

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
    tokenizer, model = tiny_model(
        ["\n", *WORDS, ":", "."], special=["<user>", "<bot>"], layers=layers, context=context
    )
    if bos:
        tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="<user> $A <bot>", special_tokens=[("<user>", 3), ("<bot>", 4)]
        )
    if chat:
        tokenizer.chat_template = CHAT
    model.save_pretrained(folder)
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
