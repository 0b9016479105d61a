"""The profiler: a script reproduces the decode it was recorded from, and the floor is counted right."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from checkpoints import checkpoint_config
from helpers import CANVAS, OPTIONS, decode, hash_model
from unmask import decoders
from unmask.cli import main
from unmask.errors import UserError
from unmask.evaluate.specs import DecoderSpec
from unmask.profile.floor import Peaks, Work, layer_weights
from unmask.profile.measure import Setup, profile, run, runtime_split, windows
from unmask.profile.planted import PlantedLoop
from unmask.profile.schedule import Schedule, Script
from unmask.profile.shapes import SHAPES, find_spec, parameters, random_model
from unmask.trace import Trace

PEAKS = Peaks(1e12, 1e11)
SMALL = replace(
    SHAPES["llada-8b"],
    width=32,
    layers=6,
    heads=4,
    kv_heads=2,
    mlp_width=48,
    rows=64,
    mask_id=60,
    eos_id=61,
    pad_id=61,
)
# What these decide does not follow from confidence and entropy: attention maps, branches, transformed logits.
UNSCRIPTED = {"dapd", "dream-default", "lopa"}


@pytest.fixture(scope="module")
def network() -> Any:
    return random_model("small", SMALL, torch.device("cpu"), torch.float32)


def recorded(name: str, seed: int = 1) -> tuple[Trace, Schedule]:
    trace = decode(hash_model(seed=seed), "1 2 3", name, canvas_length=CANVAS, **OPTIONS[name]).trace
    return trace, Schedule.from_trace(trace)


@pytest.mark.parametrize("name", decoders.names())
def test_on_its_own_canvas_a_decoder_follows_the_recording_by_itself(network: Any, name: str) -> None:
    trace, schedule = recorded(name)
    decoder = DecoderSpec(name, name, OPTIONS[name]).build(SMALL, CANVAS)
    loop = PlantedLoop(network)
    script = Script(schedule, CANVAS)
    timed = run(loop, network, decoder, [script], Setup(5, CANVAS, repeats=1), [range(script.steps)])
    assert len(timed) == schedule.steps == sum(step.committed.any() for step in trace.steps)
    assert name in UNSCRIPTED or loop.forced == 0
    # The lens reads as many rows x layers as in the recording: persistence and drop are planted, too.
    assert loop.work.projected == sum(step.projected for step in trace.steps)
    if name not in ("lopa", "dream-default"):  # they also score branches; steps that commit nothing are left out
        assert loop.work.scored == sum(len(step.positions) for step in trace.steps)


@pytest.mark.parametrize("name", ["rpd", "fast-dllm", "lopa", "default", "dapd"])
@pytest.mark.parametrize("canvas", [16, 48, 96])
def test_other_canvases_repeat_or_cut_the_recording(network: Any, name: str, canvas: int) -> None:
    trace, schedule = recorded(name)
    spec = DecoderSpec(name, name, {**OPTIONS[name], "block_length": 16} if name != "rpd" else OPTIONS[name])
    script = Script(schedule, canvas)
    order = trace.commit_steps()
    first = np.unique(order, return_inverse=True)[1]
    assert (script.when[: min(canvas, CANVAS)] == first[: min(canvas, CANVAS)]).all()
    if canvas > CANVAS:
        assert script.steps == -(-canvas // CANVAS) * schedule.steps or canvas % CANVAS
    result = profile(network, spec, [schedule], 3, Setup(9, canvas, repeats=1), PEAKS)
    assert result["steps"] == result["timed_steps"] == script.steps
    assert sum(result["phases_ms"].values()) == pytest.approx(result["ms_per_step"])


def test_rows_of_a_batch_follow_their_own_scripts_and_leave_when_done(network: Any) -> None:
    schedules = [recorded("fast-dllm", seed)[1] for seed in (1, 2)]
    scripts = [Script(schedule, CANVAS) for schedule in schedules]
    decoder = decoders.get("fast-dllm", block_length=16).resolve(SMALL, CANVAS)
    loop = PlantedLoop(network)
    timed = run(loop, network, decoder, scripts, Setup(8, CANVAS), [range(max(s.steps for s in scripts))])
    assert len(timed) == max(script.steps for script in scripts)
    tokens = [(8 + CANVAS) * scripts[0].steps, (4 + CANVAS) * scripts[1].steps]  # the shorter prompt has half
    per_token = 2 * SMALL.layers * layer_weights(SMALL)
    attention = sum(4 * SMALL.layers * SMALL.width * t * (t // s.steps) for t, s in zip(tokens, scripts, strict=True))
    assert loop.work.flops["backbone"] == sum(tokens) * per_token + attention


def test_floor_of_an_8b_step_is_the_known_one() -> None:
    """Prompt 150, canvas 256: 6.02 TFLOP with the head on the canvas, 7.6 ms at 790 TFLOP/s."""
    spec, work = SHAPES["llada-8b"], Work()
    work.forward(spec, 2, [406])
    work.head(spec, 2, "scoring", 256)
    assert sum(work.flops.values()) == pytest.approx(6.02e12, rel=2e-3)
    assert work.seconds(Peaks(790e12, 4.3e12))["compute"] == pytest.approx(7.6e-3, rel=5e-3)
    # In bytes: 7 billion layer weights and the head, twice two bytes... once each, read once.
    assert sum(work.bytes.values()) == 2 * (32 * (4 * 4096**2 + 3 * 4096 * 12288) + 4096 * 126464)


def test_published_shapes_have_the_published_sizes() -> None:
    assert parameters(SHAPES["llada-8b"]) == 8_015_581_184
    assert parameters(SHAPES["dream-7b"]) == 7_615_616_512
    assert find_spec("llada-8b", 2).layers == 2


def test_each_part_is_bound_by_the_slower_of_arithmetic_and_memory() -> None:
    work = Work()
    work.flops |= {"backbone": 10.0, "scoring": 1.0}
    work.bytes |= {"backbone": 1.0, "scoring": 10.0}
    floor = work.seconds(Peaks(1.0, 1.0))
    assert (floor["compute"], floor["memory"], floor["total"]) == (11.0, 11.0, 20.0)
    assert floor["parts"] == {"backbone": 10.0, "scoring": 10.0, "projection": 0.0}


@pytest.mark.parametrize(
    ("total", "steps", "expected"),
    [(5, None, [(0, 5)]), (5, 9, [(0, 5)]), (100, 4, [(48, 52)]), (100, 16, [(0, 8), (92, 100)])],
)
def test_windows(total: int, steps: int | None, expected: list[tuple[int, int]]) -> None:
    assert [(w.start, w.stop) for w in windows(total, steps)] == expected


def test_timing_some_steps_only(network: Any) -> None:
    _, schedule = recorded("left-to-right")
    spec = DecoderSpec("left-to-right", "left-to-right")
    result = profile(network, spec, [schedule], 2, Setup(5, CANVAS, steps=16, repeats=2), PEAKS)
    assert (result["steps"], result["timed_steps"]) == (CANVAS, 16)
    assert result["rows_scored_per_step"] == 2 * (sum(range(25, 33)) + sum(range(1, 9))) / 16


def test_half_a_decode_is_no_schedule() -> None:
    trace, _ = recorded("fast-dllm")
    trace.steps.pop()
    with pytest.raises(UserError, match="not a whole decode"):
        Schedule.from_trace(trace, "half.jsonl")


def test_the_figure_reads_seconds_of_a_whole_decode() -> None:
    rows = [
        {"decoder": "a", "batch": batch, "steps": 10, "phases_ms": {"backbone": 5.0 * batch, "other": 1.0}}
        for batch in (4, 1)
    ]
    assert runtime_split(rows) == {"a": {"backbone": 0.05, "other": 0.01}}


# --- the command ----------------------------------------------------------------------------------------------


def shape_file(folder: Path) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(checkpoint_config("dream")))
    return path


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, out = tmp_path / "decode.jsonl", tmp_path / "profile.json"
    recorded("rpd")[0].save(trace)
    words = [
        "--shape",
        str(shape_file(tmp_path)),
        "-d",
        "rpd,fast-dllm:threshold=0.8",
        "--canvas",
        "32",
        "--prompt",
        "7",
    ]
    code = main(["profile", *words, "--batch", "1,2", "--schedule", str(trace), "--repeats", "2", "--out", str(out),
                 "--cpu-time"])  # fmt: skip
    text = capsys.readouterr()
    assert code == 0 and "scoring and gating" in text.out and "measured peaks" in text.err
    document = json.loads(out.read_text())
    assert [(row["decoder"], row["batch"]) for row in document["profiles"]] == [
        ("rpd", 1), ("fast-dllm:threshold=0.8", 1), ("rpd", 2), ("fast-dllm:threshold=0.8", 2),
    ]  # fmt: skip
    for row in document["profiles"]:
        assert row["repeats"] == 2 and row["ms_spread"][0] <= row["ms_per_step"] <= row["ms_spread"][1]
        assert row["ratio"]["compute"] == pytest.approx(row["ms_per_step"] / row["floor_ms"]["compute"])
    assert set(document["runtime_split"]) == {"rpd", "fast-dllm:threshold=0.8"}
    assert set(document["runtime_split"]["rpd"]) == {"backbone", "projection", "scoring", "other"}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--shape", "llada8b"], "unknown shape 'llada8b'; did you mean llada-8b?"),
        (["--shape", "tiny", "--model", "tiny"], "exclude each other"),
        (["--model", "tiny", "--layers", "4"], "real model"),
        (["--model", "tiny", "--canvas", "400"], "context of 320"),
        (["--batch", "1,x"], "not a list of numbers"),
        (["--batch", "0"], "1 or more"),
        (["--canvas", "250", "-d", "fast-dllm"], "does not divide"),
        (["--decoder", "rdp"], "did you mean rpd"),
        (["--schedule", "missing.jsonl"], "cannot be read"),
        (["--shape", "missing/config.json"], "is missing"),
    ],
)
def test_mistakes_get_a_sentence(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_weights_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: 1000)
    with pytest.raises(UserError, match="--layers"):
        random_model("llada-8b", SHAPES["llada-8b"], torch.device("cpu"), torch.bfloat16)
