"""Families of programs that loop: over a range, over digits or divisors, or until a limit."""

from __future__ import annotations

from random import Random
from typing import Any

from .atoms import bound, divisibility, mapping, predicate
from .conditions import INT
from .names import LABELS
from .program import FINISH, Program, between, integer, pick
from .searches import parts


def range_sum(rng: Random) -> Program:
    """Numbers from a start to n: chosen, changed, added, counted or listed."""
    start, p = pick(rng, (0, 1, 1, between(rng, 2, 6))), divisibility(rng) if rng.random() < 0.6 else bound(rng, 2, 9)
    final = pick(rng, ("sum", "count", "list"))
    m = mapping(rng) if final != "count" else None
    what = {"sum": "the sum of the numbers", "count": "how many numbers", "list": "a list of the numbers"}[final]
    closed = rng.random() < 0.6
    stop = "{a} + 1" if closed else "{a}"
    limit = "to {a}, both included," if closed else "up to but not including {a}"
    to = [f"from {start} {limit}"] + ([f"from {start} through {{a}}"] if closed else [f"from {start} below {{a}}"])
    value, after = ("<E>", ", each <m>") if m else ("{x}", "")
    verb = "are" if final == "count" else "that are"
    wrap = {"sum": "sum({})", "count": "len([{}])", "list": "[{}]"}[final]
    init, update = {
        "sum": ("0", "{r} += <E>"),
        "count": ("0", "{r} += 1"),
        "list": ("[]", "{r}.append(<E>)"),
    }[final]
    ranged = f"range({start}, {stop})" if start else f"range({stop})"

    def run(n: int) -> Any:
        chosen = [x for x in range(start, n + closed) if p.test(x)]
        if final == "count":
            return len(chosen)
        return (sum if final == "sum" else list)([m.apply(x) for x in chosen] if m else chosen)

    return Program(
        f"range {final} {start} {closed} {p.signature} {m.signature if m else ''}",
        INT,
        (
            f"{what} <t> {verb} <p>{after}",
            f"{what.replace('numbers', 'whole numbers')} <t> {verb} <p>{after}",
            f"{what.replace('numbers', 'integers')} <t> {verb} <p>{after}",
            f"{what.replace('numbers', 'values')} <t> {verb} <p>{after}",
            f"{what} in the range <t> {verb} <p>{after}",
        ),
        (
            f"return {wrap.format(f'{value} for {{x}} in {ranged} if <P>')}",
            f"{{r}} = {init}\nfor {{x}} in {ranged}:\n    if <P>:\n        {update}\nreturn {{r}}",
            f"{{r}} = {init}\nfor {{x}} in {ranged}:\n    if <N>:\n        continue\n    {update}\nreturn {{r}}",
        ),
        run,
        integer(9, 8, 1),
        {**parts(p, m), "t": to},
        result="list" if final == "list" else "number",
        steps=3 + bool(m),
    )


