"""Leaving repeated end-of-text out of the forward: what is cut, that it is asked for, and what it may change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unmask
from helpers import CANVAS, OPTIONS, decode, hash_model
from unmask import decoders
from unmask.canvas import Canvas
from unmask.cli import main
from unmask.errors import UserError
from unmask.replay import compare
from unmask.trace import Trace

MASK, END = 13, 14


def canvas_of(tokens: list[int]) -> Canvas:
    return Canvas([1, 2], len(tokens), MASK, {i: token for i, token in enumerate(tokens) if token != MASK})


@pytest.mark.parametrize(
    ("tokens", "kept"),
    [
        ([MASK, MASK], 2),
        ([5, END, END, END], 2),  # the first end-of-text stays
        ([5, END, 6, END, END], 4),
        ([5, END, MASK, END, END], 4),
        ([MASK, END, END, MASK], 4),
        ([END, END, END], 1),
        ([5, 6, 7], 3),
        ([5, 6, END], 3),
    ],
)
def test_what_is_cut(tokens: list[int], kept: int) -> None:
    assert canvas_of(tokens).reach(END) == 2 + kept


@given(st.lists(st.sampled_from([MASK, END, 3]), min_size=1, max_size=12))
def test_only_end_of_text_behind_end_of_text_is_cut(tokens: list[int]) -> None:
    kept = canvas_of(tokens).reach(END) - 2
    assert all(token == END for token in tokens[kept:])
    assert kept == len(tokens) or tokens[kept - 1] == END


@pytest.mark.parametrize("name", ["rpd", "fast-dllm", "lopa", "dapd", "llada-default", "dream-default"])
@pytest.mark.parametrize("family", ["llada", "dream"])
def test_it_shortens_the_forward_and_every_decoder_still_ends(name: str, family: str, monkeypatch) -> None:
    model = hash_model(family)
    widths: list[int] = []
    states = model.net.states
    monkeypatch.setattr(
        model.net, "states", lambda ids, mask=None, keep=0: (widths.append(ids.shape[1]), states(ids, mask, keep))[1]
    )
    # Twenty end-of-texts are given behind the masks: only the first of them is ever sent.
    given = ["1", CANVAS // 2, " ".join([str(END)] * 20)]
    options = {} if name in ("rpd", "dream-default") else {"block_length": None}
    out = decode(model, "1 2 3", name, canvas=given, early_stop=True, drop_tail=True, **options)
    assert widths and max(widths) <= 3 + 1 + CANVAS // 2 + 1
    assert out.trace.header["drop_tail"] is True
    assert Trace.parse("\n".join(out.trace.lines())) == out.trace


def test_rows_of_different_lengths_in_one_batch() -> None:
    """A shortened row is padded like any shorter row, and still gets what it gets alone."""
    model = hash_model()
    prompts = ["1 2 3", "4", "5 6"]
    together = unmask.generate(
        model, prompts, "rpd", canvas_length=CANVAS, early_stop=True, drop_tail=True, **OPTIONS["rpd"]
    )
    assert isinstance(together, list)
    for prompt, row in zip(prompts, together, strict=True):
        alone = decode(model, prompt, "rpd", canvas_length=CANVAS, early_stop=True, drop_tail=True, **OPTIONS["rpd"])
        assert np.array_equal(alone.canvas, row.canvas)


def test_it_needs_early_stop(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="early_stop"):
        decode(hash_model(), "1", "rpd", canvas_length=8, drop_tail=True)
    assert main(["generate", "hello", "--drop-tail", "--device", "cpu"]) == 2
    assert "early_stop" in capsys.readouterr().err


def test_it_is_off_by_default() -> None:
    out = decode(hash_model(), "1", "rpd", canvas_length=8, early_stop=True, **OPTIONS["rpd"])
    assert "drop_tail" not in out.trace.header


def test_a_replay_sees_what_the_decode_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace made with drop_tail is compared at its own forwards, without the tail, not at longer ones."""
    model = hash_model()
    widths: list[int] = []
    states = model.net.states
    monkeypatch.setattr(
        model.net, "states", lambda ids, mask=None, keep=0: (widths.append(ids.shape[1]), states(ids, mask, keep))[1]
    )
    given = ["1", CANVAS // 2, " ".join([str(END)] * 20)]
    out = decode(model, "1 2 3", "confidence", canvas=given, early_stop=True, drop_tail=True)
    recorded = widths.copy()
    widths.clear()
    result = compare(out.trace, model, decoders.get("confidence"))
    assert (result.step, widths) == (None, recorded)
