"""Decodes of the same examples by several decoders, into a folder: when each position was committed, and why.

    decode(Request("tiny", "wordproblems", decoders, limit=40), Path("runs/order"))

One finished decode per line, resumable. `diagnose order` and `diagnose admitted` read the same folder. Decoders that
test stability read every layer of the window here (`lazy=false`): they commit the same, and K and r are exact.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from unmask import decoders
from unmask.diagnostics import constraints
from unmask.errors import UserError, unknown
from unmask.evaluate.folder import Kind, RunFolder, read_config, read_samples
from unmask.evaluate.plan import find_task
from unmask.evaluate.progress import Bar, Progress, Silent
from unmask.evaluate.specs import DecoderSpec

if TYPE_CHECKING:
    from unmask.evaluate.plan import Checkpoint
    from unmask.evaluate.worker import Worker
    from unmask.models import Model
    from unmask.tasks.base import Example, Task
    from unmask.trace import Trace

DECODES = Kind("unmask.decodes", frozenset({"decoder", "index", "order"}))
INITIAL = "initial"  # the first forward over an empty canvas, as a decoder of its own
KEPT_TEXTS = 8  # examples whose tokens are kept, for the pictures of single decodes


@dataclass(frozen=True)
class Request:
    """What the decodes depend on."""

    model: str
    task: str
    decoders: Sequence[DecoderSpec]
    constraints: Sequence[str] = constraints.NAMES
    limit: int = 40
    constraint_limit: int | None = None  # one token per forward is slow: perhaps fewer examples for those
    split: str = "test"
    seed: int = 0
    batch_size: int = 8
    canvas_length: int | None = None
    raw: bool = False
    device: str | None = None
    dtype: str | None = None
    revision: str | None = None
    data: Path | None = None

    def __post_init__(self) -> None:
        for name in ("limit", "constraint_limit", "batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"--{name.replace('_', '-')} must be at least 1, not {value}")
        for name in self.constraints:
            if name not in constraints.NAMES:
                raise unknown("ordering constraint", name, constraints.NAMES)
        for spec in self.decoders:
            if spec.label in (INITIAL, *constraints.NAMES):
                raise UserError(f"a decoder cannot be called {spec.label} here")

    def held(self) -> dict[str, Any]:
        left_out = ("decoders", "device", "dtype", "data")
        return {name: value for name, value in asdict(self).items() if name not in left_out}


@dataclass
class Plan:
    request: Request
    task: Task
    examples: list[Example]
    checkpoint: Checkpoint

    @property
    def canvas_length(self) -> int:
        return self.request.canvas_length or self.checkpoint.spec.canvas_length

    @cached_property
    def specs(self) -> list[DecoderSpec]:
        return [eager(spec, self.checkpoint.spec) for spec in self.request.decoders]

    @property
    def identity(self) -> dict[str, Any]:
        from unmask.evaluate.environment import fingerprint
        from unmask.evaluate.plan import plain

        spec, request = self.checkpoint.spec, self.request
        return {
            "request": request.held(),
            "task": {"name": self.task.name, "version": self.task.version, "ids": [e.id for e in self.examples]},
            "decoders": [
                {
                    "label": item.label,
                    "name": item.resolved_name(spec),
                    "params": plain(item.build(spec, self.canvas_length).params()),
                }
                for item in self.specs
            ],
            "constraints": list(request.constraints),
            "model": {
                "name": str(request.model),
                "family": spec.family.name,
                "layers": spec.layers,
                "canvas_length": self.canvas_length,
                "device": self.checkpoint.device.partition(":")[0],
                "dtype": self.checkpoint.dtype,
                "fingerprint": fingerprint(self.checkpoint.folder),
            },
        }

    def count(self, label: str) -> int:
        limit = self.request.constraint_limit if label in constraints.NAMES else None
        return min(len(self.examples), limit or len(self.examples))


def eager(spec: DecoderSpec, model: Any) -> DecoderSpec:
    """The whole window is read: same commits, exact K and r."""
    cls, _, _ = decoders.find(spec.name, model)
    return replace(spec, options={**spec.options, "lazy": False}) if hasattr(cls, "lazy") else spec


def decode(request: Request, out: Path, progress: Progress | None = None) -> dict[str, Any]:
    """Decode what is not in the folder `out` yet; its configuration."""
    plan = prepare(request)
    labels = [INITIAL, *(spec.label for spec in plan.specs), *request.constraints]
    with RunFolder(out, plan.identity, DECODES) as folder:
        done = {(line["decoder"], line["index"]) for line in read_samples(out, DECODES)}
        todo = {label: [i for i in range(plan.count(label)) if (label, i) not in done] for label in labels}
        if any(todo.values()):
            work(plan, folder, todo, progress or Silent())
        return read_config(out, DECODES)


def prepare(request: Request) -> Plan:
    from unmask.evaluate.plan import Checkpoint
    from unmask.models import locate

    locate(request.model)
    task = find_task(cast(Any, request))
    if request.constraints and task.metric != "accuracy":
        raise UserError(
            f"ordering constraints hold back a numeric answer, which {task.name} does not have: use another --task, "
            "or --constraints none"
        )
    examples = list(task.examples(request.split, request.limit, request.seed))
    plan = Plan(
        request, task, examples, Checkpoint.find(request.model, request.revision, request.device, request.dtype)
    )
    plan.identity  # noqa: B018 (resolves every decoder)
    return plan


def work(plan: Plan, folder: RunFolder, todo: dict[str, list[int]], progress: Progress) -> None:
    from unmask.evaluate.environment import hardware, versions
    from unmask.evaluate.worker import Decoding, Worker
    from unmask.models import load

    request, checkpoint = plan.request, plan.checkpoint
    model = load(request.model, revision=request.revision, device=checkpoint.device, dtype=checkpoint.dtype)
    worker = Worker(model, plan.task, Decoding(request.batch_size, request.canvas_length, request.seed, request.raw))
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    about = {"started": started, "versions": versions(), "hardware": hardware(checkpoint.device)}
    folder.describe({**plan.identity, **about})
    runs = [
        (INITIAL, initial(plan, worker, todo[INITIAL])),
        *((spec.label, decoded(plan, worker, spec, todo[spec.label])) for spec in plan.specs),
        *((name, decoded(plan, worker, constrained(name, model), todo[name])) for name in request.constraints),
    ]
    try:
        for label, lines in runs:
            if not todo[label]:
                continue
            tally = Tally(plan.count(label) - len(todo[label]))
            progress.start(label, plan.count(label), tally)  # type: ignore[arg-type]
            for batch in lines:
                folder.write(batch)
                tally.add(batch)
                progress.update(label, batch)
    finally:
        with suppress(Exception):
            progress.stop()


def constrained(name: str, model: Model) -> DecoderSpec:
    """A constraint as the worker takes decoders: it hands `name` to make_row, which takes objects too."""
    cls = constraints.CLASSES[constraints.NAMES.index(name)]
    piece = lru_cache(maxsize=None)(model.tokenizer.piece)
    return DecoderSpec(name, cast(str, cls(piece=piece)))


def initial(plan: Plan, worker: Worker, indices: Sequence[int]) -> Iterator[list[dict[str, Any]]]:
    """Confidence at every position of an empty canvas, and where an end token is expected."""
    import numpy as np
    import torch

    from unmask.api import make_row
    from unmask.forward import Forward

    model, request = worker.model, plan.request
    for start in range(0, len(indices), request.batch_size):
        chosen = indices[start : start + request.batch_size]
        prompts = [plan.examples[index].prompt for index in chosen]
        canvases = [
            make_row(model, prompt, "left-to-right", canvas_length=request.canvas_length, raw=request.raw).canvas
            for prompt in prompts
        ]
        forward = Forward(model, canvases)
        wanted = [(row, np.arange(canvas.length)) for row, canvas in enumerate(canvases)]
        tables = forward.score(wanted, model.choosable, torch.float32)
        yield [
            {
                "decoder": INITIAL, "index": index, "order": [], "c": [round(float(c), 4) for c in table[1]],
                "ends": [int(int(token) in model.stop_ids) for token in table[0]],
            }
            for index, table in zip(chosen, tables, strict=True)
        ]  # fmt: skip


def decoded(plan: Plan, worker: Worker, spec: DecoderSpec, indices: Sequence[int]) -> Iterator[list[dict[str, Any]]]:
    for finished in worker.decode(spec, ((index, plan.examples[index]) for index in indices)):
        lines = []
        for item in finished:
            sample = worker.sample(spec, item)
            line = {
                "decoder": spec.label,
                "index": item.index,
                "correct": sample["correct"],
                "error": sample["error"],
            }
            trace = item.generation.trace if item.generation is not None else None
            lines.append(line | (facts(trace, item.index < KEPT_TEXTS) if trace else {"order": []}))
        yield lines


def facts(trace: Trace, text: bool) -> dict[str, Any]:
    """What the pictures need of one decode: the step of every position, routes, and what stability admitted."""
    stop = frozenset(trace.header.get("stop_ids", ()))
    *_, canvas = trace.canvases()
    admitted = []
    for step in trace.steps:
        for i in step.committed.nonzero()[0]:
            if step.verdict[i] == "stability":
                values = (step.confidence[i], step.columns["K"][i], step.columns["r"][i])
                admitted.append([round(float(value), 6) for value in values])
    ends = [int(int(token) in stop) for token in canvas]
    line = {
        "order": trace.commit_steps().tolist(), "steps": len(trace.steps), "nfe": trace.end["nfe"],
        "end": ends.index(1) if 1 in ends else len(ends), "routes": trace.route_counts(), "admitted": admitted,
    }  # fmt: skip
    if text:
        line["pieces"] = [None if end else trace.piece(int(t)) for t, end in zip(canvas, ends, strict=True)]
    return line


@dataclass
class Tally:
    """What a running decode shows."""

    n: int = 0
    right: int = 0
    seen: int = 0

    def add(self, lines: Sequence[dict[str, Any]]) -> None:
        self.n += len(lines)
        self.seen += len(lines)
        self.right += sum(bool(line.get("correct")) for line in lines)


class DecodesBar(Bar):
    def facts(self) -> str:
        tally: Any = self.total
        rate = tally.seen / max(time.monotonic() - self.began, 1e-9)
        return f"{rate:.2f} examples/s"
