"""Symbolic equivalence of two LaTeX answers, with math-verify, in a process of its own that can be killed.

An answer such as `10^{10^{10}}` keeps a computer algebra system busy for ever, and signals (math-verify's own
limit) neither reach a thread nor interrupt C code. The worker is started once and replaced when it hangs or dies.
"""

from __future__ import annotations

import atexit
import json
import math
import re
import selectors
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec
from typing import Any

from unmask.errors import UserError

SECONDS = 5.0
START_SECONDS = 60.0  # sympy's import on a busy machine
MEMORY = 4 << 30
LONGEST = 2000  # characters; a longer final answer is no answer, and the parser is superlinear

_DOLLAR = re.compile(r"(?<!\\)\$")
_OUTER = re.compile(r"^\$+|(?<!\\)\$+$")
_COMMA = re.compile(r"\s*(?:[,;]|,?\s*\b(?:and|or)\b)\s*")  # between formulas
_TEXT = re.compile(r"\\(?:text|textrm|mathrm|mbox)\{([^{}]*)\}")
_BASED = re.compile(r"\(?(\d+)\)?(?:_\{?\(?(\w+)\)?\}?)?")
BASES = dict(zip("two three four five six seven eight nine ten eleven twelve".split(), range(2, 13), strict=True))
_SPACING = re.compile(r"\\[!,;:> ]|\\q?quad\b|\\left\b|\\right\b|[\s$~]|\\displaystyle\b")


def require() -> None:
    """Refuse early what cannot work: before any example is decoded."""
    if find_spec("math_verify") is None:
        raise UserError("math500 compares answers with math-verify: pip install 'unmask[eval]'")


def math_equal(gold: str, answer: str, seconds: float = SECONDS) -> tuple[bool, str]:
    """(equivalent, why not if something was odd). The gold answer comes first: comparison is not symmetric."""
    plain = without_dollars(answer)
    if plain is None:
        return False, "the answer is more than one formula"
    answer = plain
    if spelling(gold) == spelling(answer):
        return True, ""
    if len(answer) > LONGEST:
        return False, f"the answer has {len(answer)} characters"
    if "_" in gold or "_" in answer:
        bases = base(gold), base(answer)
        # math-verify reads past a base. One that is not named is ten; what has none at all is no such number.
        if bases[0] is not None and (bases[0][1] != 10 or bases[1] is not None):
            return bases[0] == bases[1], ""
    require()
    reply = _worker.ask([gold, answer], seconds)
    if isinstance(reply, bool):
        return reply, ""
    return False, reply


def spelling(text: str) -> str:
    """LaTeX without what only changes its looks: spacing, delimiter sizes, \\dfrac for \\frac, a final full stop."""
    text = _SPACING.sub("", text.strip())
    return re.sub(r"\\[dt]frac\b", r"\\frac", text).rstrip(".")


def without_dollars(text: str) -> str | None:
    """An answer without its own math delimiters: of several formulas the parser would take the last. None where they
    are no list."""
    parts = _DOLLAR.split(_OUTER.sub("", text.strip()))
    if len(parts) % 2 and not all(_COMMA.fullmatch(between) for between in parts[1::2]):
        return None
    return " ".join(_COMMA.sub(", ", part) if number % 2 else part for number, part in enumerate(parts)).strip()


def base(text: str) -> tuple[int, int] | None:
    """`2516_8` and `2516_{\\text{eight}}` as (2516, 8), `2516` as (2516, 10); None for anything else."""
    match = _BASED.fullmatch(_TEXT.sub(r"\1", spelling(text)))
    if match is None:
        return None
    digits, named = match.groups(default="10")
    number = BASES.get(named) or (int(named) if named.isdecimal() else None)
    return None if number is None else (int(digits), number)


def sides(answer: str) -> list[str]:
    """The sides of an equation between numbers, each of which is claimed to be the answer: `4=5` is not 5."""
    parts = answer.split("=")
    letters = re.sub(r"\\(?:[dt]?frac|sqrt|cdot|times|div|left|right)\b", "", "".join(parts))
    return parts if len(parts) > 1 and not re.search(r"[A-Za-z\\<>]", letters) else [answer]


class Worker:
    """The other process, one question at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, question: Any, seconds: float) -> bool | str:
        with self._lock:
            process = self._start()
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(json.dumps([*question, seconds]).encode() + b"\n")
                process.stdin.flush()
                answer = self._read(process, seconds)
            except OSError:
                answer = b""
            except BaseException:  # Ctrl-C: its late answer must not meet the next question
                self._kill()
                raise
            if answer is None:
                self._kill()
                return f"the comparison took longer than {seconds:g} s"
            if not answer:
                self._kill()
                return "the comparison ran out of memory or crashed"
            return json.loads(answer)

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            # A session of its own: the user's Ctrl-C is for us to handle.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "unmask.symbolic"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            if self._read(self._process, START_SECONDS) != b"ready\n":
                self._kill()
                raise UserError("math-verify could not be started: run python -m unmask.symbolic to see why")
        return self._process

    def _read(self, process: subprocess.Popen[bytes], seconds: float) -> bytes | None:
        """One line, b"" at its death, None if the time ran out."""
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            return process.stdout.readline() if selector.select(seconds) else None

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
        self._process = None


_worker = Worker()
atexit.register(_worker._kill)


def compare(gold: str, answer: str) -> bool | str:
    """The worker's side: math-verify's verdict, or why there is none."""
    from math_verify import parse, verify

    try:
        # Its own time limits need the main thread's alarm and are of no use against C code: ours is the kill.
        expected, *claims = [parse(f"${text}$", parsing_timeout=None) for text in (gold, *sides(answer))]
        if not all(claims):
            return "the answer is not readable as mathematics"
        return all(verify(expected, claim, timeout_seconds=None) for claim in claims)
    except Exception as error:
        return f"the comparison failed ({type(error).__name__})"


def serve() -> None:
    import resource

    import math_verify  # noqa: F401 (paid for before the first question's clock starts)

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    replies, sys.stdout = sys.stdout, sys.stderr  # whatever a library prints, it is no reply
    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        gold, answer, seconds = json.loads(line)
        # Should the evaluation be killed in the middle of a question: with no handler, this ends C code, too.
        signal.alarm(math.ceil(seconds) + 1)
        print(json.dumps(compare(gold, answer)), file=replies, flush=True)
        signal.alarm(0)


if __name__ == "__main__":
    serve()
