"""The command line: results on stdout, one sentence and exit code 2 for a mistake, never a traceback."""

from __future__ import annotations

import io
import json
import os
import shutil
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
SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.fixture
def run(capsys):
    """run("decoders", "rpd") -> (exit code, stdout, stderr)."""

    def call(*argv: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(argument) for argument in argv])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return call


@pytest.fixture
def refused(run):
    """refused("generate", ...) -> the sentence; checks exit code 2, an empty stdout and one line on stderr."""

    def call(*argv: object) -> str:
        code, out, err = run(*argv)
        assert (code, out) == (2, ""), (code, out, err)
        assert err.startswith("error: ") and err.count("\n") == 1, err
        return err.removeprefix("error: ").strip()

    return call


@pytest.fixture
def told(monkeypatch):
    """Every verb decodes with the oracle, whatever --model says."""
    model = oracle.oracle()
    monkeypatch.setattr(options, "load_model", lambda *_: model)
    return model


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


# --- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-d", "fastdllm"], "did you mean fast-dllm"),
        (["-o", "betta=4"], "did you mean beta"),
        (["-o", "beta=-1"], "beta must be 0 or more"),
        (["-o", "beta=lots"], "option beta of rpd takes a number or none, not 'lots'"),
        (["-o", "beta=nan"], "beta"),
        (["-o", "k_max=2.5"], "option k_max of rpd takes a whole number, not '2.5'"),
        (["-o", "lazy=maybe"], "option lazy of rpd takes true or false, not 'maybe'"),
        (["-o", "beta"], "write -o NAME=VALUE"),
        (["-o", "beta=1", "-o", "beta=2"], "given twice"),
        (["-o", "theta_c=0.95", "-o", "theta_h=0.9"], "theta_c 0.95 exceeds theta_h 0.9"),
        (["-o", "@missing.json"], "missing.json"),
        (["-d", "left-to-right", "-o", "beta=1"], "left-to-right takes no options"),
        (["-d", "fast-dllm", "-o", "block_length=7"], "block_length 7 does not divide the canvas of 64"),
        (["--infill", "no gaps"], "no gap"),
        (["--infill", "a [[0]] b"], "at least 1"),
        (["--infill", "Mia[[40]] has", "--canvas-length", "16"], "more than canvas_length 16"),
        (["--canvas-length", "5000"], "shorten the prompt or use a canvas of at most"),
        (["--score-dtype", "float23"], "did you mean float32"),
        (["--trace", "nowhere/trace.jsonl"], "nowhere does not exist"),
        (["--trace", "."], "is a folder"),
    ],
)
def test_bad_arguments_of_generate(arguments, sentence, refused, told):
    assert sentence in refused("generate", oracle.PROMPT, *arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["-m", "tny"], "did you mean tiny"),
        (["-m", "./nowhere"], "no checkpoint folder at ./nowhere"),
        (["--device", "gpu"], "unknown device 'gpu'"),
        (["--device", "cuda:99"], "not available"),
        (["--dtype", "float8"], "dtype"),
    ],
)
def test_bad_places(arguments, sentence, refused, tmp_path):
    folder = write_checkpoint(tmp_path / "model", "llada")
    assert sentence in refused("generate", "hello", "-m", folder, *arguments)


@pytest.mark.parametrize("prompt", ["", "   ", "\n"])
def test_empty_prompts(prompt, refused, told):
    assert "prompt is empty" in refused("generate", prompt)


def test_a_prompt_that_is_no_text(refused, told, monkeypatch):
    assert "UTF-8" in refused("generate", "caf\udce9")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9")))
    assert "UTF-8" in refused("generate", "-")


