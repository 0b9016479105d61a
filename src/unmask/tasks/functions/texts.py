"""Families of programs on parts of a text and on its words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from .atoms import LETTERS
from .chars import CHANGES, TEXT, string
from .names import TEXT_WORDS
from .program import FINISH, Program, between, pick
from .sequences import NTH


def slice_text(rng: Random) -> Program:
    """Parts of a string, changed and put together."""
    j, k = between(rng, 1, 4), between(rng, 1, 4)
    kind = pick(rng, ("head", "tail", "ends", "rotate", "stride", "drop"))
    many = "characters" if j > 1 else "character"
    many_k = "characters" if k > 1 else "character"
    first = f"first {j} {many}" if j > 1 else "first character"
    last = f"last {k} {many_k}" if k > 1 else "last character"
    last_j = (
        last.replace(str(k), str(j)) if k > 1 and j > 1 else ("last character" if j == 1 else f"last {j} characters")
    )
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
    op, opposite, word, other = (
        (">", "<=", "more than", "at most") if longer else ("<", ">=", "fewer than", "at least")
    )

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


def sentence(rng: Random, size: int) -> tuple[Any, ...]:
    """Some words."""
    return (" ".join(pick(rng, TEXT_WORDS) for _ in range(size)),)


# What may be done to a word: phrase, code, function.
WORD_CHANGES: Sequence[tuple[str, str, Callable[[str], str]]] = (
    ("", "{x}", str),
    (", in upper case", "{x}.upper()", str.upper),
    (", each reversed", "{x}[::-1]", lambda w: w[::-1]),
    (", each cut to its first letter", "{x}[0]", lambda w: w[0]),
    (", each written twice", "{x} * 2", lambda w: w * 2),
)


def _word_test(rng: Random) -> tuple[str, str, Callable[[str], bool]]:
    """A test on a word: phrase, code, function."""
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
    how, value, f = WORD_CHANGES[0] if final == "count" else pick(rng, WORD_CHANGES)
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
        return sep.join(words) if final == "join" else FINISH[final](words)

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
