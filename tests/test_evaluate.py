"""The runner: what is on disk, at every moment, and what a second visit makes of it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import checkpoints
from eval_helpers import answers, small_tasks, untimed  # noqa: F401 (a fixture)
from unmask.cli.specs import parse_decoders
from unmask.errors import UserError
from unmask.evaluate import Settings, run, summarise
from unmask.evaluate.folder import RunFolder, read_samples
from unmask.loop import Loop

pytestmark = pytest.mark.usefixtures("small_tasks")

REQUIRED = (
    "model task decoder params n accuracy accuracy_ci95 nfe tokens seconds tps token_accounting".split()
)  # the public contract of summary.json


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A checkpoint whose forward costs nothing."""
    return checkpoints.write_checkpoint(tmp_path_factory.mktemp("eval") / "small", "llada", layers=2, dim=16, mlp=16)


def settings(model, decoders="fast-dllm,rpd", task="parity", **more):
    more = {"canvas_length": 32, "device": "cpu", "batch_size": 4} | more
    return Settings(str(model), task, parse_decoders(decoders), **more)


def samples(folder):
    return list(read_samples(folder))


# --- what a run leaves ------------------------------------------------------------------------------------------


def test_a_run_leaves_samples_a_configuration_and_a_summary(small, tmp_path):
    rows = run(settings(small), tmp_path / "run")
    assert json.loads((tmp_path / "run" / "summary.json").read_text()) == rows
    assert [row["label"] for row in rows] == ["fast-dllm", "rpd"]
    found = samples(tmp_path / "run")
    assert len(found) == 24 and {s["id"] for s in found} == {f"parity/{i}" for i in range(12)}
    for row in rows:
        assert set(REQUIRED) <= row.keys() and row["n"] == 12 and row["complete"]
        mine = [s for s in found if s["decoder"] == row["label"]]
        assert row["accuracy"] == sum(s["correct"] for s in mine) / 12
        assert row["tokens"] == sum(s["tokens"] for s in mine)
        assert row["nfe"] == sum(s["nfe"] for s in mine) / 12
        assert row["tps"] == pytest.approx(row["tokens"] / row["seconds"])
        assert row["accuracy_ci95"][0] <= row["accuracy"] <= row["accuracy_ci95"][1]
        assert sum(row["phases"].values()) == pytest.approx(row["seconds"])
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["decoders"][0]["params"]["threshold"] == 0.9
    assert {"versions", "hardware", "task", "model"} <= config.keys()
    assert 0 < sum(s["correct"] for s in found) < 24, "the task is neither impossible nor trivial"


@pytest.mark.parametrize("decoder", ["fast-dllm", "rpd", "lopa", "dapd", "dream-default"])
def test_answers_do_not_depend_on_the_batch(small, tmp_path, decoder):
    for size in (1, 3, 64):
        run(settings(small, decoder, batch_size=size, limit=7, dtype="float64"), tmp_path / str(size))
    one = answers(samples(tmp_path / "1"))
    assert one == answers(samples(tmp_path / "3")) == answers(samples(tmp_path / "64"))


def test_the_decoder_is_resolved_into_the_configuration(small, tmp_path):
    rows = run(settings(small, "default,rpd:beta=2,rpd"), tmp_path)
    assert [row["decoder"] for row in rows] == ["llada-default", "rpd", "rpd"]
    assert [row["params"].get("beta") for row in rows] == [None, 2.0, 4.0]


def test_every_example_is_on_disk_before_its_successor_begins(small, tmp_path, monkeypatch):
    """At batch size 1, literally; at any other, before a finished row's place is taken."""
    from unmask.evaluate.worker import Worker

    seen = []
    admit = Worker.admit

    def spy(self, spec, index, example):
        seen.append(len((tmp_path / "samples.jsonl").read_bytes().splitlines()))
        return admit(self, spec, index, example)

    monkeypatch.setattr(Worker, "admit", spy)
    run(settings(small, "rpd", batch_size=1), tmp_path)
    assert seen == list(range(12))


