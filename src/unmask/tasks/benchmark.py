"""What the four benchmarks share: data with a checksum, and a prompt kept as versioned text beside the task."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from .base import Example, Score
from .data import Benchmark

PROMPTS = Path(__file__).parent / "prompts"


def fill(template: str, **fields: str) -> str:
    """The template with its `{names}` replaced; other braces are text."""
    return re.sub(r"\{(\w+)\}", lambda match: fields.get(match[1], match[0]), template)


class BenchmarkTask:
    """A finite task read from data. Subclasses say how a record becomes an example, and score."""

    name: ClassVar[str]
    version: ClassVar[int] = 1
    metric: ClassVar[str] = "accuracy"
    summary: ClassVar[str]
    runs_code: ClassVar[bool] = False
    benchmark: ClassVar[Benchmark]

    def __init__(self, data: Path | None = None) -> None:
        self.data = data  # a file or folder; UNMASK_DATA or the hub where it is None

    @property
    def template(self) -> str:
        """The prompt. A change of it is a new file and a new version: scores of different prompts do not compare."""
        return (PROMPTS / f"{self.name}.v{self.version}.txt").read_text(encoding="utf-8").strip()

    def examples(self, split: str = "test", limit: int | None = None, seed: int = 0) -> Iterator[Example]:
        """In source order; `seed` changes nothing, it is for tasks that draw theirs."""
        template = self.template
        for record in self.benchmark.load(split, self.data)[:limit]:
            yield self.example(record, template)

    def example(self, record: dict[str, Any], template: str) -> Example:
        raise NotImplementedError  # pragma: no cover

    def score(self, example: Example, text: str) -> Score:
        raise NotImplementedError  # pragma: no cover
