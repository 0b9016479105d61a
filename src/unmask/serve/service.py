"""What every endpoint needs: the model, the scheduler, the catalogue, and how a request becomes rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from unmask.api import Generation, Prompt, finish, make_row
from unmask.errors import UserError
from unmask.loop import Loop, Row
from unmask.models import Model
from unmask.serve.catalogue import Catalogue
from unmask.serve.errors import invalid, misused
from unmask.serve.examples import examples
from unmask.serve.limits import Limits
from unmask.serve.metrics import Metrics
from unmask.serve.scheduler import Job, Scheduler


@dataclass(frozen=True)
class Settings:
    """What the person who starts the server decides."""

    name: str = ""  # what requests call the model; its own name by default, a folder's last part
    decoder: str = "rpd"
    api_key: str | None = None
    hosts: tuple[str, ...] | None = None  # Host headers that are answered; None: any
    log_prompts: bool = False
    limits: Limits = field(default_factory=Limits)


class Service:
    def __init__(self, model: Model, settings: Settings) -> None:
        self.settings, self.limits = settings, settings.limits
        self.examples = examples(model)  # goes by the model's own name
        self.model = replace(model, name=settings.name or public_name(model.name))
        self.catalogue = Catalogue(self.model, self.limits)
        self.catalogue.entry(settings.decoder)
        self.started = int(time.time())
        self.scheduler = Scheduler(Loop(self.model), lambda row: finish(self.model, row), self.limits)
        gauges = {
            "unmask_rows_running": ("Rows in the batch.", lambda: float(len(self.scheduler.running))),
            "unmask_rows_waiting": ("Rows in the line.", lambda: float(len(self.scheduler.waiting))),
        }
        self.metrics = Metrics(gauges)
        self.scheduler.on_step = self.metrics.count_step
        self.scheduler.on_row = self.count

    def count(self, generation: Generation) -> None:
        self.metrics.count_row(len(generation.tokens), generation.nfe)
        self.metrics.count_warnings(warning.code for warning in generation.warnings)

    def rows(
        self,
        prompts: Sequence[Prompt],
        decoder: str | None,
        options: Mapping[str, Any],
        *,
        n: int = 1,
        seed: int = 0,
        canvas_length: int | None = None,
        raw: bool = False,
    ) -> list[Row]:
        """Every check that needs the model. Blocking (templates, tokenizer): call it in a worker thread."""
        if len(prompts) * n > self.limits.n:
            raise invalid(f"at most {self.limits.n} answers per request (prompts times n)", "n")
        if canvas_length is not None and canvas_length > self.limits.canvas:
            raise invalid(f"canvas_length is at most {self.limits.canvas} on this server", "canvas_length")
        for prompt in prompts:
            self.check_size(prompt)
        try:
            policy = self.catalogue.build(decoder or self.settings.decoder, options)
            return [
                make_row(self.model, prompt, policy, canvas_length=canvas_length, seed=(seed + i) % 2**63, raw=raw)
                for prompt in prompts
                for i in range(n)
            ]
        except UserError as error:
            raise misused(error) from None

    def check_size(self, prompt: Prompt) -> None:
        if not isinstance(prompt, str) and len(prompt) > self.limits.messages:
            raise invalid(f"at most {self.limits.messages} messages", "messages")
        size = len(prompt) if isinstance(prompt, str) else sum(len(m["content"]) for m in prompt)
        if size > self.limits.prompt_chars:
            raise invalid(f"the prompt has {size} characters; the limit is {self.limits.prompt_chars}", "prompt")

    def submit(
        self, rows: Sequence[Row], settled: Callable[[Sequence[int]], bool] | None, timeout: float | None = None
    ) -> Pending:
        seconds = min(timeout or self.limits.deadline, self.limits.deadline)
        pending = Pending(rows, settled, seconds)
        self.scheduler.submit(pending.job)
        return pending


def public_name(name: str) -> str:
    """A folder is called by its last part, a path is nobody's business; a model of the hub by its whole name.
    Traces and error messages carry it as well."""
    folder = Path(name).expanduser()
    return folder.resolve().name if folder.is_absolute() or folder.is_dir() else name


class Pending:
    """A job as the event loop sees it. Steps are not queued up for a reader: it is woken and looks at what is
    there, so a slow one gets larger pieces and holds no memory."""

    def __init__(self, rows: Sequence[Row], settled: Callable[[Sequence[int]], bool] | None, seconds: float) -> None:
        self.loop, self.event = asyncio.get_running_loop(), asyncio.Event()
        self.job = Job(rows, time.monotonic() + seconds, seconds, self.notify)
        if settled:
            self.job.settled = settled

    def notify(self) -> None:
        """From the scheduler's thread. A closed loop means that nobody is left to tell."""
        try:
            self.loop.call_soon_threadsafe(self.event.set)
        except RuntimeError:
            self.job.cancel()

    async def news(self, timeout: float | None = None) -> bool:
        """Wait for a step (or the end); False if none came in time."""
        try:
            await asyncio.wait_for(self.event.wait(), timeout)
        except TimeoutError:
            return False
        self.event.clear()
        return True

    async def finished(self) -> None:
        while not self.job.finished:
            await self.news()
        if self.job.error:
            raise self.job.error

    def close(self) -> None:
        """The answer has been given, or nobody waits for it. Rows still in the batch leave it before the next step;
        job, tasks and this let go of each other, so that their memory need not wait for the garbage collector."""
        self.job.cancel()
        self.job.notify = nothing
        self.job.tasks = []


def nothing() -> None:
    """Nobody is left to be told."""
