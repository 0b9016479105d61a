"""The command line: results on stdout, one sentence and exit code 2 for a mistake, never a traceback."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import oracle
import unmask
from checkpoints import write_checkpoint
from unmask import decoders
from unmask.cli import main, options

UNMASK = Path(sys.executable).with_name("unmask")


# --- the frame ------------------------------------------------------------------------------------------------


def test_help_names_every_verb(run):
    from unmask.cli import VERBS

    code, out, _ = run("--help")
    assert code == 0
    assert all(f"  {verb} " in out and line in out for verb, (_, line) in VERBS.items())
    assert all(len(line) <= 80 for line in out.splitlines())
    assert run()[:2] == (0, out)


def test_version(run):
    assert run("--version")[:2] == (0, f"unmask {unmask.__version__}\n")


def test_unknown_command_is_answered_with_the_nearest(refused):
    assert "did you mean generate" in refused("genrate", "hello")
    assert "did you mean --version" in refused("--verson")


def test_usage_errors_are_one_sentence(refused):
    assert "--watc" in refused("generate", "hello", "--watc")
    assert "PROMPT" in refused("generate").upper()
    assert "--seed" in refused("generate", "hello", "--seed", "many")
    assert "--canvas-length" in refused("generate", "hello", "--canvas-length", "0")
    assert "unmask replay --help" in refused("replay")


def test_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "unmask", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"unmask {unmask.__version__}\n")


def test_a_bug_keeps_its_traceback(monkeypatch):
    monkeypatch.setattr(options, "load_model", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["generate", "hello"])


def test_out_of_memory_is_a_sentence(monkeypatch, refused):
    import torch

    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate 2 GiB")

    monkeypatch.setattr(options, "load_model", full)
    assert "--dtype bfloat16" in refused("generate", "hello")


@pytest.mark.parametrize("command", ["decoders", "tasks --show wordproblems"])
def test_a_closed_pipe_is_no_error(command):
    done = subprocess.run(f"{UNMASK} {command} | head -n 1", shell=True, capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == 1 and done.stderr == ""


def test_interrupt_is_one_line_and_130(tmp_path):
    folder = write_checkpoint(tmp_path / "model", "llada", layers=6)
    trace = tmp_path / "trace.jsonl"
    command = [
        str(UNMASK),
        "generate",
        "hi",
        "-m",
        folder,
        "-d",
        "left-to-right",
        "--canvas-length",
        "320",
        "--watch",
    ]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}  # a second thread of so small a model only waits for the first
    with subprocess.Popen([*command, "--trace", trace], stdout=-1, stderr=-1, text=True, env=alone) as process:
        assert process.stderr and process.stdout
        assert "filled after" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.stdout.read() == ""
    assert process.returncode == 130
    assert rest.endswith("interrupted\n") and "Traceback" not in rest
    assert not list(tmp_path.glob("trace*"))


# --- generate ---------------------------------------------------------------------------------------------------


def test_generate_prints_the_answer_and_a_summary(run, told):
    code, out, err = run("generate", oracle.PROMPT)
    assert (code, out) == (0, oracle.ANSWER + "\n")
    assert err.startswith("rpd on oracle · 17 forwards · 34 tokens · ") and err.count("\n") == 1


def test_generate_json(run, told):
    code, out, err = run("generate", oracle.PROMPT, "--json", "-o", "beta=inf", "--seed", 7)
    document = json.loads(out)
    assert code == 0 and err == ""
    assert document["text"] == oracle.ANSWER
    assert (document["decoder"], document["params"]["beta"], document["model"]) == ("rpd", "inf", "oracle")
    assert document["finish_reason"] == "stop" and document["seed"] == 7
    assert document["token_accounting"] == {"answer": 34, "non_eos": 34, "canvas": oracle.CANVAS}
    assert sum(document["routes"].values()) == oracle.CANVAS
    assert document["tokens_per_second"] == pytest.approx(document["tokens"] / document["seconds"])
    assert set(document["seconds_by_phase"]) == {"backbone", "projection", "scoring", "other"}


def test_generate_writes_a_trace_that_reads_back(run, told, tmp_path):
    path = tmp_path / "trace.jsonl"
    assert run("generate", oracle.PROMPT, "--trace", path)[0] == 0
    trace = unmask.Trace.load(path)
    assert trace.end["text"] == oracle.ANSWER and len(trace.steps) == 17


def test_generate_reads_standard_input(run, told, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Mia has 12 apples\n")))
    assert run("generate", "-")[:2] == (0, oracle.ANSWER + "\n")


def test_generate_fills_gaps(run, told):
    told.net.answer = told.tokenizer.encode("Mia starts with 12 apples.")
    code, out, _ = run("generate", "hello", "--raw", "--infill", "Mia starts[[1]] 12[[2]]", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["canvas_length"] == 8
    assert document["routes"] and sum(document["routes"].values()) == 3


def test_watch_degrades_to_lines_where_stderr_is_no_terminal(run, told):
    code, out, err = run("generate", oracle.PROMPT, "--watch")
    lines = err.splitlines()
    assert (code, out) == (0, oracle.ANSWER + "\n")
    assert 5 <= len(lines) <= 12 and lines[-2].startswith("64/64 filled after 17 forwards")
    assert "\x1b" not in err


def test_unknown_words_are_named_once(run, told):
    code, _, err = run("generate", "Mia has 12 zebras and zebras and quaggas")
    assert code == 0
    warning = "warning: oracle does not know 'zebras', 'quaggas'; it reads them letter by letter, or as unknown"
    assert err.splitlines()[0] == warning
    assert err.count("warning") == 1


@pytest.mark.parametrize("family", ["llada", "dream"])
def test_every_decoder_runs_from_a_published_layout(family, run, tmp_path):
    folder = write_checkpoint(tmp_path / family, family, layers=6)
    for name in decoders.names():
        code, out, err = run("generate", "hello", "-m", folder, "-d", name, "--canvas-length", 32, "--json")
        assert code == 0, err
        document = json.loads(out)
        assert document["token_accounting"]["canvas"] == sum(document["routes"].values()) == 32


# --- demo -------------------------------------------------------------------------------------------------------


def test_demo_compares_three_decoders(run, told):
    code, out, _ = run("demo", "--seed", 3)
    assert code == 0 and "Problem 3: " in out and "####" in out
    rows = [line.split() for line in out.splitlines() if line.startswith(("default", "fast-dllm", "rpd"))]
    assert [row[0] for row in rows] == ["default", "fast-dllm", "rpd"]
    assert "confidence" in out and "--seed 3" in out


def test_demo_says_when_an_answer_is_right(run, told):
    from unmask.tasks import get

    example = next(get("wordproblems").examples(limit=1, seed=5))
    told.net.answer = told.tokenizer.encode(f"#### {example.answer}")
    out = run("demo", "--seed", 5)[1]
    assert out.count(" yes ") == 3
