"""The command line on bad input: one sentence that names the fix, exit code 2, nothing written."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import oracle
import unmask
from checkpoints import write_checkpoint
from unmask.cli import options

UNMASK = Path(sys.executable).with_name("unmask")


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
        (["--infill", f"a [[{'9' * 5000}]] b"], "more than any canvas has"),
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
        (["-m", "~nosuchuser/x"], "no checkpoint folder at ~nosuchuser/x: could not determine home directory"),
        (["-m", "a" * 5000], "aaa...aaa"),
        (["-m", f"./{'a' * 5000}"], "no checkpoint folder at ./aaa"),
        (["--trace", f"{'a' * 5000}.jsonl"], "cannot be written: file name too long"),
        (["--trace", f"{'a' * 5000}/t.jsonl"], "aaa"),
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


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"rpd": [1]}', "rpd must be an object of settings"),
        ('{"rpd": {"betta": 3}}', "unknown setting of rpd 'betta'; did you mean beta"),
        ('{"rpd": {"theta_c": "0.5"}}', "theta_c of rpd must be a number, found '0.5'"),
        ('{"canvas_length": "long"}', "canvas_length must be a whole number of at least 1, found 'long'"),
        ('{"canvas_length": null}', "canvas_length must be"),
        ('{"canvas_length": 64.5}', "canvas_length must be"),
        ('{"rpd": {"beta": -1}}', "beta must be 0 or more"),
        ('{"canvas_lenght": 12}', "unknown entry 'canvas_lenght'; did you mean canvas_length"),
    ],
)
def test_a_models_own_settings_are_checked(content, sentence, refused, tmp_path):
    folder = write_checkpoint(tmp_path / "model", "llada", layers=4)
    (folder / "unmask.json").write_text(content)
    assert sentence in refused("generate", "hello", "-m", folder)


@pytest.mark.parametrize("template", [["x"], 5, {"a": 1}, [{"name": "default"}], [{"template": 5}]])
def test_a_chat_template_that_is_none(template, refused, tmp_path):
    folder = write_checkpoint(tmp_path / "model", "llada", layers=4)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": template}))
    assert f"{path}: chat_template must be a text" in refused("generate", "hello", "-m", folder)


def test_a_chat_template_that_is_no_text(refused, tmp_path):
    folder = write_checkpoint(tmp_path / "model", "llada", layers=4)
    path = folder / "chat_template.jinja"
    path.write_bytes(b"\xff\xfe")
    assert f"{path} cannot be read as text" in refused("generate", "hello", "-m", folder)
    path.unlink()
    path.mkdir()
    assert f"{path} cannot be read as text" in refused("generate", "hello", "-m", folder)


def test_added_tokens_that_are_none(refused, tmp_path):
    folder = write_checkpoint(tmp_path / "model", "dream", layers=4)
    for content in ('{"added_tokens_decoder": {"x": 3}}', '{"added_tokens_decoder": {"151643": {"special": true}}}'):
        (folder / "tokenizer_config.json").write_text(content)
        assert "the added tokens cannot be read" in refused("generate", "hello", "-m", folder)


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