# --- resuming ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("torn", ["", '{"decoder":"rpd","in', "\0\0\0", '{"decoder":"rpd"}\n', "nonsense\n"])
def test_a_run_resumes_where_it_was_cut(small, tmp_path, torn):
    rows = run(settings(small), tmp_path / "whole")
    run(settings(small), tmp_path / "cut")
    file = tmp_path / "cut" / "samples.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:15]) + torn)
    (tmp_path / "cut" / "summary.json").unlink()
    again = run(settings(small), tmp_path / "cut")
    assert file.read_text().startswith("".join(lines[:15])), "what was finished is kept as it is"
    assert untimed(again) == untimed(rows)
    assert answers(samples(tmp_path / "cut")) == answers(samples(tmp_path / "whole"))
    assert len(file.read_text().splitlines()) == 24


def test_a_finished_run_is_not_run_again(small, tmp_path):
    rows = run(settings(small), tmp_path)
    before = (tmp_path / "samples.jsonl").read_bytes()

    def engine(plan):
        raise AssertionError("the model was loaded for nothing")

    assert run(settings(small), tmp_path, engine=engine) == rows
    assert (tmp_path / "samples.jsonl").read_bytes() == before


def test_an_unfinished_folder_can_be_reported(small, tmp_path):
    run(settings(small), tmp_path)
    file = tmp_path / "samples.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:5]) + b'{"torn')
    rows = summarise(tmp_path)
    assert [row["n"] for row in rows] == [5, 0] and not any(row["complete"] for row in rows)


def test_damage_in_the_middle_is_named_not_repaired(small, tmp_path):
    run(settings(small), tmp_path)
    file = tmp_path / "samples.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    lines[3] = b"garbage\n"
    file.write_bytes(b"".join(lines))
    with pytest.raises(UserError, match="line 4 is damaged"):
        run(settings(small), tmp_path)
    assert file.read_bytes() == b"".join(lines)


# --- processes --------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """In child processes too: on a busy machine the second thread of a tiny product only waits."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def command(model, out, *more):
    arguments = ["eval", "--model", str(model), "--limit", "20", "--batch-size", "2", "--canvas-length", "64"]
    decoders = ["--decoders", "left-to-right,rpd", "--device", "cpu", "--out", str(out)]
    return [sys.executable, "-m", "unmask", *arguments, *decoders, *more]


def wait_for_lines(process, file, count):
    end = time.monotonic() + 180  # a busy machine is no failure
    while time.monotonic() < end and process.poll() is None:
        if file.exists() and len(file.read_bytes().splitlines()) >= count:
            return
        time.sleep(0.005)
    raise AssertionError(f"{count} samples never came")


@pytest.fixture(scope="session")
def uninterrupted(small, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command(small, out), check=True, capture_output=True, timeout=300, env=one_thread)
    return out


