"""Who is in the next step: fairness, leaving, deadlines, the bounded queue, draining. No sockets."""

from __future__ import annotations

# ruff: noqa: F811 (fixtures are imported, and named again where they are used)
import copy
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

import unmask
from scheduling import PROMPTS, Broken, job, run, scheduler, self_run, small, texts  # noqa: F401
from unmask.api import finish, make_row
from unmask.forward import Forward
from unmask.loop import Loop, Row
from unmask.models import Model
from unmask.serve.errors import ApiError
from unmask.serve.limits import Limits
from unmask.serve.scheduler import Job, Scheduler


def test_rows_with_different_prompts_lengths_and_decoders_share_a_batch_and_get_what_they_get_alone(
    small: Model,
) -> None:
    wanted = [("rpd", 16, 0), ("left-to-right", 9, 0), ("fast-dllm", 32, 0), ("lopa", 32, 0), ("dapd", 32, 0),
              ("dream-default", 12, 7), ("llada-default", 32, 0), ("eb-sampler", 32, 0)]  # fmt: skip
    subject = scheduler(small, batch=5, quantum=3)
    jobs = []
    for i, (name, length, seed) in enumerate(wanted):
        row = make_row(small, PROMPTS[i % 4], name, canvas_length=length, seed=seed)
        jobs.append(Job([row], time.monotonic() + 60, 60))
        subject.submit(jobs[-1])
        subject.tick()  # so that they join at different times
    run(subject)
    for i, (name, length, seed) in enumerate(wanted):
        alone = unmask.generate(small, PROMPTS[i % 4], name, canvas_length=length, seed=seed)
        result = jobs[i].tasks[0].result
        assert result and (result.canvas, result.nfe) == (alone.canvas, alone.nfe), name  # type: ignore[union-attr]


def test_a_long_request_does_not_hold_up_short_ones(small: Model) -> None:
    subject = scheduler(small, batch=2, quantum=4)
    long = [job(small, canvas=60) for _ in range(2)]
    for each in long:
        subject.submit(each)
    for _ in range(3):
        subject.tick()
    short = job(small, canvas=3)
    subject.submit(short)
    rounds = 0
    while not short.finished:
        subject.tick()
        rounds += 1
    assert rounds <= 1 + 3 + 1  # what is left of a turn, its own three steps
    assert not any(each.finished for each in long)
    run(subject)
    assert all(each.finished for each in long)


def test_turns_go_round_and_nobody_starves(small: Model) -> None:
    subject = scheduler(small, batch=2, quantum=2, queue=16)
    jobs = [job(small, canvas=12) for _ in range(6)]
    for each in jobs:
        subject.submit(each)
    for _ in range(18):
        subject.tick()
    progress = [each.tasks[0].steps for each in jobs]
    assert sum(progress) == 36 and max(progress) - min(progress) <= 2
    run(subject)


def test_changing_places_does_not_change_the_text(small: Model) -> None:
    alone = [texts(j)[0] for j in [self_run(small, name) for name in ("rpd", "dream-default", "lopa")]]
    subject = scheduler(small, batch=1, quantum=1)
    jobs = [job(small, canvas=32, decoder=name) for name in ("rpd", "dream-default", "lopa")]
    for each in jobs:
        subject.submit(each)
    run(subject)
    assert [texts(each)[0] for each in jobs] == alone


def test_a_big_row_at_the_front_is_not_overtaken_for_ever(small: Model) -> None:
    subject = scheduler(small, batch=8, quantum=3, positions=130)
    first = [job(small, canvas=40) for _ in range(3)]
    big = job(small, canvas=100)
    for each in (*first, big, job(small, canvas=2)):
        subject.submit(each)
    for _ in range(60):
        subject.tick()
        if big.tasks[0].steps:
            break
    assert big.tasks[0].steps
    run(subject)


