"""Finding the final answer in a response and comparing it: small pure functions, shared by the tasks."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from .fences import extract_code

__all__ = ["extract_boxed", "extract_code", "extract_hash_answer", "numbers_equal", "parse_number"]

# --- numbers ------------------------------------------------------------------------------------------------

_CURRENCY = "$€£¥₹"
# A sign, a currency in either order with it, digits with optional thousands commas, an optional fraction.
_NUMBER = (
    rf"[-+]?\s?[{_CURRENCY}]?\s?[-+]?(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?"  # 1,800.50
    rf"|[-+]?[{_CURRENCY}]?\.\d+"
)
# The whole of its digits: `1` is not the number in `1,80`, `1.2.3` or `1:30`.
_LEADING = re.compile(rf"(?:{_NUMBER})(?!\d|[.,:]\d)")
# One number, however it is typeset: these spellings are made plain before anything is read.
_PLAIN = [
    (re.compile(r"^(\*{1,3}|_{1,3}|`+)(.+?)\1(?!\w)"), r"\2"),  # **18**, `18`
    (re.compile(r"^\\\(|^\\\[|\\\)$|\\\]$"), ""),  # \(18\)
    (re.compile(r"^\$?\\(?:boxed|fbox|text|mathbf)\s*\{([^{}]*)\}"), r"\1"),
    (re.compile(r"\\(?:text|textrm|mathrm|mbox)\s*\{([^{}]*)\}"), r" \1"),  # a unit in a formula
    (re.compile(r"\\([$%])"), r"\1"),
    (re.compile(r"\^?\{?\\circ\b\}?"), "°"),
    (re.compile("[−﹣－]"), "-"),
    (re.compile(r"(?<=\d)(?:\{,\}|,?\\[,!;: ]|[\u00a0\u2009\u202f ])(?=\d{3}(?!\d))"), ","),  # 1{,}800, 1\,800, 1 800
    (re.compile(r"(?<=\d)(\*{1,3}|_{1,3}|`+|\$)(?=\W*$|\s+[A-Za-z]{2})"), ""),  # the end of bold that began earlier
]
# What makes a number part of something longer. All on its own line: the next line is another thought.
_ATTACHED = re.compile(r"[({\[_\\]")  # 5(3), 12_8, 5\pi
_OPERATOR = re.compile(r"\s*(?:[+*^=×÷·⋅±√<>~\\]|[-–—/:]\s*+(?![A-Za-z]{2,}|$))")  # not: $18/hour, 18 - that is all
_FACTOR = re.compile(r"\s*\(\s*[-+$]?(?:[\d.,]+|[a-zA-Z])\s*\)")  # 5 (3)
_UNIT = r"(?:[mgshlLCFcp](?![A-Za-z])|[aI]\s+[A-Za-z]{2})"  # 18 m, $18 a day
_LETTER = re.compile(rf"\s*+(?!{_UNIT})[A-Za-zα-ωΑ-Ω](?![A-Za-z])")  # 5x3, 18k, 1e3: no word and no unit
_LARGER = re.compile(r"\s*(?:hundred|thousand|million|billion|trillion|bn|mn|mil|mln)(?:s|ths?)?\b", re.IGNORECASE)
_HALVES = re.compile(r"\band\s+(?:an?|one|two|three)[\s-]+(?:half|third|quarter|fourth|fifth)", re.IGNORECASE)
_POWER = re.compile(r"(?<=[A-Za-z])(?:\^?\{?[23]\}?(?!\d)|[²³])")  # of a unit: cm^2, m²
_CLAUSE = re.compile(r"[,;](?=\s*[A-Za-z])|[.!?](?=\s|$)|\s\(")  # where the answer ends and its reasons may begin


def extract_hash_answer(text: str) -> str | None:
    """The number after the last `####`, or None; an earlier one does not stand in for a bad last one."""
    last = text.rfind("####")
    if last < 0:
        return None
    line = (text[last + 4 :].strip().splitlines() or [""])[0].strip()
    for pattern, plain in _PLAIN:
        line = pattern.sub(plain, line).strip()
    match = _LEADING.match(line)
    return match[0].strip() if match and is_whole(line[match.end() :]) else None


def is_whole(rest: str) -> bool:
    """Whether what follows a number on its line leaves it as it is (a unit, a full stop), or makes it another one."""
    rest = rest.removeprefix("%")
    if any(pattern.match(rest) for pattern in (_ATTACHED, _OPERATOR, _FACTOR, _LETTER, _LARGER)):
        return False
    clause = _POWER.sub("", _CLAUSE.split(rest, maxsplit=1)[0])
    return not any(character.isnumeric() for character in clause) and not _HALVES.search(clause)


def parse_number(text: str) -> Decimal | None:
    """The value of `18`, `18.0`, `$18`, `-3` or `1,800`; None for anything else (`1,80`, `18 apples`, `1e3`)."""
    if not re.fullmatch(_NUMBER, text.strip()):
        return None
    try:
        return Decimal(re.sub(rf"[{_CURRENCY},\s]", "", text))
    except InvalidOperation:  # two signs
        return None


def numbers_equal(a: str, b: str) -> bool:
    """Whether both are numbers of the same value, however they are written."""
    x, y = parse_number(a), parse_number(b)
    return x is not None and x == y


# --- boxes --------------------------------------------------------------------------------------------------

_BOX = re.compile(r"\\(?:boxed|fbox)\s*")
_FRACTION = re.compile(r"-?\s*\\[dt]?frac\s*")
_BARE = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\d)|-?\.\d+")
# Behind a box without braces: what would have belonged into it.
_GOES_ON = re.compile(r"[.,]?\d|[A-Za-z_]|\s*(?:[-+*/^=_(×÷]|\\(?:d?frac|sqrt|pi|times|cdot|div|pm|circ|%))")


def extract_boxed(text: str) -> str | None:
    """What the last `\\boxed{...}` (or `\\boxed 7`) holds, braces balanced; None if it is missing or never closed."""
    matches = list(_BOX.finditer(text))
    if not matches:
        return None
    rest = text[matches[-1].end() :]
    if not rest.startswith("{"):
        return unbraced(rest)
    end = braced(rest)
    return (rest[1 : end - 1].strip() or None) if end else None


def braced(text: str) -> int:
    """Where the group that a text begins with ends; 0 if it never does."""
    depth = 0
    for match in re.finditer(r"\\.|[{}]", text, re.DOTALL):  # an escaped brace is not a brace
        depth += {"{": 1, "}": -1}.get(match.group(0), 0)
        if depth == 0:
            return match.end()
    return 0


def unbraced(text: str) -> str | None:
    """One fraction or one number, whole; TeX would box less, and an author who writes more meant more."""
    fraction, number = _FRACTION.match(text), _BARE.match(text)
    end = number.end() if number else 0
    if fraction:
        end = argument(text, fraction.end())
        end = argument(text, end) if end else 0
    return text[:end].strip() if end and not _GOES_ON.match(text, end) else None


def argument(text: str, start: int) -> int:
    """Where the argument of a command ends, a group or one character; 0 if there is none."""
    rest = text[start:].lstrip()
    length = braced(rest) if rest.startswith("{") else int(rest[:1].isalnum())
    return len(text) - len(rest) + length if length else 0
