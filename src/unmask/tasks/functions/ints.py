"""Families of programs on whole numbers: conditions, loops over a range, digits."""

from __future__ import annotations

from random import Random
from typing import Any

from .atoms import bound, divisibility, mapping, predicate
from .lists import _parts
from .names import LABELS
from .program import Program, between, integer, pick

INT = ("int",)


def two_way(rng: Random) -> Program:
    """One condition, two results: labels or arithmetic."""
    p = predicate(rng)
    if rng.random() < 0.45:
        yes, no = rng.sample(LABELS, 2)
        said, other = f"'{yes}'", f"'{no}'"
        codes, others = [said], [other]
        value: Any = lambda n: yes if p.test(n) else no  # noqa: E731
        sig = f"{yes} {no}"
    else:
        m, k = mapping(rng), mapping(rng)
        said, other = f"{{a}} <m>", f"{{a}} <k>"
        codes, others = [c.replace("{x}", "{a}") for c in m.code], [c.replace("{x}", "{a}") for c in k.code]
        value = lambda n: m.apply(n) if p.test(n) else k.apply(n)  # noqa: E731
        sig = f"{m.signature} {k.signature}"
    options = {
        "p": p.phrases,
        "P": [c.replace("{x}", "{a}") for c in p.code],
        "N": [c.replace("{x}", "{a}") for c in p.negated],
        "E": codes,
        "F": others,
    }
    if sig[0] not in "abcdefghijklmnopqrstuvwxyz" or "{a}" in said:
        options |= {"m": m.phrases, "k": k.phrases}
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
        value,
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
        {"m": m.phrases, "E": [c.replace("{x}", "{a}") for c in m.code], "w": word},
        steps=3,
    )


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
        {**_parts(p, m), "t": to},
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
    finish: Any = {"sum": sum, "count": len, "list": list}[final]
    bodies = [
        f"{{r}} = [int({{y}}) for {{y}} in str({{a}})]\nreturn {wrap.format('{x} for {x} in {r} if <P>')}",
        f"{{r}} = {init}\nfor {{x}} in map(int, str({{a}})):\n    if <P>:\n        {update}\nreturn {{r}}",
        f"return {wrap.format('{x} for {x} in map(int, str({a})) if <P>')}",
    ]
    if final != "list":
        bodies.append(
            f"{{r}} = {init}\nwhile {{a}} > 0:\n    {{x}} = {{a}} % 10\n    if <P>:\n        {update}\n    {{a}} //= 10\nreturn {{r}}"
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
        lambda n: finish([x for x in map(int, str(n)) if p.test(x)]),
        _long_number,
        _parts(p),
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
    finish: Any = {"sum": sum, "count": len, "list": list}[final]
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
            f"{{r}} = {init}\nfor {{x}} in range(1, {{a}} + 1):\n    if {{a}} % {{x}} == 0 and <P>:\n        {update}\nreturn {{r}}",
            f"{{r}} = [{{x}} for {{x}} in range(1, {{a}} + 1) if {{a}} % {{x}} == 0]\nreturn {wrap.format('{x} for {x} in {r} if <P>')}",
        ),
        lambda n: finish([x for x in range(1, n + 1) if n % x == 0 and p.test(x)]),
        lambda rng, size: (pick(rng, (6, 8, 10, 12, 15, 16, 18, 20, 24, 28, 30, 36, 42, 48, 60, 13, 21, 35)),),
        _parts(p),
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


def two_numbers(rng: Random) -> Program:
    """Two numbers compared, then combined one way or the other."""
    j, k, c = between(rng, 2, 9), between(rng, 2, 9), between(rng, 1, 12)
    op, word, test = pick(
        rng,
        (
            (f"{{a}} > {{b}} + {c}", f"{{a}} is more than {c} above {{b}}", lambda x, y: x > y + c),
            (f"{{a}} + {{b}} > {c}", f"{{a}} and {{b}} add up to more than {c}", lambda x, y: x + y > c),
            (f"{{a}} * {{b}} > {c}", f"{{a}} times {{b}} is more than {c}", lambda x, y: x * y > c),
            (f"{{a}} % {j} == {{b}} % {j}", f"{{a}} and {{b}} are equal modulo {j}", lambda x, y: x % j == y % j),
            (f"abs({{a}} - {{b}}) < {k}", f"{{a}} and {{b}} are less than {k} apart", lambda x, y: abs(x - y) < k),
        ),
    )
    ways = [
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
            f"{{r}} = []\nfor {{x}} in {ranged}:\n    if <P>:\n        {{r}}.append('{word}')\n    else:\n        {{r}}.append({kept})\nreturn {{r}}",
            f"{{r}} = []\nfor {{x}} in {ranged}:\n    {{r}}.append('{word}' if <P> else {kept})\nreturn {{r}}",
        ),
        lambda n: [word if p.test(x) else x * (k or 1) for x in range(start, n + start)],
        lambda rng, size: (between(rng, 1, 3) if size < 5 else between(rng, 0, 12),),
        _parts(p),
        result="list",
        steps=3,
    )
