"""MATH-500: competition problems, scored by symbolic equivalence of the last boxed answer (arXiv:2305.20050)."""

from __future__ import annotations

from typing import Any

from .. import symbolic
from ..scoring import extract_boxed
from .base import Example, Score
from .benchmark import BenchmarkTask, fill
from .data import Benchmark, Source

SHA256 = "f4baeb27c3e5bac0396fdc3e42173df932f77910bb436684edaf9c6fa18cc3df"


def adapt(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": record["id"] if "id" in record else f"math500/{record['unique_id']}",
        "question": record["question"] if "question" in record else record["problem"],
        "solution": record["solution"],
        "answer": record["answer"],
        "subject": record["subject"],
        "level": record["level"],
    }


class Math500(BenchmarkTask):
    """MATH-500. Right is a response whose last boxed expression is equivalent to the gold one."""

    name = "math500"
    summary = "competition mathematics; symbolic equivalence of the boxed answer"
    benchmark = Benchmark(
        "math500",
        {
            "test": Source(
                "math500_test",
                500,
                SHA256,
                ("HuggingFaceH4/MATH-500", None, "test"),
            )
        },
        adapt,
        ("question", "answer"),
    )

    def require(self) -> None:
        symbolic.require()

    def example(self, record: dict[str, Any], template: str) -> Example:
        return Example(
            record["id"], fill(template, question=record["question"].strip()), record["answer"], record["solution"],
            {"subject": record["subject"], "level": record["level"]},
        )  # fmt: skip

    def score(self, example: Example, text: str) -> Score:
        """The last \\boxed{} must be equivalent to the gold answer (math-verify, five seconds at most)."""
        found = extract_boxed(text)
        if found is None:
            return Score(False, None, "no \\boxed{} in the response")
        right, why = symbolic.math_equal(example.answer, found)
        return Score(right, found, why or ("" if right else f"expected {example.answer}"))
