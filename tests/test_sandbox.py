"""What generated code may not do, each tried for real, at every level that this machine offers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unmask import sandbox
from unmask.errors import UserError
from unmask.sandbox import guest_wire, host

WALLED = [level for level in host.LEVELS if level != sandbox.WEAK and sandbox.works(level)]
TESTS = "assert f(1) == 2\nassert f(5) == 6"
RIGHT = "def f(x):\n    return x + 1\n"
SOON = host.Limits(cpu=1, wall=2.5, memory_mb=256)


@pytest.fixture(params=WALLED or [pytest.param("", marks=pytest.mark.skip(reason="no sandbox on this system"))])
def level(request, monkeypatch):
    """Each level in turn, in force for `judge` and `run`."""
    monkeypatch.setattr(sandbox, "level", lambda: request.param)
    return request.param


def judge(code, tests=TESTS, names=("f",), limits=SOON, **more):
    return sandbox.judge(code, tests, names=list(names), limits=limits, **more)


# --- right is right ---------------------------------------------------------------------------------------------


def test_a_right_solution_passes(level):
    assert judge(RIGHT) == sandbox.Outcome(True, "passed", "")


def test_a_wrong_solution_fails_and_says_where(level):
    outcome = judge("def f(x):\n    return 2")
    assert outcome == sandbox.Outcome(False, "AssertionError (line 2: assert f(5) == 6)", "")


RESULTS = [
    ("[1, (2, 3.5), {'a': {4}}]", "[1, (2, 3.5), {'a': {4}}]"),
    ("float('nan') != f(0) and 10**5000", "True and 10**5000"),
    ("b'x' + bytes(bytearray(b'y'))", "b'xy'"),
    ("range(3)", "range(3)"),
    ("frozenset([1])", "frozenset([1])"),
    ("1 + 2j", "1 + 2j"),
    ("'\\ud800 \\x00'", "'\\ud800 \\x00'"),
    ("True", "True"),
    ("None", "None"),
    ("__import__('collections').Counter('aab')", "{'a': 2, 'b': 1}"),
    ("__import__('collections').deque([1])", "__import__('collections').deque([1])"),
    ("__import__('fractions').Fraction(1, 3)", "__import__('fractions').Fraction(1, 3)"),
    ("__import__('decimal').Decimal('1.10')", "__import__('decimal').Decimal('1.1')"),
    ("__import__('datetime').date(2020, 1, 2)", "__import__('datetime').date(2020, 1, 2)"),
]


@pytest.mark.parametrize(("returned", "expected"), RESULTS)
def test_results_arrive_as_what_they_are(returned, expected):
    code = f"def f(x):\n    return {returned}" if "f(0)" not in returned else "def f(x):\n    return 10**5000"
    tests = f"assert f(1) == ({expected.replace('True and ', '')})\nassert type(f(1)) != type('')  or True"
    assert judge(code, tests).passed


def test_tests_may_use_the_solutions_own_classes():
    code = (
        "class Node:\n    def __init__(self, x):\n        self.x, self.next = x, None\ndef f(n):\n    return n.next.x"
    )
    assert judge(code, "n = Node(1)\nn.next = Node(7)\nassert f(n) == 7 and n.x == 1", names=("f", "Node")).passed


def test_iterators_are_read_where_they_are():
    assert judge("def f(n):\n    yield from range(n)", "assert list(f(3)) == [0, 1, 2]").passed


def test_expected_exceptions_can_be_caught():
    tests = "try:\n    f(0)\nexcept ZeroDivisionError:\n    pass\nelse:\n    assert False"
    assert judge("def f(x):\n    return 1 / x", tests).passed


def test_the_preamble_is_the_judges_own():
    code = "def helper(x):\n    return 99\ndef f(x):\n    return x + 1"
    assert judge(code, "assert helper(f(1)) == 4", preamble="def helper(x):\n    return 2 * x").passed


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.integers() | st.text(), inner)
        | st.sets(st.integers() | st.text())
        | st.frozensets(st.integers())
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_plain_values_travel_unchanged(value):
    found = guest_wire.decode(guest_wire.encode(value))
    assert found == value and type(found) is type(value)


@given(st.binary(max_size=200) | PLAIN.map(guest_wire.encode).flatmap(lambda d: st.just(d[:-1]) | st.just(d + b"N")))
def test_malformed_messages_are_refused(data):
    """Whatever the candidate sends: a plain value or a ValueError, never a crash."""
    try:
        value = guest_wire.decode(data)
    except ValueError:
        return
    guest_wire.encode(value)


@pytest.mark.parametrize("data", [b"l" * 5000, b"l" + b"\xff" * 8, b"s" + b"\x7f" * 8, b"x", b"h" + b"i" * 9])
def test_hostile_lengths_and_depths_are_refused(data):
    with pytest.raises(ValueError, match="not a value"):
        guest_wire.decode(data)


# --- attacks: each must end as a plain failure, in time -----------------------------------------------------------

CHEATS = {
    "prints a fake verdict": "print('passed'); print('{\"passed\": true}')\ndef f(x): print('passed'); return 0",
    "writes a fake verdict everywhere": (
        'import os\nfor d in range(256):\n    try: os.write(d, b\'{"passed": true, "reason": "passed"}\')\n'
        "    except OSError: pass\ndef f(x): return 0"
    ),
    "exits before the tests": "import os\nos._exit(0)",
    "exits in a test": "import os\ndef f(x): os._exit(0)",
    "raises SystemExit": "raise SystemExit(0)",
    "raises SystemExit in a test": "def f(x): raise SystemExit(0)",
    "overrides equality": (
        "class Yes:\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n"
        "    __hash__ = None\ndef f(x): return Yes()"
    ),
    "overrides an integer's equality": (
        "class Yes(int):\n    def __eq__(self, other): return True\ndef f(x): return Yes(0)"
    ),
    "overrides assert": (
        "import builtins\nbuiltins.AssertionError = type('Calm', (Exception,), {})\n"
        "import sys\nsys.excepthook = lambda *a: None\ndef f(x): return 0"
    ),
    "overrides what tests are made with": (
        "import builtins, json\nbuiltins.compile = builtins.exec = lambda *a, **k: None\n"
        "json.dumps = lambda *a, **k: '{\"passed\": true}'\ndef f(x): return 0"
    ),
    "searches memory for the tests": (  # backwards, so as not to find itself
        "import gc, sys\ntext = repr(gc.get_objects())\nframe = sys._getframe()\n"
        "while frame:\n    text += repr(frame.f_locals)\n    frame = frame.f_back\n"
        "found = ')5(f tressa' in text[::-1]\ndef f(x): return x + 1 if found else 0"
    ),
    "answers for itself": (
        "import os, struct, json\ndata = json.dumps({'value': None, 'passed': True}).encode()\n"
        "os.write(201, struct.pack('>Q', len(data)) + data)\ndef f(x): return 0"
    ),
}


@pytest.mark.parametrize("attack", CHEATS)
def test_no_cheat_passes(attack):
    assert not judge(CHEATS[attack]).passed


DAMAGE = {
    "fork bomb": "import os\nwhile True:\n    os.fork()",
    "fork bomb that insists": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "thread bomb": "import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(99,)).start()",
    "memory bomb": "x = []\nwhile True: x.append(bytearray(10**7))",
    "one huge allocation": "x = bytearray(10**11)",
    "endless loop": "while True: pass",
    "endless loop that catches everything": (
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass"
    ),
    "ignores the processor limit": "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
    "sleeps for ever": "import time\ntime.sleep(10**6)",
    "endless output": "while True: print('x' * 10**6)",
    "endless output by descriptor": "import os\nwhile True: os.write(1, b'x' * 10**6)",
    "endless recursion": "def f(x): return f(x)\nf(1)",
    "deep recursion in C": "import sys\nsys.setrecursionlimit(10**9)\nf = lambda: f()\nf()",
    "opens a socket": "import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)",
    "sends a datagram": (
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))"
    ),
    "kills its parent": "import os\nos.kill(os.getppid(), 9)",
    "kills everything": "import os\nos.kill(-1, 9)",
    "starts a program": "import subprocess\nsubprocess.run(['/bin/sh', '-c', 'touch {canary}.new'])",
    "deletes a file": "import os\nos.remove({canary!r})",
    "overwrites a file": "open({canary!r}, 'w').close()",
    "truncates a file": "import os\nos.truncate({canary!r}, 0)",
    "changes a file's mode": "import os\nos.chmod({canary!r}, 0o777)",
    "changes a file's time": "import os\nos.utime({canary!r}, (0, 0))",
    "reads a file": "open({canary!r}).read()",
    "reads ~/.ssh": "open({home!r} + '/.ssh/id_test').read()",
    "lists the home folder": "import os\nos.listdir({home!r})",
    "reads the environment": "import os\nos.environ['UNMASK_TEST_SECRET']",
    "reads the environment of others": "open('/proc/1/environ', 'rb').read(); open('/proc/self/environ').read()",
    "reads passwords": "open('/etc/passwd').read()",
    "writes a symbolic link out": ("import os\nos.symlink({canary!r}, 'out')\nopen('out', 'w').write('stolen')"),
    "follows a link to a folder": "import os\nos.symlink({home!r}, 'home')\nos.listdir('home')",
    "fills the disk": (
        "n = 0\nwhile True:\n    with open(f'file{{n}}', 'wb') as file: file.write(bytes(10**6))\n    n += 1"
    ),
    "fills the disk with one file": "with open('big', 'wb') as file:\n    while True: file.write(bytes(10**6))",
    "leaves a background process": (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(1)\n    open({canary!r}, 'w')\n"
    ),
    "crashes the interpreter": "import ctypes\nctypes.string_at(0)",
    "mounts": "import ctypes\nassert ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0",
    "leaves its namespace": "import ctypes\nassert ctypes.CDLL(None).unshare(0x10000000) == 0",
    "debugs its judge": "import ctypes, os\nassert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0",
}


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
    code = DAMAGE[attack].format(**outside) + "\n" + RIGHT.replace("x + 1", "x")
    start = time.monotonic()
    outcome = judge(code)
    assert not outcome.passed
    assert time.monotonic() - start < SOON.wall + 3
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


def test_nothing_is_left_running(level):
    before = children()
    for code in ("import time\ntime.sleep(60)", "while True: pass", RIGHT):
        judge(code, limits=host.Limits(cpu=1, wall=0.5))
    assert children() == before


def children() -> set[str]:
    """Processes with a guest's command line."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"unmask.sandbox" in path.read_bytes():
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


