"""Families that put two conditions to work in one loop: the longest programs."""

from __future__ import annotations

from random import Random

from .atoms import bound, divisibility, mapping, predicate
from .program import FINISH, Program, numbers, pick
from .searches import LIST


def balance(rng: Random) -> Program:
    """How many (or how much) of one kind, less how many of another."""
    p, q, final = bound(rng), divisibility(rng), pick(rng, ("count", "sum"))
    if rng.random() < 0.5:
        p, q = q, p
    step = "1" if final == "count" else "{x}"
    what = "the number" if final == "count" else "the sum"

    def run(xs: list[int]) -> int:
        plus, minus = [x for x in xs if p.test(x)], [x for x in xs if q.test(x)]
        return len(plus) - len(minus) if final == "count" else sum(plus) - sum(minus)

    each = "1" if final == "count" else "{x}"
    return Program(
        f"{final} {p.signature} less {q.signature}",
        LIST,
        (
            f"{what} of values in {{a}} that are <p> minus {what} of those that are <q>",
            f"{what} of all numbers in {{a}} that are <p>, less {what} of those that are <q>",
            f"the difference of {what} of numbers in {{a}} that are <p> and {what} of those that are <q>",
            f"{what} of numbers in the list {{a}} that are <p> reduced by {what} of the ones that are <q>",
            f"what is left of {what} of numbers in {{a}} that are <p> when you subtract {what} of those that are <q>",
        ),
        (
            (
                f"{{r}} = 0\nfor {{x}} in {{a}}:\n    if <P>:\n        {{r}} += {step}\n"
                f"    if <Q>:\n        {{r}} -= {step}\nreturn {{r}}"
            ),
            (
                f"{{t}} = sum({each} for {{x}} in {{a}} if <P>)\n"
                f"{{r}} = sum({each} for {{x}} in {{a}} if <Q>)\nreturn {{t}} - {{r}}"
            ),
            f"return sum({each} for {{x}} in {{a}} if <P>) - sum({each} for {{x}} in {{a}} if <Q>)",
        ),
        run,
        numbers(10),
        {"p": p.phrases, "P": p.code, "q": q.phrases, "Q": q.code},
        steps=4,
    )


def graded(rng: Random) -> Program:
    """Every number changed in one way or another, then listed or added."""
    p, m, k = predicate(rng, composed=False), mapping(rng), mapping(rng)
    final = pick(rng, ("list", "sum"))
    what = "a list of" if final == "list" else "the sum of"
    start, add = ("[]", "{r}.append(%s)") if final == "list" else ("0", "{r} += %s")
    wrap = "[{}]" if final == "list" else "sum({})"
    one, other = add % "<E>", add % "<F>"
    return Program(
        f"{final} graded {p.signature} {m.signature} {k.signature}",
        LIST,
        (
            f"{what} the numbers in {{a}}, those that are <p> <m> and all others <k>",
            f"{what} {{a}} where each number that is <p> is <m> and each other one is <k>",
            f"{what} the values in {{a}}, each <m> if it is <p> and <k> if not",
            f"{what} all numbers in {{a}}, where those that are <p> are <m> and the rest are <k>",
            f"{what} the numbers in the list {{a}}, each <m> when it is <p>, otherwise <k>",
        ),
        (
            (
                f"{{r}} = {start}\nfor {{x}} in {{a}}:\n    if <P>:\n"
                f"        {one}\n    else:\n        {other}\nreturn {{r}}"
            ),
            (
                f"{{r}} = {start}\nfor {{x}} in {{a}}:\n    if <N>:\n"
                f"        {other}\n    else:\n        {one}\nreturn {{r}}"
            ),
            "return " + wrap.format("<E> if <P> else <F> for {x} in {a}"),
            f"{{r}} = {start}\nfor {{x}} in {{a}}:\n    {add % '<E> if <P> else <F>'}\nreturn {{r}}",
        ),
        lambda xs: (list if final == "list" else sum)(m.apply(x) if p.test(x) else k.apply(x) for x in xs),
        numbers(p.near),
        {"p": p.phrases, "P": p.code, "N": p.negated, "m": m.phrases, "E": m.code, "k": k.phrases, "F": k.code},
        result="list" if final == "list" else "number",
        steps=4,
    )


def chained(rng: Random) -> Program:
    """A list built by a filter and a map, then judged by its length or its sum."""
    p, m = predicate(rng, composed=False), mapping(rng)
    if rng.random() < 0.5:
        q = bound(rng, 1, 4)
        noun, code, measure = "length", "len({r})", FINISH["count"]
    else:
        q = bound(rng, 10, 60)
        noun, code, measure = "sum", "sum({r})", FINISH["sum"]
    condition = [c.replace("{x}", code) for c in q.code[:1]]
    return Program(
        f"chained {p.signature} {m.signature} {noun} {q.signature}",
        LIST,
        (
            f"a list of the numbers in {{a}} that are <p>, each <m>, or [] unless its {noun} is <q>",
            f"the numbers in {{a}} that are <p>, each <m>, as a list if its {noun} is <q>, else []",
            f"[] unless the numbers in {{a}} that are <p>, each <m>, have a {noun} that is <q>, else a list of them",
            f"a list with each number in {{a}} that is <p>, after it is <m>, but [] unless its {noun} is <q>",
            f"a new list of the values in {{a}} that are <p>, each <m>, if its {noun} is <q>, and else []",
        ),
        (
            "{r} = [<E> for {x} in {a} if <P>]\nif <C>:\n    return {r}\nreturn []",
            "{r} = [<E> for {x} in {a} if <P>]\nreturn {r} if <C> else []",
            "{r} = []\nfor {x} in {a}:\n    if <P>:\n        {r}.append(<E>)\nreturn {r} if <C> else []",
        ),
        lambda xs: out if q.test(measure(out := [m.apply(x) for x in xs if p.test(x)])) else [],
        numbers(p.near),
        {"p": p.phrases, "P": p.code, "m": m.phrases, "E": m.code, "q": q.phrases, "C": condition},
        result="list",
        steps=4,
    )
