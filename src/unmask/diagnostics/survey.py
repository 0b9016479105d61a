"""The masked states of many traces, evaluated into a folder: one finished question per line, resumable.

    survey(Request("tiny", "wordproblems", limit=200), Path("runs/states"))

`diagnose upstream` and `diagnose layers` read the same folder, as the paper reads both findings off the same
states. A line holds, per level m and pattern: E, the answer, and for every target digit whether it is right and
its probability from layer L back to the last layer that agrees. From that follow c, K and r for any first layer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from unmask.diagnostics.masking import FULL, LEVELS, PATTERNS, patterns, scaled
from unmask.diagnostics.traces import SEED, Gold, load_traces
from unmask.errors import UserError
from unmask.evaluate.folder import Kind, RunFolder, read_config, read_samples
from unmask.evaluate.progress import Bar, Progress, Silent

if TYPE_CHECKING:
    from unmask.diagnostics.states import Encoded
    from unmask.evaluate.plan import Checkpoint
    from unmask.models import Model

STATES = Kind("unmask.states", frozenset({"index", "id", "levels"}))
LABEL = "states"
ROUNDED = 6  # decimals of probabilities on disk, significant digits of entropies


@dataclass(frozen=True)
class Request:
    """What the states depend on."""

    model: str
    source: str | Path  # a task, or a file of traces
    limit: int | None = None
    min_digits: int | None = None
    leak: str = "substring"
    split: str = "test"
    seed: int = SEED
    raw: bool = False
    levels: tuple[int, ...] = LEVELS
    patterns: int = PATTERNS
    canvas: int | None = None  # masks behind the target up to this length; none, as in the paper
    batch_size: int = 16
    device: str | None = None
    dtype: str | None = None
    revision: str | None = None
    data: Path | None = None  # where the task's examples are, for tasks that read them
    skip: int = 0  # first examples of the task, which are left to something else

    def __post_init__(self) -> None:
        for name in ("batch_size", "patterns"):
            if getattr(self, name) < 1:
                raise UserError(f"--{name.replace('_', '-')} must be at least 1, not {getattr(self, name)}")

        if not self.levels or len(set(self.levels)) < len(self.levels) or not all(1 <= m < FULL for m in self.levels):
            raise UserError(
                f"--masks takes different whole numbers from 1 to {FULL - 1} (of {FULL} digits), "
                f"not {','.join(map(str, self.levels))}"
            )

    def held(self) -> dict[str, Any]:
        """As config.json holds it. A file's place is left out: the checksum of its traces is what counts."""
        left_out = ("source", "device", "dtype", "data", "levels")
        kept = {name: value for name, value in asdict(self).items() if name not in left_out}
        if self.canvas is None:
            del kept["canvas"]
        if not self.skip:
            del kept["skip"]
        return {**kept, "source": self.source if isinstance(self.source, str) else "file"}


@dataclass
class Survey:
    """A prepared request: traces read, checkpoint found, every trace encoded. No weight is loaded yet."""

    request: Request
    gold: Gold
    checkpoint: Checkpoint
    encoded: list[Encoded]

    @property
    def identity(self) -> dict[str, Any]:
        from unmask.evaluate.environment import fingerprint

        spec = self.checkpoint.spec
        return {
            "request": self.request.held(),
            "traces": {"n": len(self.encoded), "sha256": self.gold.digest},
            "levels": list(self.request.levels),
            "model": {
                "name": str(self.request.model),
                "family": spec.family.name,
                "layers": spec.layers,
                "device": self.checkpoint.device.partition(":")[0],
                "dtype": self.checkpoint.dtype,
                "fingerprint": fingerprint(self.checkpoint.folder),
            },
        }


def survey(
    request: Request, out: Path, progress: Progress | None = None, check: Callable[[Model], object] | None = None
) -> dict[str, Any]:
    """Evaluate what is not in the folder `out` yet; its configuration. `check` is what the analysis asks of the
    model: too few layers are better said before an hour of forwards than after."""
    plan = prepare(request, check)
    with RunFolder(out, plan.identity, STATES) as folder:
        done = {sample["index"] for sample in read_samples(out, STATES)}
        todo = [index for index in range(len(plan.encoded)) if index not in done]
        if todo:
            work(plan, folder, todo, Tally(len(done)), progress or Silent())
        return read_config(out, STATES)


