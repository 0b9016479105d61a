"""Small Python functions asked for in one sentence with two examples; judged by running them on other inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any

from ... import sandbox
from ...scoring import extract_code
from ..base import Example, Score
from ..pieces import PROMPT_LIMIT, RESPONSE_LIMIT, pieces
from ..splits import bucket, stream
from . import chars, compound, conditions, filters, loops, pairs, searches, sequences, texts
from .names import function_name, parameters, variables
from .program import Program, expand, pick

FAMILIES = (
    *(filters.count_if, filters.sum_if, filters.sum_map_if, filters.filtered, filters.mapped_if, filters.mapped),
    *(searches.extreme_if, searches.any_all, searches.first_last, searches.replaced, searches.positions),
    *(searches.until, sequences.part, sequences.alternate, sequences.ranked, sequences.running),
    *(pairs.neighbors, pairs.distinct, pairs.two_lists, pairs.membership),
    *(chars.count_chars, chars.filter_chars, chars.change_chars, chars.index_chars, chars.digit_text),
    *(texts.slice_text, texts.wrap_text, texts.words_if),
    *(conditions.two_way, conditions.three_way, conditions.clamp, conditions.two_numbers),
    *(loops.range_sum, loops.digits, loops.divisors, loops.growth, loops.fizz),
    *(compound.balance, compound.graded, compound.chained),
)
LEADS = (
    "Write a function {f} that returns {w}.",
    "Define {f} so that it returns {w}.",
    "Please write {f}, which returns {w}.",
    "I need a function {f} that gives {w}.",
    "Create {f}, a function that returns {w}.",
    "Implement {f} to return {w}.",
    "Write Python code for {f}. It returns {w}.",
    "The function {f} should return {w}.",
)
SHOWN, HELD_OUT = 2, 6
DOUBLE_QUOTES = 0.3
WORDINGS = 64  # tries to word one program so that its text belongs to the split
LIMITS = sandbox.Limits(cpu=3.0, wall=10.0, memory_mb=512)
_QUOTED = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")


def generate(rng: Random, split: str = "train") -> Example:
    """The next request of `split`; everything in it is drawn from `rng`."""
    while True:
        program = pick(rng, FAMILIES)(rng)
        if bucket(program.signature) != split:
            continue
        for _ in range(WORDINGS):
            example = _word(rng, program)
            if example is not None and bucket(example.prompt) == split:
                return example


def _word(rng: Random, program: Program) -> Example | None:
    """The request, the code and the assertions; None if too long or if too few different calls were found."""
    name, params = function_name(rng, program.signature), parameters(rng, program)
    shown = _calls(rng, program, SHOWN, (2, 3, 4), set())
    if len(shown) < SHOWN:
        return None
    what = expand(rng, pick(rng, program.requests), program.options).format_map(params)
    signature = f"{name}({', '.join(params.values())})"
    lines = [pick(rng, LEADS).format(f=signature, w=what), *(_assertion(name, *call) for call in shown)]
    prompt = "\n".join(lines)
    response = _code(rng, program, signature, params)
    if _length(prompt) > PROMPT_LIMIT or _length(response) > RESPONSE_LIMIT:
        return None
    if rng.random() < DOUBLE_QUOTES:
        response = response.replace("'", '"')
    held_out = _calls(rng, program, HELD_OUT, (1, 3, 5, 6, 7, 8), {args for args, _ in shown})
    if len(held_out) < HELD_OUT - 1:
        return None
    meta = {
        "signature": program.signature,
        "steps": program.steps,
        "tests": [_assertion(name, *call) for call in held_out],
    }
    return Example("", prompt, response, response, meta)


def _calls(
    rng: Random, program: Program, count: int, sizes: tuple[int, ...], used: set[str]
) -> list[tuple[str, Any]]:
    """Up to `count` different calls as (arguments in source form, result), not all with the same result."""
    calls: dict[str, Any] = {}
    for attempt in range(4 * count):
        arguments = program.draw(rng, sizes[attempt % len(sizes)])
        source = repr(arguments)[1:-1].removesuffix(",")
        if source in used or source in calls:
            continue
        result = program.run(*arguments)
        if len(calls) == count - 1 and attempt < 3 * count and all(result == r for r in calls.values()):
            continue
        calls[source] = result
        if len(calls) == count:
            break
    return list(calls.items())


def _assertion(name: str, arguments: str, result: Any) -> str:
    return f"assert {name}({arguments}) == {result!r}"


def _code(rng: Random, program: Program, signature: str, params: dict[str, str]) -> str:
    body = expand(rng, pick(rng, program.bodies), program.options)
    body = body.format_map(variables(rng, program, params))
    return f"def {signature}:\n    " + body.replace("\n", "\n    ")


def _length(text: str) -> int:
    """An upper bound of the tokens: words inside quotes may have to be spelled letter by letter."""
    quoted = sum(len(match) - 2 - len(pieces(match[1:-1])) for match in _QUOTED.findall(text))
    return len(pieces(text)) + quoted


class Functions:
    """The task: a request in one sentence; the response is code only."""

    name = "functions"
    version = 1
    metric = "pass@1"
    runs_code = True
    endless = True
    summary = "generated requests for small Python functions, run against held-out assertions; no download"

    def examples(self, split: str = "test", limit: int | None = None, seed: int = 0) -> Iterator[Example]:
        """The same requests for the same split and seed on every platform, disjoint between splits."""
        return stream(self.name, self.version, generate, split, limit, seed)

    def score(self, example: Example, text: str) -> Score:
        tests = example.meta["tests"]
        name = tests[0].removeprefix("assert ").partition("(")[0]
        code = extract_code(text, [name])
        if not code.strip():
            return Score(False, None, "no code in the response")
        outcome = sandbox.judge(code, "\n".join(tests), names=[name], limits=LIMITS)
        return Score(outcome.passed, code, "" if outcome.passed else outcome.reason)
