"""Replaying a decode: the story, the reasons in words, and the first step at which another decoder differs."""

from __future__ import annotations

import io
import json
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oracle
import unmask
from helpers import hash_model
from unmask import decoders, schema
from unmask.cli import main, options
from unmask.decoders.base import REASONS, ROUTES
from unmask.replay import WORDS, compare, reason, seats
from unmask.show import console
from unmask.story import tell, tell_comparison
from unmask.trace import Trace

SNAPSHOTS = Path(__file__).parent / "snapshots"
DOCS = Path(__file__).parent.parent / "docs"


@pytest.fixture(scope="module")
def told() -> unmask.Model:
    return oracle.oracle()


@pytest.fixture(scope="module")
def trace(told) -> Trace:
    return unmask.generate(told, oracle.PROMPT, "rpd").trace


@pytest.fixture
def file(trace, tmp_path, monkeypatch, told) -> Path:
    monkeypatch.setattr(options, "load_model", lambda *_: told)
    path = tmp_path / "trace.jsonl"
    trace.save(path)
    return path


def normalised(text: str) -> str:
    """Without what differs from run to run: times, shares of time, rates."""
    text = re.sub(r"\d+(\.\d+)? (ms|s|min)\b", "TIME", text)
    text = re.sub(r"(backbone|projection|scoring|other) \d+ %", r"\1 N %", text)
    text = re.sub(r"[\d.]+ tokens/s", "N tokens/s", text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def check_snapshot(name: str, text: str) -> None:
    """`UPDATE_SNAPSHOTS=1 pytest` writes them; look at the difference before committing it."""
    path = SNAPSHOTS / name
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(normalised(text))
    assert normalised(text) == path.read_text()


def run(capsys, *argv: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(argument) for argument in argv])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out, captured.err


# --- the story --------------------------------------------------------------------------------------------------


def test_story_in_full(file, capsys):
    code, out, err = run(capsys, "replay", file)
    assert (code, err) == (0, "")
    check_snapshot("story.txt", out)


def test_story_of_some_steps(file, capsys):
    out = run(capsys, "replay", file, "--steps", "2:3")[1]
    assert "step 2 " in out and "step 3 " in out
    assert "step 1 " not in out and "step 4 " not in out
    assert run(capsys, "replay", file, "--steps", "17:99")[1].count("step 17 ") == 1


def test_a_long_story_takes_one_line_per_step(told, tmp_path, capsys):
    unmask.generate(told, oracle.PROMPT, "left-to-right").trace.save(tmp_path / "long.jsonl")
    out = run(capsys, "replay", tmp_path / "long.jsonl")[1]
    check_snapshot("long.txt", out)
    assert "step 7 " in run(capsys, "replay", tmp_path / "long.jsonl", "--steps", "7")[1]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(trace, width):
    text = drawn(trace, width)
    assert max(len(line) for line in text.splitlines()) <= width


def drawn(trace: Trace, width: int = 80, color: bool = False) -> str:
    screen = console(width=width)
    screen.file = io.StringIO()
    screen._color_system = None if not color else screen._color_system
    tell(trace, screen)
    return screen.file.getvalue()


def test_every_committed_piece_is_told(trace):
    text = drawn(trace)
    for number, step in enumerate(trace.steps, start=1):
        assert f"step {number} · " in text
        for _, _, route in step.commits():
            assert route in text


def test_json_has_every_commit(file, trace, capsys):
    document = json.loads(run(capsys, "replay", file, "--json")[1])
    assert [[seat["position"] for seat in step["committed"]] for step in document["steps"]] == [
        [position for position, _, _ in step.commits()] for step in trace.steps
    ]
    assert document["comparison"] is None and document["end"]["text"] == oracle.ANSWER


def test_control_characters_cannot_reach_the_terminal(trace):
    lines = list(trace.lines())
    header = json.loads(lines[0])
    header["pieces"] = dict.fromkeys(header["pieces"], "\x1b[31m\x07\r")
    header["prompt"] = "\x1b[2J"
    text = drawn(Trace.parse("\n".join([json.dumps(header), *lines[1:]])))
    assert "\x1b" not in text and "\x07" not in text and "\r" not in text


# --- reasons ----------------------------------------------------------------------------------------------------


def test_every_route_and_reason_has_words():
    assert set(WORDS) == {*ROUTES, *REASONS}


RPD = {"decoder": "rpd", "theta_h": 0.9, "theta_c": 0.6, "theta_s": 3.5}


