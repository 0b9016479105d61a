"""HumanEval: complete a Python function from its docstring, judged by running its tests (arXiv:2107.03374)."""

from __future__ import annotations

import re
from typing import Any

from .. import sandbox
from ..scoring import extract_code
from .base import Example, Score
from .benchmark import BenchmarkTask, fill
from .data import Benchmark, Source

SHA256 = "4adeaecaa99aaa738e6d7035f00ca79c9d37ca352a6495a31ed18e54c8e19396"


def adapt(record: dict[str, Any]) -> dict[str, Any]:
    fields = ("prompt", "entry_point", "canonical_solution", "test")
    return {
        "id": record["task_id"] if "task_id" in record else record["id"],
        **{field: record[field] for field in fields},
    }


class HumanEval(BenchmarkTask):
    """HumanEval. Right is code under which `check(entry_point)` runs to its end in the sandbox."""

    name = "humaneval"
    metric = "pass@1"
    summary = "complete a Python function from its docstring; run against its tests"
    runs_code = True
    benchmark = Benchmark(
        "humaneval",
        {
            "test": Source(
                "humaneval_test",
                164,
                SHA256,
                ("openai/openai_humaneval", None, "test"),
            )
        },
        adapt,
        ("prompt", "entry_point", "canonical_solution", "test"),
    )

    def example(self, record: dict[str, Any], template: str) -> Example:
        gold = record["prompt"] + record["canonical_solution"]
        meta = {field: record[field] for field in ("prompt", "entry_point", "test")}
        return Example(
            record["id"], fill(template, prompt=record["prompt"].strip()), record["canonical_solution"], gold, meta
        )  # fmt: skip

    def score(self, example: Example, text: str) -> Score:
        """Fences are removed, the prompt's imports and helpers are there, and the tests must run to their end."""
        code, meta = extract_code(text, [example.meta["entry_point"]]), example.meta
        if not code.strip():
            return Score(False, None, "no code in the response")
        outcome = sandbox.judge(
            program(code, meta["prompt"], meta["entry_point"]),
            f"{meta['test']}\n\ncheck({meta['entry_point']})\n",
            names=[meta["entry_point"]],
            preamble=meta["prompt"],
        )
        return Score(outcome.passed, code, "" if outcome.passed else outcome.reason)


# What may stand before `from __future__`: comments, empty lines and a docstring.
_FUTURE = re.compile(r"from __future__ import [^\n(]*(?:\([^)]*\)[^\n]*)?\n?")
_DOCSTRING = r"\"\"\"[\s\S]*?\"\"\"[ \t]*\n|'''[\s\S]*?'''[ \t]*\n"
_HEAD = re.compile(rf"(?:[ \t]*(?:#[^\n]*)?\n|{_DOCSTRING}|{_FUTURE.pattern})*")


def program(code: str, prompt: str, entry_point: str) -> str:
    """A whole function runs after the prompt, whose imports and helpers it may use; a bare body continues it."""
    if not re.search(rf"^(async\s+)?def\s+{re.escape(entry_point)}\b", code, re.MULTILINE):
        return f"{prompt}{code}\n"
    head = _HEAD.match(code)
    end = head.end() if head else 0
    # Imports from the future have to be a program's first, and the prompt comes before the code.
    future = "".join(line.rstrip("\n") + "\n" for line in _FUTURE.findall(code[:end]))
    return f"{future}{prompt}\n\n{_FUTURE.sub('', code[:end])}{code[end:]}\n"
