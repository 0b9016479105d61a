"""Families of programs that decide on one or two whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from .atoms import mapping, predicate
from .names import LABELS
from .program import Program, between, integer, pick

INT = ("int",)


def _on_parameter(code: Sequence[str]) -> list[str]:
    """Code about the loop variable, made to be about the parameter."""
    return [c.replace("{x}", "{a}") for c in code]


def two_way(rng: Random) -> Program:
    """One condition, two results: labels or arithmetic."""
    p = predicate(rng)
    options = {"p": p.phrases, "P": _on_parameter(p.code), "N": _on_parameter(p.negated)}
    if rng.random() < 0.45:
        yes, no = rng.sample(LABELS, 2)
        said, other, sig = f"'{yes}'", f"'{no}'", f"{yes} {no}"
        options |= {"E": [said], "F": [other]}

        def run(n: int) -> Any:
            return yes if p.test(n) else no
    else:
        m, k = mapping(rng), mapping(rng)
        said, other, sig = "{a} <m>", "{a} <k>", f"{m.signature} {k.signature}"
        options |= {"m": m.phrases, "E": _on_parameter(m.code), "k": k.phrases, "F": _on_parameter(k.code)}

        def run(n: int) -> Any:
            return m.apply(n) if p.test(n) else k.apply(n)

    return Program(
        f"if {p.signature} {sig}",
        INT,
        (
            f"{said} if {{a}} is <p> and {other} otherwise",
            f"{said} when {{a}} is <p>, else {other}",
            f"{other}, unless {{a}} is <p>: then {said}",
            f"{said} for {{a}} that is <p>, and {other} for any other {{a}}",
            f"{said} if the number {{a}} is <p>, or {other} if it is not",
        ),
        (
            "if <P>:\n    return <E>\nreturn <F>",
            "if <P>:\n    return <E>\nelse:\n    return <F>",
            "return <E> if <P> else <F>",
            "if <N>:\n    return <F>\nreturn <E>",
            "{r} = <F>\nif <P>:\n    {r} = <E>\nreturn {r}",
        ),
        run,
        integer(p.near, low=-9),
        options,
        steps=2 + p.parts,
    )


def three_way(rng: Random) -> Program:
    """Two thresholds, three results."""
    low = between(rng, 0, 30)
    high = low + between(rng, 3, 40)
    if rng.random() < 0.6:
        results: list[Any] = rng.sample(LABELS, 3)
        x, y, z = (f"'{r}'" for r in results)
    else:
        results = rng.sample(range(-1, 20), 3)
        x, y, z = map(str, results)
    return Program(
        f"three {low} {high} {x} {y} {z}",
        INT,
        (
            f"{x} if {{a}} is below {low}, {y} if it is below {high}, and {z} otherwise",
            f"{x} for {{a}} under {low}, {y} for {{a}} from {low} to {high - 1}, and {z} from {high} on",
            f"{z} if {{a}} is at least {high}, {y} if it is at least {low}, and {x} otherwise",
            f"{x} when {{a}} is less than {low}, {z} when it is {high} or more, and {y} in between",
            f"{y} if {{a}} is at least {low} but less than {high}, {x} if it is less, and {z} if it is more",
        ),
        (
            f"if {{a}} < {low}:\n    return {x}\nif {{a}} < {high}:\n    return {y}\nreturn {z}",
            f"if {{a}} < {low}:\n    return {x}\nelif {{a}} < {high}:\n    return {y}\nelse:\n    return {z}",
            f"if {{a}} >= {high}:\n    return {z}\nif {{a}} >= {low}:\n    return {y}\nreturn {x}",
            f"if {{a}} >= {high}:\n    return {z}\nelif {{a}} >= {low}:\n    return {y}\nreturn {x}",
        ),
        lambda n: results[0] if n < low else results[1] if n < high else results[2],
        integer((low + high) // 2, (high - low) // 2 + 6, -9),
        steps=3,
    )


def clamp(rng: Random) -> Program:
    """A number changed, then kept within bounds."""
    m, low = mapping(rng), between(rng, 0, 20)
    high, kind = low + between(rng, 5, 60), pick(rng, ("both", "low", "high"))
    word = {
        "both": (f"but at least {low} and at most {high}", f"kept between {low} and {high}"),
        "low": (f"but never below {low}", f"but at least {low}"),
        "high": (f"but never above {high}", f"but at most {high}"),
    }[kind]
    code = {"both": f"max({low}, min({high}, <E>))", "low": f"max({low}, <E>)", "high": f"min({high}, <E>)"}[kind]
    check = f"if {{r}} < {low}:\n    return {low}\n" if kind != "high" else ""
    check += f"if {{r}} > {high}:\n    return {high}\n" if kind != "low" else ""

    def run(n: int) -> int:
        value = m.apply(n)
        value = max(low, value) if kind != "high" else value
        return min(high, value) if kind != "low" else value

    return Program(
        f"clamp {kind} {low if kind != 'high' else ''} {high if kind != 'low' else ''} {m.signature}",
        INT,
        (
            "{a} <m>, <w>",
            "the number {a} <m>, <w>",
            "the result of {a} <m>, <w>",
            "what {a} <m> gives, <w>",
            "the value of {a} <m>, <w>",
        ),
        (
            f"return {code}",
            f"{{r}} = <E>\n{check}return {{r}}",
            f"{{r}} = {code}\nreturn {{r}}",
        ),
        run,
        integer(12, 20, -9),
        {"m": m.phrases, "E": _on_parameter(m.code), "w": word},
        steps=3,
    )


def two_numbers(rng: Random) -> Program:
    """Two numbers compared, then combined one way or the other."""
    j, k, c = between(rng, 2, 9), between(rng, 2, 9), between(rng, 1, 12)
    comparisons: list[tuple[str, str, Callable[[int, int], bool]]] = [
        (f"{{a}} > {{b}} + {c}", f"{{a}} is more than {c} above {{b}}", lambda x, y: x > y + c),
        (f"{{a}} + {{b}} > {c}", f"{{a}} and {{b}} add up to more than {c}", lambda x, y: x + y > c),
        (f"{{a}} * {{b}} > {c}", f"{{a}} times {{b}} is more than {c}", lambda x, y: x * y > c),
        (f"{{a}} % {j} == {{b}} % {j}", f"{{a}} and {{b}} are equal modulo {j}", lambda x, y: x % j == y % j),
        (f"abs({{a}} - {{b}}) < {k}", f"{{a}} and {{b}} are less than {k} apart", lambda x, y: abs(x - y) < k),
    ]
    op, word, test = pick(rng, comparisons)
    ways: list[tuple[str, str, Callable[[int, int], int]]] = [
        (f"{j} times {{a}} plus {{b}}", f"{j} * {{a}} + {{b}}", lambda x, y: j * x + y),
        (f"{{a}} minus {k} times {{b}}", f"{{a}} - {k} * {{b}}", lambda x, y: x - k * y),
        ("{a} times {b}", "{a} * {b}", lambda x, y: x * y),
        (f"the sum of {{a}} and {{b}} plus {c}", f"{{a}} + {{b}} + {c}", lambda x, y: x + y + c),
        (f"{{b}} minus {{a}} plus {k}", f"{{b}} - {{a}} + {k}", lambda x, y: y - x + k),
        ("the larger of {a} and {b}", "max({a}, {b})", max),
        ("the smaller of {a} and {b}", "min({a}, {b})", min),
    ]
    (said, code, f), (other, other_code, g) = rng.sample(ways, 2)
    return Program(
        f"two {op} {code} {other_code}",
        ("int", "int"),
        (
            f"{said} if {word}, and {other} otherwise",
            f"{said} when {word}, else {other}",
            f"{other}, unless {word}: then {said}",
            f"{said} in case {word}, or else {other}",
            f"{said} if {word}, or {other} if not",
        ),
        (
            f"if {op}:\n    return {code}\nreturn {other_code}",
            f"if {op}:\n    return {code}\nelse:\n    return {other_code}",
            f"return {code} if {op} else {other_code}",
            f"{{r}} = {other_code}\nif {op}:\n    {{r}} = {code}\nreturn {{r}}",
        ),
        lambda x, y: f(x, y) if test(x, y) else g(x, y),
        lambda rng, size: (between(rng, -3, 15), between(rng, 0, 12)),
        steps=4,
    )
