"""Equations in a text: where they are, which of their characters are digits, and whether they hold.

An equation is `expression = number`; the expression has at least one operator. Dollar signs, thousands commas,
percent signs and brackets are understood. Step labels ("Step 3:", "2.") are no arithmetic.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from fractions import Fraction

NUMBER = r"-?\$?-?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?%?|-?\$?\.\d+%?"
OPERATOR = r"[-+*/x×÷−]"
EXPRESSION = rf"\(*(?:{NUMBER})\)*(?:\s*{OPERATOR}\s*\(*(?:{NUMBER})\)*)+"
EQUATION = re.compile(rf"(?<![\d.,])({EXPRESSION})\s*=\s*({NUMBER})")
# "Step 3:" and "2." at the start of a line are labels; so is no "36 - 31 = 5".
LABEL = re.compile(r"^[ \t]*(?:step\s*\d+\s*[.):\-–]|\d+[.)](?=\s))", re.IGNORECASE | re.MULTILINE)

TOLERANCE = Fraction(1, 100)  # 10 / 3 = 3.33 is meant to hold


@dataclass(frozen=True)
class Equation:
    """Character spans within the text it was found in."""

    left: tuple[int, int]
    right: tuple[int, int]
    text: str

    @property
    def holds(self) -> bool:
        left, _, right = self.text.partition("=")
        value, claim = evaluate(left), evaluate(right)
        return value is not None and claim is not None and abs(value - claim) <= TOLERANCE * abs(claim)


def equations(text: str) -> list[Equation]:
    """From left to right. `12 + 3 = 15` and `<<12+3=15>>` read alike."""
    return [Equation(m.span(1), m.span(2), m.group()) for m in EQUATION.finditer(without_labels(text))]


def without_labels(text: str) -> str:
    """Step labels blanked out, every other character in its place."""
    return LABEL.sub(lambda label: " " * len(label.group()), text)


def digits(text: str, start: int = 0, stop: int | None = None) -> list[int]:
    return [at for at in range(start, len(text) if stop is None else stop) if text[at] in "0123456789"]


def number(text: str) -> Fraction | None:
    """`$1,800`, `18.0`, `-3`, `40%` as a value."""
    if not re.fullmatch(NUMBER, text.strip()):
        return None
    bare = re.sub(r"[$,%\s]", "", text)
    try:
        value = Fraction(bare)
    except ValueError:  # two signs
        return None
    return value / 100 if text.strip().endswith("%") else value


def evaluate(expression: str) -> Fraction | None:
    """The value of plain arithmetic, None for anything else."""
    source = re.sub(r"[$,\s]", "", expression).translate(str.maketrans("x×÷−", "**/-"))
    source = re.sub(r"(\d*\.?\d+)%", r"(\1/100)", source)
    source = re.sub(r"(?<![\d.])0+(?=\d)", "", source)  # a leading zero is no Python
    try:
        return _value(ast.parse(source, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float() as value):
            return Fraction(str(value))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _value(left), _value(right)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.Div():
                    return a / b
    raise ValueError("not plain arithmetic")
