"""Decode and score examples with one decoder: the part of an evaluation that runs beside a model.

A pool of rows steps through the loop. A row that finishes is scored and handed out at once, before the next
example takes its place; so nothing finished is ever waiting in memory, and the batch stays full.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unmask.errors import UserError
from unmask.tasks.base import Example, Score, Task

if TYPE_CHECKING:
    from unmask.api import Generation
    from unmask.evaluate.specs import DecoderSpec
    from unmask.loop import Row
    from unmask.models import Model

Sample = dict[str, Any]
SCORING_THREADS = min(8, os.cpu_count() or 1)  # each waits for its own sandboxed process


@dataclass(frozen=True)
class Decoding:
    """What a decode depends on, besides the decoder: equal settings give equal answers."""

    batch_size: int = 8
    canvas_length: int | None = None
    seed: int = 0
    raw: bool = False
    early_stop: bool = False


@dataclass
class Finished:
    """One example after decoding: an answer, or why there is none."""

    index: int
    example: Example
    generation: Generation | None = None
    error: str | None = None


class Worker:
    """A model, a task and the settings they are run with."""

    def __init__(self, model: Model, task: Task, decoding: Decoding) -> None:
        from unmask.loop import Loop

        self.model, self.task, self.decoding = model, task, decoding
        self.loop = Loop(model, early_stop=decoding.early_stop)

    def run(self, spec: DecoderSpec, examples: Iterable[tuple[int, Example]]) -> Iterator[list[Sample]]:
        """Samples in the order they finish: one list per step that finished any."""
        for finished in self.decode(spec, examples):
            yield self.score(spec, finished)

    def decode(self, spec: DecoderSpec, examples: Iterable[tuple[int, Example]]) -> Iterator[list[Finished]]:
        queue = iter(examples)
        rows: list[Row] = []
        while True:
            while len(rows) < self.decoding.batch_size and (pair := next(queue, None)) is not None:
                entry = self.admit(spec, *pair)
                if isinstance(entry, Finished):
                    yield [entry]
                else:
                    rows.append(entry)
            if not rows:
                return
            try:
                self.loop.step(rows)
            except Exception as error:
                raise_if_fatal(error, self.decoding.batch_size)
                for row in rows:  # each is written before the next is decoded
                    yield [self.alone(spec, *row.tag)]
                rows = []
                continue
            done = [self.finish(row) for row in rows if row.done]
            rows = [row for row in rows if not row.done]
            if done:
                yield done

    def admit(self, spec: DecoderSpec, index: int, example: Example) -> Row | Finished:
        """A row for this example, or the reason why it cannot be one (a prompt longer than the context)."""
        from unmask.api import make_row

        decoding = self.decoding
        try:
            # One random stream per example: what it draws depends on no neighbour and on no batch size.
            row = make_row(
                self.model, example.prompt, spec.name, spec.options,
                canvas_length=decoding.canvas_length, seed=decoding.seed + index, raw=decoding.raw,
            )  # fmt: skip
        except Exception as error:
            return Finished(index, example, error=describe(error))
        row.tag = (index, example)
        return row

    def finish(self, row: Row) -> Finished:
        from unmask.api import finish

        index, example = row.tag
        if row.error:
            return Finished(index, example, error=describe(row.error))
        try:
            return Finished(index, example, finish(self.model, row))
        except Exception as error:
            return Finished(index, example, error=describe(error))

    def alone(self, spec: DecoderSpec, index: int, example: Example) -> Finished:
        """After a step failed as a whole: find out which example was to blame, and lose only that one."""
        row = self.admit(spec, index, example)
        if isinstance(row, Finished):
            return row
        try:
            while not row.done:
                self.loop.step([row])
        except Exception as error:
            raise_if_fatal(error, 1)
            return Finished(index, example, error=describe(error))
        return self.finish(row)

    def warm_up(self, spec: DecoderSpec, examples: Iterable[tuple[int, Example]]) -> None:
        """Two steps of a full batch, thrown away: the first launches of a GPU must not be in anyone's throughput."""
        if self.model.net.device.type != "cuda":
            return
        rows = [self.admit(spec, index, example) for index, example in examples]
        batch = [row for row in rows if not isinstance(row, Finished)]
        try:
            for _ in range(2):
                batch = [row for row in batch if not row.done]
                if batch:
                    self.loop.step(batch)
        except Exception as error:  # the run itself will say which example fails
            raise_if_fatal(error, self.decoding.batch_size)

    def score(self, spec: DecoderSpec, finished: list[Finished]) -> list[Sample]:
        if getattr(self.task, "runs_code", False) and len(finished) > 1:
            with ThreadPoolExecutor(SCORING_THREADS) as pool:
                return list(pool.map(lambda item: self.sample(spec, item), finished))
        return [self.sample(spec, item) for item in finished]

    def sample(self, spec: DecoderSpec, item: Finished) -> Sample:
        """The line of samples.jsonl (docs/evaluation.md describes every field)."""
        score, error = Score(False), item.error
        if item.generation is not None:
            try:
                score = self.task.score(item.example, item.generation.text)
            except UserError:
                raise  # the harness is missing something: that is no answer's fault
            except Exception as failure:
                error = f"scoring failed: {describe(failure)}"
        return {
            "decoder": spec.label,
            "index": item.index,
            "id": item.example.id,
            "correct": bool(score.correct) and error is None,
            "extracted": score.extracted,
            "why": score.why,
            "error": error,
            **(measured(item.generation) if item.generation is not None else {}),
            "prompt": item.example.prompt,
            "answer": item.example.answer,
            "text": item.generation.text if item.generation is not None else None,
        }


def measured(generation: Generation) -> Sample:
    end = generation.trace.end
    return {
        "nfe": generation.nfe,
        "branches": end["branches"],
        "tokens": len(generation.tokens),
        "non_eos": end["non_eos"],
        "canvas": end["canvas"],
        "seconds": generation.seconds,
        "phases": generation.trace.seconds(),
        "finish_reason": generation.finish_reason,
        "warnings": [warning.code for warning in generation.warnings],
    }


def describe(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, UserError) else f"{type(error).__name__}: {text}"


def raise_if_fatal(error: Exception, batch_size: int) -> None:
    """Errors that no single example is to blame for end the run: what is on disk stays, and it can be resumed."""
    import torch

    if isinstance(error, torch.OutOfMemoryError):
        raise UserError(
            f"the device ran out of memory at batch size {batch_size}: use a smaller --batch-size and another --out"
        ) from None
    if "CUDA error" in str(error):  # the device is lost for this process: every later example would fail too
        raise error
