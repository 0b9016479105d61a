"""Outside the sandbox: choose the walls, start the guest, watch the clock, read one verdict."""

from __future__ import annotations

import marshal
import math
import os
import platform
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from unmask.sandbox import guest_wire as wire

LEVELS = ("bubblewrap", "namespaces", "landlock", "limits")  # strongest first; the last is no wall at all
HERE = Path(__file__).parent
GUEST = ("guest_wire", "guest_court", "guest_syscalls", "guest")  # in the order they import each other
VERDICT_LIMIT = 64 * 1024
KEPT_OUTPUT = 64 * 1024  # bytes of what a program prints that are kept
MOST_OUTPUT = 4 << 20  # bytes it may print before it is stopped
MOST_PATIENCE = 4  # times the wall limit: the end, however busy the machine is
# One seed for every run: what a program prints from a set of words is then the same at every visit.
ENVIRONMENT = {"PYTHONHASHSEED": "0"}


@dataclass(frozen=True)
class Limits:
    cpu: float = 10.0  # seconds of processor time: the same verdict on a busy machine and an idle one
    wall: float = 30.0  # seconds, start of the sandbox included, without those spent waiting for a processor
    memory_mb: int = 1024
    file_mb: int = 1  # of one file
    scratch_mb: int = 16  # of all files; where the walls give it a scratch folder
    processes: int = 64  # only where no system call filter keeps it to one


@dataclass(frozen=True)
class Ending:
    """How a guest ended. `verdict` is None where it could not give one."""

    verdict: dict[str, Any] | None
    output: str
    problem: str  # "" | "time" | "output"


def execute(job: dict[str, Any], limits: Limits, level: str) -> Ending:
    with tempfile.TemporaryDirectory(prefix="unmask-", ignore_cleanup_errors=True) as folder:
        if os.name == "posix" and os.geteuid() == 0:
            Path(folder).chmod(0o755)  # the program may run as nobody
        with tempfile.TemporaryFile() as question:
            question.write(wire.counted(wire.encode(job)))
            question.seek(0)
            process = subprocess.Popen(
                command(level, limits, Path(folder)), stdin=question, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, cwd="/", env=ENVIRONMENT, start_new_session=True,
            )  # fmt: skip
        try:
            return watch(process, limits.wall)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()


def watch(process: subprocess.Popen[bytes], seconds: float) -> Ending:
    """Read the verdict and the output, bounded in time and in bytes, until the verdict's pipe closes."""
    verdict, output, printed = b"", b"", 0
    start = time.monotonic()
    end, last = start + seconds, start + MOST_PATIENCE * seconds
    with selectors.DefaultSelector() as selector:
        assert process.stdout is not None and process.stderr is not None
        selector.register(process.stdout, selectors.EVENT_READ)
        selector.register(process.stderr, selectors.EVENT_READ)
        while process.stdout in {key.fileobj for key in selector.get_map().values()}:
            left = end - time.monotonic()
            if left <= 0:
                end = min(start + seconds + starved(process.pid), last)
                left = end - time.monotonic()
            if left <= 0:
                return Ending(None, text(output), "time")
            for key, _ in sorted(selector.select(left), key=lambda ready: ready[0].fileobj is process.stdout):
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    verdict = (verdict + data)[:VERDICT_LIMIT]
                else:
                    printed += len(data)
                    output = (output + data)[:KEPT_OUTPUT]
                    if printed > MOST_OUTPUT:
                        return Ending(None, text(output), "output")
    try:
        return Ending(wire.decode(verdict[8:]), text(output), "")
    except ValueError:
        return Ending(None, text(output), "")


def starved(pid: int) -> float:
    """Seconds that a process and its descendants were ready to run and had no processor (0 where nobody counts).

    Without them the wall clock measures the machine's other work, and a verdict would depend on it.
    """
    try:
        waited = int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError, ValueError):
        return 0.0
    return waited + sum(starved(int(child)) for child in children)


def text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# --- walls --------------------------------------------------------------------------------------------------


