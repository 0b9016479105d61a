"""What can be named on the command line, as it is listed there."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import unmask
from checkpoints import write_checkpoint
from unmask import decoders

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


def test_what_is_provisional_is_said(run):
    assert "Dream's outside gsm8k are not published: provisional" in run("decoders", "dapd")[1]


def test_decoders_refuses_what_it_does_not_know(refused):
    assert "did you mean dapd" in refused("decoders", "dapdd")
    assert "llada-default" in refused("decoders", "default")


def test_a_broken_plugin_hides_no_decoder(run, refused, monkeypatch):
    from importlib.metadata import EntryPoint

    point = EntryPoint("broken", "no_such_package:Decoder", decoders.GROUP)
    monkeypatch.setattr(decoders, "entry_points", lambda group: [point])
    told = "(no_such_package:Decoder) cannot be imported: ModuleNotFoundError: No module named 'no_such_package'"
    assert told in run("decoders")[1]
    assert told in refused("decoders", "broken")
    assert told in refused("generate", "hello", "-d", "broken")
    other = EntryPoint("helper", "json:dumps", decoders.GROUP)  # no decoder: listed with what is wrong, too
    monkeypatch.setattr(decoders, "entry_points", lambda group: [other, point])
    listed = run("decoders")[1]
    assert "is not a subclass of" in listed and told in listed and "rpd-paper" in listed


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
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        (snapshot / name).touch()
    code = (
        "from unmask.cli.cache import cached; from pathlib import Path; "
        "print(cached('org/name', 'abc'), cached('org/name', 'def'), cached('org/other', None)); "
        f"Path({str(snapshot / '2.safetensors')!r}).unlink(); print(cached('org/name', 'abc')); "
        f"Path({str(snapshot / '2.safetensors')!r}).touch(); Path({str(snapshot / 'merges.txt')!r}).unlink(); "
        "print(cached('org/name', 'abc'))"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "cached - -\nincomplete\nincomplete\n", done.stderr


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
