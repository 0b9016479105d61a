"""Families of programs on the characters of a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from .atoms import Chars, characters
from .names import TEXT_WORDS
from .program import FINISH, Program, between, pick

TEXT = ("text",)


def _string(rng: Random, size: int, sample: str = "aeB3") -> str:
    """A short word with some characters of interest put in."""
    text = list(pick(rng, TEXT_WORDS)[: size + 2]) if rng.random() < 0.7 else []
    while len(text) < size:
        text.insert(int(rng.random() * (len(text) + 1)), pick(rng, sample if rng.random() < 0.6 else "abXe27tk"))
    return "".join(text)


def string(sample: str = "aeB3") -> Callable[[Random, int], tuple[Any, ...]]:
    return lambda rng, size: (_string(rng, size, sample),)


def _options(c: Chars) -> dict[str, Sequence[str]]:
    return {"p": c.phrases, "P": c.code, "N": c.negated}


# What may be done to a character or a piece of text: phrase, code around `{}`, function.
CHANGES: Sequence[tuple[str, str, Callable[[str], str]]] = (
    ("in upper case", "{}.upper()", str.upper),
    ("in lower case", "{}.lower()", str.lower),
    ("written twice", "{} * 2", lambda t: t * 2),
    ("written three times", "{} * 3", lambda t: t * 3),
)


def count_chars(rng: Random) -> Program:
    c, factor = characters(rng), between(rng, 1, 6)
    times = f", times {factor}" if factor > 1 else ""
    by = f" * {factor}" if factor > 1 else ""
    return Program(
        f"count chars {c.signature} {factor}",
        TEXT,
        (
            f"how many <p> there are in {{a}}{times}",
            f"the number of <p> in {{a}}{times}",
            f"the count of <p> in the string {{a}}{times}",
            f"how many <p> the text {{a}} has{times}",
            f"how often {{a}} has <p>{times}",
        ),
        (
            "{r} = 0\nfor {x} in {a}:\n    if <P>:\n        {r} += 1\nreturn {r}" + by,
            "{r} = 0\nfor {x} in {a}:\n    if <N>:\n        continue\n    {r} += 1\nreturn {r}" + by,
            "return sum(1 for {x} in {a} if <P>)" + by,
            "return len([{x} for {x} in {a} if <P>])" + by,
        ),
        lambda s: sum(map(c.test, s)) * factor,
        string(c.sample),
        _options(c),
        item="char",
        steps=2 + (factor > 1),
    )


def filter_chars(rng: Random) -> Program:
    c, keep = characters(rng), rng.random() < 0.5
    phrase, wrap, f = ("", "{}", str) if rng.random() < 0.3 else pick(rng, CHANGES[:3])
    reverse = rng.random() < 0.35
    after = f", {phrase}" if phrase else ""
    after += ", reversed" if reverse else ""
    p, n = ("<P>", "<N>") if keep else ("<N>", "<P>")
    source = "{a}[::-1]" if reverse else "{a}"
    value = wrap.format("{x}")
    if keep:
        requests = (
            "only the <p> of {a}",
            "a string of the <p> in {a}",
            "the <p> of the text {a}, joined together",
            "the string {a} with everything but its <p> removed",
            "a string with just the <p> from {a}",
        )
    else:
        requests = (
            "{a} without its <p>",
            "the string {a} with the <p> removed",
            "the text {a} after removing all <p>",
            "a copy of {a} that leaves out the <p>",
            "everything in {a} except the <p>",
        )

    def run(s: str) -> str:
        kept = "".join(f(x) for x in s if c.test(x) == keep)
        return "".join(f(x) for x in reversed(s) if c.test(x) == keep) if reverse else kept

    return Program(
        f"chars {keep} {c.signature} {phrase} {reverse}",
        TEXT,
        [r + (after.replace("written", "each character written")) for r in requests],
        (
            f"return ''.join({value} for {{x}} in {source} if {p})",
            f"{{r}} = ''\nfor {{x}} in {source}:\n    if {p}:\n        {{r}} += {value}\nreturn {{r}}",
            f"{{r}} = [{value} for {{x}} in {source} if {p}]\nreturn ''.join({{r}})",
            f"{{r}} = ''\nfor {{x}} in {source}:\n    if {n}:\n        continue\n    {{r}} += {value}\nreturn {{r}}",
        ),
        run,
        string(c.sample),
        _options(c),
        item="char",
        result="text",
        steps=2 + bool(phrase) + reverse,
    )


def change_chars(rng: Random) -> Program:
    """A copy in which a class of characters changes."""
    c = characters(rng)
    if rng.random() < 0.6:
        new = pick(rng, "-*_#.+xyz")
        phrase, value, f = f"replaced by '{new}'", f"'{new}'", lambda t: new
    else:
        phrase, wrap, f = pick(rng, CHANGES)
        value = wrap.format("{x}")
    return Program(
        f"change chars {c.signature} {phrase}",
        TEXT,
        (
            f"{{a}} with all <p> {phrase}",
            f"a copy of {{a}} in which the <p> are {phrase}",
            f"the string {{a}} where <p> are {phrase}",
            f"the text {{a}} with its <p> {phrase} and the rest kept",
            f"{{a}}, but with the <p> {phrase}",
        ),
        (
            f"return ''.join({value} if <P> else {{x}} for {{x}} in {{a}})",
            f"{{r}} = ''\nfor {{x}} in {{a}}:\n    {{r}} += {value} if <P> else {{x}}\nreturn {{r}}",
            (
                f"{{r}} = ''\nfor {{x}} in {{a}}:\n    if <P>:\n        {{r}} += {value}\n"
                f"    else:\n        {{r}} += {{x}}\nreturn {{r}}"
            ),
            f"{{r}} = [{value} if <P> else {{x}} for {{x}} in {{a}}]\nreturn ''.join({{r}})",
        ),
        lambda s: "".join(f(x) if c.test(x) else x for x in s),
        string(c.sample),
        _options(c),
        item="char",
        result="text",
        steps=3,
    )


def index_chars(rng: Random) -> Program:
    """Where a class of characters first or last occurs."""
    c, first, default = characters(rng), rng.random() < 0.6, pick(rng, (-1, 0, -1, between(rng, 10, 99)))
    word, end = ("first", 0) if first else ("last", -1)

    def run(s: str) -> int:
        found = [i for i, x in enumerate(s) if c.test(x)]
        return found[end] if found else default

    loop = "for {i}, {x} in enumerate({a}):\n    if <P>:\n        "
    bodies = [
        f"{{r}} = [{{i}} for {{i}}, {{x}} in enumerate({{a}}) if <P>]\nreturn {{r}}[{end}] if {{r}} else {default}",
        f"{loop}return {{i}}\nreturn {default}" if first else f"{{r}} = {default}\n{loop}{{r}} = {{i}}\nreturn {{r}}",
    ]
    return Program(
        f"index {word} {c.signature} else {default}",
        TEXT,
        (
            f"the index of the {word} of the <p> in {{a}}, or {default} if there are none",
            f"the {word} index at which {{a}} has one of the <p>, or {default}",
            f"where the {word} of the <p> is in the string {{a}}, and {default} if there are none",
            f"the position of the {word} of the <p> of {{a}}, else {default}",
            f"{default} if {{a}} has no <p>, and otherwise the index of the {word} one",
        ),
        bodies,
        run,
        string(c.sample),
        _options(c),
        item="char",
        result="list",
        steps=3,
    )


def digit_text(rng: Random) -> Program:
    """The digits in a string, added up or listed."""
    k, final = between(rng, 2, 9), pick(rng, ("sum", "list", "max"))
    what = {"sum": "the sum of", "list": "a list of", "max": "the largest of"}[final]
    wrap = {"sum": "sum({})", "list": "[{}]", "max": "max([{}], default=0)"}[final]
    end = {"sum": "sum({r})", "list": "{r}", "max": "max({r}, default=0)"}[final]
    zero = " (0 if there are none)" if final == "max" else ""

    def run(s: str) -> Any:
        values = [int(x) * k for x in s if x.isdigit()]
        return max(values, default=0) if final == "max" else FINISH[final](values)

    return Program(
        f"digits in text {final} {k}",
        TEXT,
        (
            f"{what} the digits in {{a}}, each times {k}{zero}",
            f"{what} all digits of the string {{a}}, each multiplied by {k}{zero}",
            f"{what} the digits that the text {{a}} has, each one times {k}{zero}",
            f"{what} the numbers given by the digits in {{a}} multiplied by {k}{zero}",
            f"{what} {k} times each digit in {{a}}{zero}",
        ),
        (
            "return " + wrap.format(f"int({{x}}) * {k} for {{x}} in {{a}} if {{x}}.isdigit()"),
            (
                f"{{r}} = []\nfor {{x}} in {{a}}:\n    if {{x}}.isdigit():\n"
                f"        {{r}}.append(int({{x}}) * {k})\nreturn {end}"
            ),
            f"{{r}} = [int({{x}}) * {k} for {{x}} in {{a}} if {{x}}.isdigit()]\nreturn {end}",
        ),
        run,
        string("0123456789"),
        item="char",
        result="list",
        steps=3,
    )
