"""What the scheduler's tests share: jobs on a small model, stepped by hand, without sockets and threads."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

pytest.importorskip("fastapi")

import checkpoints
import unmask
from unmask.api import finish, make_row
from unmask.decoders.base import Commit, Decoder, StepView
from unmask.loop import Loop
from unmask.models import Model
from unmask.serve.limits import Limits
from unmask.serve.scheduler import Job, Scheduler

PROMPTS = ("the user", "the system and the user and the assistant", "ing", "user user user the the the and")


@dataclass(frozen=True)
class Broken(Decoder):
    """Works for two steps, then raises; notes what it did, as schedules do."""

    name: ClassVar[str] = "broken"

    def select(self, view: StepView) -> Commit:
        if view.step == 2:
            raise RuntimeError("a bug that quotes the prompt: " + "secret".upper())
        take = np.arange(len(view)) == 0
        return Commit(take, np.where(take, "order", "turn").astype(object))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = checkpoints.write_checkpoint(tmp_path_factory.mktemp("serve") / "small", "llada", layers=6)
    return unmask.load(folder, device="cpu")


def scheduler(model: Model, loop: Any = None, **limits: Any) -> Scheduler:
    return Scheduler(loop or Loop(model), lambda row: finish(model, row), Limits(**limits))


def job(
    model: Model, canvas: int = 4, decoder: Any = "left-to-right", n: int = 1, seconds: float = 60.0, **more: Any
) -> Job:
    rows = [make_row(model, PROMPTS[i % len(PROMPTS)], decoder, canvas_length=canvas) for i in range(n)]
    return Job(rows, time.monotonic() + seconds, seconds, **more)


def run(subject: Scheduler, rounds: int = 10_000) -> int:
    """Tick until everybody has left; the number of rounds it took."""
    for count in range(rounds):
        if not (subject.running or subject.waiting):
            return count
        subject.tick()
    raise AssertionError("the scheduler does not come to an end")


def texts(done: Job) -> list[str]:
    return [task.result.text for task in done.tasks if task.result]


def self_run(model: Model, name: str) -> Job:
    subject, only = scheduler(model), job(model, canvas=32, decoder=name)
    subject.submit(only)
    run(subject)
    return only
