"""The parts that programs are composed of: predicates and maps on a number `{x}`, classes of characters.

Each part knows its phrasings, its ways of being written, and what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from .program import between, pick


class Predicate(NamedTuple):
    """`phrases` complete "numbers that are ..."; `negated` is code for the opposite."""

    signature: str
    phrases: Sequence[str]
    code: Sequence[str]
    negated: Sequence[str]
    test: Callable[[int], bool]
    near: int  # inputs around here decide it
    parts: int = 1


class Map(NamedTuple):
    """`phrases` complete "each number ..." as a participle."""

    signature: str
    phrases: Sequence[str]
    code: Sequence[str]
    apply: Callable[[int], int]


def _greater(c: int) -> Predicate:
    phrases = [f"greater than {c}", f"larger than {c}", f"bigger than {c}", f"above {c}", f"more than {c}"]
    return Predicate(f">{c}", phrases, [f"{{x}} > {c}"] * 3 + [f"{c} < {{x}}"], [f"{{x}} <= {c}"], lambda x: x > c, c)


def _less(c: int) -> Predicate:
    phrases = [f"less than {c}", f"smaller than {c}", f"below {c}", f"under {c}", f"lower than {c}"]
    return Predicate(f"<{c}", phrases, [f"{{x}} < {c}"] * 3 + [f"{c} > {{x}}"], [f"{{x}} >= {c}"], lambda x: x < c, c)


def _at_least(c: int) -> Predicate:
    phrases = [f"at least {c}", f"{c} or more", f"not less than {c}", f"not below {c}", f"not smaller than {c}"]
    return Predicate(f">={c}", phrases, [f"{{x}} >= {c}"], [f"{{x}} < {c}"], lambda x: x >= c, c)


def _at_most(c: int) -> Predicate:
    phrases = [f"at most {c}", f"{c} or less", f"not more than {c}", f"not above {c}", f"not larger than {c}"]
    return Predicate(f"<={c}", phrases, [f"{{x}} <= {c}"], [f"{{x}} > {c}"], lambda x: x <= c, c)


def _divisible(k: int) -> Predicate:
    phrases = [
        f"divisible by {k}",
        f"exactly divisible by {k}",
        f"evenly divisible by {k}",
        f"divisible by {k} without remainder",
        f"a multiple of {k}",
    ]
    if k == 2:
        phrases += ["even"] * 5
    code = [f"{{x}} % {k} == 0"] * 3 + [f"not {{x}} % {k}"]
    return Predicate(
        f"%{k}", phrases, code, [f"{{x}} % {k} != 0"] * 2 + [f"{{x}} % {k}"], lambda x: x % k == 0, 2 * k
    )


def _indivisible(k: int) -> Predicate:
    phrases = [f"not divisible by {k}", f"not evenly divisible by {k}", f"not a multiple of {k}"]
    code = [f"{{x}} % {k} != 0"]
    if k == 2:
        phrases += ["odd"] * 5
        code.append("{x} % 2 == 1")
    return Predicate(f"!%{k}", phrases, code, [f"{{x}} % {k} == 0"], lambda x: x % k != 0, 2 * k)


def _different(c: int) -> Predicate:
    phrases = [f"not equal to {c}", f"different from {c}", f"not {c}", f"other than {c}", f"anything but {c}"]
    return Predicate(f"!={c}", phrases, [f"{{x}} != {c}"], [f"{{x}} == {c}"], lambda x: x != c, c)


def _within(a: int, b: int) -> Predicate:
    phrases = [
        f"between {a} and {b}, both included",
        f"from {a} to {b}, both included",
        f"at least {a} and at most {b}",
        f"not below {a} and not above {b}",
        f"in the range from {a} up to and including {b}",
    ]
    code = [f"{a} <= {{x}} <= {b}"] * 2 + [f"{{x}} >= {a} and {{x}} <= {b}"]
    return Predicate(
        f"[{a},{b}]", phrases, code, [f"{{x}} < {a} or {{x}} > {b}"], lambda x: a <= x <= b, (a + b) // 2, 2
    )


def _both(one: Predicate, other: Predicate) -> Predicate:
    """A divisibility and a bound."""
    phrases = [f"{p} and {q}" for p in one.phrases for q in other.phrases]
    code = [f"{p} and {q}" for p in one.code for q in other.code]
    negated = [f"not ({p} and {q})" for p in one.code[:1] for q in other.code[:1]]
    signature = f"{one.signature}&{other.signature}"
    return Predicate(
        signature,
        phrases,
        code,
        negated,
        lambda x: one.test(x) and other.test(x),
        other.near,
        one.parts + other.parts,
    )


_BOUNDS = (_greater, _less, _at_least, _at_most)


def bound(rng: Random, low: int = 0, high: int = 20) -> Predicate:
    return pick(rng, _BOUNDS)(between(rng, low, high))


def divisibility(rng: Random) -> Predicate:
    k = 2 if rng.random() < 0.4 else between(rng, 3, 9)
    return _divisible(k) if rng.random() < 0.6 else _indivisible(k)


def predicate(rng: Random, composed: bool = True) -> Predicate:
    """Something that a number is or is not."""
    chance = rng.random()
    if chance < 0.45:
        return bound(rng)
    if chance < 0.72:
        return divisibility(rng)
    if chance < 0.8:
        return _different(between(rng, 0, 12))
    if chance < 0.9 or not composed:
        a = between(rng, 0, 12)
        return _within(a, a + between(rng, 2, 9))
    return _both(divisibility(rng), bound(rng))


def mapping(rng: Random) -> Map:
    """Something to do to a number."""
    c, k = between(rng, 2, 12), between(rng, 2, 9)
    kind = between(rng, 0, 8)
    if kind <= 1:
        phrases = [f"multiplied by {c}", f"scaled by {c}"] + (["doubled"] * 2 if c == 2 else [])
        return Map(f"*{c}", phrases, [f"{{x}} * {c}"] * 2 + [f"{c} * {{x}}"], lambda x: x * c)
    if kind == 2:
        return Map(f"+{c}", [f"increased by {c}", f"raised by {c}"], [f"{{x}} + {c}"], lambda x: x + c)
    if kind == 3:
        return Map(f"-{c}", [f"decreased by {c}", f"lowered by {c}"], [f"{{x}} - {c}"], lambda x: x - c)
    if kind == 4:
        phrases = ["squared", "multiplied by itself"]
        return Map("sq", phrases, ["{x} * {x}", "{x} ** 2"], lambda x: x * x)
    if kind == 5:
        phrases = [f"divided by {k} and rounded down", f"divided by {k}, rounding down"]
        return Map(f"//{k}", phrases, [f"{{x}} // {k}"], lambda x: x // k)
    if kind == 6:
        phrases = [f"reduced modulo {k}", f"replaced by its remainder modulo {k}"]
        return Map(f"mod{k}", phrases, [f"{{x}} % {k}"], lambda x: x % k)
    if kind == 7:
        phrases = [f"subtracted from {c}", f"taken away from {c}"]
        return Map(f"{c}-", phrases, [f"{c} - {{x}}"], lambda x: c - x)
    phrases = [f"multiplied by {k} and increased by {c}", f"multiplied by {k}, then raised by {c}"]
    return Map(f"*{k}+{c}", phrases, [f"{{x}} * {k} + {c}", f"{c} + {k} * {{x}}"], lambda x: x * k + c)


class Chars(NamedTuple):
    """A class of characters: `phrases` are plural nouns."""

    signature: str
    phrases: Sequence[str]
    code: Sequence[str]
    negated: Sequence[str]
    test: Callable[[str], bool]
    sample: str  # characters that matter


def characters(rng: Random) -> Chars:
    """Something that a character is or is not."""
    kind = between(rng, 0, 6)
    if kind == 0:
        return _member("aeiou", ["vowels", "vowels (any of aeiou)", "lowercase vowels"])
    if kind == 1:
        return Chars(
            "digit", ["digits", "decimal digits"], ["{x}.isdigit()"], ["not {x}.isdigit()"], str.isdigit, "0379"
        )
    if kind == 2:
        phrases = ["uppercase letters", "capital letters", "letters in upper case"]
        return Chars("upper", phrases, ["{x}.isupper()"], ["not {x}.isupper()"], str.isupper, "ABKQZ")
    if kind == 3:
        phrases = ["lowercase letters", "small letters", "letters in lower case"]
        return Chars("lower", phrases, ["{x}.islower()"], ["not {x}.islower()"], str.islower, "bdgxy")
    letters = "".join(sorted(rng.sample(LETTERS, 1 if kind == 4 else between(rng, 2, 3))))
    if len(letters) > 1:
        return _member(
            letters, [f"characters found in '{letters}'", f"characters from '{letters}'", f"any of '{letters}'"]
        )
    c = letters
    phrases = [f"characters equal to '{c}'", f"letters '{c}'", f"occurrences of '{c}'"]
    return Chars(f"={c}", phrases, [f"{{x}} == '{c}'"], [f"{{x}} != '{c}'"], lambda x: x == c, c)


LETTERS = "abcdeghiklmnoprstuvz"


def _member(letters: str, phrases: list[str]) -> Chars:
    return Chars(
        f"in {letters}",
        phrases,
        [f"{{x}} in '{letters}'"],
        [f"{{x}} not in '{letters}'"],
        lambda x: x in letters,
        letters,
    )
