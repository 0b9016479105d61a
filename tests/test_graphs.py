"""Recorded forwards: buckets, padding and static buffers, with a stand-in for the device, and on one."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import unmask
from helpers import CANVAS, OPTIONS, commits, decode
from unmask import decoders
from unmask.cli import main
from unmask.models import Model, graphs
from unmask.models.backbone import Block
from unmask.models.graphs import Bucket, GraphBackbone, Recording, eager_capture

PROMPTS = ["Hi", "the user and the assistant are counting to 12", "What is 2 + 2?"]
SHORT = {"dream-default": {"steps": 8}}


def replaying(model: Model, capture: Any = eager_capture, **options: Any) -> Model:
    return Model(model.name, GraphBackbone(model.net, capture, **options), model.tokenizer)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((1, 1), (1, 32)), ((1, 32), (1, 32)), ((1, 33), (1, 64)), ((3, 406), (4, 416)), ((64, 4096), (64, 4096))],
)
def test_the_smallest_bucket_that_holds_a_batch(shape: tuple[int, int], expected: tuple[int, int]) -> None:
    assert Bucket.holding(*shape, 5) == (*expected, 5)


def test_what_is_too_large_has_no_bucket() -> None:
    assert Bucket.holding(65, 10, 0) is None and Bucket.holding(1, 4097, 0) is None


def test_states_of_a_replay_are_the_eager_ones_and_padding_is_never_seen(exact_model: unmask.Model) -> None:
    net = exact_model.net
    graph = GraphBackbone(net, eager_capture)
    rng = torch.Generator().manual_seed(0)
    with torch.inference_mode():
        for lengths in ([37], [40, 12, 25], [5, 40], [64]):  # later batches find the buffers full of earlier ones
            ids = torch.randint(0, 10, (len(lengths), max(lengths)), generator=rng)
            mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
            mask_or_none = None if len(lengths) == 1 else mask
            eager, replay = net.states(ids, mask_or_none), graph.states(ids, mask_or_none)
            for a, b in zip(eager, replay, strict=True):
                for row, length in enumerate(lengths):
                    torch.testing.assert_close(a[row, :length], b[row, :length], rtol=1e-9, atol=1e-9)
    assert not graph.reasons and len(graph.forwards) == 3


@pytest.mark.parametrize("name", decoders.names())
def test_every_decoder_commits_the_same_tokens(exact_model: unmask.Model, name: str) -> None:
    options = {"canvas_length": CANVAS, "seed": 5, **OPTIONS.get(name, {}), **SHORT.get(name, {})}
    model = replaying(exact_model)
    eager, replay = (unmask.generate(m, PROMPTS, name, **options) for m in (exact_model, model))
    for a, b in zip(eager, replay, strict=True):
        assert (a.canvas, a.nfe) == (b.canvas, b.nfe) and commits(a) == commits(b)
    assert not model.net.reasons


def test_one_row_after_another_shares_a_bucket(model: unmask.Model) -> None:
    """Ragged decodes of different lengths are replayed from few recordings."""
    replay = replaying(model)
    for prompt in PROMPTS:
        assert decode(replay, prompt, "fast-dllm", canvas_length=CANVAS).canvas == (
            decode(model, prompt, "fast-dllm", canvas_length=CANVAS).canvas
        )
    assert len(replay.net.forwards) <= 2


def test_states_that_were_overwritten_are_computed_again(exact_model: unmask.Model) -> None:
    from unmask.canvas import Canvas
    from unmask.forward import Forward

    model = replaying(exact_model)
    first, second = (Canvas([1, 2, n], 8, model.spec.mask_id) for n in (3, 4))
    layers, slots = np.array([5, 4]), np.array([4, 5])
    early = Forward(model, [first], keep_from=3)
    wanted = early.read(slots, layers, np.array([1, 1]))
    Forward(model, [second], keep_from=3)
    again = early.read(slots, layers, np.array([1, 1]))
    assert all(np.array_equal(a, b) for a, b in zip(wanted, again, strict=True))


class SharedMemory:
    """Like recordings of one memory pool: a replay overwrites what those recorded after it returned."""

    def __init__(self) -> None:
        self.returned: list[Any] = []

    def __call__(self, run: Any) -> Any:
        outputs, replay = eager_capture(run)
        self.returned.append(outputs)
        later = len(self.returned)

        def overwriting() -> None:
            replay()
            for found in self.returned[later:]:
                for tensor in found if isinstance(found, list) else [found]:
                    if tensor is not None:
                        tensor.fill_(torch.nan)

        return outputs, overwriting


def test_reading_states_leaves_them_as_they_are(exact_model: unmask.Model) -> None:
    """Also those of a shape that was recorded after the heads were."""
    from unmask.canvas import Canvas
    from unmask.forward import Forward

    short, long = (Canvas(range(1, n), 8, exact_model.spec.mask_id) for n in (4, 60))
    layers, slots = np.array([5, 4]), np.array([60, 61])
    found = []
    for model in (exact_model, replaying(exact_model, SharedMemory(), capture_head=SharedMemory())):
        for canvas, at in ((short, slots - 56), (long, slots)):
            forward = Forward(model, [canvas], keep_from=3)
            table = forward.score([(0, canvas.open_positions())], model.choosable, torch.float32)[0]
            reads = [forward.read(at, layers, np.array([1, 1])) for _ in range(2)]
        found.append((table, *reads[0], *reads[1]))
    for eager, replayed in zip(*found, strict=True):
        np.testing.assert_allclose(replayed, eager, rtol=1e-9)


def test_heads_have_memory_of_their_own(model: unmask.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "compiled_block", lambda: Block.forward)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: device)
    monkeypatch.setattr(type(model.net), "device", SimpleNamespace(type="cuda"))
    net, reason = graphs.recorded(model.net)
    assert reason is None and net.capture is not net.capture_head
    assert net.capture.stream is net.capture_head.stream  # a stream costs workspaces


def test_what_a_recording_reads_lives_as_long_as_it_does(model: unmask.Model) -> None:
    """A device replays addresses: it does not keep the tensors behind them."""
    net, read = model.net, []
    tables = type(net).tables

    def watched(self: Any, ids: torch.Tensor) -> Any:
        made = tables(self, ids)
        read.extend(weakref.ref(table) for table in made)
        return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(net), "tables", watched)
        with torch.inference_mode():
            recording = Recording(net, Bucket(1, 32, 0), lambda run: (run(), lambda: None), Block.forward)
    gc.collect()
    assert recording.hidden and len(read) == 2 and all(table() is not None for table in read)


def test_rows_past_every_recording_are_read_eagerly(model: unmask.Model) -> None:
    graph = GraphBackbone(model.net, eager_capture)
    with torch.inference_mode():
        assert graph.table(torch.zeros(graphs.ROWS[-1] + 1, model.spec.width), model.choosable) is None


# --- falling back, with a reason ------------------------------------------------------------------------------


def failing(run: Any) -> Any:
    raise RuntimeError("operation not permitted when stream is capturing\nmore")


def test_what_cannot_be_recorded_runs_eagerly(model: unmask.Model) -> None:
    replay = replaying(model, failing)
    out = decode(replay, "Hi", "rpd", canvas_length=CANVAS, **OPTIONS["rpd"])
    assert out.canvas == decode(model, "Hi", "rpd", canvas_length=CANVAS, **OPTIONS["rpd"]).canvas
    assert "recording failed (operation not permitted when stream is capturing)" in replay.net.reasons
    assert any("head cannot be recorded" in reason for reason in replay.net.reasons)


def test_a_compiler_that_fails_costs_the_compilation_only(model: unmask.Model) -> None:
    def broken(*_: Any) -> torch.Tensor:
        raise RuntimeError("no C compiler")

    replay = replaying(model, block=broken)
    decode(replay, "Hi", "fast-dllm", canvas_length=CANVAS)
    assert replay.net.reasons == ["torch.compile failed (no C compiler); blocks are recorded uncompiled"]
    assert replay.net.forwards


def test_recordings_are_limited(model: unmask.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MOST", 1)
    replay = replaying(model)
    decode(replay, "Hi", "fast-dllm", canvas_length=CANVAS)
    decode(replay, "Hi", "fast-dllm", canvas_length=4 * CANVAS)
    assert len(replay.net.forwards) == 1 and replay.net.reasons == ["1 shapes are recorded already"]


def test_without_memory_for_a_recording_it_goes_on_without(model: unmask.Model) -> None:
    def full(run: Any) -> Any:
        raise torch.OutOfMemoryError("full")

    replay = replaying(model, full)
    out = decode(replay, "Hi", "fast-dllm", canvas_length=CANVAS)
    assert out.canvas == decode(model, "Hi", "fast-dllm", canvas_length=CANVAS).canvas
    assert replay.net.reasons == [graphs.NO_MEMORY]


def test_running_out_of_memory_is_not_hidden(model: unmask.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(model.net, "states", full)
    with pytest.raises(torch.OutOfMemoryError):
        decode(replaying(model, full), "Hi", "fast-dllm", canvas_length=CANVAS)


def test_without_a_device_the_reason_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(UserWarning, match="need a CUDA device"):
        unmask.load("tiny", device="cpu", compile=True)
    words = [
        "generate",
        "def",
        "--canvas-length",
        "8",
        "-d",
        "fast-dllm",
        "-o",
        "threshold=0",
        "-o",
        "block_length=8",
    ]
    assert main([*words, "--device", "cpu", "--compile"]) == 0
    assert "need a CUDA device" in capsys.readouterr().err


# --- on a device ----------------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", ["rpd", "fast-dllm", "lopa", "dapd"])
def test_cuda_graphs_commit_the_eager_tokens(name: str) -> None:
    """In float32, where no two kernels round a near-tie apart on these prompts."""
    eager, replay = (unmask.load("tiny", device="cuda", dtype="float32", compile=flag) for flag in (False, True))
    prompts = ["Mia has 12 apples and buys 30 more. How many apples does Mia have now?", "Write a function add."]
    for prompt in (*prompts, prompts):
        a, b = (unmask.generate(model, prompt, name, canvas_length=96) for model in (eager, replay))
        a, b = (x if isinstance(x, list) else [x] for x in (a, b))
        assert [x.canvas for x in a] == [x.canvas for x in b]
    assert not replay.net.reasons
