"""How the embedded model's tokenizer cuts text; the generators use it to keep every example within the canvas.

Every character falls in exactly one piece, so joining the pieces gives the text back byte for byte.
"""

from __future__ import annotations

import re

# Ordered alternatives: a newline; indentation; a word with at most one space before it; an operator or any other
# single character, likewise; one digit. A space that none of them took (before a digit, mostly) stands alone.
PATTERN = (
    r"\n| {16}| {12}| {8}| {4}"
    r"| ?[A-Za-z]+"
    r"| ?(?:####|//=|//|\*\*|[=!<>+*%-]=|[^A-Za-z0-9 \n])"
    r"|[0-9]| "
)
_PIECE = re.compile(PATTERN)

# The chat template spends 12 tokens of the model's 96 on its headers; a response leaves room for its end marker.
PROMPT_LIMIT = 84
RESPONSE_LIMIT = 140


def pieces(text: str) -> list[str]:
    """The pieces of `text` in order."""
    return _PIECE.findall(text)


def fits(prompt: str, response: str) -> bool:
    """Whether both sides of an example stay within the embedded model's context."""
    return len(_PIECE.findall(prompt)) <= PROMPT_LIMIT and len(_PIECE.findall(response)) <= RESPONSE_LIMIT
