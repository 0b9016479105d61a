"""What generated code may not do, each tried for real, at every level that this machine offers."""

# ruff: noqa: F811 (`level` is a fixture: what uses it names it again)
from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import pytest

from sandboxing import CHEATS, DAMAGE, REFUSED, RIGHT, SOON, judge, level  # noqa: F401
from unmask import sandbox
from unmask.sandbox import host


@pytest.mark.parametrize("attack", CHEATS)
def test_no_cheat_passes(attack):
    assert not judge(CHEATS[attack]).passed


NO_ANSWER = {
    "exits": "def f(x):\n    import os\n    os._exit(0)",
    "hangs up": "def f(x):\n    import os\n    os.closerange(3, 300)",
    "answers no value": "def f(x):\n    import os\n    os.write(201, bytes(8))\n    os.write(201, bytes(8))",
}


@pytest.mark.parametrize("way", NO_ANSWER)
def test_a_test_that_expects_some_error_is_not_passed_by_giving_no_answer(way):
    tests = "try:\n    f(1)\nexcept Exception:\n    pass\nelse:\n    assert False"
    assert judge("def f(x):\n    raise KeyError(x)", tests).passed
    outcome = judge(NO_ANSWER[way], tests)
    assert not outcome.passed and outcome.reason != "passed"


@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are those of x86-64")
@pytest.mark.parametrize("attack", REFUSED)
def test_what_is_refused(attack, level):
    outcome = sandbox.run(REFUSED[attack])
    assert not outcome.passed and ("PermissionError" in outcome.reason or "OSError: [Errno 22]" in outcome.reason), (
        outcome
    )


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """Things a program outside the sandbox must not be able to touch, and a server it must not reach."""
    import socket

    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "id_test").write_text("private")
    canary = tmp_path / "canary"
    canary.write_text("alive")
    for path in (tmp_path, home, canary, home / ".ssh", home / ".ssh" / "id_test", *tmp_path.parents[:3]):
        if path.stat().st_uid == os.getuid() and path != Path("/tmp"):
            path.chmod(0o777)  # nothing but the sandbox protects them
    monkeypatch.setenv("UNMASK_TEST_SECRET", "secret")
    monkeypatch.setenv("HOME", str(home))
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(0)
        yield {"canary": str(canary), "home": str(home), "port": server.getsockname()[1]}
        with pytest.raises(BlockingIOError):  # nobody came
            server.accept()
    assert canary.read_text() == "alive" and canary.stat().st_mtime > 1e9
    assert not Path(f"{canary}.new").exists()


@pytest.mark.parametrize("attack", DAMAGE)
def test_no_damage_is_done(attack, level, outside):
    code = DAMAGE[attack].format(**outside)
    code += "" if "def f(" in code else "\n" + RIGHT.replace("x + 1", "x")
    start = time.monotonic()
    outcome = judge(code)
    assert not outcome.passed
    assert time.monotonic() - start < host.MOST_PATIENCE * SOON.wall + 3
    assert len(outcome.stdout) <= sandbox.STDOUT_LIMIT


def test_the_attacks_are_real(outside):
    """The same harmless ones, without a sandbox: they succeed, so that a failure above means something."""
    for attack in (
        "reads a file",
        "reads ~/.ssh",
        "lists the home folder",
        "reads the environment",
        "reads passwords",
    ):
        exec(DAMAGE[attack].format(**outside), {})
