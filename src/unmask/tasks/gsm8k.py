"""GSM8K: grade-school word problems, scored by the number after the last `####` (arXiv:2110.14168)."""

from __future__ import annotations

from typing import Any

from ..scoring import extract_hash_answer, numbers_equal
from .base import Example, Score
from .benchmark import BenchmarkTask, fill
from .data import Benchmark, Source

HUB = "openai/gsm8k"
TEST = "5ce871f10b043b8314aad55c6bef71d1811875cd65d55cbc07c9938b66d9b27b"
TRAIN = "e87469c44077e10bb604b6a791a7e5a6e3a022ba6248559436b87e785ac1631a"


def adapt(record: dict[str, Any]) -> dict[str, Any]:
    """As published, `answer` is the whole solution; in other copies it is the number and `solution` the text."""
    solution = record["solution"] if "solution" in record else record["answer"]
    final = solution.rpartition("####")[2].strip().replace(",", "")
    if not final or "####" not in solution:
        raise ValueError("its solution has no '#### answer'")
    return {"question": record["question"], "solution": solution, "answer": final}


class GSM8K(BenchmarkTask):
    """GSM8K. Right is a response whose last `####` is followed by the gold number."""

    name = "gsm8k"
    summary = "grade-school word problems; the number after the last ####"
    benchmark = Benchmark(
        "gsm8k",
        {
            "test": Source(
                "gsm8k_test",
                1319,
                TEST,
                (HUB, "main", "test"),
            ),
            "train": Source(
                "gsm8k_train",
                7473,
                TRAIN,
                (HUB, "main", "train"),
            ),
        },
        adapt,
        ("question", "answer"),
    )

    def example(self, record: dict[str, Any], template: str) -> Example:
        return Example(
            record["id"], fill(template, question=record["question"].strip()), record["answer"], record["solution"]
        )

    def score(self, example: Example, text: str) -> Score:
        """The number after the last `####` must equal the gold one as a number: `18`, `18.0` and `$18` are equal."""
        found = extract_hash_answer(text)
        if found is None:
            return Score(False, None, "no '#### number' in the response")
        if numbers_equal(found, example.answer):
            return Score(True, found)
        return Score(False, found, f"expected {example.answer}")
