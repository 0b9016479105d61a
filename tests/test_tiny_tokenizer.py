"""The embedded tokenizer: nothing is lost, digits stand alone, and the chat template is LLaDA's."""

from __future__ import annotations

import json
import string
from importlib.resources import files

import jinja2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from unmask.tasks import functions, wordproblems
from unmask.tasks.functions import _length
from unmask.tasks.functions.names import LABELS
from unmask.tasks.pieces import PROMPT_LIMIT, pieces
from unmask.tasks.splits import SPLITS, rng_for

FOLDER = files("unmask") / "tiny"
SPECIAL = ("startoftext", "endoftext", "start_header_id", "end_header_id", "eot_id", "mdm_mask")
TOKENIZER = Tokenizer.from_str((FOLDER / "tokenizer.json").read_text())
CONFIG = json.loads((FOLDER / "tokenizer_config.json").read_text())
UNK = TOKENIZER.token_to_id("<unk>")


def encode(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_special_tokens=False).ids


def decode(ids: list[int]) -> str:
    return TOKENIZER.decode(ids, skip_special_tokens=False)


def chat(*contents: str) -> str:
    roles = ("user", "assistant")
    messages = [{"role": roles[i % 2], "content": c} for i, c in enumerate(contents)]
    environment = jinja2.Environment(autoescape=False)
    return environment.from_string(CONFIG["chat_template"]).render(messages=messages, bos_token=CONFIG["bos_token"])


@pytest.mark.parametrize("task", [wordproblems, functions])
def test_what_the_tasks_write_survives_byte_for_byte(task):
    rng = rng_for("test_tiny_tokenizer", task.__name__)
    for i in range(1500):
        example = task.generate(rng, SPLITS[i % 3] if i < 300 else "train")
        for text in (example.prompt, example.response, *example.meta.get("tests", ())):
            ids = encode(text)
            assert UNK not in ids and decode(ids) == text
            assert len(ids) <= _length(text)


def test_every_word_of_the_word_problems_is_one_token():
    rng, vocabulary = rng_for("test_tiny_tokenizer"), TOKENIZER.get_vocab()
    for _ in range(3000):
        example = wordproblems.generate(rng)
        assert vocabulary.keys() >= {*pieces(example.prompt), *pieces(example.response)}


@given(st.text(alphabet=string.printable[:95] + "\n"))
@settings(max_examples=300, deadline=None)
def test_all_printable_ascii_survives(text):
    ids = encode(text)
    assert UNK not in ids and decode(ids) == text


@given(st.text(alphabet=" \n0123456789ax+$#=", max_size=30))
@settings(max_examples=300, deadline=None)
def test_each_digit_is_one_token_anywhere(text):
    tokens = TOKENIZER.encode(text, add_special_tokens=False).tokens
    digits = [c for c in text if c.isdigit()]
    assert [t for t in tokens if any(c.isdigit() for c in t)] == digits


@given(st.text())
@settings(max_examples=300, deadline=None)
def test_pieces_cut_any_text_without_loss(text):
    assert "".join(pieces(text)) == text


def test_pieces_are_the_tokens_of_known_words():
    text = "def f(xs):\n    for x in xs:\n        return x // 10 != 7\n                #### 12"
    assert TOKENIZER.encode(text, add_special_tokens=False).tokens == pieces(text)


def test_indentation_is_one_token_a_line():
    for depth in (4, 8, 12, 16):
        assert len(encode("\n" + " " * depth + "return")) == 3


def test_what_is_not_ascii_becomes_the_unknown_token():
    assert encode("café").count(UNK) == 1
    assert UNK not in encode("zygote Zanzibar")  # unknown words are spelled


def test_special_tokens_are_single_and_last():
    ids = [encode(f"<|{name}|>") for name in SPECIAL]
    assert all(len(i) == 1 for i in ids)
    size = TOKENIZER.get_vocab_size()
    assert sorted([i[0] for i in ids] + [UNK]) == list(range(size - 7, size))
    assert size <= 1800
    for identifier, token in CONFIG["added_tokens_decoder"].items():
        assert TOKENIZER.token_to_id(token["content"]) == int(identifier) and token["special"]


def test_labels_are_single_tokens():
    assert all(len(encode(f"'{label}'")) == 3 for label in LABELS)


def test_chat_template_renders_one_user_turn_exactly():
    expected = (
        "<|startoftext|><|start_header_id|>user<|end_header_id|>\n\nHow many?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    assert chat("  How many?\n") == expected
    assert decode(encode(expected)) == expected
    assert len(encode(chat("x"))) - 1 == 12 == 96 - PROMPT_LIMIT


def test_chat_template_has_one_start_in_a_longer_talk():
    text = chat("One?", "1", "Two?")
    assert text.count("<|startoftext|>") == 1 and text.startswith("<|startoftext|>")
    assert "assistant<|end_header_id|>\n\n1<|eot_id|><|start_header_id|>user" in text
    assert text.endswith("<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n")


def test_words_outside_the_vocabulary_are_named():
    """The command line warns about them once; known words, digits and punctuation raise no alarm."""
    import unmask

    tokenizer = unmask.load("tiny").tokenizer
    assert tokenizer.unknown_words("Mia has 12 apples. How many apples does Mia have now?") == []
    assert tokenizer.unknown_words("Mia has a wug and a naïve wug, Ω.") == ["wug", "naïve", "Ω"]
    assert tokenizer.unknown_words("Mia has\t12 apples.\r\n") == ["\t", "\r"]