def prepare(request: Request, check: Callable[[Model], object] | None = None) -> Survey:
    """Everything that can be wrong with the request is found here, the cheap things first."""
    from unmask.diagnostics.states import check_digits, encode, fits
    from unmask.evaluate.plan import Checkpoint
    from unmask.models import Model, locate

    locate(request.model)
    gold = load_traces(
        request.source, limit=request.limit, min_digits=request.min_digits, leak=request.leak, split=request.split,
        seed=request.seed, data=request.data, skip=request.skip,
    )  # fmt: skip
    checkpoint = Checkpoint.find(request.model, request.revision, request.device, request.dtype)
    outline = Model(request.model, SimpleNamespace(spec=checkpoint.spec), checkpoint.tokenizer)
    check_digits(outline.tokenizer, outline.name)
    if check:
        check(outline)
    encoded = [encode(outline, trace, request.raw, request.canvas) for trace in gold.traces]
    kept = [item for item in encoded if fits(outline, item)]
    if not kept:
        raise UserError(
            f"every trace of {gold.source} is longer than the {checkpoint.spec.context} tokens {request.model} takes"
        )
    gold.traces, gold.dropped["long"] = [item.trace for item in kept], len(encoded) - len(kept)
    return Survey(request, gold, checkpoint, kept)


def work(plan: Survey, folder: RunFolder, todo: Sequence[int], tally: Tally, progress: Progress) -> None:
    from unmask.evaluate.environment import hardware, versions
    from unmask.models import load

    request, checkpoint = plan.request, plan.checkpoint
    model = load(request.model, revision=request.revision, device=checkpoint.device, dtype=checkpoint.dtype)
    folder.describe(
        {
            **plan.identity,
            "source": plan.gold.source,
            "account": plan.gold.account(),
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "versions": versions(),
            "hardware": hardware(checkpoint.device),
        }
    )
    progress.start(LABEL, len(plan.encoded), tally)  # type: ignore[arg-type]
    try:
        for index in todo:
            line = question(model, index, plan.encoded[index], request)
            folder.write([line])
            tally.add(line)
            progress.update(LABEL, [line])
    finally:
        with suppress(Exception):  # a broken terminal is no reason to lose the error
            progress.stop()


def question(model: Model, index: int, encoded: Encoded, request: Request) -> dict[str, Any]:
    """The line of one question: every level, every pattern, every target digit."""
    from unmask.diagnostics.states import observe

    began = time.perf_counter()
    trace = encoded.trace
    drawn = {level: patterns(trace, level, request.patterns, request.seed) for level in request.levels}
    flat = [pattern for level in request.levels for pattern in drawn[level]]
    seen = observe(model, encoded, flat, batch_size=request.batch_size)  # levels share batches
    levels = {
        str(level): {"masked": scaled(level, len(trace.upstream)), **columns(model, seen, len(drawn[level]))}
        for level in request.levels
    }
    return {
        "index": index, "id": trace.id, "digits": len(trace.upstream), "tokens": len(encoded), "answer": trace.answer,
        "states": len(flat), "levels": levels, "seconds": round(time.perf_counter() - began, 4),
    }  # fmt: skip


def columns(model: Model, seen: Iterator[Any], count: int) -> dict[str, Any]:
    found = [next(seen) for _ in range(count)]
    return {
        "E": [significant(state.E) for state in found],
        "right": [int(state.answered) for state in found],
        "answers": ["".join(model.tokenizer.piece(int(token)) for token in state.token) for state in found],
        "targets": [
            [
                [int(token == gold), *(round(float(p), ROUNDED) for p in suffix)]
                for token, gold, suffix in zip(state.token, state.gold, state.suffix, strict=True)
            ]
            for state in found
        ],
    }


def significant(value: float) -> float:
    """Patterns are ranked by E, also where a certain model leaves a millionth of a nat: decimals would make ties."""
    return float(f"{value:.{ROUNDED}g}")


@dataclass
class Tally:
    """What a running survey shows: questions, states, states per second."""

    n: int = 0
    states: int = 0
    seconds: float = 0.0
    right: int = 0

    def add(self, line: dict[str, Any]) -> None:
        self.n += 1
        self.states += line["states"]
        self.seconds += line["seconds"]
        self.right += sum(sum(level["right"]) for level in line["levels"].values())


class StatesBar(Bar):
    def facts(self) -> str:
        tally: Any = self.total
        rate = tally.states / tally.seconds if tally.seconds else 0.0
        return f"{100 * tally.right / max(1, tally.states):.1f}% right  {rate:.1f} states/s"
