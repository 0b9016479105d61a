"""What generated code may not do, each tried for real, at every level that this machine offers."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
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


def test_too_much_processor_time_is_called_that(level):
    outcome = judge("def f(x):\n    while True: pass", limits=host.Limits(cpu=1))
    assert outcome.reason == "used up its processor time"


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


@pytest.mark.parametrize(
    "tests",
    [
        "assert list(f(3)) == [3, 4, 5] + list(range(6, 9003))".replace("list(f(3))", "list(f(3))[:9000]"),
        "from itertools import islice\nassert list(islice(f(1), 100)) == list(range(1, 101))",
        "steps = f(7)\nassert (next(steps), next(steps)) == (7, 8)",
        "for x in f(0):\n    if x > 9: break\nassert x == 10",
    ],
)
def test_iterators_are_read_where_they_are(tests):
    end = " + 9000" if "9000" in tests else ""
    code = "from itertools import count\ndef f(n):\n    yield from " + (f"range(n, n{end})" if end else "count(n)")
    assert judge(code, tests).passed


STANDARD = (
    "abc array bisect collections copy cmath dataclasses datetime decimal enum fractions functools hashlib heapq "
    "itertools json math operator queue random re socket statistics string sys threading time typing unicodedata"
)


def test_the_standard_library_is_there(level):
    code = "\n".join(f"import {name}" for name in STANDARD.split()) + "\n" + RIGHT
    assert judge(code, limits=host.Limits()) == sandbox.Outcome(True, "passed", "")


def test_the_same_program_gives_the_same_result(level):
    """Words in a set have an order of their own in every process, unless somebody sees to it."""
    code = "print(list({chr(97 + i) * 3 for i in range(26)}))"
    assert len({sandbox.run(code).stdout for _ in range(3)}) == 1


def test_a_scratch_folder_can_be_written(level):
    if level == "landlock":
        pytest.skip("Landlock has no scratch folder")
    assert judge("open('notes', 'w').write('hello')\nimport os\nos.mkdir('d')\n" + RIGHT).passed


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
    "answers for itself in the judge's own words": (
        "import os, struct, sys\nwire = sys.modules['unmask.sandbox.guest_wire']\n"
        "for answer in ({'value': 2}, {'value': 6}, {'passed': True, 'reason': 'passed'}, True, None):\n"
        "    data = wire.encode(answer)\n    os.write(201, struct.pack('>Q', len(data)) + data)\nraise ValueError"
    ),
    "answers with a promise": (
        "import os, struct\ndata = b'h' + b'i' + struct.pack('>Q', 1) + b'0'\n"
        "for _ in range(9): os.write(201, struct.pack('>Q', len(data)) + data)\ndef f(x): return 0"
    ),
    "rewrites the guest": (
        "import sys\nfor name in ('guest_wire', 'guest_court', 'guest'):\n"
        "    module = sys.modules['unmask.sandbox.' + name]\n"
        "    for key in ('encode', 'decode', 'act', 'describe', 'judge', 'hear'):\n"
        "        setattr(module, key, lambda *a, **k: 2)\ndef f(x): return 0"
    ),
    "ends the tests' loop": "def f(x): raise StopIteration",
    "is true to everything": (
        "class Yes:\n    def __len__(self): return 1\n    def __bool__(self): return True\n"
        "    def __getattr__(self, name): return self\n    def __call__(self, *a): return self\n"
        "def f(x): return Yes()"
    ),
    "traces": (
        "import sys\ndef trace(frame, event, arg):\n    frame.f_locals['x'] = 1\n    return trace\n"
        "sys.settrace(trace)\nsys.setprofile(trace)\ndef f(x): return 0"
    ),
    "leaves something to the garbage collector": (
        "import os\nclass Last:\n    def __del__(self): os._exit(0)\ndef f(x): return Last()"
    ),
    "has an exception that misbehaves": (
        "class E(Exception):\n    def __str__(self): raise SystemExit(0)\nE.__name__ = 'E' * 10**6\n"
        "def f(x): raise E('x' * 10**7)"
    ),
    "has an answer without end": "def f(x):\n    a = []\n    a.append(a)\n    return a",
    "answers deeper than the stack": (
        "import os, struct\ndata = b'd' + struct.pack('>Q', 2) + b's' + struct.pack('>Q', 5) + b'value'\n"
        "data += (b'l' + struct.pack('>Q', 1)) * 100000 + b'N'\n"
        "os.write(201, struct.pack('>Q', len(data)) + data)\ndef f(x): return 0"
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
    "a thread bomb of small stacks": (
        "import _thread, threading, time\nthreading.stack_size(32768)\n"
        "while True: _thread.start_new_thread(time.sleep, (99,))"
    ),
    "answers with an enormous list": "def f(x): return [None] * (60 << 20)",
    "answers with an enormous number": "def f(x): return 1 << (1 << 27)",
    "answers drop by drop": (
        "import os, time\nos.write(201, (1 << 25).to_bytes(8, 'big'))\n"
        "while True:\n    os.write(201, b'N')\n    time.sleep(0.05)"
    ),
    "answers with keys that collide": "def f(x): return {{i * (2**61 - 1): 0 for i in range(200000)}}",
    "closes every descriptor": "import os\nos.closerange(0, 300)",
    "stops with a timer of its own": "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.05)\ntime.sleep(9)",
    "blocks every signal": "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
    "files without end": "import os\nfor i in range(10**7): os.close(os.open(f'{{i}}', os.O_CREAT))",
    "folders without end": "import os\nfor i in range(10**7): os.mkdir(f'{{i}}')",
    "folders in folders": "import os\nfor i in range(10**7):\n    os.mkdir('d')\n    os.chdir('d')",
    "a file with a hole": "with open('big', 'wb') as file: file.truncate(10**13)",
    "memory in a file without a name": "import os\nfd = os.memfd_create('x')\nwhile True: os.write(fd, bytes(10**6))",
    "reads its judge's memory": "import os\nopen(f'/proc/{{os.getppid()}}/mem', 'rb').read(1)",
    "writes into its judge's verdict": "import os\nopen(f'/proc/{{os.getppid()}}/fd/3', 'wb').write(b'x')",
    "calls the kernel in 32 bits": (
        "import ctypes, mmap\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(bytes.fromhex('b814000000cd80c3'))\n"
        "ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()\nraise SystemExit"
    ),
    "control characters": (
        "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 9)\nraise ValueError('\\x00\\ud800\\x1b[2J')"
    ),
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


# Each is refused by name. (Landlock alone has no say in any of them.)
SOCKET_OWNER = (
    "import fcntl, os, socket, struct\na, b = socket.socketpair()\n"
    "fcntl.ioctl(a, 0x8901, struct.pack('i', os.getppid()))\n"
    "fcntl.fcntl(a, fcntl.F_SETFL, os.O_ASYNC)\nos.write(b.fileno(), b'x')"
)
CALL = (
    "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\nbuffer = ctypes.create_string_buffer(200)\n"
    "if libc.{} < 0: raise OSError(ctypes.get_errno(), 'refused')"
)
REFUSED = {
    "signals through a socket's owner": SOCKET_OWNER,
    "watches folders": CALL.format("inotify_init1(0)"),
    "reads extended attributes": "import os\nos.listxattr('/usr')",
    "io_uring": CALL.format("syscall(425, 8, buffer)"),
    "a user namespace by a thread": CALL.format("syscall(56, 0x10000000 | 0x11000, 0, 0, 0, 0)"),
    "userfaultfd": CALL.format("syscall(323, 0)"),
    "bpf": CALL.format("syscall(321, 0, buffer, 120)"),
    "a program from memory": CALL.format("syscall(322, 3, b'', buffer, buffer, 0x1000)"),
    "outlives its parent": CALL.format("prctl(1, 0, 0, 0, 0)"),
    "goes first": "import os\nos.setpriority(0, 0, -1)",
    "its judge's limits": "import os, resource\nresource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1))",
    "reads another process": CALL.format("syscall(310, os.getppid(), buffer, 1, buffer, 1, 0)"),
}


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
    """In processor time, ours and the guests': the clock on the wall would measure the machine's other work."""
    sandbox.run("pass")
    times = []
    for _ in range(5):
        start = spent()
        sandbox.run("pass")
        times.append(spent() - start)
    assert min(times) < 0.1


def spent() -> float:
    usage = os.times()
    return usage.user + usage.system + usage.children_user + usage.children_system
