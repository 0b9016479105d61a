"""Families of programs that look for something in a list of numbers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from .atoms import Map, Predicate, bound, mapping, predicate
from .program import FINISH, Program, between, number_list, numbers, pick

LIST = ("list",)


def parts(p: Predicate, m: Map | None = None) -> dict[str, Any]:
    options: dict[str, Any] = {"p": p.phrases, "P": p.code, "N": p.negated}
    if m is not None:
        options |= {"m": m.phrases, "E": m.code}
    return options


def extreme_if(rng: Random) -> Program:
    p, largest = predicate(rng, composed=False), rng.random() < 0.5
    default = pick(rng, (0, -1, 1, 100, between(rng, 2, 50)))
    f: Callable[..., int] = max if largest else min
    name, word = ("max", "largest") if largest else ("min", "smallest")
    other = "greatest" if largest else "least"
    return Program(
        f"{name} {p.signature} else {default}",
        LIST,
        (
            f"the {word} number in {{a}} that is <p>, or {default} if there is none",
            f"the {other} value in {{a}} that is <p>, and {default} when there is none",
            f"the {name}imum of the numbers in {{a}} that are <p>, or {default} if there are none",
            f"the {word} of the numbers in {{a}} that are <p>, with {default} if none is found",
            f"{default} if {{a}} has no number that is <p>, and otherwise the {word} such number",
        ),
        (
            f"{{r}} = [{{x}} for {{x}} in {{a}} if <P>]\nreturn {name}({{r}}) if {{r}} else {default}",
            f"{{r}} = [{{x}} for {{x}} in {{a}} if <P>]\nif not {{r}}:\n    return {default}\nreturn {name}({{r}})",
            f"return {name}(({{x}} for {{x}} in {{a}} if <P>), default={default})",
            f"return {name}([{{x}} for {{x}} in {{a}} if <P>], default={default})",
        ),
        lambda xs: f((x for x in xs if p.test(x)), default=default),
        numbers(p.near),
        parts(p),
        result="list",
        steps=2 + p.parts,
    )


def any_all(rng: Random) -> Program:
    p, every = predicate(rng), rng.random() < 0.5
    if every:
        requests = (
            "whether all numbers in {a} are <p>",
            "True if every number in {a} is <p> and False otherwise",
            "whether each value in the list {a} is <p>",
            "True if it holds for all numbers in {a} that they are <p>, else False",
            "whether the numbers in {a} are all <p>",
        )
        bodies = (
            "return all(<P> for {x} in {a})",
            "for {x} in {a}:\n    if <N>:\n        return False\nreturn True",
            "for {x} in {a}:\n    if not (<P>):\n        return False\nreturn True",
        )
    else:
        requests = (
            "whether any number in {a} is <p>",
            "True if some number in {a} is <p> and False otherwise",
            "whether the list {a} has a number that is <p>",
            "True if at least one value in {a} is <p>, else False",
            "whether there is a number in {a} that is <p>",
        )
        bodies = (
            "return any(<P> for {x} in {a})",
            "for {x} in {a}:\n    if <P>:\n        return True\nreturn False",
            "return len([{x} for {x} in {a} if <P>]) > 0",
        )
    f = all if every else any
    return Program(
        f"{'all' if every else 'any'} {p.signature}",
        LIST,
        requests,
        bodies,
        lambda xs: f(map(p.test, xs)),
        _deciding(p, every),
        parts(p),
        steps=1 + p.parts,
    )


def _deciding(p: Predicate, every: bool) -> Callable[[Random, int], tuple[Any, ...]]:
    """Lists of which about half pass: most numbers of a random list would decide at once."""

    def draw(rng: Random, size: int) -> tuple[Any, ...]:
        values = number_list(rng, 3 * size, p.near)
        if rng.random() < 0.6:
            values = [x for x in values if p.test(x) == every] or values
        return (values[:size],)

    return draw


def first_last(rng: Random) -> Program:
    p, first = predicate(rng, composed=False), rng.random() < 0.55
    position = rng.random() < 0.4
    default = -1 if position else pick(rng, (0, -1, between(rng, 2, 50)))
    which, end = ("first", "0") if first else ("last", "-1")
    thing = "position" if position else "number"

    def run(xs: list[int]) -> int:
        found = [i if position else x for i, x in enumerate(xs) if p.test(x)]
        return found[0 if first else -1] if found else default

    what = f"the {'index of the ' if position else ''}{which} number"
    requests = (
        f"{what} in {{a}} that is <p>, or {default} if there is none",
        f"{what} in the list {{a}} that is <p>, and {default} when there is none",
        f"{default} if {{a}} has no number that is <p>, and otherwise {what} that is",
        f"{what} of {{a}} which is <p>, with {default} if none is found",
        f"{what} that is <p> in {{a}}, else {default}",
    )
    loop, value = ("for {i}, {x} in enumerate({a}):", "{i}") if position else ("for {x} in {a}:", "{x}")
    source = "for {i}, {x} in enumerate({a}) if <P>" if position else "for {x} in {a} if <P>"
    bodies = [
        f"{{r}} = [{value} {source}]\nreturn {{r}}[{end}] if {{r}} else {default}",
        f"{{r}} = [{value} {source}]\nif not {{r}}:\n    return {default}\nreturn {{r}}[{end}]",
    ]
    if first:
        bodies += [f"{loop}\n    if <P>:\n        return {value}\nreturn {default}"] * 2
    else:
        bodies += [f"{{r}} = {default}\n{loop}\n    if <P>:\n        {{r}} = {value}\nreturn {{r}}"] * 2
    return Program(
        f"{which} {thing} {p.signature} else {default}",
        LIST,
        requests,
        bodies,
        run,
        numbers(p.near),
        parts(p),
        result="list",
        steps=2 + p.parts,
    )


def replaced(rng: Random) -> Program:
    """A list of the same length in which some numbers change."""
    p = predicate(rng, composed=False)
    m = mapping(rng)
    if rng.random() < 0.35:
        c = between(rng, 0, 20)
        m = Map(f"={c}", [f"replaced by {c}", f"set to {c}"], [str(c)], lambda x: c)
    return Program(
        f"change {m.signature} {p.signature}",
        LIST,
        (
            "a list like {a} in which each number that is <p> is <m>",
            "the list {a}, but every number that is <p> is <m> and the others are kept",
            "a new list where the numbers of {a} that are <p> are <m>, the rest unchanged",
            "a list of the numbers in {a}, of which those that are <p> are <m>",
            "a copy of {a} in which numbers that are <p> are <m>",
        ),
        (
            "return [<E> if <P> else {x} for {x} in {a}]",
            "return [{x} if <N> else <E> for {x} in {a}]",
            (
                "{r} = []\nfor {x} in {a}:\n    if <P>:\n        {r}.append(<E>)\n"
                "    else:\n        {r}.append({x})\nreturn {r}"
            ),
            "{r} = []\nfor {x} in {a}:\n    {r}.append(<E> if <P> else {x})\nreturn {r}",
        ),
        lambda xs: [m.apply(x) if p.test(x) else x for x in xs],
        numbers(p.near),
        parts(p, m),
        result="list",
        steps=2 + p.parts,
    )


def positions(rng: Random) -> Program:
    p, final = predicate(rng, composed=False), pick(rng, ("list", "sum"))
    what = "a list of the indices" if final == "list" else "the sum of the indices"
    wrap = "[{}]" if final == "list" else "sum({})"
    return Program(
        f"{final} indices {p.signature}",
        LIST,
        (
            f"{what} at which {{a}} has a number that is <p>",
            f"{what} of the numbers in {{a}} that are <p>",
            f"{what} where the number in {{a}} is <p>",
            f"{what} of every value in the list {{a}} that is <p>",
            f"{what} i such that the number at i in {{a}} is <p>",
        ),
        (
            "return " + wrap.format("{i} for {i}, {x} in enumerate({a}) if <P>"),
            "{r} = []\nfor {i}, {x} in enumerate({a}):\n    if <P>:\n        {r}.append({i})\nreturn "
            + ("{r}" if final == "list" else "sum({r})"),
            "{r} = [{i} for {i}, {x} in enumerate({a}) if <P>]\nreturn " + ("{r}" if final == "list" else "sum({r})"),
        ),
        lambda xs: (list if final == "list" else sum)(i for i, x in enumerate(xs) if p.test(x)),
        numbers(p.near),
        parts(p),
        result="list",
        steps=2 + p.parts,
    )


def until(rng: Random) -> Program:
    """A loop that stops early."""
    p, final = bound(rng, 2, 20) if rng.random() < 0.6 else predicate(rng, False), pick(rng, ("count", "sum", "list"))
    start, update, result = {
        "count": ("0", "{r} += 1", "how many numbers come"),
        "sum": ("0", "{r} += {x}", "the sum of the numbers"),
        "list": ("[]", "{r}.append({x})", "a list of the numbers"),
    }[final]

    def run(xs: list[int]) -> Any:
        taken = []
        for x in xs:
            if p.test(x):
                break
            taken.append(x)
        return FINISH[final](taken)

    return Program(
        f"{final} until {p.signature}",
        LIST,
        (
            f"{result} in {{a}} before the first one that is <p>",
            f"{result} from the start of {{a}} up to, but not including, the first that is <p>",
            f"{result} at the start of the list {{a}}, stopping at the first that is <p>",
            f"{result} in {{a}} that stand before any number that is <p>",
            f"{result} of {{a}} ahead of the first one that is <p>",
        ),
        (
            f"{{r}} = {start}\nfor {{x}} in {{a}}:\n    if <P>:\n        break\n    {update}\nreturn {{r}}",
            f"{{r}} = {start}\nfor {{x}} in {{a}}:\n    if <P>:\n        return {{r}}\n    {update}\nreturn {{r}}",
            (
                f"{{r}} = {start}\nfor {{x}} in {{a}}:\n    if <N>:\n"
                f"        {update}\n    else:\n        break\nreturn {{r}}"
            ),
        ),
        run,
        _mostly_failing(p),
        parts(p),
        result="list" if final == "list" else "number",
        steps=2 + p.parts,
    )


def _mostly_failing(p: Predicate) -> Callable[[Random, int], tuple[Any, ...]]:
    """Lists in which the predicate comes true late."""

    def draw(rng: Random, size: int) -> tuple[Any, ...]:
        values = number_list(rng, size, p.near)
        return ([x for x in values if not p.test(x) or rng.random() < 0.35],)

    return draw
