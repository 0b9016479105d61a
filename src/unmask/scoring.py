"""Finding the final answer in a response and comparing it: small pure functions, shared by the tasks."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

# A sign, a dollar sign in either order with it, digits with optional thousands commas, an optional fraction.
_NUMBER = r"[-+]?\s?\$?\s?[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|[-+]?\$?\.\d+"
_HASH_ANSWER = re.compile(rf"####\s*({_NUMBER})")


def extract_hash_answer(text: str) -> str | None:
    """The number after the last `####`, as written, or None. An earlier `####` does not stand in for a bad last one."""
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
