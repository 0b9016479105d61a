"""Shared fixtures: a small random checkpoint of each family, loaded once, and its literal twin in NumPy."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))  # `checkpoints`, `helpers` and `reference`, however pytest is started

os.environ.setdefault("UNMASK_ALLOW_WEAK_SANDBOX", "1")  # what tests score is their own code

import checkpoints
import oracle
import unmask
from reference import loop as literal_loop
from unmask.cli import main, options

FAMILIES = ("llada", "dream")
LAYERS = 6

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a background job's: its children could not be interrupted
    signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)  # the models are tiny: a second thread only waits for the first
# A busy machine is no failure.
settings.register_profile("unmask", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unmask")


@pytest.fixture(scope="session", params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def checkpoint(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in the family's published layout (sharded, float32). Read only: copy it before damaging it."""
    return checkpoints.write_checkpoint(tmp_path_factory.mktemp("models") / family, family, layers=LAYERS)


@pytest.fixture(scope="session")
def model(checkpoint: Path) -> unmask.Model:
    return unmask.load(checkpoint, device="cpu")


@pytest.fixture(scope="session")
def exact_model(checkpoint: Path) -> unmask.Model:
    """The same in float64, where a near-tie cannot fall differently from the reference."""
    return unmask.load(checkpoint, device="cpu", dtype="float64")


@pytest.fixture(scope="session")
def twin(family: str) -> literal_loop.Model:
    """The reference for `model`: the same weights in NumPy, decoded one canvas at a time."""
    from helpers import literal_model

    return literal_model(family, layers=LAYERS)


# --- the command line ----------------------------------------------------------------------------------------


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
