"""Families of programs on the order, the parts and the pairs of lists of numbers."""

from __future__ import annotations

from random import Random
from typing import Any

from .atoms import mapping, predicate
from .lists import LIST, _filled, _parts
from .program import Program, between, number_list, pick

NTH = {2: "second", 3: "third", 4: "fourth", 5: "fifth"}
FINALS: dict[str, tuple[str, Any]] = {
    "sum": ("the sum of", sum),
    "max": ("the largest of", max),
    "min": ("the smallest of", min),
    "list": ("a list of", list),
}


def part(rng: Random) -> Program:
    """A slice, then something done to it."""
    k, kind = between(rng, 2, 5), pick(rng, ("head", "tail", "skip", "drop", "stride"))
    final = pick(rng, tuple(FINALS)) if kind in ("head", "tail", "stride") else pick(rng, ("sum", "list"))
    what, f = FINALS[final]
    code, cut, phrases = {
        "head": (f"{{a}}[:{k}]", slice(k), [f"the first {k} numbers in {{a}}"]),
        "tail": (f"{{a}}[-{k}:]", slice(-k, None), [f"the last {k} numbers in {{a}}"]),
        "skip": (
            f"{{a}}[{k}:]",
            slice(k, None),
            [f"the numbers in {{a}} after the first {k}", f"all numbers in {{a}} except the first {k}"],
        ),
        "drop": (
            f"{{a}}[:-{k}]",
            slice(-k),
            [f"the numbers in {{a}} before the last {k}", f"all numbers in {{a}} except the last {k}"],
        ),
        "stride": (f"{{a}}[::{k}]", slice(None, None, k), [f"every {NTH[k]} number in {{a}}, beginning with the first"]),
    }[kind]
    m = mapping(rng) if rng.random() < 0.6 else None
    tail = ", each <m>" if m else ""
    value = "<E>" if m else "{x}"
    direct = f"[{value} for {{x}} in {code}]" if m else code
    call = direct if final == "list" else f"{final}({direct})"
    end = "{r}" if final == "list" else f"{final}({{r}})"
    requests = [f"{what} {phrase}{tail}" for phrase in phrases] * 2
    requests += [f"{what} {phrase.replace('numbers', 'values').replace('number', 'value')}{tail}" for phrase in phrases]
    requests += [f"{what} {phrase.replace('{a}', 'the list {a}')}{tail}" for phrase in phrases]
    requests += [f"{what} {phrase.replace('numbers in', 'elements of').replace('number in', 'element of')}{tail}" for phrase in phrases]
    requests += [f"{what} {phrase.replace('numbers in', 'entries of').replace('number in', 'entry of')}{tail}" for phrase in phrases]
    return Program(
        f"{final} {kind} {k} {m.signature if m else ''}",
        LIST,
        requests,
        (
            f"return {call}",
            f"{{r}} = {direct}\nreturn {end}",
            f"{{r}} = []\nfor {{x}} in {code}:\n    {{r}}.append({value})\nreturn {end}",
        ),
        lambda xs: f([m.apply(x) if m else x for x in xs[cut]]),
        _filled(10, k + 1 if final in ("max", "min") else 1),
        {"m": m.phrases, "E": m.code} if m else {},
        result="list",
        steps=2 + bool(m),
    )


def alternate(rng: Random) -> Program:
    """Sums over even or odd indices, with a map; or one minus the other."""
    odd = between(rng, 0, 1)
    m = mapping(rng)
    name = "odd" if odd else "even"
    return Program(
        f"sum index {name} {m.signature}",
        LIST,
        (
            f"the sum of the numbers at {name} indices of {{a}}, each <m>",
            f"the total of the values in {{a}} whose index is {name}, each <m>",
            f"what the numbers at {name} positions (from 0) in {{a}} add up to when each is <m>",
            f"the sum of each number at an {name} index of the list {{a}}, <m>",
            f"the sum of {{a}} over the {name} indices, with each number <m>",
        ),
        (
            f"return sum(<E> for {{x}} in {{a}}[{odd}::2])",
            f"{{r}} = 0\nfor {{x}} in {{a}}[{odd}::2]:\n    {{r}} += <E>\nreturn {{r}}",
            f"{{r}} = 0\nfor {{i}}, {{x}} in enumerate({{a}}):\n    if {{i}} % 2 == {odd}:\n        {{r}} += <E>\nreturn {{r}}",
        ),
        lambda xs: sum(m.apply(x) for x in xs[odd::2]),
        _filled(10, 2),
        {"m": m.phrases, "E": m.code},
        steps=3,
    )


