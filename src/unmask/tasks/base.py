"""What a task is: examples in, a score out. Everything else (batching, files, tables) lives elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Example:
    """One item: what is asked (`prompt`, the user turn), and what is known about the right answer."""

    id: str
    prompt: str
    answer: str  # the gold final answer, or the reference code
    response: str = ""  # a complete gold response (trace included), where the task has one
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Score:
    """The verdict on one response. `extracted` is what was compared; `why` says what was wrong."""

    correct: bool
    extracted: str | None = None
    why: str = ""


class Task(Protocol):
    """A named, versioned source of examples with its own scoring."""

    name: str
    version: int
    metric: str  # "accuracy" or "pass@1"
    summary: str  # one line for `unmask tasks`

    def examples(self, split: str = "test", limit: int | None = None, seed: int = 0) -> Iterator[Example]: ...

    def score(self, example: Example, text: str) -> Score: ...
