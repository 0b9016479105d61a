"""The tasks by name. Names map to `module:Class` strings, so listing them imports nothing."""

from __future__ import annotations

from importlib import import_module

from ..errors import unknown
from .base import Example, Score, Task

_TASKS = {
    "functions": "unmask.tasks.functions:Functions",
    "gsm8k": "unmask.tasks.gsm8k:GSM8K",
    "humaneval": "unmask.tasks.humaneval:HumanEval",
    "math500": "unmask.tasks.math500:Math500",
    "mbpp": "unmask.tasks.mbpp:MBPP",
    "wordproblems": "unmask.tasks.wordproblems:WordProblems",
}

__all__ = ["Example", "Score", "Task", "get", "names"]


def names() -> list[str]:
    """Every known task name, sorted."""
    return sorted(_TASKS)


def get(name: str) -> Task:
    """The task called `name`, imported on first use."""
    if name not in _TASKS:
        raise unknown("task", name, _TASKS)
    module, attribute = _TASKS[name].split(":")
    return getattr(import_module(module), attribute)()
