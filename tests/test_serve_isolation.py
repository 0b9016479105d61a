"""A row that fails fails alone: bugs, memory, non-finite logits; nobody's text shows that a neighbour failed."""

from __future__ import annotations

# ruff: noqa: F811 (fixtures are imported, and named again where they are used)
import time
from typing import Any

import pytest
import torch

import unmask
from scheduling import Broken, job, run, scheduler, self_run, small, texts  # noqa: F401
from unmask.api import make_row
from unmask.loop import Loop, Row
from unmask.models import Model
from unmask.serve.scheduler import Job


def test_a_decoder_that_raises_fails_alone_and_leaves_no_trace_in_its_neighbours(
    small: Model, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("llada-default", "dream-default", "rpd")
    alone = [self_run(small, name).tasks[0].result for name in names]
    subject = scheduler(small)
    jobs = [job(small, canvas=32, decoder=name) for name in names]
    bad = job(small, canvas=32, decoder=Broken())
    for each in (jobs[0], bad, jobs[1], jobs[2]):
        subject.submit(each)
    run(subject)
    assert bad.error and bad.error.status == 500 and "SECRET" not in bad.error.message
    assert "SECRET" not in caplog.text
    for each, other in zip(jobs, alone, strict=True):
        result = each.tasks[0].result
        assert result and other and (result.canvas, result.nfe) == (other.canvas, other.nfe)
        assert len(result.trace.steps) == len(other.trace.steps)


class Greedy:
    """A loop with memory for `most` rows at once, or for rows of at most `length` positions."""

    def __init__(self, loop: Loop, most: int = 99, length: int = 999) -> None:
        self.loop, self.most, self.length = loop, most, length
        self.sizes: list[int] = []

    def step(self, rows: list[Row]) -> None:
        self.sizes.append(len(rows))
        if len(rows) > self.most or any(row.canvas.length > self.length for row in rows):
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.loop.step(rows)


def test_no_memory_for_the_whole_batch_makes_the_batch_smaller(small: Model) -> None:
    loop = Greedy(Loop(small), most=2)
    subject = scheduler(small, loop, batch=8)
    jobs = [job(small, canvas=6) for _ in range(8)]
    for each in jobs:
        subject.submit(each)
    run(subject)
    assert all(each.error is None for each in jobs)
    assert loop.sizes.count(8) == 1, "it should not run into the same wall every step"


def test_a_row_too_big_for_memory_fails_alone(small: Model) -> None:
    subject = scheduler(small, Greedy(Loop(small), length=20))
    big, others = job(small, canvas=21), [job(small, canvas=5) for _ in range(3)]
    for each in (big, *others):
        subject.submit(each)
    run(subject)
    assert big.error and big.error.code == "out_of_memory"
    assert all(each.error is None and each.finished for each in others)


def test_non_finite_logits_fail_one_request_and_the_server_goes_on(small: Model) -> None:
    class Poisoned:
        def __getattr__(self, name: str) -> Any:
            return getattr(small.net, name)

        def states(self, ids: Any, attention_mask: Any = None, keep_from: int = 0) -> list[Any]:
            hidden = small.net.states(ids, attention_mask, keep_from)
            hidden[-1][(ids[:, 0] != ids[0, 0]).nonzero()] *= torch.nan  # rows that begin differently
            return hidden

    poisoned = unmask.Model("poisoned", Poisoned(), small.tokenizer)
    subject = scheduler(small, Loop(poisoned))
    good = job(small)
    bad = Job([make_row(small, "and the", "left-to-right", canvas_length=4, raw=True)], time.monotonic() + 9, 9)
    subject.submit(good)
    subject.submit(bad)
    run(subject)
    assert bad.error and "non-finite" in bad.error.message
    assert good.error is None and good.finished
    subject.submit(again := job(small))
    run(subject)
    assert texts(again) == texts(good)
