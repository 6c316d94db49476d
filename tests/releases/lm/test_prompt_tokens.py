"""Between words and tokens, and which backbones can be asked at all."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tokenizers import processors  # noqa: E402

from support.tiny_backbone import tiny_shared_backbone, write_backbone  # noqa: E402
from synthleak.core.errors import GeneratorError  # noqa: E402
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone  # noqa: E402
from synthleak.releases.lm.text_sampling import PromptTokenizer  # noqa: E402


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> SharedBackbone:
    return tiny_shared_backbone(write_backbone(tmp_path_factory.mktemp("backbone")))


def test_chat_template_frames_requests(shared: SharedBackbone, tmp_path: Path) -> None:
    tokenizer = PromptTokenizer(shared.backbone)
    (tokens,) = tokenizer.encode_requests(["my head hurt"])
    assert tokenizer.decode([tokens[:-1]]) == ["my head hurt"]
    # The answer is opened: with a quotation mark, which this vocabulary does not know.
    assert (tokens[0], *tokens[-3:]) == (3, 2, 4, 1)
    assert tokenizer.ends(one_line=False) == (2,)
    assert tokenizer.ends(one_line=True) == (2, 5)
    bare = PromptTokenizer(tiny_shared_backbone(write_backbone(tmp_path, chat=False)).backbone)
    assert bare.chat_frame is None
    assert bare.encode_requests(["my head"]) == bare.encode(["my head\n\nText:"])
    assert bare.ends(one_line=False) == (2, 5)


def with_template(shared: SharedBackbone, template: str) -> PromptTokenizer:
    tokenizer = copy.copy(shared.backbone.tokenizer)
    tokenizer.chat_template = template
    return PromptTokenizer(replace(shared.backbone, tokenizer=tokenizer))


def test_chat_templates_use_a_fixed_date(shared: SharedBackbone) -> None:
    day = with_template(shared, "{{ strftime_now('%d %b %Y, %A') }} {{ messages[0]['content'] }}!")
    assert day.chat_frame == ("26 Jul 2024, Friday ", "!")


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('a system turn is needed') }}", "a system turn is needed"),
        ("{% for m in messages %}", "end of template"),
        ("{{ messages[1]['content'] }}", "undefined|no element"),
        ("{{ messages[0]['content'] | upper }}", "0 times, or alters it"),
        ("{{ messages[0]['content'] * 2 }}", "2 times, or alters it"),
    ],
)
def test_unusable_template_is_a_one_line_error(
    shared: SharedBackbone, template: str, reason: str
) -> None:
    with pytest.raises(
        GeneratorError, match=f"chat template .*cannot be used.*({reason})"
    ) as error:
        with_template(shared, template).encode_requests(["my head"])
    assert "\n" not in str(error.value)


def test_plain_prompts_begin_as_the_tokenizer_begins_a_text(shared: SharedBackbone) -> None:
    tokenizer = copy.deepcopy(shared.backbone.tokenizer)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<user> $A <bot>", special_tokens=[("<user>", 3), ("<bot>", 4)]
    )
    tokenizer = PromptTokenizer(replace(shared.backbone, tokenizer=tokenizer))
    (bare,) = tokenizer.encode(["my head hurt"])
    assert tokenizer.encode_plain(["my head hurt"]) == [(3, *bare)]


def test_a_model_that_reads_ahead_is_refused(tmp_path: Path) -> None:
    write_backbone(tmp_path)
    config = transformers.BertConfig(
        vocab_size=60,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        eos_token_id=2,
        initializer_range=0.3,
    )
    transformers.BertLMHeadModel(config).save_pretrained(tmp_path)
    with pytest.raises(GeneratorError, match=r"is not causal.*choose a causal language model"):
        tiny_shared_backbone(str(tmp_path))
