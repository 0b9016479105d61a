"""One forward of the loop, and what can go wrong in a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import unmask
from helpers import ExactModel, commits, decode, hash_model
from reference import decoders as literal
from reference import worked_examples as examples
from unmask import api, decoders
from unmask.canvas import Canvas
from unmask.decoders.base import lowest_mapped
from unmask.forward import Forward
from unmask.lens import StabilityRule
from unmask.loop import DecodeError, Loop, Row
from unmask.trace import Trace

# --- one forward ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("e", examples.LLADA_GUIDANCE)
def test_guidance(e: examples.Example) -> None:
    """A second row whose prompt is masked out, in the same call."""
    model = hash_model()
    rows: list[list[int]] = []

    def states(ids: torch.Tensor, mask: Any = None, keep_from: int = 0) -> list[Any]:
        rows.extend(ids.tolist())
        z = torch.stack([torch.tensor(e["conditional" if row[0] != 13 else "unconditional"]) for row in ids])
        return [None] * model.spec.layers + [z[:, None].expand(-1, ids.shape[1], -1)]

    model.net.states = states
    canvas = Canvas([5, 6], 3, mask_id=13)
    canvas.commit([1], [7])
    forward = Forward(model, [canvas], [e["w"]])
    assert rows == [[5, 6, 13, 7, 13], [13, 13, 13, 7, 13]]
    np.testing.assert_allclose(forward.logits(0, np.array([0, 2])), [e["expected"]] * 2)


def test_alignment(model: unmask.Model, twin: ExactModel) -> None:
    """Dream's row t - 1 scores the token at t; position 0 of a canvas is scored by the prompt's last row."""
    ids = model.tokenizer.encode("Hello 12")
    canvas = Canvas(ids, 8, model.spec.mask_id)
    raw, _ = twin.run(canvas.ids.tolist())
    shift = 1 if model.spec.family.name == "dream" else 0
    found = Forward(model, [canvas]).logits(0, np.arange(8))
    np.testing.assert_allclose(found, raw[len(ids) - shift : len(ids) + 8 - shift], atol=1e-3)


SAMPLING: list[tuple[str, dict[str, Any]]] = [
    ("dream-default", {"steps": 4}), ("llada-default", {"temperature": 0.5, "block_length": 8}),
    ("eb-sampler", {"proxy": "margin", "block_length": 8}),
    ("llada-default", {"temperature": 0.5, "cfg_scale": 1.0, "block_length": 8}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), [*SAMPLING, ("fast-dllm", {"block_length": 8})])
def test_the_head_reads_every_position_once(
    name: str, options: dict[str, Any], model: unmask.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a decoder wants the logits (twice with guidance: once per prompt)."""
    read, readout = [], model.net.readout
    monkeypatch.setattr(model.net, "readout", lambda states: read.append(len(states)) or readout(states))
    out = decode(model, "Hi", name, canvas_length=16, **options)
    assert sum(read) == sum(len(step.positions) for step in out.trace.steps) * (2 if "cfg_scale" in options else 1)


def test_kept_logits_are_those_the_statistics_are_of(model: unmask.Model) -> None:
    """Rows that want logits beside rows that do not: each gets what it gets alone."""
    canvases = [Canvas(model.tokenizer.encode(text), 8, model.spec.mask_id) for text in ("Hi", "Hello 12", "12 + 30")]
    wanted = [(row, np.arange(8)) for row in range(3)]
    together, choosable = Forward(model, canvases), model.choosable
    plain = together.score(wanted, choosable, torch.float32)
    tables, kept = together.score_keeping(wanted, choosable, torch.float32, {1})
    assert list(kept) == [1] and torch.equal(kept[1], together.logits(1, np.arange(8)))
    for a, b in zip(tables, plain, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("name", "options"), SAMPLING)
def test_decoders_that_want_logits_batch_with_others(name: str, options: dict[str, Any], model: unmask.Model) -> None:
    def row(decoder: str, prompt: str, **given: Any) -> Row:
        return api.make_row(model, prompt, decoder, given, canvas_length=16, seed=3)

    def rows() -> list[Row]:
        return [row("rpd", "12"), row(name, "Hello 12", **options), row("left-to-right", "the user and the rest")]

    batch, alone = rows(), rows()
    Loop(model).run(batch)
    for each in alone:
        Loop(model).run([each])
    assert [r.canvas.tokens.tolist() for r in batch] == [r.canvas.tokens.tolist() for r in alone]
    for a, b in zip(batch[1].trace.steps, alone[1].trace.steps, strict=True):
        np.testing.assert_array_equal(a.confidence, b.confidence)


