"""A small program before it has words or code: what it computes, how it may be asked for, how it may be written.

Templates use these placeholders. In requests and code: `{a}`, `{b}` are the parameters. In code: `{r}` is a result
variable, `{x}`, `{y}` loop variables, `{i}` an index. `<name>` stands for one of several options in
`Program.options`, e.g. `<p>` for a phrasing of a predicate and `<P>` for its code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
_OPTION = re.compile(r"<(\w+)>")
Draw = Callable[[Random, int], tuple[Any, ...]]


# How a list of results is finished off, by name.
FINISH: dict[str, Callable[[Any], Any]] = {"count": len, "sum": sum, "list": list, "max": max, "min": min}


class Program(NamedTuple):
    """One underlying program with its constants."""

    signature: str  # family and constants, free of wording
    kinds: tuple[str, ...]  # of the parameters: "list", "text" or "int"
    requests: Sequence[str]  # what is returned: completes "a function that returns ..."
    bodies: Sequence[str]  # lines below `def`, unindented
    run: Callable[..., Any]  # the reference
    draw: Draw  # arguments for one call, about `size` long
    options: Mapping[str, Sequence[str]] = {}
    item: str = "number"  # what the loop variable holds: "number", "char" or "word"
    result: str = "number"  # what the result variable holds: "number", "list" or "text"
    steps: int = 1  # how many parts it is composed of


def pick(rng: Random, options: Sequence[T]) -> T:
    """A uniform choice; several times faster than `Random.choice`."""
    return options[int(rng.random() * len(options))]


def between(rng: Random, low: int, high: int) -> int:
    return low + int(rng.random() * (high - low + 1))


def expand(rng: Random, template: str, options: Mapping[str, Sequence[str]]) -> str:
    """`template` with every `<name>` replaced by one of its options."""
    while "<" in template:
        template, changed = _OPTION.subn(lambda m: pick(rng, options[m[1]]), template)
        if not changed:
            break
    return template


def numbers(near: int = 10, low: int = -20) -> Draw:
    """Lists of small numbers, many of them close to `near` so that thresholds matter."""

    def draw(rng: Random, size: int) -> tuple[list[int]]:
        return (number_list(rng, size, near, low),)

    return draw


def number_list(rng: Random, size: int, near: int = 10, low: int = -20) -> list[int]:
    values = []
    for _ in range(size):
        chance = rng.random()
        if chance < 0.45:
            value = between(rng, near - 4, near + 4)
        elif chance < 0.85:
            value = between(rng, 0, 24)
        else:
            value = between(rng, -9, 40)
        values.append(max(low, value))
    return values


def integer(near: int, spread: int = 12, low: int = 0) -> Draw:
    """One number around `near`, not below `low`."""

    def draw(rng: Random, size: int) -> tuple[int]:
        reach = 4 if rng.random() < 0.5 else spread
        return (max(low, between(rng, near - reach, near + reach)),)

    return draw


def filled(near: int, least: int = 1) -> Draw:
    """Lists of at least `least` numbers."""
    return lambda rng, size: (number_list(rng, max(size, least), near),)
