"""A batch is its rows: each gets exactly what it gets alone, and costs nothing once it is done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unmask
from helpers import CANVAS, LENIENT, commits, decode, hash_model, rows_per_call
from test_invariants import SAMPLING, SHORT, TOP, G
from unmask import decoders
from unmask.api import finish, make_row
from unmask.loop import Loop, Row

PROMPTS = ["Hi", "the user and the assistant are counting to 12", "What is 2 + 2?"]

DRAWN: list[tuple[str, dict[str, Any]]] = [
    ("llada-default", {"block_length": 8, "temperature": 0.7}),
    ("llada-default", {"block_length": 8, "cfg_scale": 0.5}),
    ("llada-default", {"block_length": 8, "remasking": "random"}),
    ("dream-default", {"temperature": 0.9, "top_p": None}),
    ("dream-default", {"alg": "origin"}),
    ("dream-default", {"alg": "maskgit_plus", "alg_temp": 0.5}),
    ("dapd", {"block_length": 8, "variant": "staged"}),
    ("eb-sampler", {"block_length": 8, "proxy": "margin"}),
    ("rpd", {**LENIENT, "lazy": False}),
]


def same(a: unmask.Generation, b: unmask.Generation) -> None:
    assert (a.canvas, a.text, a.tokens, a.nfe) == (b.canvas, b.text, b.tokens, b.nfe)
    assert commits(a) == commits(b)
    assert [s.verdict.tolist() for s in a.trace.steps] == [s.verdict.tolist() for s in b.trace.steps]
    assert [s.branches for s in a.trace.steps] == [s.branches for s in b.trace.steps]
    assert a.trace.header["prompt_ids"] == b.trace.header["prompt_ids"]


def batch(model: unmask.Model, prompts: list[str], decoder: str, **options: Any) -> list[unmask.Generation]:
    out = unmask.generate(model, prompts, decoder, **options)
    assert isinstance(out, list)
    return out


@pytest.mark.parametrize("name", decoders.names())
def test_every_decoder_on_both_models(model: unmask.Model, name: str) -> None:
    options = {"canvas_length": G if name in SHORT else 32, "seed": 5, **SHORT.get(name, {})}
    together = batch(model, PROMPTS, name, **options)
    assert len({len(row.trace.header["prompt_ids"]) for row in together}) == 3
    for prompt, row in zip(PROMPTS, together, strict=True):
        same(row, decode(model, prompt, name, **options))


@pytest.mark.parametrize(("name", "options"), DRAWN, ids=lambda value: str(value)[:50])
def test_sampling_and_other_variants(model: unmask.Model, name: str, options: dict[str, Any]) -> None:
    options = {"canvas_length": G, "seed": 5, **options}
    for prompt, row in zip(PROMPTS, batch(model, PROMPTS, name, **options), strict=True):
        same(row, decode(model, prompt, name, **options))


@pytest.mark.parametrize(("name", "options"), [*SHORT.items(), *SAMPLING], ids=lambda value: str(value)[:50])
@settings(max_examples=5)
@given(
    st.integers(0, 2**32 - 1), st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=9), min_size=1, max_size=4)
)
def test_any_batch_of_any_model(name: str, options: dict[str, Any], seed: int, prompts: list[list[int]]) -> None:
    """The network answers with a hash of a row's own ids: if a row saw its neighbours, it would say otherwise."""
    model = hash_model("dream" if seed % 2 else "llada", seed, highest_id=TOP)
    texts = [" ".join(map(str, prompt)) for prompt in prompts]
    for text, row in zip(texts, batch(model, texts, name, canvas_length=G, seed=seed, **options), strict=True):
        same(row, decode(model, text, name, canvas_length=G, seed=seed, **options))


def test_finished_rows_cost_no_further_work(model: unmask.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_per_call(monkeypatch)
    out = batch(model, [*PROMPTS, "7"], "fast-dllm", canvas_length=CANVAS, threshold=0.8)
    needed = [row.nfe for row in out]
    assert len(set(needed)) > 1
    assert rows == [sum(nfe > step for nfe in needed) for step in range(max(needed))]


def test_a_batch_of_branches_counts_calls_not_rows(model: unmask.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_per_call(monkeypatch)
    out = decode(model, "Hi", "lopa", canvas_length=CANVAS, block_length=16)
    assert out.nfe == len(rows)  # a batched call counts once
    assert sum(rows) == out.nfe + out.trace.end["branches"]  # and its extra rows are reported apart
    assert max(rows) == 4  # three lookaheads and the anchor


def rows_of(model: unmask.Model, mixture: list[tuple[str, str, dict[str, Any], int]]) -> list[Row]:
    return [
        make_row(model, prompt, name, options, canvas_length=length, seed=3)
        for prompt, name, options, length in mixture
    ]


MIXTURE: list[tuple[str, str, dict[str, Any], int]] = [
    ("Hi", "rpd", LENIENT, 32),
    ("What is 2 + 2?", "rpd", {**LENIENT, "lazy": False, "theta_s": 2.0}, 16),
    ("What is 2 + 2?", "lopa", {"block_length": 8}, 24),
    ("the user", "dapd", {"block_length": 16}, 32),
    ("Hi", "dream-default", {"temperature": 0.5}, 16),
    ("counting", "llada-default", {"block_length": 8, "cfg_scale": 1.0, "temperature": 0.2}, 16),
    ("counting", "rpd-block", {**LENIENT, "block_length": 4}, 16),
    ("counting", "left-to-right", {}, 8),
]


@pytest.mark.parametrize("staggered", [False, True])
def test_different_decoders_and_canvases_in_one_loop(model: unmask.Model, staggered: bool) -> None:
    """As a server mixes them: rows may also join while others are under way."""
    rows = rows_of(model, MIXTURE)
    loop = Loop(model)
    if staggered:
        waiting, alive = rows[2:], rows[:2]
        while alive:
            loop.step(alive)
            alive = [row for row in alive if not row.done] + waiting[:1]
            waiting = waiting[1:]
    else:
        loop.run(rows)
    for (prompt, name, options, length), row in zip(MIXTURE, rows, strict=True):
        same(finish(model, row), decode(model, prompt, name, canvas_length=length, seed=3, **options))


def test_rows_keep_their_order_and_tags(model: unmask.Model) -> None:
    seen: set[int] = set()
    out = batch(model, PROMPTS, "fast-dllm", canvas_length=CANVAS, watch=lambda row, _step: seen.add(row.tag))
    assert seen == {0, 1, 2}
    assert [row.trace.header["prompt"] for row in out] == PROMPTS
    assert unmask.generate(model, [], "rpd") == []
    assert len(batch(model, ["Hi"], "fast-dllm", canvas_length=CANVAS)) == 1


def test_shared_seconds_add_up(model: unmask.Model) -> None:
    """Each row is charged its share of the steps it took part in."""
    out = batch(model, PROMPTS, "rpd", canvas_length=CANVAS)
    for row in out:
        assert row.seconds == pytest.approx(sum(sum(step.seconds.values()) for step in row.trace.steps))
        assert row.seconds > 0 and row.tokens_per_second == len(row.tokens) / row.seconds
    assert np.isfinite([row.seconds for row in out]).all()