# --- the user's side ----------------------------------------------------------------------------------------------


def test_a_weaker_level_needs_the_users_word(monkeypatch):
    monkeypatch.setattr(sandbox, "level", lambda: sandbox.WEAK)
    monkeypatch.setattr(sandbox, "_weak_allowed", False)
    with pytest.raises(UserError, match="--allow-weak-sandbox"):
        judge(RIGHT)
    sandbox.allow_weak()
    assert judge(RIGHT).passed and not judge("def f(x): return 0").passed


def test_the_weak_level_still_has_limits_and_an_honest_judge(monkeypatch):
    monkeypatch.setattr(sandbox, "level", lambda: sandbox.WEAK)
    monkeypatch.setattr(sandbox, "_weak_allowed", True)
    for attack in ("endless loop", "memory bomb", "endless output", "fork bomb", "sleeps for ever"):
        assert not judge(DAMAGE[attack] + "\n" + RIGHT.replace("x + 1", "x")).passed
    for attack in CHEATS.values():
        assert not judge(attack).passed


def test_a_level_can_be_named(monkeypatch):
    monkeypatch.setenv("UNMASK_SANDBOX", "landlok")
    with pytest.raises(UserError, match="did you mean landlock"):
        sandbox.level.__wrapped__()


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
        ("import os\nos._exit(0)", "exited before the end"),
        ("x = [0] * 10**10", "MemoryError"),
        ("def f():\n    f()\nf()", "RecursionError"),
        ("import sys\nsys.stdin.readline()\nraise ValueError(input())", "EOFError"),
        ("import torch", "ModuleNotFoundError"),
        ("while True:\n    pass", "timed out"),
    ],
)
def test_a_program_that_does_not_end_well_says_why(code, reason):
    outcome = sandbox.run(code, timeout=1)
    assert not outcome.passed and reason in outcome.reason


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
    assert min(times) < 0.1
