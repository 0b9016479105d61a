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
import unmask
from reference import loop as literal_loop

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
