"""The trace: a frozen format, an exact round trip, and what can be read back from it."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import unmask
from helpers import CANVAS, OPTIONS, decode, view
from unmask import Trace, UserError, decoders
from unmask.decoders.base import REASONS, ROUTES, Commit
from unmask.trace import PHASES, Step

# --- the format, byte for byte --------------------------------------------------------------------------------

GOLDEN = """\
{"format":"unmask.trace","version":1,"model":"tiny","family":"llada","decoder":"rpd","params":{"beta":4.0},\
"prompt":"1 + 1 = ?","prompt_ids":[16,10,16],"canvas_length":4,"fixed":{"3":29},"mask_id":99,"stop_ids":[98],\
"seed":0,"raw":true,"pieces":{"17":"2"}}
{"step":{"nfe":1,"positions":[0,1,2],"tokens":[17,98,17],"c":[0.95,0.7,0.1],"H":[0.25,1.5,3.0],\
"routes":{"confidence":[0],"stability":[1]},"waits":{"upstream":[2]},"K":[null,4.0,null],"r":[null,0.05,null],\
"S":[null,"-inf",null],"E":[0.0,0.0,4.5],"threshold":4.0,"projected":3,"branches":0,\
"seconds":{"backbone":0.25,"other":0.125}}}
{"step":{"nfe":2,"positions":[2],"tokens":[17],"c":[1.0],"H":[0.0],"routes":{"fallback":[0]},"waits":{},\
"threshold":"inf","projected":0,"branches":2,"seconds":{}}}
{"end":{"text":"2","tokens":1,"finish_reason":"stop","nfe":2,"seconds":0.375}}
"""

END = {"text": "2", "tokens": 1, "finish_reason": "stop", "nfe": 2, "seconds": 0.375}


def golden() -> Trace:
    f32 = lambda *values: np.array(values, dtype=np.float32)  # noqa: E731
    i32 = lambda *values: np.array(values, dtype=np.int32)  # noqa: E731
    nan = math.nan
    columns = {"K": f32(nan, 4, nan), "r": f32(nan, 0.05, nan), "S": f32(nan, -math.inf, nan), "E": f32(0, 0, 4.5)}
    words = np.array(["confidence", "stability", "upstream"], dtype=object)
    first = Step(
        1, i32(0, 1, 2), i32(17, 98, 17), f32(0.95, 0.7, 0.1), f32(0.25, 1.5, 3), words,
        np.array([True, True, False]), columns, 4.0, 3, 0, {"backbone": 0.25, "other": 0.125},
    )  # fmt: skip
    fallback = np.array(["fallback"], dtype=object)
    second = Step(2, i32(2), i32(17), f32(1), f32(0), fallback, np.array([True]), {}, math.inf, 0, 2, {})
    header = {
        "model": "tiny", "family": "llada", "decoder": "rpd", "params": {"beta": 4.0}, "prompt": "1 + 1 = ?",
        "prompt_ids": [16, 10, 16], "canvas_length": 4, "fixed": {"3": 29}, "mask_id": 99, "stop_ids": [98],
        "seed": 0, "raw": True, "pieces": {"17": "2"},
    }  # fmt: skip
    return Trace(header, [first, second], END)


def test_the_format_is_frozen(tmp_path: Path) -> None:
    golden().save(tmp_path / "t.jsonl")
    assert (tmp_path / "t.jsonl").read_text(encoding="utf-8") == GOLDEN
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]  # nothing partial is left behind


def identical(a: Trace, b: Trace) -> None:
    assert a.header == b.header and a.end == b.end and len(a.steps) == len(b.steps)
    for x, y in zip(a.steps, b.steps, strict=True):
        assert (x.nfe, x.threshold, x.projected, x.branches, x.seconds) == (
            y.nfe, y.threshold, y.projected, y.branches, y.seconds,
        )  # fmt: skip
        for name in ("positions", "token", "confidence", "entropy", "verdict", "committed"):
            one, other = getattr(x, name), getattr(y, name)
            assert one.dtype == other.dtype and one.tolist() == other.tolist(), name
        assert set(x.columns) == set(y.columns)
        for name, column in x.columns.items():
            assert column.dtype == y.columns[name].dtype == np.float32
            assert column.tobytes() == y.columns[name].tobytes() or np.array_equal(
                column, y.columns[name], equal_nan=True
            )


def test_the_frozen_text_reads_back(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text(GOLDEN, encoding="utf-8")
    read = Trace.load(tmp_path / "t.jsonl")
    identical(read, golden())
    assert read == golden() and read != Trace(read.header, read.steps[:1], read.end)
    assert read.commit_steps().tolist() == [0, 0, 1, -1]
    assert [canvas.tolist() for canvas in read.canvases()] == [
        [99, 99, 99, 29], [17, 98, 99, 29], [17, 98, 17, 29],
    ]  # fmt: skip
    assert read.route_counts() == {"confidence": 1, "stability": 1, "fallback": 1}
    assert read.seconds() == {"backbone": 0.25, "projection": 0.0, "scoring": 0.0, "other": 0.125}
    assert (read.piece(17), read.piece(5)) == ("2", "<5>")
    assert list(read.steps[0].commits()) == [(0, 17, "confidence"), (1, 98, "stability")]


any_float32 = st.floats(width=32, allow_nan=True, allow_infinity=True)
a_number = st.floats(width=32, allow_nan=False)


@st.composite
def steps(draw: st.DrawFn, positions: list[int]) -> Step:
    """A step over these positions that holds every kind of number a field may hold."""
    n = len(positions)
    numbers, column = (arrays.arrays(np.float32, n, elements=kind) for kind in (a_number, any_float32))
    committed = draw(arrays.arrays(bool, n))
    routes, reasons = (draw(st.lists(st.sampled_from(words), min_size=n, max_size=n)) for words in (ROUTES, REASONS))
    verdict = np.where(committed, np.array(routes, dtype=object), np.array(reasons, dtype=object))
    names = draw(st.sets(st.sampled_from(["K", "r", "S", "E", "score", "of_a_plugin"])))
    tokens = draw(st.lists(st.integers(0, 2**31 - 1), min_size=n, max_size=n))
    return Step(
        draw(st.integers(0, 300)), np.array(positions, dtype=np.int32), np.array(tokens, dtype=np.int32),
        draw(numbers), draw(numbers), verdict, committed, {name: draw(column) for name in sorted(names)},
        draw(st.none() | st.floats(allow_nan=False)), draw(st.integers(0, 9999)), draw(st.integers(0, 9)),
        draw(st.dictionaries(st.sampled_from(PHASES), st.floats(0, 100))),
    )  # fmt: skip


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Steps over what the steps before them left."""
    left, made = draw(st.lists(st.integers(0, 255), unique=True, min_size=1, max_size=8).map(sorted)), []
    while left and len(made) < 3:
        made.append(draw(steps(left)))
        left = [int(p) for p in made[-1].positions[~made[-1].committed]]
    words = st.dictionaries(st.integers(0, 99).map(str), st.text(), max_size=3)
    header = {
        "canvas_length": 256, "mask_id": 3, "prompt_ids": [1], "decoder": "rpd", "prompt": draw(st.text()),
        "pieces": draw(words), "params": {"beta": "inf"},
    }  # fmt: skip
    return Trace(header, made, {**END, "text": draw(st.text())})


