"""The public call: what goes in, what comes out, and what is said of a request that makes no sense."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import unmask
from helpers import CANVAS, LENIENT, commits, decode, hash_model
from unmask import UserError, decoders

ROOM = 64  # context of the model below


@pytest.fixture(scope="module")
def cramped(tmp_path_factory: pytest.TempPathFactory) -> unmask.Model:
    """A model with a context of 64 positions."""
    import checkpoints

    folder = checkpoints.write_checkpoint(
        tmp_path_factory.mktemp("cramped"), "llada", layers=2, max_sequence_length=ROOM
    )
    return unmask.load(folder)


# --- what comes out -------------------------------------------------------------------------------------------


def test_a_generation(model: unmask.Model) -> None:
    out = decode(model, "Hello 12", "rpd", canvas_length=CANVAS)
    assert out.text == model.tokenizer.decode(out.tokens)
    assert out.tokens == model.tokenizer.cut(out.canvas) and len(out.canvas) == CANVAS
    assert out.finish_reason == ("stop" if set(out.canvas) & model.stop_ids else "length")
    assert out.nfe == len(out.trace.steps)
    assert out.seconds > 0 and out.tokens_per_second == pytest.approx(len(out.tokens) / out.seconds)
    header = out.trace.header
    assert header["prompt_ids"] == model.tokenizer.encode_chat([{"role": "user", "content": "Hello 12"}])
    assert (
        header["decoder"] == "rpd" and header["params"]["beta"] == 4.0 and header["family"] == model.spec.family.name
    )
    end = out.trace.end
    assert end["non_eos"] == sum(token not in model.stop_ids for token in out.canvas)
    assert end["canvas"] == CANVAS


def test_tokens_end_before_the_first_stop_id() -> None:
    stopping = hash_model(favourite=14, highest_id=14)  # 14 ends an answer, and is the most probable everywhere
    out = decode(stopping, "1 2", "left-to-right", canvas_length=8)
    assert (out.tokens, out.text, out.finish_reason, out.trace.end["non_eos"]) == ([], "", "stop", 0)
    going_on = hash_model(favourite=5, highest_id=14)
    out = decode(going_on, "1 2", "left-to-right", canvas_length=8)
    assert (out.tokens, out.finish_reason) == ([5] * 8, "length")


def test_one_prompt_one_generation_many_prompts_a_list(model: unmask.Model) -> None:
    one = unmask.generate(model, "Hi", "fast-dllm", canvas_length=CANVAS)
    many = unmask.generate(model, ("Hi", "Ho"), "fast-dllm", canvas_length=CANVAS)
    assert isinstance(one, unmask.Generation) and isinstance(many, list) and len(many) == 2
    assert many[0].canvas == one.canvas


def test_chat_messages(model: unmask.Model) -> None:
    text = decode(model, "Hi", "fast-dllm", canvas_length=CANVAS)
    messages = [{"role": "user", "content": "Hi"}]
    chat = decode(model, messages, "fast-dllm", canvas_length=CANVAS)
    assert chat.canvas == text.canvas and chat.trace.header["prompt"] == messages
    longer = [{"role": "system", "content": "Count."}, *messages]
    assert len(decode(model, longer, "fast-dllm", canvas_length=CANVAS).trace.header["prompt_ids"]) > 8


def test_raw_skips_the_template(model: unmask.Model) -> None:
    out = decode(model, "Hi", "fast-dllm", canvas_length=CANVAS, raw=True)
    assert out.trace.header["prompt_ids"] == model.tokenizer.encode("Hi")


def test_a_decoder_by_name_or_as_an_object(model: unmask.Model) -> None:
    named = decode(model, "Hi", "rpd", canvas_length=CANVAS, **LENIENT, beta=2.0)
    made = decode(model, "Hi", decoders.RPD(**LENIENT, beta=2.0), canvas_length=CANVAS)
    assert commits(named) == commits(made) and named.trace.header["params"] == made.trace.header["params"]
    assert (
        decode(model, "Hi", "default", canvas_length=CANVAS).trace.header["decoder"]
        == model.spec.family.default_decoder
    )


def test_the_models_own_canvas_is_the_default(model: unmask.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    assert model.spec.canvas_length == 256
    out = decode(model, "Hi", "confidence", threshold=0.0)
    assert len(out.canvas) == 256 and out.nfe == 1


def test_score_dtype_is_a_switch(model: unmask.Model) -> None:
    fine, coarse = (
        decode(model, "Hi", "fast-dllm", canvas_length=CANVAS, score_dtype=dtype).trace.steps[0].confidence
        for dtype in (torch.float64, "bfloat16")
    )
    steps_of_bfloat16 = torch.from_numpy(coarse).bfloat16().float().numpy()
    assert (coarse == steps_of_bfloat16).all() and not (
        fine == torch.from_numpy(fine).bfloat16().float().numpy()
    ).all()
    assert coarse == pytest.approx(fine, abs=0.02)


# --- infilling ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rpd", "left-to-right", "dream-default", "confidence", "dapd"])
def test_infilling_keeps_what_is_given(model: unmask.Model, name: str) -> None:
    options = {"block_length": 8} if name == "dapd" else {}
    out = decode(model, "Hi", name, canvas=["12", 3, "the user", 2, "!"], canvas_length=16, **options)
    given = {0: 16, 1: 17}
    words = model.tokenizer.encode("the user")
    given |= {5 + i: token for i, token in enumerate(words)}
    given[5 + len(words) + 2] = model.tokenizer.encode("!")[0]
    assert {position: out.canvas[position] for position in given} == given
    assert out.trace.header["fixed"] == {str(position): token for position, token in given.items()}
    assert sum(map(len, commits(out))) == 16 - len(given)
    assert not {position for step in commits(out) for position in step} & set(given)


@pytest.mark.parametrize("early_stop", [False, True])
def test_an_end_of_text_before_given_text_cuts_nothing(early_stop: bool) -> None:
    """The model fills both gaps with end tokens (14): what was given stands, and an end counts behind it only."""
    stopping = hash_model(favourite=14, highest_id=14)
    cases: list[tuple[list[Any], list[int], str, int]] = [  # canvas, answer, finish_reason, forwards with early stop
        (["1 2", 3, "3"], [1, 2, 3], "length", 3),
        (["1 2", 3, "3", 4], [1, 2, 3], "stop", 4),
        ([2, "3 4"], [3, 4], "length", 2),
        (["1 14 2", 3], [1, 14, 2], "stop", 1),  # an end token that was given among text is text
        (["1 14", 3], [1], "stop", 1),  # given last, it is an end
    ]
    for canvas, tokens, reason, forwards in cases:
        out = decode(stopping, "9", "left-to-right", canvas=canvas, early_stop=early_stop)
        assert (out.tokens, out.finish_reason, out.text) == (tokens, reason, stopping.tokenizer.decode(tokens))
        assert out.trace.end["tokens"] == len(tokens)
        assert {token for step in commits(out) for token in step.values()} == {14}
        gaps = sum(part for part in canvas if isinstance(part, int))
        assert out.nfe == (forwards if early_stop else gaps)
        codes = {warning.code for warning in out.warnings}
        assert codes <= {"premature-end"}


def test_a_canvas_without_masks_needs_no_forward(model: unmask.Model) -> None:
    out = decode(model, "Hi", "rpd", canvas=["12 34"])
    assert (out.nfe, out.text, out.trace.steps, out.tokens_per_second) == (0, "12 34", [], 0.0)


def test_blocks_of_an_infilled_canvas(model: unmask.Model) -> None:
    """Blocks are counted on the canvas, given tokens included; a block that is given whole is skipped."""
    out = decode(model, "Hi", "llada-default", canvas=[2, "12345678", 6], block_length=4)
    order = out.trace.commit_steps()
    assert order[2:10].tolist() == [-1] * 8
    assert sorted(order[:2]) == [0, 1] and sorted(order[10:12]) == [2, 3] and sorted(order[12:]) == [4, 5, 6, 7]


# --- bad requests ---------------------------------------------------------------------------------------------

REQUESTS: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "empty prompt": (("", "rpd"), {}, "the prompt is empty"),
    "blank prompt": (("  \n\t", "rpd"), {"raw": True}, "the prompt is empty"),
    "one empty prompt of several": ((["Hi", ""], "rpd"), {"canvas_length": 8}, "the prompt is empty"),
    "empty message": (([{"role": "user", "content": " "}], "rpd"), {}, "the prompt is empty"),
    "message without content": (([{"role": "user"}], "rpd"), {}, "a role and a content"),
    "message without role": (([{"content": "Hi"}], "rpd"), {}, "a role and a content"),
    "content that is no text": (([{"role": "user", "content": None}], "rpd"), {}, "a role and a content"),
    "prompts and messages mixed": ((["Hi", {"role": "user", "content": "Hi"}], "rpd"), {}, "a role and a content"),
    "a number for a prompt": ((7, "rpd"), {}, "a prompt is a text"),
    "raw messages": (([{"role": "user", "content": "Hi"}], "rpd"), {"raw": True}, "raw takes a plain text"),
    "half a character": (("Hi \udcff", "rpd"), {}, "not valid Unicode"),
    "unknown decoder": (("Hi", "rdp"), {}, "unknown decoder 'rdp'; did you mean rpd"),
    "unknown option": (("Hi", "rpd"), {"bata": 4}, "unknown option of rpd 'bata'; did you mean beta"),
    "option of another decoder": (("Hi", "fast-dllm"), {"beta": 4.0}, "unknown option of fast-dllm"),
    "negative budget": (("Hi", "rpd"), {"beta": -1.0}, "beta must be 0 or more, not -1"),
    "options beside an object": (("Hi", decoders.RPD()), {"beta": 4.0}, "options beta belong to a decoder name"),
    "a class for a decoder": (("Hi", decoders.RPD), {}, "a name or a decoder object"),
    "no canvas": (("Hi", "rpd"), {"canvas_length": 0}, "canvas length must be"),
    "no canvas for a schedule": (("Hi", "llada-default"), {"canvas_length": 0}, "canvas length must be"),
    "negative canvas": (("Hi", "fast-dllm"), {"canvas_length": -32}, "canvas length must be"),
    "a text for a length": (("Hi", "rpd"), {"canvas_length": "32"}, "canvas length must be"),
    "uneven blocks": (("Hi", "fast-dllm"), {"canvas_length": 40}, "does not divide the canvas of 40: use"),
    "thresholds crossed": (("Hi", "rpd"), {"theta_c": 0.95, "theta_h": 0.9}, "theta_c 0.95 exceeds theta_h 0.9"),
    "threshold past the model's": (("Hi", "rpd"), {"theta_c": 0.95, "canvas_length": 8}, "0.9: set theta_h too"),
    "a length that is true": (("Hi", "rpd"), {"canvas_length": True}, "canvas length must be"),
    "a list of numbers": (([1, 2], "rpd"), {}, "a prompt is a text"),
    "empty parts": (("Hi", "rpd"), {"canvas": []}, "the canvas is empty"),
    "no masks in a part": (("Hi", "rpd"), {"canvas": ["a", 0]}, "positive numbers of masks, not 0"),
    "half a mask": (("Hi", "rpd"), {"canvas": ["a", 1.5]}, "positive numbers of masks, not 1.5"),
    "a text for parts": (("Hi", "rpd"), {"canvas": "abc"}, "not one text"),
    "too many parts": (("Hi", "rpd"), {"canvas": [9], "canvas_length": 8}, "take 9 positions, more than"),
    "a mask spelled out": (("Hi", "rpd"), {"canvas": ["a<|mdm_mask|>", 3]}, "spells the mask token"),
    "prompt past the context": (("x" * 64, "rpd"), {"canvas_length": 8}, "takes 64 in all: shorten the prompt$"),
    "canvas past the context": (("Hi", "rpd"), {"canvas_length": ROOM}, "or use a canvas of at most 50$"),
    "a seed too large": (("Hi", "rpd"), {"seed": 1 << 70, "canvas_length": 8}, "seed must be"),
    "a seed that is no number": (("Hi", "rpd"), {"seed": "x", "canvas_length": 8}, "seed must be"),
    "scores in integers": (("Hi", "rpd"), {"score_dtype": torch.int32, "canvas_length": 8}, "dtype 'torch.int32'"),
    "scores in something": (("Hi", "rpd"), {"score_dtype": "float", "canvas_length": 8}, "unknown dtype 'float'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REQUESTS)
def test_a_bad_request_gets_a_sentence_before_any_forward(cramped: unmask.Model, name: str) -> None:
    arguments, options, words = REQUESTS[name]
    calls: list[Any] = []
    states = cramped.net.states
    cramped.net.states = lambda *a, **k: calls.append(a) or states(*a, **k)
    try:
        with pytest.raises(UserError, match=words) as caught:
            unmask.generate(cramped, *arguments, **options)
    finally:
        cramped.net.states = states
    assert "\n" not in str(caught.value) and not calls


def test_a_prompt_may_fill_the_context_to_the_last_position(cramped: unmask.Model) -> None:
    room = ROOM - len(cramped.tokenizer.encode_chat([{"role": "user", "content": "Hi"}]))
    assert len(decode(cramped, "Hi", "confidence", canvas_length=room).canvas) == room
    with pytest.raises(UserError, match=f"at most {room}$"):
        decode(cramped, "Hi", "confidence", canvas_length=room + 1)


@pytest.mark.parametrize("raw", [True, False])
def test_a_prompt_may_spell_the_mask_token(cramped: unmask.Model, raw: bool) -> None:
    """As the token in a raw prompt, as text in a chat; nothing of the prompt is ever filled in."""
    out = decode(cramped, "<|mdm_mask|>", "rpd", canvas_length=8, raw=raw)
    assert (cramped.spec.mask_id in out.trace.header["prompt_ids"]) == raw and cramped.spec.mask_id not in out.canvas


def test_numbers_may_be_numpys(cramped: unmask.Model, tmp_path: Path) -> None:
    import numpy as np

    options = {"block_length": np.int64(4), "threshold": np.float32(0.5), "factor": None}
    out = decode(cramped, "Hi", "fast-dllm", canvas_length=np.int64(8), seed=np.int64(3), **options)
    out.trace.save(tmp_path / "t.jsonl")
    assert unmask.Trace.load(tmp_path / "t.jsonl") == out.trace
    assert out.trace.header["params"] | {"seed": out.trace.header["seed"]} == {
        "block_length": 4, "threshold": 0.5, "factor": None, "quirk": False, "seed": 3,
    }  # fmt: skip
    assert len(decode(cramped, "Hi", "rpd", canvas=["a", np.int32(3)]).canvas) == 4


def test_a_list_of_conversations_is_a_batch(cramped: unmask.Model) -> None:
    talks = [[{"role": "user", "content": text}] for text in ("Hi", "Hello")]
    outs = unmask.generate(cramped, [talks[0], "Hello"], "rpd", canvas_length=8)
    assert isinstance(outs, list)
    assert [out.canvas for out in outs] == [decode(cramped, talk, "rpd", canvas_length=8).canvas for talk in talks]


def test_what_was_asked_for_is_recorded(cramped: unmask.Model) -> None:
    def label(decoder: Any, **options: Any) -> tuple[str, str]:
        header = decode(cramped, "Hi", decoder, canvas_length=8, **options).trace.header
        return header["label"], header["decoder"]

    assert label("rpd-paper", first_layer=1) == ("rpd-paper", "rpd")
    assert label(decoders.get("confidence")) == ("confidence", "fast-dllm")
    assert label("default", block_length=8) == ("default", "llada-default")
    assert label(decoders.RPD()) == ("rpd", "rpd")
    header = decode(cramped, "Hi", "rpd", canvas_length=8, score_dtype="float64").trace.header
    assert (header["dtype"], header["score_dtype"]) == ("float32", "float64") and "revision" not in header


def test_a_model_is_shown_in_one_line(cramped: unmask.Model) -> None:
    assert "llada, 2 layers of width 32, float32 on cpu" in repr(cramped) and len(repr(cramped)) < 300


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (lambda: unmask.load("tiny-llada"), "unknown model 'tiny-llada'; did you mean tiny"),
        (lambda: unmask.load("GSAI-ML"), "unknown model 'GSAI-ML'"),
        (lambda: unmask.load(7), "a model is tiny, a checkpoint folder or a hub name, not 7"),
        (
            lambda: unmask.load("tiny", revision="main"),
            "a revision belongs to a model on the hub, and tiny is a folder",
        ),
        (lambda: unmask.load("tiny", device="gpu"), "unknown device 'gpu': use cpu, cuda or cuda:N"),
        (lambda: unmask.load("tiny", device="cuda:99"), "device 'cuda:99' is not available here"),
        (lambda: unmask.load("tiny", device="mps"), "device 'mps' is not available here: use cpu"),
        (lambda: unmask.load("tiny", dtype="float31"), "unknown dtype 'float31'"),
        (lambda: unmask.generate("tiny", "Hi"), r"takes a loaded model, not 'tiny': model = unmask.load"),
        (lambda: unmask.load("/no/such/folder"), "no checkpoint folder at /no/such/folder"),
        (lambda: unmask.models.parse_dtype("float31"), "unknown dtype 'float31'; did you mean float32"),
    ],
)
def test_models_that_are_not_there(load: Callable[[], Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        load()


# --- the package ----------------------------------------------------------------------------------------------


def test_everything_public_can_be_had() -> None:
    for name in unmask.__all__:
        assert getattr(unmask, name) is not None
    for name in decoders.__all__:
        assert getattr(decoders, name) is not None
    for name in unmask.models.__all__:
        assert getattr(unmask.models, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'gnerate'"):
        unmask.gnerate  # noqa: B018


def test_what_the_documents_name_is_there_after_import_unmask() -> None:
    code = "import unmask; m = unmask.models; m.hf.wrap; m.spec.read_spec; m.tokenizer.load_tokenizer"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_generate_stays_a_function_after_use() -> None:
    assert callable(unmask.generate) and unmask.generate is unmask.generate


def test_looking_around_does_not_import_torch() -> None:
    code = (
        "import sys, unmask; names = unmask.decoders.names(); d = unmask.decoders.get('rpd', beta=3.0); d.params(); "
        "unmask.Trace; unmask.UserError; unmask.models.KNOWN; "
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules, 'torch was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
