"""The executor of a Ray cluster: one model per GPU, or per so many cores, results streamed to this process.

Only the driver writes, so the run folder is the same as a local run's. A worker that dies takes with it what it
had not delivered; that, and nothing else, is handed to another one: a new one where the cluster has room for it.
"""

from __future__ import annotations

import math
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from unmask import sandbox
from unmask.errors import UserError
from unmask.evaluate.environment import hardware
from unmask.evaluate.plan import Plan
from unmask.evaluate.settings import Settings
from unmask.evaluate.specs import DecoderSpec
from unmask.evaluate.worker import Sample, Worker
from unmask.tasks.base import Example, Task

FRUITLESS = 3  # workers in a row that die before they deliver anything: then the fault is not the machine's
REACH_SECONDS = 5.0
PATIENCE = 10.0  # seconds without a result after which the cluster is looked at again


@dataclass
class Item:
    """Examples of one decoder. `left` shrinks as results arrive."""

    decoder: DecoderSpec
    left: dict[int, Example] = field(default_factory=dict)


class Station:
    """What runs on a worker: a model of its own, kept for the whole evaluation."""

    def __init__(self, settings: Settings, task: Task, device: str, dtype: str, cores: int, weak: bool) -> None:
        import torch

        from unmask.models import load

        if weak:
            sandbox.allow_weak()
        torch.set_num_threads(cores)
        model = load(settings.model, revision=settings.revision, device=device, dtype=dtype)
        self.worker, self.device = Worker(model, task, settings.decoding), device

    def hardware(self) -> dict[str, Any]:
        return hardware(self.device)

    def run(self, decoder: DecoderSpec, pairs: list[tuple[int, Example]]) -> Iterator[list[Sample]]:
        self.worker.warm_up(decoder, pairs[: self.worker.decoding.batch_size])
        yield from self.worker.run(decoder, pairs)


def connect(address: str | None, workers: int | None = None, cores: int = 1) -> Callable[[Plan], Cluster]:
    """An engine for `run`. Without an address, a cluster on this machine that ends with the run."""
    try:
        import ray
    except ImportError:
        raise UserError("--engine ray needs Ray: pip install 'unmask[ray]'") from None
    if address is not None:
        reach(address)
    if not ray.is_initialized():
        # Ray's own log lines would tear the progress bars; a worker's failure is reported by us.
        quiet = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
        try:
            ray.init(address=address or "local", **(quiet if address is None else {"log_to_driver": False}))
        except Exception as error:
            raise UserError(f"Ray at {address or 'this machine'} could not be started: {first_line(error)}") from None
    return lambda plan: Cluster(plan, workers, cores)


def device() -> str:
    """What the connected cluster computes with."""
    import ray

    return "cuda" if ray.cluster_resources().get("GPU", 0) else "cpu"


def reach(address: str) -> None:
    """Ray retries an address that nobody answers for a minute; a plain connection tells at once."""
    if address in ("auto", "local"):
        return
    if address.startswith("ray://"):
        raise UserError(
            f"--address {address} is for Ray Client, which cannot stream results: run on the cluster's head with "
            "--address auto, or give the HOST:PORT of its GCS"
        )
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise UserError(f"--address {address} is not HOST:PORT or auto")
    try:
        socket.create_connection((host, int(port)), REACH_SECONDS).close()
    except OSError as error:
        raise UserError(f"no Ray cluster answers at {address} ({error.strerror or error}): is it running?") from None