def damage(name: str, folder: Path) -> None:
    shard = sorted(folder.glob("*.safetensors"))[-1]
    config = json.loads((folder / "config.json").read_text())
    if name == "missing shard":
        shard.unlink()
    elif name == "truncated file":
        shard.write_bytes(shard.read_bytes()[:-100])
    elif name == "another architecture":
        (folder / "config.json").write_text(json.dumps({**config, "model_type": "bert"}))
    elif name == "flipped dtype":
        shard.write_bytes(shard.read_bytes().replace(b'"F32"', b'"I32"', 1))
    elif name == "no config":
        (folder / "config.json").unlink()
    elif name == "non-finite":
        shutil.rmtree(folder)
        write_checkpoint(folder, "llada", scale=8e3)  # its logits exceed what float16 can hold


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("missing shard", ".safetensors"),
        ("truncated file", ".safetensors"),
        ("another architecture", "model_type 'bert' is not supported"),
        ("flipped dtype", "I32"),
        ("no config", "config.json is missing"),
        ("non-finite", "non-finite logits at step 1"),
    ],
)
def test_damaged_checkpoints(name, sentence, refused, tmp_path):
    folder = write_checkpoint(tmp_path / "model", "llada")
    damage(name, folder)
    assert sentence in refused(
        "generate", "hello", "-m", folder, "--dtype", "float16", "--trace", tmp_path / "t.jsonl"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_no_network_and_not_cached(tmp_path):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    command = [str(UNMASK), "generate", "hello", "-m", "GSAI-ML/LLaDA-8B-Instruct"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("error: GSAI-ML/LLaDA-8B-Instruct") and done.stderr.count("\n") == 1


def test_a_trace_that_may_not_be_written(refused, told, tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    tmp_path.chmod(0o500)
    assert "permission" in refused("generate", "hello", "--trace", tmp_path / "trace.jsonl")


def test_output_is_checked_before_the_model_is_loaded(refused, monkeypatch):
    monkeypatch.setattr(options, "load_model", lambda *_: pytest.fail("loaded"))
    refused("generate", "hello", "--trace", "nowhere/trace.jsonl")
    refused("generate", "hello", "-o", "betta=4")
    refused("generate", "hello", "-d", "nothing")


# --- option values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("4", float | None, 4.0),
        ("inf", float, float("inf")),
        ("none", float | None, None),
        ("NONE", int | None, None),
        ("8", int | None, 8),
        ("8", int | float, 8),
        ("0.5", int | float, 0.5),
        ("on", bool, True),
        ("False", bool, False),
        ("none", str, "none"),
        ("none", str | None, None),
        ("entropy", str, "entropy"),
        ("", str, ""),
        ("[1, 2]", list[int], [1, 2]),
        (4, float, 4.0),
        (4.0, int, 4),
        (None, float | None, None),
        (True, bool, True),
        ("inf", float | None, float("inf")),
    ],
)
def test_values_take_the_type_of_the_field(text, hint, value):
    converted = options.convert("rpd", "x", text, hint)
    assert converted == value and type(converted) is type(value)


@pytest.mark.parametrize(
    ("text", "hint"), [("", float), ("4.5", int), ("none", int), ("2", bool), (True, float), (4.5, int), (3, str)]
)
def test_values_that_do_not_fit(text, hint):
    with pytest.raises(unmask.UserError, match="option x of rpd takes"):
        options.convert("rpd", "x", text, hint)


def test_options_from_a_file(tmp_path):
    path = tmp_path / "rpd.json"
    path.write_text('{"beta": 2, "theta_h": 0.8, "lazy": false, "theta_s": null}')
    parsed = options.parse_options("rpd", [f"@{path}", "beta=3"])
    assert parsed == {"beta": 3.0, "theta_h": 0.8, "lazy": False, "theta_s": None}
    assert options.parse_options("rpd", ["beta=3", "theta_h=0.7", f"@{path}"])["beta"] == 3.0


@pytest.mark.parametrize(
    "content", ["[1, 2]", "not json", '{"betta": 1}', '{"beta": "lots"}', '{"beta": [1]}', "\x00"]
)
def test_bad_option_files(content, tmp_path):
    path = tmp_path / "rpd.json"
    path.write_text(content)
    with pytest.raises(unmask.UserError):
        options.parse_options("rpd", [f"@{path}"])


# --- listings ---------------------------------------------------------------------------------------------------


def test_decoders_are_all_listed(run):
    code, out, _ = run("decoders")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:-2]] == decoders.names()
    listed = json.loads(run("decoders", "--json")[1])
    assert [entry["name"] for entry in listed] == decoders.names()


