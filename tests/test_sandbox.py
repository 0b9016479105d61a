"""What generated code may not do, each tried for real."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from unmask import sandbox


def test_a_program_that_ends_passes():
    outcome = sandbox.run("print('hello')\nassert 1 + 1 == 2")
    assert outcome == sandbox.Outcome(True, "passed", "hello\n")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("x = 1\nassert x == 2", "AssertionError (line 2: assert x == 2)"),
        ("def f(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero (line 1: 1 / 0)"),
        ("import sys\nsys.exit()", "SystemExit"),
        ("print('passed')\nraise SystemExit(0)", "SystemExit"),
        ("import os\nos._exit(0)", "exited before the end"),
        ("print('passed')\nimport os\nos._exit(0)", "exited before the end"),
        ("import os\nos.kill(os.getpid(), 9)\nimport time\ntime.sleep(9)", ""),
        ("x = [0] * 10**10", "MemoryError"),
        ("x = []\nwhile True:\n    x.append('a' * 10**6 + str(len(x)))", "MemoryError"),
        ("def f():\n    f()\nf()", "RecursionError"),
        ("while True:\n    print('x' * 1000)", "File too large"),
        ("import sys\nsys.stdin.readline()\nraise ValueError(input())", "EOFError"),
    ],
)
def test_a_program_that_does_not_end_well_fails(code, reason):
    outcome = sandbox.run(code, timeout=1)
    assert not outcome.passed and reason in outcome.reason
    assert len(outcome.stdout) <= sandbox.STDOUT_LIMIT


def test_an_endless_loop_is_stopped_in_time():
    start = time.monotonic()
    outcome = sandbox.run("while True:\n    pass", timeout=0.3)
    assert not outcome.passed and "timed out" in outcome.reason
    assert time.monotonic() - start < 2


def test_a_loop_that_catches_everything_is_stopped_too():
    code = "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass"
    assert "timed out" in sandbox.run(code, timeout=0.3).reason


def test_a_background_process_is_killed(tmp_path):
    """It would write a file a little later; killed with its group, it never does."""
    mark = tmp_path / "alive"
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    time.sleep(0.4)\n"
        f"    open({str(mark)!r}, 'w').close()\n"
        "    os._exit(0)\n"
    )
    start = time.monotonic()
    assert sandbox.run(code).passed
    assert time.monotonic() - start < 0.4, "waits for the program, not for what it left behind"
    time.sleep(0.6)
    assert not mark.exists()


def test_each_program_starts_in_an_empty_place_with_no_environment(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    code = "import os\nassert os.listdir('.') == []\nassert 'SECRET_TOKEN' not in os.environ\nprint(os.getcwd())"
    outcome = sandbox.run(code)
    assert outcome.passed and not Path(outcome.stdout.strip()).exists()


def test_the_interpreter_has_no_site_packages():
    assert "ModuleNotFoundError" in sandbox.run("import torch").reason


@pytest.mark.skipif(sandbox.level() != "namespaces", reason="this kernel grants no namespaces")
def test_there_is_no_network():
    code = "import socket\nsocket.create_connection(('127.0.0.1', 9), 0.2)"
    outcome = sandbox.run(code)
    assert not outcome.passed and "OSError" in outcome.reason


def test_many_programs_come_back_in_order():
    programs = [f"assert {i} % 2 == 0" for i in range(8)]
    assert [o.passed for o in sandbox.run_many(programs, workers=2)] == [True, False] * 4


def test_a_run_is_cheap():
    sandbox.run("pass")
    times = []
    for _ in range(5):
        start = time.monotonic()
        sandbox.run("pass")
        times.append(time.monotonic() - start)
    assert min(times) < 0.06


def test_descriptors_are_not_leaked():
    folder = Path("/dev/fd")
    before = len(list(folder.iterdir()))
    for _ in range(5):
        sandbox.run("pass")
    assert len(list(folder.iterdir())) <= before