@pytest.mark.parametrize(
    ("verdict", "values", "threshold", "params", "words"),
    [
        ("upstream", {"c": 0.97, "E": 6.2}, 4.0, RPD, "E 6.2 > beta 4"),
        ("upstream", {"c": 0.97}, None, {}, "too much entropy upstream"),
        ("unsure", {"c": 0.42}, 4.0, RPD, "c 0.42 < theta_c 0.6"),
        ("unsure", {"c": 0.42}, None, {"decoder": "fast-dllm", "threshold": 0.9}, "c 0.42 < threshold 0.9"),
        ("unsure", {"c": 0.42}, None, {"decoder": "mine"}, "c 0.42"),
        ("unstable", {"c": 0.7, "S": 1.2, "K": 2.0, "r": 0.05}, 4.0, RPD, "S 1.2 < theta_s 3.5 (K 2, r 0.05)"),
        ("stability", {"c": 0.7, "S": 4.0, "K": 4.0, "r": 0.0}, 4.0, RPD, "S 4 >= theta_s 3.5 (K 4, r 0)"),
        ("confidence", {"c": 0.95}, 4.0, RPD, "c 0.95 >= theta_h 0.9"),
        ("confidence", {"c": 0.5}, None, {"decoder": "fast-dllm", "threshold": 0.9, "factor": 1.0}, "c 0.5"),
        ("fallback", {"c": 0.5}, 4.0, RPD, "nothing qualified; the best allowed, c 0.5"),
        ("rank", {"c": 0.5, "score": 0.35}, 0.1, {"decoder": "eb-sampler"}, "d 0.35 > gamma 0.1"),
        ("budget", {"c": 0.5, "score": 0.05}, 0.1, {"decoder": "eb-sampler"}, "d 0.05 <= gamma 0.1"),
        ("rank", {"c": 0.5}, None, {"decoder": "llada-default"}, "others ranked higher"),
        ("turn", {"c": 0.5}, None, {"decoder": "left-to-right"}, "an earlier position comes first"),
        (
            "direct",
            {"c": 0.999},
            0.01,
            {"decoder": "dapd", "direct": 0.998, "variant": "direct", "staged_confidence": 0.9},
            "c 0.999 >= direct 0.998",
        ),
        (
            "direct",
            {"c": 0.93},
            0.01,
            {"decoder": "dapd", "direct": 0.998, "variant": "staged", "staged_confidence": 0.9},
            "c 0.93 >= staged_confidence 0.9",
        ),
        ("whim", {"c": 0.5}, None, {"decoder": "mine"}, ""),
    ],
)
def test_reasons_in_words(verdict, values, threshold, params, words):
    assert reason(verdict, values, threshold, params) == words


STAGED = {"variant": "staged", "staged_confidence": 0.3}  # what the small models reach


@pytest.mark.parametrize(("name", "options"), [*((n, {}) for n in decoders.names()[1:]), ("dapd", STAGED)])
def test_the_words_agree_with_the_verdicts(name, options, model):
    """Whatever a reason claims with < or >= is true of the numbers beside it, on real decodes."""
    trace = unmask.generate(model, "hello there", name, canvas_length=32, **options).trace
    assert not options or "direct" in trace.route_counts()
    claims = 0
    for step in trace.steps:
        for seat in seats(trace, step):
            found = re.match(r"(\S+) (\S+) (<=|>=|<|>) (\S+) (\S+)", seat.why)
            if found:
                value, sign, limit = seat.values.get(found[1], seat.values.get("score")), found[3], float(found[5])
                holds = {"<": value < limit, "<=": value <= limit, ">": value > limit, ">=": value >= limit}
                assert holds[sign] or value == pytest.approx(limit, rel=5e-3), seat
                claims += 1
    assert claims or name in ("left-to-right", "llada-default", "dream-default")


# --- another decoder at the same states -------------------------------------------------------------------------


def choices(trace: Trace) -> list[dict[int, int]]:
    return [{position: token for position, token, _ in step.commits()} for step in trace.steps]


@pytest.mark.parametrize("name", decoders.names()[1:])
def test_a_decoder_agrees_with_itself(name, model):
    """Also those with a memory or a random stream, and across a trip through the file format."""
    out = unmask.generate(model, "hello there", name, canvas_length=32, seed=3)
    trace = Trace.parse("\n".join(out.trace.lines()))
    result = compare(trace, model, decoders.get(name))
    assert result.step is None and result.agreed == len(trace.steps)


@pytest.mark.parametrize(
    "other", ["fast-dllm", "rpd-block", "rpd-paper", "lopa", "dapd", "eb-sampler", "left-to-right"]
)
def test_the_first_difference_is_that_of_two_whole_decodes(other, model):
    """As long as two decoders agree, their canvases are the same: their own decodes part at the same step."""
    ours = unmask.generate(model, "hello there", "rpd", canvas_length=32).trace
    theirs = unmask.generate(model, "hello there", other, canvas_length=32).trace
    pairs = list(zip(choices(ours), choices(theirs), strict=False))
    first = next((n for n, (a, b) in enumerate(pairs) if a != b), None)
    result = compare(ours, model, decoders.get(other))
    assert result.step == (None if first is None else first + 1)
    if first is not None:
        a, b = pairs[first]
        assert {d.position for d in result.differences} == {p for p in a | b if a.get(p) != b.get(p)}
        for difference in result.differences:
            sides = ((difference.ours, a), (difference.theirs, b))
            assert all((seat is not None and seat.committed) == (difference.position in c) for seat, c in sides)