@given(traces())
def test_any_trace_survives_the_round_trip(trace: Trace) -> None:
    written = "\n".join(trace.lines()) + "\n"
    for line in trace.lines():
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    read = Trace.parse(written)
    identical(read, trace)
    assert "\n".join(read.lines()) + "\n" == written


# --- traces of decodes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", decoders.names())
def test_a_trace_tells_the_whole_decode(model: unmask.Model, name: str, tmp_path: Path) -> None:
    out = decode(model, "Hello 12", name, canvas_length=CANVAS, **OPTIONS.get(name, {}))
    trace = out.trace
    trace.save(tmp_path / "t")
    read = Trace.load(tmp_path / "t")
    identical(read, trace)

    canvases = list(read.canvases())
    assert len(canvases) == len(read.steps) + 1 and canvases[-1].tolist() == out.canvas
    assert (canvases[0] == model.spec.mask_id).all()
    for (before, after), step in zip(pairwise(canvases), read.steps, strict=True):
        assert (before[step.positions] == model.spec.mask_id).all()  # what is scored is masked
        changed = np.flatnonzero(before != after)
        assert changed.tolist() == step.positions[step.committed].tolist()
        assert set(step.verdict[step.committed]) <= set(ROUTES) and set(step.verdict[~step.committed]) <= set(REASONS)
    order = read.commit_steps()
    assert sorted(np.bincount(order, minlength=len(read.steps)).tolist()) == sorted(
        int(step.committed.sum()) for step in read.steps
    )
    counts = read.route_counts()
    assert sum(counts.values()) == CANVAS and list(counts) == [route for route in ROUTES if route in counts]

    spent = read.seconds()
    assert set(spent) == set(PHASES) and min(spent.values()) >= 0
    assert spent["backbone"] > 0 and spent["scoring"] > 0
    for step in read.steps:
        assert set(step.seconds) <= set(PHASES) and min(step.seconds.values()) >= 0
        assert ("projection" in step.seconds) >= (step.projected > 0)
    assert sum(spent.values()) == pytest.approx(out.seconds) == pytest.approx(read.end["seconds"])
    assert read.end["nfe"] == out.nfe and read.end["text"] == out.text and read.end["tokens"] == len(out.tokens)
    assert all(read.piece(token) for token in out.canvas)


def test_what_a_step_holds_against_beta(model: unmask.Model) -> None:
    out = decode(model, "Hello 12", "rpd", canvas_length=CANVAS, **OPTIONS["rpd"])
    for step in out.trace.steps:
        assert step.threshold == 4.0
        earned = step.committed & (step.verdict != "fallback")
        assert (step.columns["E"][earned] <= 4.0).all()
        held_back = ~step.committed & (step.confidence >= 0.9)
        assert (step.verdict[held_back] == "upstream").all() and (step.columns["E"][held_back] > 4.0).all()


