"""Run generated Python in a child process that is short-lived, small, and has nothing to take.

What it does: a fresh interpreter without site-packages and environment, in an empty temporary directory, with limits
on CPU time, memory, file size and open files, no standard input, bounded output, and a wall-clock limit after which
its whole process group is killed. Where the kernel permits (`level() == "namespaces"`), also in its own user, network
and process namespaces: no network, and no process can outlive it by leaving the group.

Success is a secret that the child passes back over its own pipe after the last line has run. Printing "passed",
`sys.exit()` and `os._exit(0)` do not produce it.

What it does not do: it is no defence against code written to break out. The child can read whatever the user can
read, a program that inspects the runner's frames can find the pipe and forge the secret, and without namespaces it
can reach the network. Run code you distrust in a container or a virtual machine.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

STDOUT_LIMIT = 64 * 1024  # bytes kept of what a program prints
FILE_LIMIT = 1024 * 1024  # bytes any file of it may have, its standard output included
_POLL = 0.002
_NAMESPACES = (shutil.which("unshare") or "", "--user", "--map-root-user", "--net", "--pid", "--fork", "--kill-child")

# Runs in the child. The secret waits in a pipe and is read only when the program has come to its end.
_CHILD = """
import os, resource, sys, traceback
source, secret, done, cpu, memory, file_size = sys.argv[1], *map(int, sys.argv[2:])
def limit(kind, value):
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
limit(resource.RLIMIT_AS, memory)
limit(resource.RLIMIT_CPU, cpu)
limit(resource.RLIMIT_FSIZE, file_size)
limit(resource.RLIMIT_NOFILE, 64)
limit(resource.RLIMIT_NPROC, 64)
limit(resource.RLIMIT_CORE, 0)
with open(source) as file:
    text = file.read()
try:
    exec(compile(text, "program.py", "exec"), {"__name__": "__main__"})
    sys.stdout.flush()
except BaseException as error:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == "program.py"]
    line = frames[-1].lineno if frames else getattr(error, "lineno", None)
    where = f" (line {line}: {text.splitlines()[line - 1].strip()})" if line else ""
    message = f"{type(error).__name__}: {error}".rstrip(": ")
    os.write(done, ("!" + message[:300] + where[:300]).encode("utf-8", "replace"))
else:
    os.write(done, os.read(secret, 64))
"""


@dataclass(frozen=True)
class Outcome:
    """`passed` only if the program ran to its end. `reason` is "passed" or what went wrong, in one line."""

    passed: bool
    reason: str
    stdout: str = ""


@cache
def level() -> str:
    """The isolation this machine gives: "namespaces" (no network, own process tree) or "process"."""
    if not _NAMESPACES[0]:
        return "process"
    probe = subprocess.run([*_NAMESPACES, "true"], capture_output=True, timeout=10, check=False)
    return "namespaces" if probe.returncode == 0 else "process"


def run(code: str, *, timeout: float = 5.0, memory_mb: int = 512) -> Outcome:
    """Run `code` to its end, or to its first error, or for at most `timeout` seconds."""
    with tempfile.TemporaryDirectory(prefix="unmask-", ignore_cleanup_errors=True) as folder:
        return _run_in(Path(folder), code, timeout, memory_mb)


def run_many(programs: Iterable[str], workers: int | None = None, **limits: float) -> list[Outcome]:
    """`run` each program, several at a time; outcomes in the order of the programs."""
    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as pool:
        return list(pool.map(lambda code: run(code, **limits), programs))  # type: ignore[arg-type]


def _run_in(folder: Path, code: str, timeout: float, memory_mb: int) -> Outcome:
    secret = secrets.token_hex(16).encode()
    source, printed = folder / "source", folder / "stdout"
    source.write_text(code, encoding="utf-8", errors="replace")
    secret_out, secret_in = os.pipe()
    done_out, done_in = os.pipe()
    os.write(secret_in, secret)
    os.close(secret_in)
    prefix = [*_NAMESPACES] if level() == "namespaces" else []
    arguments = [source, secret_out, done_in, int(timeout) + 1, memory_mb << 20, FILE_LIMIT]
    work = folder / "work"
    work.mkdir()
    try:
        with printed.open("wb") as stdout:
            process = subprocess.Popen(
                [*prefix, sys.executable, "-I", "-S", "-E", "-c", _CHILD, *map(str, arguments)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=subprocess.DEVNULL,
                cwd=work,
                env={},
                pass_fds=(secret_out, done_in),
                start_new_session=True,
            )
        in_time = _wait(process, timeout)
        os.set_blocking(done_out, False)  # a process left behind may still hold the other end
        try:
            message = os.read(done_out, 4096)
        except BlockingIOError:
            message = b""
    finally:
        for descriptor in (secret_out, done_out, done_in):
            os.close(descriptor)
    with printed.open("rb") as file:
        stdout_text = file.read(STDOUT_LIMIT).decode("utf-8", "replace")
    if not in_time:
        return Outcome(False, f"timed out after {timeout:g} s", stdout_text)
    if message == secret and process.returncode == 0:
        return Outcome(True, "passed", stdout_text)
    return Outcome(False, _reason(message, process.returncode), stdout_text)


def _wait(process: subprocess.Popen[bytes], timeout: float) -> bool:
    """Wait for the end, then kill whatever is left of the group. False if the time ran out first."""
    end = time.monotonic() + timeout
    try:
        while process.poll() is None:
            if time.monotonic() > end:
                return False
            time.sleep(_POLL)
        return True
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _reason(message: bytes, returncode: int) -> str:
    if message.startswith(b"!"):
        return message[1:].decode("utf-8", "replace").replace("\n", " ")
    if returncode < 0 or returncode > 128:
        number = -returncode if returncode < 0 else returncode - 128
        names = {s.value: s.name for s in signal.Signals}
        return f"killed by {names.get(number, f'signal {number}')}"
    return "exited before the end"
