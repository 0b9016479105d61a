"""Code in a response: which part of a text, with or without Markdown fences, is the program. Formatting only."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

LONGEST = 20_000  # characters; a longer text is not parsed here, outside the sandbox
PYTHON = ("python", "python3", "py", "py3")
# A fence, perhaps in a list or behind a word; its language; attributes such as title="x".
_ATTRIBUTES = r"(?:[ \t]+[\w-]+=.*|[ \t]*\{.*\})?"
_FENCE = re.compile(
    rf"(?P<before>(?:(?!```|~~~).)*)(?P<fence>`{{3,}}|~{{3,}})[ \t]*\{{?\.?(?P<language>[\w+#-]*)\}}?{_ATTRIBUTES}\s*"
)
_LIST = re.compile(r"[ \t]*(?:(?:[-*+]|\d+[.)])[ \t]+)?")


@dataclass
class Block:
    """The lines between two fences. `closed` is whether the second one is there."""

    fence: str
    language: str
    before: str  # the text since the last block
    indent: int = 0
    lines: list[str] = field(default_factory=list)
    closed: bool = False

    @property
    def code(self) -> str:
        """As it stands behind the fence's own indentation (in a list item)."""
        return "\n".join(re.sub(rf"^[ \t]{{0,{self.indent}}}", "", line) for line in self.lines).strip("\r\n")

    def take(self, line: str) -> bool:
        """Whether the line still belongs here; a fence of the same kind ends the block, also behind its last line."""
        text = line.strip()
        if text.startswith(self.fence):
            self.closed = True
        elif text.endswith(self.fence):
            self.lines.append(line.rstrip()[: -len(self.fence)])
            self.closed = True
        else:
            self.lines.append(line)
        return not self.closed


def blocks(text: str) -> list[Block]:
    """Every fenced block in order. A bare one that only an opening one follows was the end of what stood before."""
    found: list[Block] = []
    current: Block | None = None
    outside: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        opening = _FENCE.fullmatch(line)
        if current is not None:
            if not (opening and opening["language"]):
                if not current.take(line):
                    current = None
                continue
            current.closed = bool(current.language)  # the next block begins where this one's end was forgotten
        if opening is None:
            outside.append(line)
            continue
        before = opening["before"]
        inside_list = _LIST.fullmatch(before)
        outside += [] if inside_list else [before]
        current = Block(
            opening["fence"], opening["language"].lower(), "\n".join(outside), len(before) * bool(inside_list)
        )
        found.append(current)
        outside = []
    return found


def extract_code(text: str, names: Sequence[str] = ()) -> str:
    """The program in a response: its fenced Python up to where `names` are defined, else all of it."""
    found = blocks(text)
    if found and not found[0].language and not found[0].closed and found[0].before.strip():
        first = found.pop(0)
        # An end without a beginning, behind the program; or a beginning behind prose, cut off by the canvas.
        if reads(first.before) or not (found or reads(first.code) or defines(first.code, names)):
            return first.before.strip("\r\n")
        found.insert(0, first)
    tagged = [block.code for block in found if block.language in PYTHON]
    if tagged:
        return first_whole(tagged, names)
    bare = [block.code for block in found if not block.language]
    readable = [code for code in bare if reads(code)]
    whole = [code for code in readable if defines(code, names)]
    return next(iter([*whole, *readable, *bare]), text.strip("\r\n"))


def first_whole(codes: Sequence[str], names: Sequence[str]) -> str:
    """The blocks up to the one that completes the definitions: imports may stand in one of their own, and what comes
    later is an example or another solution."""
    for end, last in enumerate(codes, start=1):
        joined = "\n\n".join(codes[:end])
        if defines(joined, names):
            return joined if reads(joined) else last
    return codes[0]


def defines(code: str, names: Sequence[str]) -> bool:
    """Whether every name is given a meaning at the top level; where none is asked for, whether any is."""
    if not names:
        return re.search(r"^(?:async\s+def|def|class)\s", code, re.MULTILINE) is not None
    meaning = r"^(?:(?:async\s+)?def|class)\s+{0}\b|^{0}\s*(?::[^=\n]+)?=[^=]"
    return all(re.search(meaning.format(re.escape(name)), code, re.MULTILINE) for name in names)


def reads(text: str) -> bool:
    """Whether a text is Python that does something, as a program or as the body of a function. Words alone may be
    prose."""
    if len(text) > LONGEST:
        return False
    return acts(parsed(text)) or any(acts(node.body) for node in parsed(f"def f():\n{text}"))


def acts(body: Sequence[ast.stmt]) -> bool:
    return any(not isinstance(node, ast.Expr) for node in body)


def parsed(code: str) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # escapes that Python frowns at
        try:
            return ast.parse(code).body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []
