"""Families of programs on equal numbers, neighbors, and two lists."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

from .atoms import predicate
from .program import FINISH, Program, between, filled, number_list, pick
from .searches import LIST, parts


def neighbors(rng: Random) -> Program:
    """Each number against the one before it."""
    c, kind = between(rng, 0, 9), pick(rng, ("up", "down", "gap"))
    test, phrases, condition = {
        "up": (
            lambda x, y: y > x + c,
            [f"more than {c} greater than the one before", f"larger than the one before by more than {c}"],
            [f"{{a}}[{{i}}] > {{a}}[{{i}} - 1] + {c}", f"{{a}}[{{i}}] - {{a}}[{{i}} - 1] > {c}"],
        ),
        "down": (
            lambda x, y: y < x - c,
            [f"more than {c} less than the one before", f"smaller than the one before by more than {c}"],
            [f"{{a}}[{{i}}] < {{a}}[{{i}} - 1] - {c}", f"{{a}}[{{i}} - 1] - {{a}}[{{i}}] > {c}"],
        ),
        "gap": (
            lambda x, y: abs(x - y) > c,
            [f"more than {c} away from the one before", f"different from the one before by more than {c}"],
            [f"abs({{a}}[{{i}}] - {{a}}[{{i}} - 1]) > {c}"],
        ),
    }[kind]
    pairs = [p.replace("{a}[{i} - 1]", "{x}").replace("{a}[{i}]", "{y}") for p in condition]
    return Program(
        f"neighbors {kind} {c}",
        LIST,
        (
            "how many numbers in {a} are <p>",
            "the number of values in {a} that are <p>",
            "how often a number in the list {a} is <p>",
            "the count of the numbers in {a} that are <p>",
            "how many times the next number in {a} is <p>",
        ),
        (
            "{r} = 0\nfor {i} in range(1, len({a})):\n    if <P>:\n        {r} += 1\nreturn {r}",
            "return sum(1 for {i} in range(1, len({a})) if <P>)",
            "{r} = 0\nfor {x}, {y} in zip({a}, {a}[1:]):\n    if <Q>:\n        {r} += 1\nreturn {r}",
            "return sum(1 for {x}, {y} in zip({a}, {a}[1:]) if <Q>)",
        ),
        lambda xs: sum(test(x, y) for x, y in pairwise(xs)),
        filled(10, 2),
        {"p": phrases, "P": condition, "Q": pairs},
        steps=3,
    )


def distinct(rng: Random) -> Program:
    p, final = predicate(rng, composed=False), pick(rng, ("count", "list"))
    if final == "count":
        what = (
            "how many different numbers in {a} are <p>",
            "the number of distinct values in {a} that are <p>",
            "how many distinct numbers in the list {a} are <p>",
            "the count of different values in {a} that are <p>",
            "how many numbers in {a} are <p>, counting equal ones once",
        )
        bodies = [
            "return len(set({x} for {x} in {a} if <P>))",
            "{r} = set({x} for {x} in {a} if <P>)\nreturn len({r})",
            "{r} = []\nfor {x} in {a}:\n    if <P> and {x} not in {r}:\n        {r}.append({x})\nreturn len({r})",
        ]
    else:
        what = (
            "a list of the different numbers in {a} that are <p>, sorted",
            "the distinct values in {a} that are <p>, as a sorted list",
            "a sorted list, without repeats, of the numbers in {a} that are <p>",
            "the numbers in {a} that are <p>, sorted and each only once",
            "a sorted list of the distinct numbers in {a} that are <p>",
        )
        bodies = [
            "return sorted(set({x} for {x} in {a} if <P>))",
            "{r} = set({x} for {x} in {a} if <P>)\nreturn sorted({r})",
            "{r} = []\nfor {x} in {a}:\n    if <P> and {x} not in {r}:\n        {r}.append({x})\nreturn sorted({r})",
        ]
    if " or " in p.code[0]:
        bodies.pop()

    def run(xs: list[int]) -> Any:
        found = {x for x in xs if p.test(x)}
        return len(found) if final == "count" else sorted(found)

    def draw(rng: Random, size: int) -> tuple[Any, ...]:
        values = number_list(rng, size, p.near)
        return (values + values[: size // 2],)

    return Program(
        f"distinct {final} {p.signature}",
        LIST,
        what,
        bodies,
        run,
        draw,
        parts(p),
        result="list",
        steps=2 + p.parts,
    )


def two_lists(rng: Random) -> Program:
    """Position by position over two lists."""
    c, final = between(rng, 2, 9), pick(rng, ("list", "sum"))
    phrase, code, f = pick(
        rng,
        (
            (f"the first plus {c} times the second", f"{{x}} + {c} * {{y}}", lambda x, y: x + c * y),
            (f"{c} times the first minus the second", f"{c} * {{x}} - {{y}}", lambda x, y: c * x - y),
            (f"the product plus {c}", f"{{x}} * {{y}} + {c}", lambda x, y: x * y + c),
            (f"the larger one times {c}", f"max({{x}}, {{y}}) * {c}", lambda x, y: max(x, y) * c),
            (f"the smaller one plus {c}", f"min({{x}}, {{y}}) + {c}", lambda x, y: min(x, y) + c),
            (f"the sum modulo {c}", f"({{x}} + {{y}}) % {c}", lambda x, y: (x + y) % c),
            (f"the distance times {c}", f"abs({{x}} - {{y}}) * {c}", lambda x, y: abs(x - y) * c),
        ),
    )
    what = "a list of" if final == "list" else "the sum of"
    wrap = "[{}]" if final == "list" else "sum({})"

    def run(xs: list[int], ys: list[int]) -> Any:
        return (list if final == "list" else sum)(f(x, y) for x, y in zip(xs, ys, strict=True))

    def draw(rng: Random, size: int) -> tuple[Any, ...]:
        size = max(1, min(size, 5) - (size < 5))
        return number_list(rng, size, 6, 0), number_list(rng, size, 6, 0)

    end = "return {r}" if final == "list" else "return sum({r})"
    return Program(
        f"zip {final} {code}",
        ("list", "list"),
        (
            f"{what} {phrase} for each pair of numbers from {{a}} and {{b}}",
            f"{what} {phrase} over the pairs of {{a}} and {{b}}",
            f"{what} {phrase}, pair by pair, for the lists {{a}} and {{b}}",
            f"{what} {phrase} for every pair of values in {{a}} and {{b}}",
            f"{what} {phrase} at each position of {{a}} and {{b}}",
        ),
        (
            "return " + wrap.format(f"{code} for {{x}}, {{y}} in zip({{a}}, {{b}})"),
            f"{{r}} = []\nfor {{x}}, {{y}} in zip({{a}}, {{b}}):\n    {{r}}.append({code})\n{end}",
            f"{{r}} = [{code} for {{x}}, {{y}} in zip({{a}}, {{b}})]\n{end}",
        ),
        run,
        draw,
        result="list",
        steps=3,
    )


def membership(rng: Random) -> Program:
    """Numbers of one list that are, or are not, in the other, with a predicate."""
    p, inside, final = predicate(rng, composed=False), rng.random() < 0.5, pick(rng, ("count", "list", "sum"))
    what = {"count": "how many numbers", "list": "a list of the numbers", "sum": "the sum of the numbers"}[final]
    verb = "are" if final == "count" else "that are"
    word, op = ("also", "in") if inside else ("not", "not in")
    wrap = {"count": "len([{}])", "list": "[{}]", "sum": "sum([{}])"}[final]
    end = {"count": "len({r})", "list": "{r}", "sum": "sum({r})"}[final]

    def draw(rng: Random, size: int) -> tuple[Any, ...]:
        size = max(1, size - 1)
        xs = number_list(rng, size, p.near, 0)
        return xs, rng.sample(xs, size // 2) + number_list(rng, size - size // 2, p.near, 0)

    return Program(
        f"{final} {op} {p.signature}",
        ("list", "list"),
        (
            f"{what} in {{a}} {verb} <p> and {word} in {{b}}",
            f"{what} of {{a}} {verb} {word} in {{b}} and are <p>",
            f"{what} in the list {{a}} {verb} <p> and {word} in the list {{b}}",
            f"{what} from {{a}} {verb} <p> and {word} found in {{b}}",
            f"{what} in {{a}} {verb} {word} found in {{b}} and are <p>",
        ),
        (
            "return " + wrap.format(f"{{x}} for {{x}} in {{a}} if <P> and {{x}} {op} {{b}}"),
            (
                f"{{r}} = []\nfor {{x}} in {{a}}:\n    if <P> and {{x}} {op} {{b}}:\n"
                f"        {{r}}.append({{x}})\nreturn {end}"
            ),
            f"{{r}} = [{{x}} for {{x}} in {{a}} if {{x}} {op} {{b}} and <P>]\nreturn {end}",
        ),
        lambda xs, ys: FINISH[final]([x for x in xs if p.test(x) and (x in ys) == inside]),
        draw,
        parts(p),
        result="list",
        steps=3 + p.parts,
    )
