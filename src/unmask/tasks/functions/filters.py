"""Families of programs that choose numbers of a list, change them, and count, add or list what is left."""

from __future__ import annotations

from random import Random

from .atoms import Predicate, mapping, predicate
from .program import FINISH, Program, filled, numbers, pick
from .searches import LIST, parts


def count_if(rng: Random) -> Program:
    p = predicate(rng)
    return Program(
        f"count {p.signature}",
        LIST,
        (
            "how many numbers in {a} are <p>",
            "the number of values in {a} that are <p>",
            "how many of the numbers in the list {a} are <p>",
            "the count of numbers in {a} that are <p>",
            "how many times a number in {a} is <p>",
        ),
        (
            "{r} = 0\nfor {x} in {a}:\n    if <P>:\n        {r} += 1\nreturn {r}",
            "{r} = 0\nfor {x} in {a}:\n    if <N>:\n        continue\n    {r} += 1\nreturn {r}",
            "return sum(1 for {x} in {a} if <P>)",
            "return len([{x} for {x} in {a} if <P>])",
            "{r} = [{x} for {x} in {a} if <P>]\nreturn len({r})",
        ),
        lambda xs: sum(map(p.test, xs)),
        numbers(p.near),
        parts(p),
        steps=1 + p.parts,
    )


def sum_if(rng: Random) -> Program:
    p = predicate(rng)
    return Program(
        f"sum {p.signature}",
        LIST,
        (
            "the sum of the numbers in {a} that are <p>",
            "the total of all numbers in {a} that are <p>",
            "the sum of every number in the list {a} that is <p>",
            "what the numbers in {a} that are <p> add up to",
            "the result of adding the values in {a} that are <p>",
        ),
        (
            "{r} = 0\nfor {x} in {a}:\n    if <P>:\n        {r} += {x}\nreturn {r}",
            "{r} = 0\nfor {x} in {a}:\n    if <N>:\n        continue\n    {r} += {x}\nreturn {r}",
            "return sum({x} for {x} in {a} if <P>)",
            "return sum([{x} for {x} in {a} if <P>])",
            "{r} = [{x} for {x} in {a} if <P>]\nreturn sum({r})",
        ),
        lambda xs: sum(x for x in xs if p.test(x)),
        numbers(p.near),
        parts(p),
        steps=1 + p.parts,
    )


def sum_map_if(rng: Random) -> Program:
    p, m = predicate(rng, composed=False), mapping(rng)
    return Program(
        f"sum {m.signature} {p.signature}",
        LIST,
        (
            "the sum of the numbers in {a} that are <p>, each <m>",
            "the total of the numbers in {a} that are <p>, after each is <m>",
            "the sum of every number in {a} that is <p>, after it is <m>",
            "what the numbers in {a} that are <p> add up to when each is <m>",
            "the sum you get when each number in {a} that is <p> is <m>",
        ),
        (
            "{r} = 0\nfor {x} in {a}:\n    if <P>:\n        {r} += <E>\nreturn {r}",
            "{r} = 0\nfor {x} in {a}:\n    if <N>:\n        continue\n    {r} += <E>\nreturn {r}",
            "return sum(<E> for {x} in {a} if <P>)",
            "return sum([<E> for {x} in {a} if <P>])",
            "{r} = [<E> for {x} in {a} if <P>]\nreturn sum({r})",
        ),
        lambda xs: sum(m.apply(x) for x in xs if p.test(x)),
        numbers(p.near),
        parts(p, m),
        steps=2 + p.parts,
    )


