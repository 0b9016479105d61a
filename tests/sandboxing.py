"""What the sandbox tests share: every level that this machine offers, a judge in a hurry, and hostile programs."""

from __future__ import annotations

import pytest

from unmask import sandbox
from unmask.sandbox import host

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
    "puts another module in its own place": (
        "import sys, types\nfor name in ('solution', 'tests', '__main__'):\n"
        "    sys.modules[name] = module = types.ModuleType(name)\n"
        "    module.f = lambda x: x + 1\ndef f(x): return 0"
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
BY_FILTER = (  # EPERM is the filter's, EACCES would be the file's
    "import fcntl, os\ntry:\n    {}\nexcept PermissionError as error:\n    if error.errno == 1: raise"
)
REFUSED = {
    "signals through a socket's owner": SOCKET_OWNER,
    "watches folders": CALL.format("inotify_init1(0)"),
    "watches a folder by descriptor": BY_FILTER.format(
        "fcntl.fcntl(os.open(os.path.dirname(os.__file__), 0), 1026, 1)"
    ),
    "leases a file": BY_FILTER.format("fcntl.fcntl(os.open(os.__file__, 0), 1024, 0)"),
    "locks a file": BY_FILTER.format("fcntl.flock(os.open('/dev/null', 0), 1)"),
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
