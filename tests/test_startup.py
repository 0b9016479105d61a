"""`unmask --help` answers at once: the table of verbs is all it reads."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from unmask.cli import main

UNMASK = Path(sys.executable).with_name("unmask")
HEAVY = ("torch", "numpy", "rich", "huggingface_hub", "tokenizers", "safetensors", "jinja2")


def cpu_seconds(*command: str, runs: int = 3) -> float:
    """User and system time of the quickest of a few runs: what the command costs, not what the machine does."""
    spent = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], []])
def test_help_costs_under_0_4_seconds_beyond_python(arguments):
    python = cpu_seconds(sys.executable, "-c", "pass")
    assert cpu_seconds(str(UNMASK), *arguments) - python < 0.4


def imported(*arguments: str) -> set[str]:
    """The heavy modules in memory after one command."""
    code = f"import sys; from unmask.cli import main; main({list(arguments)}); import json; "
    code += f"print(json.dumps([m for m in {(*HEAVY, 'typer')} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_threads_that_wait_give_up_their_core_unless_the_user_has_said_otherwise(monkeypatch, capsys):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):  # set, then deleted: gone again afterwards
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    assert main(["--version"]) == 0
    assert os.environ["GOMP_SPINCOUNT"] == "10000"
    monkeypatch.setenv("GOMP_SPINCOUNT", "7")
    main(["--version"])
    assert os.environ["GOMP_SPINCOUNT"] == "7"
    monkeypatch.delenv("GOMP_SPINCOUNT")
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    main(["--version"])
    assert "GOMP_SPINCOUNT" not in os.environ


def test_help_imports_nothing_heavy():
    assert imported("--help") == set()


@pytest.mark.parametrize("verb", ["generate", "replay", "demo", "models", "decoders", "tasks", "env"])
def test_help_of_a_verb_imports_typer_only(verb):
    assert imported(verb, "--help") == {"typer"}


@pytest.mark.parametrize("arguments", [["decoders"], ["decoders", "rpd"], ["models"], ["tasks"]])
def test_listings_do_not_import_torch(arguments):
    assert "torch" not in imported(*arguments)


def test_every_verb_of_the_table_can_be_loaded():
    from unmask.cli import VERBS, load

    for target, line in VERBS.values():
        assert load(target) and line
