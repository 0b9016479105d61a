"""What a run leaves behind (nothing), and whose time its clock counts."""

# ruff: noqa: F811 (`level` is a fixture: what uses it names it again)
from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandboxing import RIGHT, judge, level  # noqa: F401
from unmask.sandbox import guest_wire, host


@pytest.mark.parametrize("victim", ["judge", "run"])
def test_a_killed_evaluation_leaves_no_guest_behind(level, victim, tmp_path):
    call = f"judge({RIGHT + 'import time; time.sleep(60)'!r}, 'f(1)', names=['f'])"
    if victim == "run":
        call = "run('while True: pass', timeout=60)"
    code = f"from unmask import sandbox\nsandbox.level = lambda: {level!r}\nsandbox.{call}"
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)})
    wait_until(lambda: len(guests(tmp_path)) >= 2)  # a judge and a candidate, and what walls need
    process.kill()
    process.wait()
    wait_until(lambda: not guests(tmp_path))


def test_a_guest_whose_host_is_gone_already_ends_itself(level, tmp_path):
    """Killed between starting a guest and the guest's asking to die with it."""
    question = tmp_path / "question"
    question.write_bytes(guest_wire.counted(guest_wire.encode({"code": "while True: pass", "tests": ""})))
    with question.open("rb") as stdin:
        start = host.command(level, host.Limits(), tmp_path)
        process = subprocess.Popen(start, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={})
        process.stdout.close()
        assert process.wait(timeout=30) != 0


def wait_until(true):
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_waiting_for_a_processor_is_not_the_programs_fault(monkeypatch):
    slow = "import time\ntime.sleep(1)\n" + RIGHT
    short = host.Limits(cpu=5, wall=0.6)
    assert judge(slow, limits=short).reason == "timed out after 0.6 s"
    monkeypatch.setattr(host, "starved", lambda pid: 1.0)
    assert judge(slow, limits=short).passed
    monkeypatch.setattr(host, "starved", lambda pid: 1e9)
    start = time.monotonic()
    assert not judge(slow.replace("1", "60", 1), limits=short).passed
    assert host.MOST_PATIENCE * 0.6 <= time.monotonic() - start < 10


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the kernel does not count")
def test_the_time_without_a_processor_is_counted():
    """Three processes that spin on one core: each is kept waiting for about two thirds of the time."""
    core = str(min(os.sched_getaffinity(0)))
    spin = [sys.executable, "-c", f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"]
    start = time.monotonic()
    processes = [subprocess.Popen(spin) for _ in range(3)]
    time.sleep(1)
    waited, passed = [host.starved(process.pid) for process in processes], time.monotonic() - start
    assert host.starved(os.getpid()) >= sum(waited) / 2, "descendants count"
    for process in processes:
        process.kill()
        process.wait()
    assert passed < sum(waited) < 3 * passed
    assert host.starved(processes[0].pid) == 0


def test_nothing_is_left_running(level, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for code in ("import time\ntime.sleep(60)", "while True: pass", RIGHT):
        judge(code, limits=host.Limits(cpu=1, wall=0.5))
    wait_until(lambda: not guests(tmp_path))


def guests(folder: Path) -> set[str]:
    """Processes with the command line of a guest whose root is in this folder."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if os.fsencode(folder).hex().encode() in path.read_bytes():
                found.add(path.parent.name)
        except OSError:
            continue
    return found


def test_no_scratch_folder_is_left_behind(level, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    judge("open('x', 'w').write('y')\n" + RIGHT)
    assert list(tmp_path.iterdir()) == []


def test_descriptors_are_not_leaked(level):
    folder = Path("/dev/fd")
    judge(RIGHT)
    before = len(list(folder.iterdir()))
    for _ in range(3):
        judge(RIGHT)
    assert len(list(folder.iterdir())) <= before
