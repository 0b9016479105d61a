"""A prepared evaluation: examples read, decoders resolved, checkpoint found. No weight is loaded yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unmask import __version__, sandbox, tasks
from unmask.errors import UserError
from unmask.evaluate.environment import fingerprint
from unmask.evaluate.examples import Examples
from unmask.evaluate.settings import Settings
from unmask.evaluate.specs import DecoderSpec
from unmask.tasks.base import Example, Task

if TYPE_CHECKING:
    import numpy as np

    from unmask.models.spec import ModelSpec
    from unmask.models.tokenizer import Tokenizer

GENERATED_LIMIT = 1000  # of the generated tasks, which have no end, where no --limit is given


@dataclass(frozen=True)
class Checkpoint:
    """Facts of a model that are known without its weights."""

    folder: Path
    spec: ModelSpec
    tokenizer: Tokenizer
    device: str
    dtype: str

    @classmethod
    def find(
        cls, model: str, revision: str | None = None, device: str | None = None, dtype: str | None = None
    ) -> Checkpoint:
        import torch

        from unmask.models import locate, parse_dtype
        from unmask.models.checkpoint import check_headers, weight_files
        from unmask.models.hub import fetch
        from unmask.models.spec import read_spec
        from unmask.models.tokenizer import load_tokenizer

        folder = Path(locate(model) or fetch(model, revision))
        spec = read_spec(folder)
        stored = check_headers(spec, weight_files(folder))
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        kind = parse_dtype(dtype) or (torch.float32 if device == "cpu" else stored)
        return cls(folder, spec, load_tokenizer(folder, spec), device, str(kind).removeprefix("torch."))


@dataclass
class Plan:
    settings: Settings
    task: Task
    examples: Examples
    checkpoint: Checkpoint

    @property
    def canvas_length(self) -> int:
        return self.settings.canvas_length or self.checkpoint.spec.canvas_length

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What must be equal for a run to be resumed."""
        spec, settings = self.checkpoint.spec, self.settings
        decoders = [
            {
                "label": decoder.label,
                "name": decoder.resolved_name(spec),
                "params": plain(decoder.build(spec, self.canvas_length).params()),
            }
            for decoder in settings.decoders
        ]
        return {
            # Both may change a verdict, so one run has one of each.
            "unmask": __version__,
            "sandbox": sandbox.level() if getattr(self.task, "runs_code", False) else None,
            "request": settings.request(),
            "task": {
                "name": self.task.name,
                "version": self.task.version,
                "metric": self.task.metric,
                "n": len(self.examples),
                "sha256": self.examples.digest,
            },
            "decoders": decoders,
            "model": {
                "family": spec.family.name,
                "canvas_length": self.canvas_length,
                "device": self.checkpoint.device.partition(":")[0],
                "dtype": self.checkpoint.dtype,
                "fingerprint": fingerprint(self.checkpoint.folder),
            },
        }

    @cached_property
    def order(self) -> np.ndarray:
        """Longest first: neighbours in the order are neighbours in a batch, and a batch too large fails at once."""
        import numpy as np

        encode = self.checkpoint.tokenizer.encode
        lengths = np.array([length(encode, example) for example in self.examples], dtype=np.int32)
        return np.argsort(-lengths, kind="stable").astype(np.int32)

    def todo(self, done: Mapping[str, bytearray], decoder: DecoderSpec) -> list[int]:
        flags = done.get(decoder.label) or bytearray(len(self.examples))
        return [int(index) for index in self.order if not flags[index]]

    def pick(self, indices: Sequence[int]) -> Iterator[tuple[int, Example]]:
        return ((index, self.examples[index]) for index in indices)


def prepare(settings: Settings) -> Plan:
    """Everything that can be wrong with the request is found here, the cheap things first."""
    from unmask.models import locate

    task = find_task(settings)
    locate(settings.model)  # a misspelt model, before the examples are read
    examples = Examples(read(task, settings))
    checkpoint = Checkpoint.find(settings.model, settings.revision, settings.device, settings.dtype)
    plan = Plan(settings, task, examples, checkpoint)
    if plan.canvas_length >= checkpoint.spec.context:  # no prompt at all would fit: every example would be an error
        raise UserError(
            f"a canvas of {plan.canvas_length} leaves no room for a prompt: {settings.model} takes "
            f"{checkpoint.spec.context} tokens in all, use a smaller --canvas-length"
        )
    plan.identity  # noqa: B018 (resolves every decoder)
    return plan


def find_task(settings: Settings) -> Task:
    """The task, and the certainty that what it scores with is here."""
    task = tasks.get(settings.task)
    if settings.data is not None:
        if not hasattr(task, "data"):
            raise UserError(f"task {task.name} makes its own examples: leave out --data")
        task.data = settings.data
    if getattr(task, "runs_code", False):
        sandbox.require()
    if hasattr(task, "require"):
        task.require()
    return task


def read(task: Task, settings: Settings) -> Iterator[Example]:
    limit = settings.limit
    if limit is None and getattr(task, "endless", False):
        limit = GENERATED_LIMIT
    return task.examples(settings.split, limit, settings.seed)


def length(encode: Any, example: Example) -> int:
    try:
        return len(encode(example.prompt))
    except Exception:  # a text the tokenizer refuses: that example's own failure, later and on record
        return len(example.prompt)


def plain(params: Mapping[str, Any]) -> dict[str, Any]:
    from unmask.loop import plain as as_json

    return as_json(dict(params))