def digits(rng: Random) -> Program:
    """The decimal digits of a number."""
    p, final = predicate(rng, False) if rng.random() < 0.3 else bound(rng, 1, 8), pick(rng, ("sum", "count", "list"))
    if rng.random() < 0.5:
        p = divisibility(rng)
    what = {"sum": "the sum of the digits", "count": "how many digits", "list": "a list of the digits"}[final]
    verb = "are" if final == "count" else "that are"
    wrap = {"sum": "sum({})", "count": "len([{}])", "list": "[{}]"}[final]
    init, update = {"sum": ("0", "{r} += {x}"), "count": ("0", "{r} += 1"), "list": ("[]", "{r}.append({x})")}[final]
    bodies = [
        f"{{r}} = [int({{y}}) for {{y}} in str({{a}})]\nreturn {wrap.format('{x} for {x} in {r} if <P>')}",
        f"{{r}} = {init}\nfor {{x}} in map(int, str({{a}})):\n    if <P>:\n        {update}\nreturn {{r}}",
        f"return {wrap.format('{x} for {x} in map(int, str({a})) if <P>')}",
    ]
    if final != "list":
        bodies.append(
            f"{{r}} = {init}\nwhile {{a}} > 0:\n    {{x}} = {{a}} % 10\n"
            f"    if <P>:\n        {update}\n    {{a}} //= 10\nreturn {{r}}"
        )
    return Program(
        f"digits {final} {p.signature}",
        INT,
        (
            f"{what} of {{a}} {verb} <p>",
            f"{what} in the number {{a}} {verb} <p>",
            f"{what.replace('digits', 'decimal digits')} of {{a}} {verb} <p>",
            f"{what} of the positive number {{a}} {verb} <p>",
            f"{what} in {{a}} {verb} <p>",
        ),
        bodies,
        lambda n: FINISH[final]([x for x in map(int, str(n)) if p.test(x)]),
        _long_number,
        parts(p),
        result="list" if final == "list" else "number",
        steps=2 + p.parts,
    )


def _long_number(rng: Random, size: int) -> tuple[int]:
    return (between(rng, 10 ** (size - 1), 10**size - 1) if size > 1 else between(rng, 1, 9),)


def divisors(rng: Random) -> Program:
    p, final = predicate(rng, False), pick(rng, ("sum", "count", "list"))
    what = {"sum": "the sum of the divisors", "count": "how many divisors", "list": "a list of the divisors"}[final]
    verb = "are" if final == "count" else "that are"
    wrap = {"sum": "sum({})", "count": "len([{}])", "list": "[{}]"}[final]
    init, update = {"sum": ("0", "{r} += {x}"), "count": ("0", "{r} += 1"), "list": ("[]", "{r}.append({x})")}[final]
    return Program(
        f"divisors {final} {p.signature}",
        INT,
        (
            f"{what} of {{a}} {verb} <p>",
            f"{what} of the number {{a}} {verb} <p>",
            f"{what.replace('divisors', 'positive divisors')} of {{a}} {verb} <p>",
            f"{what} (from 1 to {{a}}) of {{a}} {verb} <p>",
            f"{what.replace('the divisors', 'all divisors')} that {{a}} has {verb} <p>"
            if final != "count"
            else "the number of divisors of {a} that are <p>",
        ),
        (
            f"return {wrap.format('{x} for {x} in range(1, {a} + 1) if {a} % {x} == 0 and <P>')}",
            (
                f"{{r}} = {init}\nfor {{x}} in range(1, {{a}} + 1):\n"
                f"    if {{a}} % {{x}} == 0 and <P>:\n        {update}\nreturn {{r}}"
            ),
            (
                f"{{r}} = [{{x}} for {{x}} in range(1, {{a}} + 1) if {{a}} % {{x}} == 0]\n"
                f"return {wrap.format('{x} for {x} in {r} if <P>')}"
            ),
        ),
        lambda n: FINISH[final]([x for x in range(1, n + 1) if n % x == 0 and p.test(x)]),
        lambda rng, size: (pick(rng, (6, 8, 10, 12, 15, 16, 18, 20, 24, 28, 30, 36, 42, 48, 60, 13, 21, 35)),),
        parts(p),
        result="list",
        steps=3,
    )


