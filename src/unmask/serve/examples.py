"""Prompts the page offers: of the embedded model's own kind, or a few for any other model."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from unmask.models import Model

SEED = 2026  # any; fixed, so that everybody sees the same examples
PER_TASK = 3
LABELS = {"wordproblems": "word problem", "functions": "function"}
GENERAL = (
    ("arithmetic", "Mia has 12 apples and buys 30 more. She gives half of them away. How many are left?"),
    ("code", "Write a Python function that returns the second largest number of a list."),
    ("text", "Explain in two sentences why the sky is blue."),
)


def examples(model: Model) -> list[dict[str, str]]:
    """The embedded model knows two kinds of request and no others."""
    offered = of_tasks(model.tokenizer.unknown_words) if model.name == "tiny" else ()
    return [{"kind": kind, "prompt": prompt} for kind, prompt in offered or GENERAL]


def of_tasks(unknown_words: Callable[[str], list[str]]) -> list[tuple[str, str]]:
    from unmask import tasks

    offered: list[tuple[str, str]] = []
    for name, label in LABELS.items():
        prompts = (example.prompt for example in tasks.get(name).examples("test", limit=10 * PER_TASK, seed=SEED))
        known = (prompt for prompt in prompts if not unknown_words(prompt))
        offered += [(label, prompt) for prompt in islice(known, PER_TASK)]
    return offered
