"""Text from a canvas that fills in any order: shown early, never retracted, cut where it must be."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import checkpoints

pytest.importorskip("fastapi")

import unmask
from unmask.models.tokenizer import Tokenizer
from unmask.serve.answers import Cut, Stream, first_stop, overlap


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = checkpoints.write_checkpoint(tmp_path_factory.mktemp("answers") / "small", "llada", layers=2)
    return unmask.load(folder, device="cpu").tokenizer


TEXTS = st.text(alphabet="theanduser \nüé漢🙂ab", max_size=24)


@settings(max_examples=150)
@given(
    text=TEXTS,
    stops=st.lists(st.text(alphabet="theand", min_size=1, max_size=4), max_size=3),
    seed=st.integers(0, 99),
    limit=st.none() | st.integers(1, 30),
    ended=st.booleans(),
)
def test_what_was_sent_is_always_a_beginning_of_the_answer(tokenizer, text, stops, seed, limit, ended) -> None:
    tokens = tokenizer.encode(text)
    eos = min(tokenizer.stop_ids)
    canvas = [*tokens, eos, *tokenizer.encode("the")] if ended else tokens
    cut, rng = Cut(tokenizer, limit, tuple(stops)), random.Random(seed)
    stream, at = Stream(cut), 0
    answer = cut.final(tokenizer.cut(canvas), "stop" if ended else "length")
    while at < len(canvas):
        at = min(len(canvas), at + rng.randint(1, 4))
        stream.more(canvas[:at])
        assert answer.text.startswith(stream.sent)
        if cut.settled(canvas[:at]):
            early = cut.final(tokenizer.cut(canvas[:at]), "stop" if ended else "length")
            assert (early.text, early.tokens) == (answer.text, answer.tokens), "ending early changes nothing"
    stream.rest(answer)
    assert stream.sent == answer.text


def test_half_a_character_is_held_back(tokenizer: Tokenizer) -> None:
    tokens, stream = tokenizer.encode("é🙂"), Stream(Cut(tokenizer))
    sent = [stream.more(tokens[: n + 1]) for n in range(len(tokens))]
    assert sent == ["", "é", "", "", "", "🙂"]


def test_half_a_stop_sequence_is_held_back(tokenizer: Tokenizer) -> None:
    cut = Cut(tokenizer, stop=("xyz",))
    tokens = tokenizer.encode("axyaxyzb")
    stream = Stream(cut)
    assert [stream.more(tokens[: n + 1]) for n in range(len(tokens))] == ["a", "", "", "xya", "", "", "", ""]
    assert cut.final(tokens, "length") == (answer := cut.final(tokens[:7], "length"))
    assert (answer.text, answer.tokens, answer.finish_reason) == ("axya", 7, "stop")


def test_max_tokens_cuts_and_says_so(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("abcdef")
    assert Cut(tokenizer, 3).final(tokens, "stop").finish_reason == "length"
    exact = Cut(tokenizer, 6).final(tokens, "stop")
    assert (exact.text, exact.finish_reason) == ("abcdef", "stop")
    # Three tokens do not settle it: the next one may be the end.
    assert not Cut(tokenizer, 3).settled(tokens[:3]) and Cut(tokenizer, 3).settled(tokens[:4])


@pytest.mark.parametrize(
    ("text", "stops", "at", "held"),
    [
        ("abc", ("c",), 2, 0),
        ("abc", ("bcd",), None, 2),
        ("abcdef", ("abcdx", "cd"), 2, 0),
        ("aab", ("ab", "aab"), 0, 1),
    ],
)
def test_stop_sequences(text: str, stops: tuple[str, ...], at: int | None, held: int) -> None:
    assert first_stop(text, stops) == at
    if at is None:
        assert overlap(text, stops) == held
