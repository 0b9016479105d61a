"""Families of programs on the order and the parts of a list of numbers."""

from __future__ import annotations

from random import Random
from typing import Any

from .atoms import mapping
from .program import Program, between, filled, pick
from .searches import LIST

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
        "stride": (
            f"{{a}}[::{k}]",
            slice(None, None, k),
            [f"every {NTH[k]} number in {{a}}, beginning with the first"],
        ),
    }[kind]
    m = mapping(rng) if rng.random() < 0.6 else None
    tail = ", each <m>" if m else ""
    value = "<E>" if m else "{x}"
    direct = f"[{value} for {{x}} in {code}]" if m else code
    call = direct if final == "list" else f"{final}({direct})"
    end = "{r}" if final == "list" else f"{final}({{r}})"
    requests = [f"{what} {phrase}{tail}" for phrase in phrases] * 2
    requests += [
        f"{what} {phrase.replace('numbers', 'values').replace('number', 'value')}{tail}" for phrase in phrases
    ]
    requests += [f"{what} {phrase.replace('{a}', 'the list {a}')}{tail}" for phrase in phrases]
    requests += [
        f"{what} {phrase.replace('numbers in', 'elements of').replace('number in', 'element of')}{tail}"
        for phrase in phrases
    ]
    requests += [
        f"{what} {phrase.replace('numbers in', 'entries of').replace('number in', 'entry of')}{tail}"
        for phrase in phrases
    ]
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
        filled(10, k + 1 if final in ("max", "min") else 1),
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
            (
                f"{{r}} = 0\nfor {{i}}, {{x}} in enumerate({{a}}):\n"
                f"    if {{i}} % 2 == {odd}:\n        {{r}} += <E>\nreturn {{r}}"
            ),
        ),
        lambda xs: sum(m.apply(x) for x in xs[odd::2]),
        filled(10, 2),
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
        take = f"{{r}}[{k - 1}]"
        code = take.replace("{r}", order)
    else:
        prefix = "a list of" if final == "list" else "the sum of"
        what = (f"{prefix} the {k} {word} numbers in {{a}}", f"{prefix} the {word} {k} values in {{a}}")
        code, take = f"{order}[:{k}]", f"{{r}}[:{k}]"
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
        filled(10, k),
        {"m": m.phrases, "E": m.code},
        result="list",
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
            (
                f"{{r}} = []\n{{t}} = {start}\nfor {{x}} in {{a}}:\n"
                f"    {{t}} += <E>\n    {{r}}.append({{t}})\nreturn {{r}}"
            ),
            (
                f"{{t}} = {start}\n{{r}} = []\nfor {{x}} in {{a}}:\n"
                f"    {{t}} = {{t}} + <E>\n    {{r}}.append({{t}})\nreturn {{r}}"
            ),
        ),
        run,
        filled(8),
        {"m": m.phrases, "E": m.code},
        result="list",
        steps=3,
    )
