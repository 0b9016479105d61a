"""Families of programs on text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from .atoms import LETTERS, Chars, characters
from .names import TEXT_WORDS
from .program import Program, between, pick
from .sequences import NTH

TEXT = ("text",)


def _string(rng: Random, size: int, sample: str = "aeB3") -> str:
    """A short word with some characters of interest put in."""
    text = list(pick(rng, TEXT_WORDS)[: size + 2]) if rng.random() < 0.7 else []
    while len(text) < size:
        text.insert(int(rng.random() * (len(text) + 1)), pick(rng, sample if rng.random() < 0.6 else "abXe27tk"))
    return "".join(text)


def string(sample: str = "aeB3") -> Callable[[Random, int], tuple[Any, ...]]:
    return lambda rng, size: (_string(rng, size, sample),)


def sentence(rng: Random, size: int) -> tuple[Any, ...]:
    """Some words."""
    return (" ".join(pick(rng, TEXT_WORDS) for _ in range(size)),)


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
        requests = ("only the <p> of {a}", "a string of the <p> in {a}", "the <p> of the text {a}, joined together",
                    "the string {a} with everything but its <p> removed", "a string with just the <p> from {a}")  # fmt: skip
    else:
        requests = ("{a} without its <p>", "the string {a} with the <p> removed", "the text {a} after removing all <p>",
                    "a copy of {a} that leaves out the <p>", "everything in {a} except the <p>")  # fmt: skip

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
            f"{{r}} = ''\nfor {{x}} in {{a}}:\n    if <P>:\n        {{r}} += {value}\n    else:\n        {{r}} += {{x}}\nreturn {{r}}",
            f"{{r}} = [{value} if <P> else {{x}} for {{x}} in {{a}}]\nreturn ''.join({{r}})",
        ),
        lambda s: "".join(f(x) if c.test(x) else x for x in s),
        string(c.sample),
        _options(c),
        item="char",
        result="text",
        steps=3,
    )


def slice_text(rng: Random) -> Program:
    """Parts of a string, changed and put together."""
    j, k = between(rng, 1, 4), between(rng, 1, 4)
    kind = pick(rng, ("head", "tail", "ends", "rotate", "stride", "drop"))
    many = "characters" if j > 1 else "character"
    many_k = "characters" if k > 1 else "character"
    first = f"first {j} {many}" if j > 1 else "first character"
    last = f"last {k} {many_k}" if k > 1 else "last character"
    last_j = last.replace(str(k), str(j)) if k > 1 and j > 1 else ("last character" if j == 1 else f"last {j} characters")
    phrase, code, f = {
        "head": (f"the {first} of {{a}}", f"{{a}}[:{j}]", lambda s: s[:j]),
        "tail": (f"the {last_j} of {{a}}", f"{{a}}[-{j}:]", lambda s: s[-j:]),
        "ends": (
            f"the {first} of {{a}} followed by its {last}",
            f"{{a}}[:{j}] + {{a}}[-{k}:]",
            lambda s: s[:j] + s[-k:],
        ),
        "rotate": (
            f"{{a}} with its {first} moved to the end",
            f"{{a}}[{j}:] + {{a}}[:{j}]",
            lambda s: s[j:] + s[:j],
        ),
        "stride": (
            f"every {NTH[j + 1]} character of {{a}}, beginning with the first",
            f"{{a}}[::{j + 1}]",
            lambda s: s[:: j + 1],
        ),
        "drop": (f"{{a}} without its {first}", f"{{a}}[{j}:]", lambda s: s[j:]),
    }[kind]
    simple = kind in ("head", "tail", "stride", "drop")
    change, wrap, g = pick(rng, (*CHANGES, ("reversed", "{}[::-1]", lambda t: t[::-1])))
    value = wrap.format(code if simple else f"({code})")
    return Program(
        f"slice {kind} {j} {k if kind == 'ends' else ''} {change}",
        TEXT,
        (
            f"{phrase}, {change}",
            f"{phrase}, all {change}",
            phrase.replace("{a}", "the string {a}") + f", {change}",
            phrase.replace("{a}", "the text {a}") + f", {change}",
            phrase.replace("{a}", "a string {a}") + f", and that {change}",
        ),
        (
            f"return {value}",
            f"{{r}} = {code}\nreturn {wrap.format('{r}')}",
            f"{{r}} = {value}\nreturn {{r}}",
        ),
        lambda s: g(f(s)),
        string(),
        item="char",
        result="text",
        steps=2,
    )


def wrap_text(rng: Random) -> Program:
    """A condition on the length, two results."""
    n, side = between(rng, 2, 7), pick(rng, ("before", "after"))
    a = pick(rng, LETTERS) if rng.random() < 0.5 else pick(rng, "-*_#.!")
    k = between(rng, 1, 3)
    mark = a * k
    yes = f"{{a}} + '{mark}'" if side == "after" else f"'{mark}' + {{a}}"
    (phrase, wrap, f), longer = pick(rng, CHANGES), rng.random() < 0.5
    no = wrap.format("{a}")
    op, opposite, word, other = (">", "<=", "more than", "at most") if longer else ("<", ">=", "fewer than", "at least")

    def run(s: str) -> str:
        if (len(s) > n) if longer else (len(s) < n):
            return s + mark if side == "after" else mark + s
        return f(s)

    return Program(
        f"wrap {mark} {side} {op}{n} {phrase}",
        TEXT,
        (
            f"{{a}} with '{mark}' put {side} it if it has {word} {n} characters, else {{a}} {phrase}",
            f"{{a}} {phrase} if it has {other} {n} characters, and otherwise {{a}} with '{mark}' {side} it",
            f"the string {{a}} {phrase}, but with '{mark}' {side} it instead when it has {word} {n} characters",
            f"'{mark}' put {side} {{a}} when {{a}} has {word} {n} characters, and {{a}} {phrase} when it does not",
            f"{{a}} with '{mark}' {side} it for {word} {n} characters, and {{a}} {phrase} for {other} {n}",
        ),
        (
            f"if len({{a}}) {op} {n}:\n    return {yes}\nreturn {no}",
            f"if len({{a}}) {op} {n}:\n    return {yes}\nelse:\n    return {no}",
            f"return {yes} if len({{a}}) {op} {n} else {no}",
            f"if len({{a}}) {opposite} {n}:\n    return {no}\nreturn {yes}",
        ),
        run,
        string("aeB3"),
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
        return {"sum": sum, "list": list, "max": lambda v: max(v, default=0)}[final](values)

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
            f"{{r}} = []\nfor {{x}} in {{a}}:\n    if {{x}}.isdigit():\n        {{r}}.append(int({{x}}) * {k})\nreturn {end}",
            f"{{r}} = [int({{x}}) * {k} for {{x}} in {{a}} if {{x}}.isdigit()]\nreturn {end}",
        ),
        run,
        string("0123456789"),
        item="char",
        result="list",
        steps=3,
    )


# Tests on a word: phrase, code, function of the constant.
def _word_test(rng: Random) -> tuple[str, str, Callable[[str], bool]]:
    n, c = between(rng, 2, 6), pick(rng, LETTERS)
    return pick(
        rng,
        (
            (f"longer than {n} letters", f"len({{x}}) > {n}", lambda w: len(w) > n),
            (f"shorter than {n} letters", f"len({{x}}) < {n}", lambda w: len(w) < n),
            (f"exactly {n} letters long", f"len({{x}}) == {n}", lambda w: len(w) == n),
            (f"starting with '{c}'", f"{{x}}.startswith('{c}')", lambda w: w.startswith(c)),
            (f"ending with '{c}'", f"{{x}}.endswith('{c}')", lambda w: w.endswith(c)),
            (f"that have an '{c}' in them", f"'{c}' in {{x}}", lambda w: c in w),
            (f"without the letter '{c}'", f"'{c}' not in {{x}}", lambda w: c not in w),
        ),
    )


def words_if(rng: Random) -> Program:
    """Words chosen, changed and counted or joined."""
    phrase, code, test = _word_test(rng)
    final = pick(rng, ("count", "list", "join"))
    if final == "count":
        value, f, how = "{x}", str, ""
    else:
        how, value, f = pick(
            rng,
            (
                ("", "{x}", str),
                (", in upper case", "{x}.upper()", str.upper),
                (", each reversed", "{x}[::-1]", lambda w: w[::-1]),
                (", each cut to its first letter", "{x}[0]", lambda w: w[0]),
                (", each written twice", "{x} * 2", lambda w: w * 2),
            ),
        )
    sep = pick(rng, ("-", "+", "/", ", ", "_"))
    what = {"count": "how many words", "list": "a list of the words", "join": "the words"}[final]
    are = " are" if final == "count" and not phrase.startswith(("that", "without")) else ""
    if final == "count" and not are:
        what = "the number of words"
    joined = f", joined with '{sep}'" if final == "join" else ""
    wrap = {"count": "len([{}])", "list": "[{}]", "join": f"'{sep}'.join({{}})"}[final]
    end = {"count": "len({r})", "list": "{r}", "join": f"'{sep}'.join({{r}})"}[final]

    def run(s: str) -> Any:
        words = [f(w) for w in s.split() if test(w)]
        return {"count": len, "list": list, "join": sep.join}[final](words)

    return Program(
        f"words {final} {code} {value} {sep if joined else ''}",
        TEXT,
        (
            f"{what} of {{a}}{are} {phrase}{how}{joined}",
            f"{what} in {{a}}{are} {phrase}{how}{joined}",
            f"{what} in the text {{a}}{are} {phrase}{how}{joined}",
            f"{what} of the sentence {{a}}{are} {phrase}{how}{joined}",
            f"{what} in the string {{a}}{are} {phrase}{how}{joined}",
        ),
        (
            "return " + wrap.format(f"{value} for {{x}} in {{a}}.split() if {code}"),
            f"{{r}} = []\nfor {{x}} in {{a}}.split():\n    if {code}:\n        {{r}}.append({value})\nreturn {end}",
            f"{{r}} = [{value} for {{x}} in {{a}}.split() if {code}]\nreturn {end}",
        ),
        run,
        sentence,
        item="word",
        result="list",
        steps=2 + bool(how) + bool(joined),
    )
