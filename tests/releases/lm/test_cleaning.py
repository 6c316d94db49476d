"""From what a model answers to a text: nothing of the task stays, nothing of the text goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthleak.releases.lm import prompts as rules
from synthleak.releases.lm.prompts import clean_answer, degenerate, unquoted, whole_sentences


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("Sure! Here is a comment: It rained all day.", "It rained all day."),
        ("You could paraphrase it as follows: It rained all day.", "It rained all day."),
        ('Here\'s the revised sentence: "It rained all day."', "It rained all day."),
        ("Rephrased: It rained all day.", "It rained all day."),
        ("A: It rained all day.", "It rained all day."),
        ('"It rained all', "It rained all"),
        ("“It rained all day.”", "It rained all day."),
        ("Sure, here is one: It rained all day.", "It rained all day."),
        ("Here’s the comment:“It rained all day.”", "It rained all day."),
        # What looks alike and is the text itself.
        ("Okay, see you at 10:30 then", "Okay, see you at 10:30 then"),
        ("Here is the link https://x.org/a for you", "Here is the link https://x.org/a for you"),
        ("Of config it was Tom: he always does this", "Of config it was Tom: he always does this"),
        ("Here is the thing: it rained", "Here is the thing: it rained"),
        ("'tis late", "'tis late"),
        ("Doctor: it rained all day.", "Doctor: it rained all day."),
        ('"Yes," she said, "it did."', '"Yes," she said, "it did."'),
        ("One thing is sure: it rained.", "One thing is sure: it rained."),
        ("", ""),
    ],
)
def test_answers_are_stripped_of_openings_and_quotes(answer: str, text: str) -> None:
    assert clean_answer(answer) == text


@pytest.mark.parametrize(
    "text",
    [
        "Here is a rewritten version of your text:",
        "I would rather rephrase the whole thing for you.",
        "As an AI, I cannot say.",
        "the revised sentence is good",
        "?!",
    ],
)
def test_talk_about_the_task_is_degenerate(text: str) -> None:
    assert degenerate(text)


@pytest.mark.parametrize(
    "text",
    [
        "We revised the contract in May.",
        "At ten: rain. At noon: rain.",
        "It is what it is, and it is late.",
        "The sampler rewrote history.",
        "मुझे यह बहुत पसंद है और मैं खुश हूँ",
        "எனக்கு இது மிகவும் பிடிக்கும்",
    ],
)
def test_ordinary_texts_stay(text: str) -> None:
    assert not degenerate(text)


@pytest.mark.parametrize(
    "text", ["I live in [insert name of town].", "Dear [Your Name], it rained.", "[insert text]"]
)
def test_form_to_fill_in_is_degenerate(text: str) -> None:
    assert degenerate(text)
    assert not degenerate(text.replace("[", "").replace("]", ""))


def test_masked_names_are_not_degenerate() -> None:
    assert not degenerate("I told [NAME] that it rained.")


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("Caring", ("caring",)),
        ("JOY, joy and relief!", ("joy", "relief")),
        ("side effect.", ("side_effect",)),
        ("ख़ुशी!", ("ख़ुशी",)),
    ],
)
def test_text_that_only_repeats_labels_is_degenerate(text: str, labels: tuple[str, ...]) -> None:
    assert degenerate(text, labels)
    assert not degenerate(text)
    assert not degenerate(text, ("something else",))
    assert not degenerate(f"{text} at last", labels)


@pytest.mark.parametrize(("text", "label"), [("देखो, देखा?", "दुख"), ("शीशा शीशा शीशा", "खुशी")])
def test_vowel_signs_belong_to_their_word(text: str, label: str) -> None:
    assert not degenerate(text, (label,))
    assert degenerate(f"{label}, {label}!", (label,))


def test_a_letter_may_be_spelled_in_two_ways() -> None:
    assert degenerate("Café ❤️!", ("cafe\u0301",))


@pytest.mark.parametrize(
    ("broken", "whole"),
    [
        ("It rained again. We stayed at home and", "It rained again."),
        ("No! It rained and we", "No! It rained and we"),
        ('He said "no." And then', 'He said "no."'),
        ("It rained. We stayed.", "It rained. We stayed."),
        ("It rained all day and we", "It rained all day and we"),
        ("3.5 mm of rain and we", "3.5 mm of rain and we"),
        ("1. It rained", "1. It rained"),
        ("I paid approx. 30 dollars for the", "I paid approx. 30 dollars for the"),
        ("今天下雨了。我们在家，然后", "今天下雨了。"),
        ("आज बारिश हुई। हम घर पर", "आज बारिश हुई।"),
    ],
)
def test_cut_texts_end_with_a_whole_sentence(broken: str, whole: str) -> None:
    assert whole_sentences(broken) == whole


@pytest.mark.parametrize(
    ("answer", "text", "closed"),
    [
        ('It rained."', "It rained.", True),
        ("It rained.", "It rained.", False),
        ('"No," she said. "Never."" I hope that helps.', "", True),
        ('She said "no." Then she left."', 'She said "no." Then she left.', True),
        ('She said "no', 'She said "no', False),
        ('the ("so called") thing." Better?', 'the ("so called") thing.', True),
        ('He said:"no" to it."', 'He said:"no" to it.', True),
        ('Great" is too vague.', "Great", True),
        ("", "", False),
    ],
)
def test_quoted_answers_end_at_the_closing_mark(answer: str, text: str, closed: bool) -> None:
    assert unquoted(answer) == (text, closed)


PIECES = (
    *(
        "Label:",
        "[Your",
        "[insert",
        "texts :",
        "text",
        "An",
        "a new",
        "AI",
        "said",
        "Language model",
        "Rephrasing",
    ),
    *("PARAPHRASED", "rewritten", "Version", "revised", "comment", "<|im_end|>", "```", ":"),
    *("I", "it's", "ok", "ok", "ok", "12", "½", "é", "漢字", "?!", "…", "well.", "so we go"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_looking_for_hints_first_changes_nothing(pieces: list[str]) -> None:
    text = " ".join(pieces)
    letters = sum(map(str.isalpha, text))  # no piece has marks of its own
    with pytest.MonkeyPatch.context() as always:
        always.setattr(rules, "_HINTS", ("",))
        always.setattr(rules, "_letters", lambda text: letters)
        slow = degenerate(text)
    assert degenerate(text) == slow
