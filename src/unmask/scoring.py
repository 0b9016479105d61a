"""Finding the final answer in a response and comparing it: small pure functions, shared by the tasks."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

# A sign, a dollar sign in either order with it, digits with optional thousands commas, an optional fraction.
_NUMBER = r"[-+]?\s?\$?\s?[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|[-+]?\$?\.\d+"
# The whole of it: `5` is not the answer in `5/6`, `5-6`, `1,80`, `1e3` or `1.2.3`.
_HASH_ANSWER = re.compile(rf"####\s*({_NUMBER})(?!\d|[.,:]\d|[eE][-+]?\d|[ \t]*[-+*/^=×÷][ \t]*[$\d])")


def extract_hash_answer(text: str) -> str | None:
    """The number after the last `####` as written, or None; an earlier one does not stand in for a bad last one."""
    last = text.rfind("####")
    if last < 0:
        return None
    match = _HASH_ANSWER.match(text, last)
    return match.group(1).strip() if match else None


def parse_number(text: str) -> Decimal | None:
    """The value of `18`, `18.0`, `$18`, `-3` or `1,800`; None for anything else (`1,80`, `18 apples`, `1e3`)."""
    if not re.fullmatch(_NUMBER, text.strip()):
        return None
    try:
        return Decimal(re.sub(r"[$,\s]", "", text))
    except InvalidOperation:  # two signs
        return None


def numbers_equal(a: str, b: str) -> bool:
    """Whether both are numbers of the same value, however they are written."""
    x, y = parse_number(a), parse_number(b)
    return x is not None and x == y


_FENCE = re.compile(r"```[ \t]*([\w+#-]*)[ \t]*\r?\n(.*?)(?:```|\Z)", re.DOTALL)
_PYTHON = ("", "python", "python3", "py")


def extract_code(text: str) -> str:
    """The program in a response: its first fenced block of Python, else all of it. Formatting only."""
    blocks = (block for language, block in _FENCE.findall(text) if language.lower() in _PYTHON)
    return next(blocks, text).strip("\r\n")


_BOX = re.compile(r"\\(?:boxed|fbox)\s*")


def extract_boxed(text: str) -> str | None:
    """What the last `\\boxed{...}` (or `\\boxed 7`) holds, braces balanced; None if it is missing or never closed."""
    matches = list(_BOX.finditer(text))
    if not matches:
        return None
    rest = text[matches[-1].end() :]
    if not rest.startswith("{"):
        word = re.match(r"[^\s$\\{}.,;]+", rest)
        return word.group(0) if word else None
    depth = 0
    for match in re.finditer(r"\\.|[{}]", rest, re.DOTALL):  # an escaped brace is not a brace
        depth += {"{": 1, "}": -1}.get(match.group(0), 0)
        if depth == 0:
            return rest[1 : match.start()].strip() or None
    return None