@pytest.mark.parametrize(
    ("decoder", "options", "times"),
    [("lopa", {"branches": 3, "block_length": 20}, 4), ("llada-default", {"cfg_scale": 1.0, "block_length": 20}, 2)],
)
def test_lookahead_and_guidance_count_as_positions(
    small: Model, decoder: str, options: dict, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = make_row(small, PROMPTS[0], unmask.decoders.get(decoder, **options), canvas_length=20)
    size = len(row.canvas.ids) * times
    seen: list[int] = []
    build = Forward.__init__

    def note(self: Forward, *args: Any) -> None:
        build(self, *args)
        seen.append(sum(self.lengths))

    monkeypatch.setattr("unmask.loop.Forward.__init__", note)
    subject = scheduler(small, batch=8, positions=2 * size)
    for _ in range(4):
        subject.submit(Job([copy.deepcopy(row)], time.monotonic() + 60, 60))
    run(subject)
    assert size < max(seen) <= 2 * size
    with pytest.raises(ApiError) as refused:
        scheduler(small, positions=size - 1).submit(Job([row], time.monotonic() + 60, 60))
    assert refused.value.status == 400 and f"takes {size} positions" in refused.value.message


def test_a_cancelled_job_leaves_before_the_next_step(small: Model) -> None:
    subject = scheduler(small, batch=1)
    gone, next_ = job(small, canvas=50), job(small, canvas=3)
    subject.submit(gone)
    subject.submit(next_)
    subject.tick()
    gone.cancel()
    subject.tick()
    assert gone.tasks[0].steps == 1, "it was stepped after it had left"
    assert next_.tasks[0].steps == 1, "its place was not given away at once"


def test_a_cancelled_job_leaves_the_line_too(small: Model) -> None:
    subject = scheduler(small, batch=1, queue=1)
    subject.submit(job(small, canvas=9))
    subject.tick()
    gone = job(small)
    subject.submit(gone)
    gone.cancel()
    subject.tick()
    assert not subject.waiting
    subject.submit(job(small))  # there is room again


def test_a_deadline_ends_a_job_wherever_it_is(small: Model) -> None:
    subject = scheduler(small, batch=1)
    running, waiting = job(small, canvas=50, seconds=0.05), job(small, seconds=0.05)
    subject.submit(running)
    subject.submit(waiting)
    subject.tick()
    time.sleep(0.06)
    subject.tick()
    for each in (running, waiting):
        assert each.error and (each.error.status, each.error.code) == (504, "deadline_exceeded")
    assert not subject.running and not subject.waiting


def test_a_full_line_refuses_and_says_when_to_come_back(small: Model) -> None:
    subject = scheduler(small, batch=1, queue=3)
    for _ in range(4):
        subject.submit(job(small))
    with pytest.raises(ApiError) as refused:
        subject.submit(job(small))
    assert refused.value.status == 429
    assert 1 <= int(refused.value.headers["Retry-After"]) <= 60
    run(subject)
    subject.submit(job(small))


def test_a_job_joins_whole_or_not_at_all(small: Model) -> None:
    subject = scheduler(small, batch=1, queue=3)
    subject.submit(job(small, n=2))
    with pytest.raises(ApiError):
        subject.submit(job(small, n=3))
    assert len(subject.waiting) == 2


def test_draining_refuses_new_jobs_and_finishes_old_ones(small: Model) -> None:
    subject = scheduler(small, batch=1)
    old = [job(small, canvas=5) for _ in range(3)]
    for each in old:
        subject.submit(each)
    subject.drain(60)
    with pytest.raises(ApiError) as refused:
        subject.submit(job(small))
    assert refused.value.status == 503
    run(subject)
    assert all(each.finished and each.error is None for each in old)


def test_what_is_left_when_the_drain_is_over_gets_an_answer(small: Model) -> None:
    subject = scheduler(small, batch=1)
    old = [job(small, canvas=50) for _ in range(2)]
    for each in old:
        subject.submit(each)
    subject.tick()
    subject.drain(0)
    subject.tick()
    assert [each.error.status for each in old if each.error] == [503, 503]
    assert not subject.running and not subject.waiting


def test_the_thread_survives_a_bug_of_its_own_and_ends_when_told(small: Model) -> None:
    def explode(row: Row) -> Any:
        raise ValueError("a bug in finish")

    subject = Scheduler(Loop(small), explode, Limits())
    subject.start()
    lost = job(small, canvas=2)
    subject.submit(lost)
    deadline = time.monotonic() + 10
    while not lost.finished and time.monotonic() < deadline:
        time.sleep(0.005)
    assert lost.error and lost.error.code == "internal_error"
    subject.finish = lambda row: finish(small, row)
    subject.submit(fine := job(small, canvas=2))
    while not fine.finished and time.monotonic() < deadline:
        time.sleep(0.005)
    assert fine.error is None and texts(fine)
    subject.close()
    assert not subject.alive and subject.status == "draining"


def test_a_thread_that_has_died_takes_no_jobs_and_leaves_nobody_waiting(small: Model) -> None:
    class Dead(BaseException):
        """What no handler of errors catches."""

    def die(*_: object) -> None:
        raise Dead

    subject = scheduler(small)
    subject.on_step = die  # type: ignore[assignment]
    subject.thread = threading.Thread(target=lambda: quiet(subject.run, Dead))
    lost = job(small)
    subject.start()
    subject.submit(lost)
    subject.thread.join(10)
    assert lost.error and lost.error.status == 503 and subject.status == "failed"
    with pytest.raises(ApiError) as refused:
        subject.submit(job(small))
    assert (refused.value.status, refused.value.code) == (503, "scheduler_stopped")


def quiet(call: Any, error: type[BaseException]) -> None:
    with suppress(error):
        call()


def test_an_answer_that_cannot_be_closed_fails_alone(small: Model, caplog: pytest.LogCaptureFixture) -> None:
    def explode(row: Row) -> Any:
        if row.canvas.length == 3:
            raise ValueError("a bug that quotes the prompt: " + "secret".upper())
        return finish(small, row)

    subject = Scheduler(Loop(small), explode, Limits())
    bad, good = job(small, canvas=3), job(small, canvas=5)
    subject.submit(bad)
    subject.submit(good)
    run(subject)
    assert bad.error and (bad.error.status, bad.error.code) == (500, "internal_error")
    assert good.error is None and texts(good)
    assert "SECRET" not in bad.error.message + caplog.text and "ValueError" in caplog.text


def test_early_stop_by_the_answer_ends_a_row(small: Model) -> None:
    subject = scheduler(small)
    short = job(small, canvas=20, settled=lambda prefix: len(prefix) > 3)
    subject.submit(short)
    assert run(subject) == 4
    assert short.tasks[0].prefix == tuple(short.tasks[0].result.canvas[:4])  # type: ignore[union-attr]
