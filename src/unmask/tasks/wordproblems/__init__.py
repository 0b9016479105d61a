"""Multi-step arithmetic in everyday language, generated without limit, with the whole trace as the gold response."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ...scoring import extract_hash_answer, numbers_equal
from ..base import Example, Score
from ..pieces import fits
from ..splits import bucket, stream
from .families_world import BY_STEPS
from .story import DeadEnd, Story, pick

# How many problems take one, two, ... five steps, in percent.
STEPS = (1,) * 10 + (2,) * 25 + (3,) * 30 + (4,) * 22 + (5,) * 13
WORDINGS = 64  # tries to word one problem so that its text belongs to the split


def generate(rng: Random, split: str = "train") -> Example:
    """The next problem of `split`; everything in it is drawn from `rng`."""
    steps = pick(rng, STEPS)
    while True:
        story = Story(rng)
        try:
            pick(rng, BY_STEPS[steps])(story, steps)
        except DeadEnd:
            continue
        signature = story.signature
        if bucket(signature) != split:
            continue
        example = _word(story, signature, split)
        if example is not None:
            return example


def _word(story: Story, signature: str, split: str) -> Example | None:
    """The problem in words that belong to `split` and fit the canvas, or None where that is too rare."""
    for _ in range(WORDINGS):
        question, trace = story.word()
        if bucket(question) == split and fits(question, trace):
            meta = {"signature": signature, "steps": len(story.steps)}
            return Example("", question, str(story.answer.number), trace, meta)
    return None


class WordProblems:
    """The task: a question in sentences; the response reasons and ends with `#### answer`."""

    name = "wordproblems"
    version = 1
    metric = "accuracy"
    endless = True
    summary = "generated multi-step arithmetic word problems with a trace; no download"

    def examples(self, split: str = "test", limit: int | None = None, seed: int = 0) -> Iterator[Example]:
        """The same problems for the same split and seed on every platform, disjoint between splits."""
        return stream(self.name, self.version, generate, split, limit, seed)

    def score(self, example: Example, text: str) -> Score:
        found = extract_hash_answer(text)
        if found is None:
            return Score(False, None, "no '#### number' in the response")
        if numbers_equal(found, example.answer):
            return Score(True, found)
        return Score(False, found, f"expected {example.answer}")
