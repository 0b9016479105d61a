"""The executor of one machine: the model in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from unmask.evaluate.environment import hardware
from unmask.evaluate.plan import Plan
from unmask.evaluate.specs import DecoderSpec
from unmask.evaluate.worker import Sample, Worker


class Executor(Protocol):
    """Turns work items (one decoder, example indices) into samples, in any order, each exactly once."""

    name: str

    def hardware(self) -> dict[str, Any]: ...

    def run(self, decoder: DecoderSpec, indices: Sequence[int]) -> Iterator[list[Sample]]: ...

    def close(self) -> None: ...


class Local:
    name = "local"

    def __init__(self, plan: Plan) -> None:
        from unmask.models import load

        settings, checkpoint = plan.settings, plan.checkpoint
        model = load(settings.model, revision=settings.revision, device=checkpoint.device, dtype=checkpoint.dtype)
        self.plan, self.worker = plan, Worker(model, plan.task, settings.decoding)

    def hardware(self) -> dict[str, Any]:
        return hardware(self.plan.checkpoint.device)

    def run(self, decoder: DecoderSpec, indices: Sequence[int]) -> Iterator[list[Sample]]:
        self.worker.warm_up(decoder, self.plan.pick(indices[: self.plan.settings.batch_size]))
        return self.worker.run(decoder, self.plan.pick(indices))

    def close(self) -> None:
        pass