@pytest.mark.parametrize("name", decoders.names()[1:])
def test_each_decoder_shows_its_parameters(name, run):
    code, out, _ = run("decoders", name)
    described = json.loads(run("decoders", name, "--json")[1])
    assert code == 0 and out.startswith(f"{name}: ")
    cls, preset, _ = decoders.find(name)
    shown = {parameter["name"]: parameter["default"] for parameter in described["parameters"]}
    assert shown == cls(**preset).params()
    assert all(option in out for option in shown)


def test_parameters_come_with_the_notes_of_the_source(run):
    out = run("decoders", "rpd")[1]
    assert "nats of entropy allowed upstream" in out and "number or none" in out


def test_parameters_show_what_the_embedded_model_fills_in(run, monkeypatch, tmp_path):
    folder = write_checkpoint(tmp_path / "tiny", "llada", layers=6)
    (folder / "unmask.json").write_text('{"rpd": {"beta": 2.5}, "canvas_length": 160}')
    monkeypatch.setattr(unmask.models, "TINY", folder)
    described = json.loads(run("decoders", "rpd", "--json")[1])
    filled = {parameter["name"]: parameter["tiny"] for parameter in described["parameters"]}
    assert filled["beta"] == "2.5" and filled["theta_s"] == "3.5" and filled["k_max"] == ""
    assert "for tiny" in run("decoders", "rpd")[1]
    monkeypatch.setattr(unmask.models, "TINY", tmp_path / "missing")
    assert "for tiny" not in run("decoders", "rpd")[1]


def test_decoders_refuses_what_it_does_not_know(refused):
    assert "did you mean dapd" in refused("decoders", "dapdd")
    assert "llada-default" in refused("decoders", "default")


def test_a_broken_plugin_hides_no_decoder(run, refused, monkeypatch):
    from importlib.metadata import EntryPoint

    point = EntryPoint("broken", "no_such_package:Decoder", decoders.GROUP)
    monkeypatch.setattr(decoders, "entry_points", lambda group: [point])
    assert "cannot be imported: No module named 'no_such_package'" in run("decoders")[1]
    assert "cannot be imported" in refused("decoders", "broken")


def test_models(run):
    from unmask.models import KNOWN

    code, out, _ = run("models")
    assert code == 0 and all(name in out for name in ["tiny", *(known.repo for known in KNOWN)])
    assert {entry["here"] for entry in json.loads(run("models", "--json")[1])} <= {
        "shipped", "missing", "cached", "incomplete", "-",
    }  # fmt: skip


def test_the_cache_is_read_without_a_network(tmp_path):
    """A repository as huggingface_hub lays it out: complete, then with a shard missing, then absent."""
    snapshot = tmp_path / "hub" / "models--org--name" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    index = {"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    (snapshot / "1.safetensors").touch()
    (snapshot / "2.safetensors").touch()
    code = (
        "from unmask.cli.cache import cached; from pathlib import Path; "
        "print(cached('org/name', 'abc'), cached('org/name', 'def'), cached('org/other', None)); "
        f"Path({str(snapshot / '2.safetensors')!r}).unlink(); print(cached('org/name', 'abc'))"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "cached - -\nincomplete\n", done.stderr


def test_tasks(run, refused):
    from unmask.tasks import names

    out = run("tasks")[1]
    assert all(name in out for name in names())
    shown = run("tasks", "--show", "wordproblems")[1]
    assert "Prompt of the first test example" in shown and "####" in shown and "Scoring" in shown
    assert json.loads(run("tasks", "--show", "wordproblems", "--json")[1])["metric"] == "accuracy"
    assert "did you mean wordproblems" in refused("tasks", "--show", "wordproblem")


def test_env(run):
    facts = json.loads(run("env", "--json")[1])
    assert {"unmask", "python", "platform", "torch", "cuda", "numpy", "typer"} <= set(facts)
    assert run("env")[1].startswith("unmask")


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
