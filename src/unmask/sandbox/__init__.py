"""Run generated Python where it can do no harm, and judge it where it cannot cheat.

    judge("def f(x): return x + 1", "assert f(1) == 2", names=["f"])     # Outcome(passed=True, ...)

Walls, by what the system offers: `bubblewrap`, `namespaces` (our own, without that program), `landlock` (with a
system call filter), or `limits`, which are no walls and have to be accepted with `allow_weak`. Behind them a
program has no network, no file but the interpreter's own and at most a small scratch folder, no environment, no
other process to see or start, and limits on processor time, wall time, memory, files and output. docs/evaluation.md
says what each level withstands.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from unmask.errors import UserError, unknown
from unmask.sandbox.host import KEPT_OUTPUT, LEVELS, Limits, execute

WEAK = "limits"
STDOUT_LIMIT = KEPT_OUTPUT


@dataclass(frozen=True)
class Outcome:
    """`passed` only if the program, and the tests where there are any, ran to their end. `reason` is one line."""

    passed: bool
    reason: str
    stdout: str = ""


_weak_allowed = os.environ.get("UNMASK_ALLOW_WEAK_SANDBOX", "") == "1"


def allow_weak(yes: bool = True) -> None:
    """The user's explicit word that generated code may run with resource limits only."""
    global _weak_allowed
    _weak_allowed = yes


def require() -> str:
    """The level in force; an error where that is no protection and the user has not accepted it."""
    found = level()
    if found == WEAK and not _weak_allowed:
        raise UserError(
            "nothing here can lock generated code in (no bubblewrap, user namespaces or Landlock): install "
            "bubblewrap, or accept the risk, in a container that you can lose, with --allow-weak-sandbox"
        )
    return found


@cache
def level() -> str:
    """The strongest level that works here, found by trying; UNMASK_SANDBOX names one to use instead."""
    asked = os.environ.get("UNMASK_SANDBOX")
    if asked:
        if asked not in LEVELS:
            raise unknown("sandbox level", asked, LEVELS)
        if not works(asked):
            raise UserError(f"UNMASK_SANDBOX={asked}: this system does not offer it; leave it out to use {_best()}")
        return asked
    return _best()


def _best() -> str:
    return next(each for each in LEVELS if works(each))


@cache
def works(candidate: str) -> bool:
    """Whether a trivial program runs at this level, and can neither read nor write a file it should not."""
    if candidate == WEAK:
        return True
    with tempfile.TemporaryDirectory() as folder:
        secret = Path(folder, "secret")
        secret.write_text("x")
        Path(folder).chmod(0o777)
        probe = (
            "import fractions, json\n"  # the standard library can be read
            "def allowed(path, mode):\n"
            "    try:\n        open(path, mode).close()\n        return True\n"
            "    except OSError:\n        return False\n"
        )
        tests = f"assert not allowed({str(secret)!r}, 'r')\nassert not allowed({str(Path(folder, 'new'))!r}, 'w')"
        job = {"code": probe, "tests": tests, "names": ["allowed"], "preamble": ""}
        try:
            ending = execute(job, Limits(), candidate)
        except OSError:
            return False
        return bool(ending.verdict and ending.verdict["passed"])


def judge(
    code: str, tests: str, *, names: Sequence[str], preamble: str = "", limits: Limits | None = None
) -> Outcome:
    """Run `code`, then `tests` against it. `names` are what the tests call of it; everything else is theirs.

    The tests run beside the program, not in it: they see its results as plain data, so that no overridden
    equality, no early exit and no printed verdict can make them pass. `preamble` is trusted code they may use.
    """
    job = {"code": code, "tests": tests, "names": list(names), "preamble": preamble}
    return _outcome(job, limits or Limits())


def run(code: str, *, timeout: float = 5.0, memory_mb: int = 512) -> Outcome:
    """Run a program to its end, or to its first error, or for at most `timeout` seconds."""
    job = {"code": code, "tests": "", "names": [], "preamble": ""}
    return _outcome(job, Limits(cpu=timeout + 1, wall=timeout, memory_mb=memory_mb))


def run_many(programs: Iterable[str], workers: int | None = None, **limits: Any) -> list[Outcome]:
    """`run` each program, several at a time; outcomes in the order of the programs."""
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        return list(pool.map(lambda code: run(code, **limits), programs))


def _outcome(job: dict[str, Any], limits: Limits) -> Outcome:
    ending = execute(job, limits, require())
    if ending.problem == "time":
        return Outcome(False, f"timed out after {limits.wall:g} s", ending.output)
    if ending.problem == "output":
        return Outcome(False, "printed too much", ending.output)
    if ending.verdict is None:  # the judge itself is gone: killed for memory, or by the machine
        return Outcome(False, "ended without a verdict", ending.output)
    passed = ending.verdict.get("passed") is True
    return Outcome(passed, " ".join(str(ending.verdict.get("reason", "")).split()), ending.output)