def command(level: str, limits: Limits, folder: Path) -> list[str]:
    config = {
        "level": level,
        "paths": paths(),
        "root": str(folder),
        "last": math.ceil(MOST_PATIENCE * limits.wall) + 1,
        "work": {"bubblewrap": "/scratch", "namespaces": "/scratch", "landlock": "/"}.get(level, str(folder)),
        "scratch": limits.scratch_mb << 20,
        "memory": limits.memory_mb << 20,
        "cpu": max(1, round(limits.cpu)),
        "file_size": limits.file_mb << 20,
        "processes": limits.processes,
        "filter": filtered(),
        "nobody": level in ("bubblewrap", "namespaces") or open_to_all(),
    }
    if level == "limits":
        folder.chmod(0o555)  # nothing limits how many files a program makes: so it makes none, as with Landlock
    python = [interpreter(), "-P", "-s", "-S", "-B", "-X", "utf8", "-c", boot(), marshal.dumps(config).hex()]
    return [*bubblewrap(), *python] if level == "bubblewrap" else python


def bubblewrap() -> list[str]:
    walls = [shutil.which("bwrap") or "bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
    walls += ["--clearenv", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox", "--cap-drop", "ALL"]
    if os.geteuid() == 0 or not Path(walls[0]).stat().st_mode & stat.S_ISUID:
        walls += ["--cap-add", "CAP_SYS_ADMIN"]  # for the scratch folder: the guest mounts it, then gives this up
    for name, value in ENVIRONMENT.items():
        walls += ["--setenv", name, value]
    for path in [*paths(), interpreter()]:
        walls += ["--ro-bind", path, path]
    walls += ["--dev-bind", "/dev/null", "/dev/null", "--dev-bind", "/dev/urandom", "/dev/urandom"]
    return [*walls, "--dir", "/scratch", "--remount-ro", "/", "--chdir", "/"]


@cache
def interpreter() -> str:
    """The interpreter under the virtual environment: it needs no file of the user's."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@cache
def paths() -> list[str]:
    """What a bare interpreter reads: its standard library and the system's shared libraries."""
    wanted = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store", "/etc/ld.so.cache"]
    wanted += [os.path.realpath(Path(os.__file__).parent), os.path.realpath(Path(sys.base_prefix) / "lib")]
    kept: list[str] = []
    for path in sorted({path for path in wanted if Path(path).exists()}, key=len):
        if not any(path.startswith(other + "/") and not Path(other).is_symlink() for other in kept):
            kept.append(path)
    return kept


@cache
def open_to_all() -> bool:
    """Whether the user `nobody` can read what the interpreter needs (not, where that is installed in root's home)."""
    wanted = [Path(path) for path in (*paths(), interpreter())]
    folders = {folder for path in wanted for folder in (path if path.is_dir() else path.parent, *path.parents)}
    return all(path.stat().st_mode & 0o004 for path in wanted) and all(f.stat().st_mode & 0o001 for f in folders)


@cache
def filtered() -> bool:
    """Whether there is a system call filter for this machine."""
    from unmask.sandbox import guest_syscalls

    return platform.system() == "Linux" and guest_syscalls.supported()


@cache
def boot() -> str:
    """The guest's modules, compiled once here, as one argument: inside the walls there is no package to import."""
    codes = []
    for name in GUEST:
        source = (HERE / f"{name}.py").read_text(encoding="utf-8")
        codes.append((name, compile(source, f"{name}.py", "exec", dont_inherit=True, optimize=2)))
    return (
        "import marshal, sys\n"
        "new = type(sys)\n"
        "package = sys.modules['unmask.sandbox'] = new('unmask.sandbox')\n"
        "sys.modules['unmask'] = new('unmask')\n"
        f"for name, code in marshal.loads(bytes.fromhex('{marshal.dumps(codes).hex()}')):\n"
        "    module = sys.modules['unmask.sandbox.' + name] = new(name)\n"
        "    setattr(package, name, module)\n"
        "    exec(code, module.__dict__)\n"
        "module.main(marshal.loads(bytes.fromhex(sys.argv[1])))\n"
    )
