"""MBPP: short Python tasks, judged by running their three tests (arXiv:2108.07732). Test split: tasks 11-510."""

from __future__ import annotations

import ast
import warnings
from typing import Any

from .. import sandbox
from ..scoring import extract_code
from .base import Example, Score
from .benchmark import BenchmarkTask, fill
from .data import Benchmark, Source

HUB = "google-research-datasets/mbpp"


def adapt(record: dict[str, Any]) -> dict[str, Any]:
    fields = ("task_id", "text", "code", "test_setup_code", "test_list")
    row = {field: record[field] for field in fields}
    if not isinstance(row["test_list"], list):
        raise ValueError("test_list is not a list")
    row["id"] = f"mbpp/{row['task_id']}"
    return {**row, "test_list": [unix(test) for test in row["test_list"]], "code": unix(row["code"])}


def unix(text: str) -> str:
    return text.replace("\r\n", "\n")


class MBPP(BenchmarkTask):
    """MBPP. Right is code under which the task's setup and its tests run to their end in the sandbox."""

    name = "mbpp"
    metric = "pass@1"
    summary = "short Python tasks with three public tests; run against them"
    runs_code = True
    benchmark = Benchmark(
        "mbpp",
        {
            split: Source("mbpp", rows, sha256, (HUB, "full", split), {"split": split})
            for split, rows, sha256 in (
                ("test", 500, "7939bc54f193be512ec32aabb777a8c0d05eff63f1c547084991025ca470d5e2"),
                ("validation", 90, "9d0e33582decbbac40f6f375de0093c5ea62d62b95c4bf132d1dedac1dcfe07e"),
                ("train", 374, "0937c7fe63d26705e0c3d838f848200b995cb48fa1b3b7adadb9d42519c5f029"),
                ("prompt", 10, "3daae9d2c7498106eea9184b6b988d0bb0916f3169cbe7d4a01a8adee8f3d327"),
            )
        },
        adapt,
        ("task_id", "text", "code", "test_setup_code", "test_list"),  # code: its names are what the tests may call
    )

    def example(self, record: dict[str, Any], template: str) -> Example:
        tests = record["test_list"]
        prompt = fill(template, text=record["text"].strip(), tests="\n".join(test.strip() for test in tests[:3]))
        meta = {"tests": tests, "setup": unix(record["test_setup_code"]), "names": defined(record["code"])}
        return Example(record["id"], prompt, record["code"], record["code"], meta)

    def score(self, example: Example, text: str) -> Score:
        """Fences are removed; the code runs, then the task's setup (two tasks have one), then each test."""
        code, meta = extract_code(text, example.meta["names"]), example.meta
        if not code.strip():
            return Score(False, None, "no code in the response")
        # Setup after the solution: it uses the solution's own classes.
        outcome = sandbox.judge(code, "\n".join([meta["setup"], *meta["tests"]]), names=meta["names"])
        return Score(outcome.passed, code, "" if outcome.passed else outcome.reason)


def defined(code: str) -> list[str]:
    """Names of the reference's functions and classes: what a test may call, whatever else it names is Python's."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some references have escapes that Python now frowns at
        body = ast.parse(code).body
    return [node.name for node in body if isinstance(node, kinds)]