def ranked(rng: Random) -> Program:
    """Sorting, then a place or a part of the order."""
    k, largest, final = between(rng, 2, 4), rng.random() < 0.5, pick(rng, ("item", "list", "sum"))
    word = "largest" if largest else "smallest"
    m = mapping(rng)
    order = "sorted({a}, reverse=True)" if largest else "sorted({a})"
    in_place = "{r} = list({a})\n{r}.sort(reverse=True)\n" if largest else "{r} = list({a})\n{r}.sort()\n"
    nth = NTH[k]
    if final == "item":
        what = (f"the {nth} {word} number in {{a}}", f"the number of {{a}} that is {nth} {word}")
        take = "{r}[%d]" % (k - 1)
        code = take.replace("{r}", order)
        value = code
    else:
        prefix = "a list of" if final == "list" else "the sum of"
        what = (f"{prefix} the {k} {word} numbers in {{a}}", f"{prefix} the {word} {k} values in {{a}}")
        code, take = f"{order}[:{k}]", "{r}[:%d]" % k
    requests = [f"{w}, <m>" if final == "item" else f"{w}, each <m>" for w in what]
    requests += [r.replace("{a}", "the list {a}") for r in requests]
    requests.append(requests[0].replace("number", "value"))
    if final == "item":
        bodies = [
            f"{{x}} = {code}\nreturn <E>",
            f"{{r}} = {order}\n{{x}} = {take}\nreturn <E>",
            f"{in_place}{{x}} = {take}\nreturn <E>",
        ]
    else:
        wrap = "[{}]" if final == "list" else "sum({})"
        bodies = [
            "return " + wrap.format(f"<E> for {{x}} in {code}"),
            f"{{r}} = {order}\nreturn " + wrap.format(f"<E> for {{x}} in {take}"),
            in_place + "return " + wrap.format(f"<E> for {{x}} in {take}"),
        ]

    def run(xs: list[int]) -> Any:
        top = sorted(xs, reverse=largest)
        if final == "item":
            return m.apply(top[k - 1])
        return (list if final == "list" else sum)(m.apply(x) for x in top[:k])

    return Program(
        f"{final} {nth} {word} {m.signature}",
        LIST,
        requests,
        bodies,
        run,
        _filled(10, k),
        {"m": m.phrases, "E": m.code},
        result="list",
        steps=3,
    )


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
    pairs = [
        p.replace("{a}[{i} - 1]", "{x}").replace("{a}[{i}]", "{y}") for p in condition
    ]
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
        lambda xs: sum(test(x, y) for x, y in zip(xs, xs[1:], strict=False)),
        _filled(10, 2),
        {"p": phrases, "P": condition, "Q": pairs},
        steps=3,
    )


def running(rng: Random) -> Program:
    """Running totals, possibly of changed numbers and from a start value."""
    start, m = pick(rng, (0, 0, between(rng, 1, 20))), mapping(rng)
    begin = f", beginning from {start}" if start else ""

    def run(xs: list[int]) -> list[int]:
        total, out = start, []
        for x in xs:
            total += m.apply(x)
            out.append(total)
        return out

    return Program(
        f"running {start} {m.signature}",
        LIST,
        (
            f"a list of the running totals of {{a}} with each number <m>{begin}",
            f"the running sums of the numbers in {{a}}, each <m>, as a list{begin}",
            f"a list of the totals so far when the numbers in {{a}}, each <m>, are added one by one{begin}",
            f"a list with the sum after each number of {{a}}, each <m>{begin}",
            f"the list of sums you get by adding the values in {{a}} in order, each <m>{begin}",
        ),
        (
            f"{{r}} = []\n{{t}} = {start}\nfor {{x}} in {{a}}:\n    {{t}} += <E>\n    {{r}}.append({{t}})\nreturn {{r}}",
            f"{{t}} = {start}\n{{r}} = []\nfor {{x}} in {{a}}:\n    {{t}} = {{t}} + <E>\n    {{r}}.append({{t}})\nreturn {{r}}",
        ),
        run,
        _filled(8),
        {"m": m.phrases, "E": m.code},
        result="list",
        steps=3,
    )


def distinct(rng: Random) -> Program:
    p, final = predicate(rng, composed=False), pick(rng, ("count", "list"))
    if final == "count":
        what = ("how many different numbers in {a} are <p>", "the number of distinct values in {a} that are <p>",
                "how many distinct numbers in the list {a} are <p>", "the count of different values in {a} that are <p>",
                "how many numbers in {a} are <p>, counting equal ones once")  # fmt: skip
        bodies = [
            "return len(set({x} for {x} in {a} if <P>))",
            "{r} = set({x} for {x} in {a} if <P>)\nreturn len({r})",
            "{r} = []\nfor {x} in {a}:\n    if <P> and {x} not in {r}:\n        {r}.append({x})\nreturn len({r})",
        ]
    else:
        what = ("a list of the different numbers in {a} that are <p>, sorted",
                "the distinct values in {a} that are <p>, as a sorted list",
                "a sorted list, without repeats, of the numbers in {a} that are <p>",
                "the numbers in {a} that are <p>, sorted and each only once",
                "a sorted list of the distinct numbers in {a} that are <p>")  # fmt: skip
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
        _parts(p),
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
    finish = {"count": len, "list": list, "sum": sum}[final]

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
            f"{{r}} = []\nfor {{x}} in {{a}}:\n    if <P> and {{x}} {op} {{b}}:\n        {{r}}.append({{x}})\nreturn {end}",
            f"{{r}} = [{{x}} for {{x}} in {{a}} if {{x}} {op} {{b}} and <P>]\nreturn {end}",
        ),
        lambda xs, ys: finish([x for x in xs if p.test(x) and (x in ys) == inside]),
        draw,
        _parts(p),
        result="list",
        steps=3 + p.parts,
    )
