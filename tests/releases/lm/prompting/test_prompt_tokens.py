"""Between words and tokens, and which backbones can be asked at all."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tokenizers import processors  # noqa: E402

from support.tiny_backbone import tiny_crew, write_backbone  # noqa: E402
from synthleak.core.errors import GeneratorError  # noqa: E402
from synthleak.releases.lm.fleet.shared_backbone import Crew  # noqa: E402
from synthleak.releases.lm.prompting.prompt_tokens import Script  # noqa: E402


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Crew:
    return tiny_crew(write_backbone(tmp_path_factory.mktemp("backbone")))


def test_a_chat_template_frames_requests_and_plain_prompts_end_with_the_line(
    crew: Crew, tmp_path: Path
) -> None:
    script = Script(crew.backbone)
    (tokens,) = script.ask(["my head hurt"])
    assert script.decode([tokens[:-1]]) == ["my head hurt"]
    # The answer is opened: with a quotation mark, which this vocabulary does not know.
    assert (tokens[0], *tokens[-3:]) == (3, 2, 4, 1)
    assert script.ends(one_line=False) == (2,)
    assert script.ends(one_line=True) == (2, 5)
    bare = Script(tiny_crew(write_backbone(tmp_path, chat=False)).backbone)
    assert bare.frame is None
    assert bare.ask(["my head"]) == bare.encode(["my head\n\nText:"])
    assert bare.ends(one_line=False) == (2, 5)


def with_template(crew: Crew, template: str) -> Script:
    tokenizer = copy.copy(crew.backbone.tokenizer)
    tokenizer.chat_template = template
    return Script(replace(crew.backbone, tokenizer=tokenizer))


def test_a_template_that_names_the_day_always_names_the_same(crew: Crew) -> None:
    day = with_template(crew, "{{ strftime_now('%d %b %Y, %A') }} {{ messages[0]['content'] }}!")
    assert day.frame == ("26 Jul 2024, Friday ", "!")


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
def test_a_template_that_cannot_be_used_is_said_in_one_line(
    crew: Crew, template: str, reason: str
) -> None:
    with pytest.raises(
        GeneratorError, match=f"chat template .*cannot be used.*({reason})"
    ) as error:
        with_template(crew, template).ask(["my head"])
    assert "\n" not in str(error.value)


def test_plain_prompts_begin_as_the_tokenizer_begins_a_text(crew: Crew) -> None:
    tokenizer = copy.deepcopy(crew.backbone.tokenizer)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<user> $A <bot>", special_tokens=[("<user>", 3), ("<bot>", 4)]
    )
    script = Script(replace(crew.backbone, tokenizer=tokenizer))
    (bare,) = script.encode(["my head hurt"])
    assert script.open(["my head hurt"]) == [(3, *bare)]


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
    with pytest.raises(GeneratorError, match=r"reads ahead.*choose a causal language model"):
        tiny_crew(str(tmp_path))