def test_an_infinite_score_is_kept(model: unmask.Model) -> None:
    """A finished lookahead branch scores infinity; a column of nothing but that is still worth telling."""
    made = view([0.5, 0.5], [1.0, 1.0])
    words = np.array(["branch", "rank"], dtype=object)
    commit = Commit(
        np.array([True, False]), words, None, {"score": np.array([math.inf, math.nan]), "K": np.full(2, math.nan)}
    )
    step = Step.record(made, commit, 1)
    assert step.columns["score"].tolist()[0] == math.inf and "K" not in step.columns


def test_fixed_tokens_are_in_the_first_canvas(model: unmask.Model) -> None:
    out = decode(model, "Hi", "rpd", canvas=["12", 6])
    first = next(iter(out.trace.canvases()))
    assert first[:2].tolist() == [16, 17] and (first[2:] == model.spec.mask_id).all()
    assert out.trace.commit_steps()[:2].tolist() == [-1, -1]


# --- bad files ------------------------------------------------------------------------------------------------

LINES = GOLDEN.splitlines()


def edited(line: int, **fields: Any) -> list[str]:
    data = json.loads(LINES[line])
    target = data.get("step", data)
    for name, value in fields.items():
        if value is ...:
            del target[name]
        else:
            target[name] = value
    return [*LINES[:line], json.dumps(data), *LINES[line + 1 :]]


BAD: dict[str, tuple[list[str], str]] = {
    "not JSON": ([*LINES[:2], "{oops", LINES[3]], r"t, line 3: not a valid trace line"),
    "not JSON, after an empty line": ([LINES[0], "", LINES[1], "{oops", LINES[3]], r"t, line 4: not a valid"),
    "neither step nor end": ([*LINES[:2], '{"stop":1}', LINES[3]], r"t, line 3: "),
    "not an object": ([*LINES[:2], "[1]", LINES[3]], r"t, line 3: "),
    "a number": ([*LINES[:2], "7", LINES[3]], r"t, line 3: "),
    "no positions": (edited(1, positions=...), r"t, line 2: "),
    "no threshold": (edited(1, threshold=...), r"t, line 2: "),
    "an index past the row": (edited(1, routes={"confidence": [0, 7]}), r"t, line 2: "),
    "a negative index": (edited(1, routes={"confidence": [0, -1]}), r"t, line 2: "),
    "a position without a verdict": (edited(1, routes={"confidence": [0]}), r"t, line 2: "),
    "too few tokens": (edited(1, tokens=[17]), r"t, line 2: "),
    "too few confidences": (edited(1, c=[0.5]), r"t, line 2: "),
    "a column too short": (edited(1, K=[1.0]), r"t, line 2: "),
    "a position past the canvas": (edited(1, positions=[0, 1, 4]), r"t, line 2: "),
    "a token no id can be": (edited(1, tokens=[17, 98, 10**30]), r"t, line 2: "),
    "words for numbers": (edited(1, H=["a", "b", "c"]), r"t, line 2: "),
    "a position committed twice": ([*LINES[:2], LINES[1], LINES[3]], r"t, line 3: "),
    "a confidence that is no number": (edited(1, c=[None, 0.5, 0.5]), r"t, line 2: "),
    "an end without a text": ([*LINES[:3], '{"end":{"nfe":2}}'], r"t, line 4: "),
    "another format": (edited(0, format="other"), "t is not an unmask trace"),
    "another version": (edited(0, version=2), "t has trace version 2; this unmask reads version 1"),
    "a header without a canvas": (edited(0, canvas_length=...), r"t, line 1: "),
    "no header": (LINES[1:], "t is not an unmask trace"),
    "no end": (LINES[:-1], "not a complete trace: it has no end"),
    "nothing": ([], "not a complete trace: it has no header"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_trace_gets_a_sentence(name: str, tmp_path: Path) -> None:
    lines, words = BAD[name]
    (tmp_path / "t").write_text("\n".join(lines))
    with pytest.raises(UserError, match=words) as caught:
        Trace.load(tmp_path / "t")
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        Trace.load(tmp_path / "nothing")
    with pytest.raises(UserError, match="cannot be read"):
        Trace.load(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="cannot be read"):
        Trace.load(tmp_path / "binary")


@given(st.integers(0, len(GOLDEN) - 1), st.integers(0, 0x10FFFF).filter(lambda n: not 0xD800 <= n < 0xE000))
def test_a_damaged_character_is_a_sentence_or_a_trace(at: int, code: int) -> None:
    try:
        Trace.parse(GOLDEN[:at] + chr(code) + GOLDEN[at + 1 :])
    except UserError as error:
        assert str(error)


@given(st.integers(0, len(GOLDEN) - 2))
def test_a_truncated_trace_is_never_taken_for_a_whole_one(at: int) -> None:
    with pytest.raises(UserError):
        Trace.parse(GOLDEN[:at])