def test_a_late_difference_is_found_behind_equal_steps(told, trace):
    """A decoder that follows RPD for nine steps, then waits: its memory must have seen all of them."""
    expected = [step.committed for step in trace.steps]

    class Follower(decoders.Decoder):
        name = "follower"

        def select(self, view):
            count = view.memory["count"] = view.memory.get("count", 0) + 1
            take = expected[count - 1].copy()
            if count == 10:
                take[np.flatnonzero(take)[-1]] = False
            return decoders.Commit(take, np.where(take, "order", "turn").astype(object))

    result = compare(trace, told, Follower())
    assert result.step == 10 and result.agreed == 9
    assert [difference.theirs.verdict for difference in result.differences] == ["turn"]


def test_options_make_another_decoder_of_the_same_name(told, trace):
    result = compare(trace, told, decoders.get("rpd", theta_h=0.99, theta_c=0.97))
    assert result.step == 1 and result.ours == "rpd (recorded)" and result.theirs == "rpd (asked)"


@pytest.mark.parametrize("other", ["fast-dllm", "lopa", "left-to-right", "eb-sampler"])
def test_comparisons_as_they_are_printed(other, file, capsys):
    code, out, _ = run(capsys, "replay", file, "--decoder", other, "--steps", "1:1")
    assert code == 0
    check_snapshot(f"against-{other}.txt", out[out.index(f"{other} would") :])


def test_printing_an_agreement(told, trace):
    screen = console(width=80)
    screen.file = io.StringIO()
    tell_comparison(compare(trace, told, decoders.get("rpd")), trace, screen)
    assert "rpd (asked) would have chosen the same at all 17 steps" in screen.file.getvalue()


def test_scores_are_compared_in_the_recorded_precision():
    """In bfloat16 confidences tie that differ in float32: the same decoder must still agree with its recording."""
    flat = hash_model(sharpness=8.0)
    out = unmask.generate(flat, "1 2", "llada-default", canvas_length=32, score_dtype="bfloat16")
    assert compare(out.trace, flat, decoders.get("llada-default")).step is None
    out.trace.header["score_dtype"] = "float32"
    assert compare(out.trace, flat, decoders.get("llada-default")).step is not None


def test_a_preset_is_told_by_its_name(told, file, capsys):
    out = unmask.generate(told, oracle.PROMPT, "rpd-paper")
    out.trace.save(file)
    code, story, _ = run(capsys, "replay", file, "-d", "rpd-paper")
    assert code == 0 and story.startswith("rpd-paper (rpd) on ") and "rpd-paper (asked) would have" in story


def test_comparison_as_json(file, capsys):
    document = json.loads(run(capsys, "replay", file, "-d", "fast-dllm", "-o", "threshold=0.8", "--json")[1])
    result = document["comparison"]
    assert result["decoder"] == "fast-dllm" and result["params"]["threshold"] == 0.8 and result["same_model"]
    side = result["differences"][0]["recorded"]
    assert {"position", "token", "piece", "verdict", "committed", "c", "H", "why"} <= set(side)


def test_replay_does_not_change_the_recording(told, trace):
    before = list(trace.lines())
    compare(trace, told, decoders.get("fast-dllm"))
    tell(trace, console(width=80, stderr=True))
    assert list(trace.lines()) == before


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-o", "beta=2"], "--option belongs to a --decoder"),
        (["-m", "tiny"], "--model belongs to a --decoder"),
        (["-d", "fastdllm"], "did you mean fast-dllm"),
        (["-d", "rpd", "-o", "beta=-1"], "beta must be 0 or more"),
        (["-d", "fast-dllm", "-o", "block_length=7"], "does not divide the canvas"),
        (["--steps", "x"], "--steps takes A:B"),
        (["--steps", "0:3"], "counted from 1"),
        (["--steps", "5:3"], "counted from 1"),
        (["--steps", "99:"], "the trace has only 17 steps"),
    ],
)
def test_bad_arguments(arguments, sentence, file, capsys):
    code, out, err = run(capsys, "replay", file, *arguments)
    assert (code, out) == (2, "") and err.count("\n") == 1
    assert sentence in err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "no header"),
        (b"hello", "line 1: not a valid trace line"),
        (b"{}", "is not an unmask trace"),
        (b'{"format":"unmask.trace","version":99}', "trace version 99; this unmask reads version 1"),
        (b'{"format":"unmask.trace","version":1}', "decoder, prompt_ids, canvas_length, mask_id is missing"),
        (b"\xff\xfe", "cannot be read"),
        (b"[" * 100_000, "line 1: not a valid trace line"),
    ],
)
def test_files_that_are_no_traces(content, sentence, tmp_path, capsys):
    path = tmp_path / "trace.jsonl"
    path.write_bytes(content)
    code, out, err = run(capsys, "replay", path)
    assert (code, out) == (2, "") and sentence in err