def growth(rng: Random) -> Program:
    """A loop that repeats a change a given number of times, or until a limit is passed."""
    k, c, limit = between(rng, 2, 4), between(rng, 0, 9), 10 * between(rng, 3, 20)
    if rng.random() < 0.5:
        change = f"multiplied by {k}" + (f" and increased by {c}" if c else "")
        code = f"{{a}} * {k}" + (f" + {c}" if c else "")
        inside = f"    {{a}} = {code}\n"

        def run(n: int) -> int:
            count = 0
            while n < limit:
                n, count = n * k + c, count + 1
            return count

        return Program(
            f"grow {k} {c} {limit}",
            INT,
            (
                f"how many times {{a}} must be {change} to reach at least {limit}",
                f"how often {{a}} has to be {change} until it is at least {limit}",
                f"the number of times {{a}} is {change} before it is {limit} or more",
                f"how many rounds it takes until {{a}}, {change} each round, is at least {limit}",
                f"the count of steps until {{a}} is not below {limit}, when each step has it {change}",
            ),
            (
                f"{{r}} = 0\nwhile {{a}} < {limit}:\n{inside}    {{r}} += 1\nreturn {{r}}",
                f"{{r}} = 0\nwhile {{a}} < {limit}:\n    {{r}} += 1\n{inside}return {{r}}",
            ),
            run,
            integer(6, 30, 1),
            steps=3,
        )
    m, times = mapping(rng), between(rng, 2, 5)
    while m.signature == "sq":
        m = mapping(rng)

    def repeat(n: int) -> int:
        for _ in range(times):
            n = m.apply(n)
        return n

    return Program(
        f"repeat {times} {m.signature}",
        INT,
        (
            f"what {{a}} becomes when it is <m>, {times} times in a row",
            f"the result of {{a}} being <m> {times} times in a row",
            f"the number {{a}} after it is <m>, and this is done {times} times",
            f"{{a}} after {times} rounds in each of which it is <m>",
            f"what you get from {{a}} after {times} steps, each time <m>",
        ),
        (
            f"for {{i}} in range({times}):\n    {{a}} = <E>\nreturn {{a}}",
            f"{{r}} = {{a}}\nfor {{i}} in range({times}):\n    {{r}} = <F>\nreturn {{r}}",
        ),
        repeat,
        integer(8, 20, 0),
        {
            "m": m.phrases,
            "E": [c.replace("{x}", "{a}") for c in m.code],
            "F": [c.replace("{x}", "{r}") for c in m.code],
        },
        steps=3,
    )


def fizz(rng: Random) -> Program:
    """A list over a range in which multiples become a word."""
    j, start = between(rng, 2, 9), pick(rng, (0, 1))
    word, p = pick(rng, LABELS), divisibility(rng)
    kept, k = ("{x}", None) if rng.random() < 0.5 else (f"{{x}} * {j}", j)
    rest = "as they are" if k is None else f"times {j}"
    ranged = "range(1, {a} + 1)" if start else "range({a})"
    span = "from 1 to {a}" if start else "from 0 up to but not including {a}"
    return Program(
        f"fizz {start} {word} {p.signature} {k}",
        INT,
        (
            f"a list of the numbers {span}, with '{word}' for those that are <p> and the others {rest}",
            f"the numbers {span} as a list, '{word}' in place of any that is <p>, the rest {rest}",
            f"a list {span} in which numbers that are <p> become '{word}' and the others stay {rest}"
            if k is None
            else f"a list {span} in which numbers that are <p> become '{word}' and the others are {rest}",
            f"a list with '{word}' for each number {span} that is <p>, and the other numbers {rest}",
            f"a list, {span}, of '{word}' where the number is <p> and of the number {rest} otherwise".replace(
                "number as they are", "number itself"
            ),
        ),
        (
            f"return ['{word}' if <P> else {kept} for {{x}} in {ranged}]",
            (
                f"{{r}} = []\nfor {{x}} in {ranged}:\n    if <P>:\n        {{r}}.append('{word}')\n"
                f"    else:\n        {{r}}.append({kept})\nreturn {{r}}"
            ),
            f"{{r}} = []\nfor {{x}} in {ranged}:\n    {{r}}.append('{word}' if <P> else {kept})\nreturn {{r}}",
        ),
        lambda n: [word if p.test(x) else x * (k or 1) for x in range(start, n + start)],
        lambda rng, size: (between(rng, 1, 3) if size < 5 else between(rng, 0, 12),),
        parts(p),
        result="list",
        steps=3,
    )