def filtered(rng: Random) -> Program:
    p = predicate(rng)
    if rng.random() < 0.3:
        return _removed(p)
    return Program(
        f"list {p.signature}",
        LIST,
        (
            "a list of the numbers in {a} that are <p>",
            "only the numbers in {a} that are <p>, as a list",
            "all values of the list {a} that are <p>, in order",
            "a new list with every number in {a} that is <p>",
            "the numbers in {a} that are <p>, in the same order",
        ),
        (
            "{r} = []\nfor {x} in {a}:\n    if <P>:\n        {r}.append({x})\nreturn {r}",
            "return [{x} for {x} in {a} if <P>]",
            "{r} = [{x} for {x} in {a} if <P>]\nreturn {r}",
            "return list(filter(lambda {x}: <P>, {a}))",
        ),
        lambda xs: [x for x in xs if p.test(x)],
        numbers(p.near),
        parts(p),
        result="list",
        steps=1 + p.parts,
    )


def _removed(p: Predicate) -> Program:
    return Program(
        f"drop {p.signature}",
        LIST,
        (
            "a list of {a} without the numbers that are <p>",
            "the list {a} after removing every number that is <p>",
            "a new list that leaves out the numbers in {a} that are <p>",
            "all numbers in {a} except those that are <p>, as a list",
            "what is left of {a} when the numbers that are <p> are removed",
        ),
        (
            "{r} = []\nfor {x} in {a}:\n    if <N>:\n        {r}.append({x})\nreturn {r}",
            "return [{x} for {x} in {a} if <N>]",
            "{r} = []\nfor {x} in {a}:\n    if <P>:\n        continue\n    {r}.append({x})\nreturn {r}",
            "return [{x} for {x} in {a} if not (<P>)]",
        ),
        lambda xs: [x for x in xs if not p.test(x)],
        numbers(p.near),
        parts(p),
        result="list",
        steps=1 + p.parts,
    )


def mapped_if(rng: Random) -> Program:
    p, m = predicate(rng, composed=False), mapping(rng)
    return Program(
        f"list {m.signature} {p.signature}",
        LIST,
        (
            "a list of the numbers in {a} that are <p>, each <m>",
            "the numbers in {a} that are <p>, each of them <m>, as a list",
            "a new list with every number in {a} that is <p>, <m>",
            "a list in which each number of {a} that is <p> is <m> and the others are left out",
            "the values of {a} that are <p>, each <m>, in order",
        ),
        (
            "{r} = []\nfor {x} in {a}:\n    if <P>:\n        {r}.append(<E>)\nreturn {r}",
            "return [<E> for {x} in {a} if <P>]",
            "{r} = [<E> for {x} in {a} if <P>]\nreturn {r}",
            "{r} = []\nfor {x} in {a}:\n    if <N>:\n        continue\n    {r}.append(<E>)\nreturn {r}",
        ),
        lambda xs: [m.apply(x) for x in xs if p.test(x)],
        numbers(p.near),
        parts(p, m),
        result="list",
        steps=2 + p.parts,
    )


def mapped(rng: Random) -> Program:
    m, final = mapping(rng), pick(rng, ("list", "sum", "max", "min"))
    what = {"list": "a list of", "sum": "the sum of", "max": "the largest of", "min": "the smallest of"}[final]
    direct = "return [<E> for {x} in {a}]" if final == "list" else f"return {final}(<E> for {{x}} in {{a}})"
    end = "{r}" if final == "list" else f"{final}({{r}})"
    return Program(
        f"{final} {m.signature}",
        LIST,
        (
            f"{what} the numbers in {{a}}, each <m>",
            f"{what} all values in {{a}}, each of them <m>",
            f"{what} every number in the list {{a}}, <m>",
            f"{what} the numbers you get when each value in {{a}} is <m>",
            f"{what} {{a}} after each number is <m>",
        ),
        (
            f"{{r}} = []\nfor {{x}} in {{a}}:\n    {{r}}.append(<E>)\nreturn {end}",
            direct,
            direct,
            f"{{r}} = [<E> for {{x}} in {{a}}]\nreturn {end}",
        ),
        lambda xs: FINISH[final]([m.apply(x) for x in xs]),
        filled(10),
        {"m": m.phrases, "E": m.code},
        result="list",
        steps=2,
    )