class Cluster:
    name = "ray"

    def __init__(self, plan: Plan, workers: int | None, cores: int) -> None:
        import ray

        self.ray, self.plan, self.cores = ray, plan, cores
        self.device = plan.checkpoint.device
        self.needs = {"CPU": cores} if self.device == "cpu" else {"CPU": 1, "GPU": 1}
        places = room(ray.nodes(), self.needs)
        self.count = workers or places
        if not 0 < self.count <= places:  # Ray would wait for the others' places, for ever and without a word
            asked = " and ".join(f"{number} {name}" for name, number in self.needs.items())
            raise UserError(
                f"the Ray cluster has room for {places} workers of {asked}, not for {self.count or 'one'}: "
                "use fewer --workers or --cores"
            )
        self.station = ray.remote(Station)
        self.fruitless = 0
        self.pending: dict[Any, Any] = {}  # its first answer -> a worker that has not been heard of yet
        self.idle: list[Any] = []
        for _ in range(self.count):
            self.hire()

    def hire(self) -> Any:
        """Ask for one more worker. It gets work once it has said that it is there."""
        settings, checkpoint = self.plan.settings, self.plan.checkpoint
        weak = getattr(self.plan.task, "runs_code", False) and sandbox.level() == sandbox.WEAK
        needs = {"num_cpus": self.needs["CPU"], "num_gpus": self.needs.get("GPU", 0)}
        worker: Any = self.station.options(**needs).remote(
            settings, self.plan.task, self.device, checkpoint.dtype, self.cores, weak
        )
        self.pending[worker.hardware.remote()] = worker
        return worker

    def staff(self, at_work: int) -> None:
        """As many workers as there is room for now. One that can never be placed would be waited for, for ever."""
        wanted = min(self.count, room(self.ray.nodes(), self.needs))
        while self.pending and at_work + len(self.idle) + len(self.pending) > wanted:
            _, worker = self.pending.popitem()
            self.ray.kill(worker)
        while at_work + len(self.idle) + len(self.pending) < wanted:
            self.hire()
        if not (at_work or self.idle or self.pending):
            raise UserError("the cluster has no room left for a worker; what is finished is on disk")

    def hardware(self) -> dict[str, Any]:
        """Of one worker; a cluster of unlike machines should not be one run."""
        return {**self.ask(next(iter(self.pending))), "workers": self.count}

    def ask(self, reference: Any) -> Any:
        try:
            return self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            raise UserError(f"a Ray worker could not be started: {cause(error)}") from None

    def run(self, decoder: DecoderSpec, indices: Sequence[int]) -> Iterator[list[Sample]]:
        """Samples as they arrive. At most one item per worker is under way; the rest wait here."""
        waiting = deque(self.divide(decoder, indices))
        busy: dict[Any, tuple[Any, Item]] = {}  # stream of results -> worker, item
        try:
            while waiting or busy:
                while waiting and self.idle:
                    worker, item = self.idle.pop(), waiting.popleft()
                    stream = worker.run.options(num_returns="streaming").remote(decoder, list(item.left.items()))
                    busy[stream] = (worker, item)
                ready, _ = self.ray.wait([*busy, *self.pending], num_returns=1, timeout=PATIENCE)
                if not ready:
                    self.staff(len(busy))
                for stream in ready:
                    if stream in self.pending:
                        if not self.welcome(stream):
                            self.staff(len(busy))
                        continue
                    worker, item = busy.pop(stream)
                    samples = self.advance(stream, item)
                    if samples is None:  # the worker is gone: another one takes what is left
                        self.staff(len(busy))
                    elif samples:
                        busy[stream] = (worker, item)
                        yield samples
                        continue
                    else:
                        self.idle.append(worker)
                    if item.left:
                        waiting.appendleft(item)
        finally:
            for worker, _ in busy.values():  # stopped in the middle: these are working on what nobody waits for
                self.ray.kill(worker)

    def welcome(self, answer: Any) -> bool:
        """A worker said that it is there, or that it never will be."""
        worker = self.pending.pop(answer)
        try:
            self.ray.get(answer)
        except self.ray.exceptions.RayError as error:
            self.mourn(error)
            return False
        self.idle.append(worker)
        return True

    def mourn(self, error: Exception) -> None:
        self.fruitless += 1
        if self.fruitless >= FRUITLESS:
            raise UserError(f"Ray workers keep dying: {cause(error)}; what is finished is on disk") from None

    def divide(self, decoder: DecoderSpec, indices: Sequence[int]) -> Iterator[Item]:
        """Neighbours in length stay together; a few items per worker, so that all end at about the same time."""
        size = max(self.plan.settings.batch_size, math.ceil(len(indices) / (4 * self.count)))
        for start in range(0, len(indices), size):
            yield Item(decoder, dict(self.plan.pick(indices[start : start + size])))

    def advance(self, stream: Any, item: Item) -> list[Sample] | None:
        """The stream's next samples; [] at its end, None where its worker died."""
        errors = self.ray.exceptions
        try:
            samples = self.ray.get(next(stream))
        except StopIteration:
            if item.left:
                raise UserError("a Ray worker ended without answering for all of its examples") from None
            return []
        except errors.RayTaskError as error:  # the work itself failed: the same would happen elsewhere
            raise UserError(f"a Ray worker failed: {cause(error)}; what is finished is on disk") from None
        except errors.RayError as error:
            self.mourn(error)
            return None
        self.fruitless = 0
        return [sample for sample in samples if item.left.pop(sample["index"], None) is not None]

    def close(self) -> None:
        with suppress(Exception):
            for worker in (*self.idle, *self.pending.values()):
                self.ray.kill(worker)
            self.ray.shutdown()


def room(nodes: Sequence[Mapping[str, Any]], needs: Mapping[str, int]) -> int:
    """How many workers fit: each needs its share of one machine, whatever the others have left."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    return sum(min(int(has.get(name, 0)) // number for name, number in needs.items()) for has in alive)


def cause(error: Exception) -> str:
    return first_line(getattr(error, "cause", None) or error)


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