def test_missing_and_cut_off_files(file, tmp_path, capsys):
    assert "cannot be read" in run(capsys, "replay", tmp_path / "nothing.jsonl")[2]
    assert "cannot be read" in run(capsys, "replay", tmp_path)[2]
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    assert "has no end" in run(capsys, "replay", file)[2]


def test_a_model_that_cannot_continue_the_trace(trace):
    other = oracle.oracle("Something else entirely, with 7 other words.")
    other.net.spec = type(other.spec)(**{**vars(other.spec), "mask_id": 3})
    with pytest.raises(unmask.UserError, match="give that model with --model"):
        compare(trace, other, decoders.get("rpd"))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"fixed": {"0": 10**6}}, "gives token 1000000, which oracle cannot"),
        ({"fixed": {"0": "limit"}}, "which oracle cannot"),
        ({"prompt_ids": [3] * 5000}, "5000 tokens of prompt and a canvas of 64, but oracle takes"),
        ({"canvas_length": 1 << 17}, "a canvas of 131072, but oracle takes"),
        ({"prompt_ids": []}, "the prompt is empty"),
    ],
)
def test_a_trace_that_asks_too_much_of_the_model(fields, sentence, trace, told):
    fields = json.loads(json.dumps(fields).replace('"limit"', str(told.choosable.limit)))
    lines = list(trace.lines())
    lines[0] = json.dumps({**json.loads(lines[0]), **fields})
    with pytest.raises(unmask.UserError, match=sentence):
        compare(Trace.parse("\n".join(lines)), told, decoders.get("fast-dllm"))


def test_a_mask_is_never_given(trace):
    lines = list(trace.lines())
    header = json.loads(lines[0])
    lines[0] = json.dumps({**header, "fixed": {"0": header["mask_id"]}})
    with pytest.raises(unmask.UserError, match=r"line 1: .*fixed holds the mask"):
        Trace.parse("\n".join(lines))


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """Every place in a JSON value (of long lists and objects, the first few)."""
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(entries)[:14]:
        yield from places(item, (*path, key))


def test_a_damaged_field_is_a_sentence(trace, told):
    """Something else in any one place of the file: read, told and compared as before, or refused in words."""
    lines, rng, refused = list(trace.lines()), random.Random(0), 0
    junk = [None, "x", -1, 10**6, 10**30, 1.5, float("nan"), [], {}, True, "inf", [1, 2], {"a": 1}, [[None]]]
    for number in (0, 1, 2, len(lines) - 1):
        for path in list(places(json.loads(lines[number])))[1:]:
            for value in rng.sample(junk, 2):
                data = json.loads(lines[number])
                inner = data
                for key in path[:-1]:
                    inner = inner[key]
                inner[path[-1]] = value
                text = "\n".join([*lines[:number], json.dumps(data), *lines[number + 1 :]])
                try:
                    damaged = Trace.parse(text)
                    if rng.random() < 0.2:
                        drawn(damaged)
                    if rng.random() < 0.05:
                        compare(damaged, told, decoders.get("fast-dllm"))
                except unmask.UserError:
                    refused += 1
    assert refused > 150


# --- the format -------------------------------------------------------------------------------------------------


def test_the_documentation_names_every_field(trace):
    text = (DOCS / "trace.md").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in trace.lines()]
    written = {*lines[0], *lines[1]["step"], *lines[-1]["end"], *schema.HEADER, *schema.STEP, *schema.END}
    missing = [name for name in (*written, *ROUTES, *REASONS) if f"`{name}`" not in text]
    assert not missing


def test_what_is_written_passes_the_schema(trace):
    assert Trace.parse("\n".join(trace.lines())) == trace


def test_columns_of_third_parties_survive(told):
    class Mine(decoders.Decoder):
        name = "mine"

        def select(self, view):
            take = np.arange(len(view)) == 0
            verdict = np.where(take, "mine", "later").astype(object)
            return decoders.Commit(take, verdict, None, {"whim": np.linspace(0, 1, len(view))})

    trace = unmask.generate(told, oracle.PROMPT, Mine()).trace
    again = Trace.parse("\n".join(trace.lines()))
    assert again == trace and "whim" in again.steps[0].columns
    assert "mine" in drawn(again)