def test_kill_minus_nine_loses_nothing_that_was_finished(small, tmp_path, uninterrupted):
    file = tmp_path / "samples.jsonl"
    kept = b""
    for lines in (3, 25):  # once in each decoder's part, or thereabouts
        process = subprocess.Popen(command(small, tmp_path), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        wait_for_lines(process, file, lines)
        process.send_signal(signal.SIGKILL)
        process.wait()
        whole = file.read_bytes()
        whole = whole[: whole.rfind(b"\n") + 1]
        assert whole.startswith(kept)
        kept = whole
    done = subprocess.run(command(small, tmp_path), capture_output=True, timeout=300, text=True)
    assert done.returncode == 0, done.stderr
    assert file.read_bytes().startswith(kept)
    assert answers(samples(tmp_path)) == answers(samples(uninterrupted))
    one, other = (untimed(json.loads((d / "summary.json").read_text())) for d in (tmp_path, uninterrupted))
    assert one == other


def test_ctrl_c_leaves_a_usable_folder(small, tmp_path, uninterrupted):
    process = subprocess.Popen(command(small, tmp_path), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    wait_for_lines(process, tmp_path / "samples.jsonl", 3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=180)
    assert process.returncode == 130 and "same command goes on" in stderr and "Traceback" not in stderr
    rows = json.loads((tmp_path / "summary.json").read_text())
    assert 3 <= sum(row["n"] for row in rows) < 40
    assert subprocess.run(command(small, tmp_path), capture_output=True, timeout=300).returncode == 0
    assert answers(samples(tmp_path)) == answers(samples(uninterrupted))


def test_two_runs_into_one_folder_are_refused(small, tmp_path, uninterrupted):
    process = subprocess.Popen(command(small, tmp_path), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_for_lines(process, tmp_path / "samples.jsonl", 1)
    process.send_signal(signal.SIGSTOP)  # in the middle of its work, for as long as the second takes to begin
    second = subprocess.run(command(small, tmp_path), capture_output=True, text=True, timeout=180)
    assert process.poll() is None, "the first run ended before it was stopped"
    assert second.returncode == 2 and "another run is writing" in second.stderr
    process.kill()
    process.wait()


# --- errors of single examples ----------------------------------------------------------------------------------


def test_poisoned_examples_are_recorded_and_the_run_goes_on(small, tmp_path):
    rows = run(settings(small, "rpd", task="poisoned"), tmp_path)
    found = {s["index"]: s for s in samples(tmp_path)}
    assert "prompt is empty" in found[2]["error"]
    assert "shorten the prompt" in found[4]["error"]
    assert "ZeroDivisionError: a scorer's bug" in found[6]["error"]
    assert sum(s["error"] is None for s in found.values()) == 6
    assert rows[0]["n"] == 9 and rows[0]["errors"] == 3
    assert not any(found[i]["correct"] for i in (2, 4, 6))
    assert run(settings(small, "rpd", task="poisoned"), tmp_path) == rows, "an error is a result: it is not retried"


def test_a_row_that_breaks_the_whole_batch_is_found_and_lost_alone(small, tmp_path, monkeypatch):
    run(settings(small, "rpd"), tmp_path / "good")
    step = Loop.step

    def fragile(self, rows):
        if any(row.tag[0] == 5 and row.nfe >= 2 for row in rows):
            raise RuntimeError("index out of range")
        step(self, rows)

    monkeypatch.setattr(Loop, "step", fragile)
    run(settings(small, "rpd"), tmp_path / "bad")
    good, bad = answers(samples(tmp_path / "good")), answers(samples(tmp_path / "bad"))
    assert bad[5]["error"] == "RuntimeError: index out of range" and bad[5]["text"] is None
    assert bad[:5] + bad[6:] == good[:5] + good[6:]


def test_rows_of_a_broken_batch_are_on_disk_one_by_one(small, tmp_path, monkeypatch):
    from unmask.evaluate.worker import Worker

    seen = []
    step, alone = Loop.step, Worker.alone

    def fragile(self, rows):
        if len(rows) > 1:
            raise RuntimeError("index out of range")
        step(self, rows)

    def spy(self, *arguments):
        seen.append(len((tmp_path / "samples.jsonl").read_bytes().splitlines()))
        return alone(self, *arguments)

    monkeypatch.setattr(Loop, "step", fragile)
    monkeypatch.setattr(Worker, "alone", spy)
    run(settings(small, "rpd"), tmp_path)
    assert seen == list(range(12))


def test_out_of_memory_ends_the_run_with_advice(small, tmp_path, monkeypatch):
    import torch

    def full(self, rows):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Loop, "step", full)
    with pytest.raises(UserError, match="smaller --batch-size"):
        run(settings(small, "rpd"), tmp_path)


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"batch_size": 5}, "request.batch_size 4, not 5"),
        ({"limit": 11}, "request.limit null, not 11"),
        ({"seed": 1}, "request.seed 0, not 1"),
        ({"decoders": "fast-dllm"}, "decoders"),
        ({"decoders": "fast-dllm:threshold=0.8,rpd"}, "decoders[0].label"),
        ({"dtype": "bfloat16"}, "model.dtype"),
        ({"task": "poisoned"}, "request.task"),
    ],
)
def test_a_folder_of_another_configuration_is_refused(small, tmp_path, change, said):
    run(settings(small), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match="another configuration") as error:
        run(settings(small, **change), tmp_path)
    assert said in str(error.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_other_weights_in_the_same_folder_are_another_configuration(tmp_path):
    model = checkpoints.write_checkpoint(tmp_path / "model", "llada", layers=2, dim=16, mlp=16)
    run(settings(model), tmp_path / "run")
    checkpoints.write_checkpoint(tmp_path / "model", "llada", layers=2, dim=16, mlp=16, seed=1)
    with pytest.raises(UserError, match=r"model\.fingerprint"):
        run(settings(model), tmp_path / "run")


@pytest.mark.parametrize("name", ["sandbox", "unmask"])
def test_what_may_change_a_verdict_is_one_in_one_run(small, tmp_path, monkeypatch, name):
    """Another level of the sandbox, another version: also where the folder is from before the version stood there."""
    from unmask import sandbox
    from unmask.evaluate import plan

    coded = settings(small, "rpd", task="coded", limit=2)
    run(coded, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["sandbox"] == sandbox.level() and config["unmask"] == plan.__version__
    del config["unmask"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    run(coded, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    if name == "sandbox":
        monkeypatch.setattr(sandbox, "level", lambda: "another")
    else:
        monkeypatch.setattr(plan, "__version__", "another")
    with pytest.raises(UserError, match=rf'another configuration \({name} ".*", not "another"\)'):
        run(coded, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_every_machine_of_a_run_is_named(small, tmp_path, monkeypatch):
    from unmask.evaluate.local import Local
    from unmask.report.layouts import build
    from unmask.report.runs import load

    def visit(device, lines):
        file = tmp_path / "samples.jsonl"
        if file.exists():
            file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:lines]))
        monkeypatch.setattr(Local, "hardware", lambda self: {"device": device})
        return run(settings(small, "rpd"), tmp_path)[0]

    assert visit("Abacus", 0)["devices"] == ["Abacus"]
    assert visit("Abacus", 5)["devices"] == ["Abacus"]
    assert "visits" not in json.loads((tmp_path / "config.json").read_text())
    assert visit("Quipu", 3)["devices"] == ["Abacus", "Quipu"]
    row = visit("Abacus", 2)
    assert (row["device"], row["devices"]) == ("Abacus", ["Abacus", "Quipu"])
    notes = " ".join(build("summary", load([tmp_path])).notes)
    assert "Measured on Abacus" in notes and "Measured on Quipu" in notes


def test_a_folder_of_something_else_is_left_alone(small, tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match=r"holds thesis\.tex and no run"):
        run(settings(small), tmp_path)
    with pytest.raises(UserError, match="is a file"):
        run(settings(small), tmp_path / "thesis.tex")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_lock_is_held_while_a_folder_is_open(tmp_path):
    with RunFolder(tmp_path, {}), pytest.raises(UserError, match="another run is writing"):
        RunFolder(tmp_path, {})
    RunFolder(tmp_path, {}).close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--task", "wordproblem"], "unknown task 'wordproblem'; did you mean wordproblems?"),
        (["--decoders", "rdp"], "unknown decoder 'rdp'; did you mean rpd"),
        (["--decoders", "rpd,rpd"], "decoder rpd is named twice"),
        (["--decoders", "rpd:betta=1"], "did you mean beta"),
        (["--decoders", ","], "no decoder was named"),
        (["--decoders", "rpd", "-o", "lopa.k=2"], "lopa is not among the decoders rpd"),
        (["--decoders", "fast-dllm:threshold=2"], "threshold"),
        (["--decoders", "fast-dllm:block_length=7"], "block_length 7 does not divide"),
        (["--model", "/nowhere"], "no checkpoint folder at /nowhere"),
        (["--batch-size", "0"], "batch size must be at least 1"),
        (["--limit", "0"], "limit must be at least 1"),
        (["--canvas-length", "0"], "canvas length must be at least 1"),
        (["--canvas-length", "-8"], "canvas length must be at least 1"),
        (["--canvas-length", "99968"], "leaves no room for a prompt"),
        (["--split", "dev"], "unknown split 'dev'"),
        (["--engine", "rray"], "unknown engine 'rray'; did you mean ray?"),
        (["--address", "x:1"], "--address and --workers belong to --engine ray"),
        (["--data", "x.jsonl"], "makes its own examples: leave out --data"),
    ],
)
def test_a_wrong_request_is_one_sentence_and_touches_nothing(small, tmp_path, capsys, arguments, said):
    from unmask.cli import main

    base = ["eval", "--model", str(small), "--canvas-length", "32", "--out", str(tmp_path / "run"), "--device", "cpu"]
    assert main([*base, *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and len(captured.err.strip().splitlines()) == 1 and not captured.out
    assert not (tmp_path / "run").exists()


def test_a_wrong_model_is_reported_before_the_data_is_read(tmp_path):
    with pytest.raises(UserError, match="unknown model 'tinny'; did you mean tiny"):
        run(settings("tinny", task="broken"), tmp_path)


# --- decoders on the command line ---------------------------------------------------------------------------------


def test_options_reach_the_decoders_they_name():
    specs = parse_decoders("default,fast-dllm:threshold=0.8:block_length=16,rpd", ["rpd.beta=2", "rpd.w=3"])
    assert [(s.label, s.name, s.options) for s in specs] == [
        ("default", "default", {}),
        ("fast-dllm:threshold=0.8:block_length=16", "fast-dllm", {"threshold": 0.8, "block_length": 16}),
        ("rpd", "rpd", {"beta": 2.0, "w": 3.0}),
    ]


def test_what_stands_beside_a_name_wins():
    (spec,) = parse_decoders("rpd:beta=8", ["beta=2", "rpd.beta=3"])
    assert spec.options == {"beta": 8.0}


def test_json_output_is_one_document(small, tmp_path, capsys):
    from unmask.cli import main

    base = ["eval", "--model", str(small), "--task", "parity", "--canvas-length", "32", "--limit", "2", "--device"]
    assert main([*base, "cpu", "--out", str(tmp_path), "--decoders", "rpd", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["n"] == 2


def test_errors_are_told_beside_the_accuracy(small, tmp_path, capsys):
    from unmask.cli import main

    base = ["eval", "--model", str(small), "--task", "poisoned", "--canvas-length", "32", "--device", "cpu"]
    assert main([*base, "--out", str(tmp_path), "--decoders", "rpd"]) == 0
    assert "3 errors (see samples.jsonl)" in capsys.readouterr().out


# --- size -------------------------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_number_of_examples(small, tmp_path):
    """Ten thousand examples through everything but the network."""

    class Instant:
        name = "instant"

        def __init__(self, plan):
            self.plan = plan

        def hardware(self):
            return {"device": "none"}

        def run(self, decoder, indices):
            for start in range(0, len(indices), 10):  # ten to a step: each step is synchronised to disk
                peaks.append(resident())
                yield [
                    {"decoder": decoder.label, "index": index, "correct": index % 3 == 0, "error": None, "nfe": 1,
                     "branches": 0, "tokens": 2, "non_eos": 2, "canvas": 32, "seconds": 1e-3, "phases": {},
                     "finish_reason": "stop", "id": example.id, "prompt": example.prompt}
                    for index, example in self.plan.pick(indices[start : start + 10])
                ]  # fmt: skip

        def close(self):
            pass

    peaks: list[int] = []
    rows = run(settings(small, "rpd", limit=10_000), tmp_path, engine=Instant)
    assert rows[0]["n"] == 10_000 and rows[0]["correct"] == 3334
    assert max(peaks) - peaks[100] < 4 << 20


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1]) if Path("/proc/self/statm").exists() else 0
    return pages * resource.getpagesize()