def test_attention_is_not_shifted(model: unmask.Model, twin: ExactModel) -> None:
    ids = model.tokenizer.encode("Hello 12")
    canvas = Canvas(ids, 8, model.spec.mask_id)
    positions = np.array([0, 3, 7])
    lowest = lowest_mapped(0.7, model.spec.layers)
    (maps,) = Forward(model, [canvas], keep_from=lowest).attention([(0, 0.7, positions)])
    expected = twin.attention(canvas.ids.tolist())
    at = len(ids) + positions
    np.testing.assert_allclose(maps, expected[np.ix_(at, at)], atol=1e-5)


def test_only_what_may_be_committed_is_scored(model: unmask.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The LM head sees the masks in scope: never the prompt, a committed position, or a later block."""
    readout, seen = model.net.readout, []

    def counted(states: torch.Tensor) -> torch.Tensor:
        seen.append(states.shape[0])
        return readout(states)

    monkeypatch.setattr(model.net, "readout", counted)
    out = decode(model, "the user and the assistant", "fast-dllm", canvas_length=32, block_length=8)
    left, expected = set(range(32)), []
    for step in commits(out):
        block = min(left) // 8
        expected.append(sum(position // 8 == block for position in left))
        left -= set(step)
    assert seen == expected


def test_a_large_batch_is_scored_in_groups(model: unmask.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = decode(model, "Hello", "confidence", canvas_length=32)
    monkeypatch.setattr("unmask.forward.SCORED_ROWS", 20)
    grouped = unmask.generate(model, ["Hello", "Hello", "Hello"], "confidence", canvas_length=32)
    assert isinstance(grouped, list) and all(commits(row) == commits(whole) for row in grouped)


RULE = StabilityRule(theta_s=1.0, w=1.0, k_max=3, first_layer=2)


# --- what can go wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["rpd", "fast-dllm", "dream-default", "lopa"])
def test_non_finite_logits_name_the_step_and_the_row(name: str, bad: float) -> None:
    model = hash_model(seed=1)
    states, calls = model.net.states, []

    def poisoned(ids: torch.Tensor, *args: Any, **kwargs: Any) -> list[Any]:
        hidden = states(ids, *args, **kwargs)
        calls.append(len(ids))
        if len(calls) == 3:
            hidden[-1][-1] = bad  # the last row of the third forward
        return hidden

    model.net.states = poisoned
    options = {"block_length": 8} if name in ("fast-dllm", "lopa") else {}
    with pytest.raises(DecodeError, match=r"non-finite logits at step 3 of row 1"):
        unmask.generate(model, ["1 2 3", "4 5 6"], name, canvas_length=16, **options)
    calls.clear()
    with pytest.raises(DecodeError, match=r"non-finite logits at step 3: "):
        unmask.generate(model, "1 2 3", name, canvas_length=16, **options)


def make_row(model: unmask.Model, decoder: decoders.Decoder, length: int = 8) -> Row:
    canvas = Canvas([1, 2], length, model.spec.mask_id)
    header = {"canvas_length": length, "mask_id": model.spec.mask_id}
    return Row(canvas, decoder.resolve(model.spec, length), Trace(header), torch.Generator())


def test_a_failed_row_does_not_stop_the_others() -> None:
    model = hash_model(seed=1)
    states = model.net.states

    def poisoned(ids: torch.Tensor, *args: Any, **kwargs: Any) -> list[Any]:
        hidden = states(ids, *args, **kwargs)
        hidden[-1][0] = float("nan")
        return hidden

    model.net.states = poisoned
    bad, good = make_row(model, decoders.get("left-to-right")), make_row(model, decoders.get("left-to-right"))
    loop = Loop(model)
    loop.step([bad, good])
    assert bad.error is not None and bad.done and not bad.trace.steps and bad.canvas.remaining == 8
    assert good.error is None and good.canvas.remaining == 7


def test_a_decoder_that_commits_nothing_is_stopped() -> None:
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Idle(decoders.Decoder):
        name = "idle"

        def select(self, view):
            return decoders.Commit(np.zeros(len(view), dtype=bool), np.full(len(view), "unsure", dtype=object))

    with pytest.raises(DecodeError, match="idle committed nothing in"):
        unmask.generate(hash_model(), "1 2", Idle(), canvas_length=8)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda view: np.array([0]), "select must return a Commit, not ndarray"),
        (lambda view: None, "select must return a Commit, not NoneType"),
        (lambda view: decoders.Commit(np.array([0, 1]), np.full(8, "x")), "one bool per position"),
        (lambda view: decoders.Commit([True] * 8, np.full(8, "x")), "one bool per position"),
        (lambda view: decoders.Commit(np.ones(8, bool), np.full(8, "x"), np.full(8, 13)), "13 is no token"),
        (lambda view: decoders.Commit(np.ones(8, bool), np.full(8, "x"), np.full(8, 99)), "99 is no token"),
        (lambda view: decoders.Commit(np.ones(8, bool), np.full(8, "x"), np.full(8, -1)), "-1 is no token"),
        (
            lambda view: decoders.Commit(np.ones(8, bool), np.full(8, "x"), np.full(8, 2.7)),
            "whole numbers, not float",
        ),
        (lambda view: decoders.Commit(np.ones(8, bool), np.full(1, "x")), "Commit's verdict must have one entry"),
        (lambda view: decoders.Commit(np.ones(8, bool), np.full(8, "x"), np.full(3, 1)), "Commit's token must have"),
        (lambda view: decoders.Commit(np.ones(8, bool), np.full(8, "x"), None, {"z": np.ones(3)}), "Commit's z must"),
        (lambda view: (_ for _ in [5]), "select yields view.lens, view.attention or view.explore, not int"),
    ],
)
def test_a_foreign_decoder_that_errs_is_named(answer: Any, words: str) -> None:
    class Foreign(decoders.Decoder):
        name = "foreign"

        def select(self, view):
            return answer(view)

    with pytest.raises(DecodeError, match=f"decoder foreign: .*{words}"):
        unmask.generate(hash_model(), "1 2", Foreign(), canvas_length=8)


@pytest.mark.parametrize("request_of", [lambda view: view.lens([0], RULE), lambda view: view.attention(0.5)])
def test_a_foreign_decoder_that_reads_layers_must_say_so(request_of: Any) -> None:
    class Deep(decoders.Decoder):
        name = "deep"

        def select(self, view):
            yield request_of(view)
            return decoders.Commit(np.ones(len(view), bool), np.full(len(view), "x", dtype=object))

    class Says(Deep):
        def keep_from(self, layers):
            return 2

    with pytest.raises(unmask.UserError, match=r"not kept.*keep_from\(layers\)"):
        unmask.generate(hash_model(), "1 2", Deep(), canvas_length=8)
    assert decode(hash_model(), "1 2", Says(), canvas_length=8).nfe == 1


def test_a_schedule_of_more_steps_than_positions_may_idle() -> None:
    """Dream's schedule commits nothing at first when there are many more steps than masks."""
    out = decode(hash_model("dream"), "1 2", "dream-default", canvas_length=8, steps=64, temperature=0.0)
    expected = literal.dream_schedule(8, 64)
    assert [len(step) for step in commits(out)] == expected[: out.nfe] and sum(expected[out.nfe :]) == 0


def test_canvas_guards() -> None:
    canvas = Canvas([1], 4, mask_id=13)
    canvas.commit([1], [5])
    for positions, tokens in (([1], [6]), ([2, 2], [6, 7])):
        with pytest.raises(ValueError, match="committed again"):
            canvas.commit(positions, tokens)
    with pytest.raises(ValueError, match="mask token"):
        canvas.commit([0], [13])
    assert canvas.tokens.tolist() == [13, 5, 13, 13] and canvas.remaining == 3 and not canvas.done
    twin = canvas.copy()
    twin.commit([0, 2, 3], [5, 6, 7])
    assert twin.done and canvas.remaining == 3 and canvas.open_positions().tolist() == [0, 2, 3]
    assert not canvas.settled_at(frozenset({5})) and twin.settled_at(frozenset({7}))


def test_watch_sees_every_step_after_its_commit(model: unmask.Model) -> None:
    left: list[int] = []
    out = decode(
        model, "Hello", "fast-dllm", canvas_length=32,
        watch=lambda row, step: left.append(row.canvas.remaining + len(step.positions[step.committed])),
    )  # fmt: skip
    sizes = [len(step) for step in commits(out)]
    assert left == [32 - sum(sizes[:i]) for i in range(len(sizes))]
