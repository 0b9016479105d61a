"""Inside the sandbox: give up every right, then let the solution and its judge talk. Standard library only.

Two processes run here. The candidate executes the untrusted code and knows nothing but that code. The judge
holds the tests and the channel back to the host; it is forked off before it reads either, and it sees the
candidate's results as plain data over a pipe. So there is nothing in the candidate's memory to find, forge or
override: it can only answer calls, rightly or wrongly, or die.
"""

import _signal
import ctypes
import os
import resource
import select
import struct
import sys

from unmask.sandbox import guest_court, guest_syscalls

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER = 0x00020000, 0x04000000, 0x08000000, 0x10000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
SYS_MOUNT_SETATTR = 442
LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
NOBODY = 65534
REPORT, OUTPUT = 3, 4  # descriptors of the verdict, and of what the program prints

libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


# --- walls --------------------------------------------------------------------------------------------------


def enter_namespaces(config):
    """A new root with the interpreter's files and nothing else, no network, an own process tree."""
    flags = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0 or libc.unshare(flags) < 0:  # root may have the right without a user namespace
        check(libc.unshare(flags | CLONE_NEWUSER), "unshare")
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    build_root(config["root"], config["paths"], config["scratch"])
    if os.fork() > 0:  # the first child of the new process tree; when it ends, the kernel kills all the others
        os._exit(os.waitstatus_to_exitcode(os.wait()[1]) & 0xFF)
    die_with_parent()


def mount(source, target, kind, flags, data=None):
    names = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    check(libc.mount(*names[:3], ctypes.c_ulong(flags), names[3]), f"mount {target}")


def build_root(root, paths, scratch):
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    for path in [*paths, "/dev/null", "/dev/urandom"]:
        place(path, root)
    os.makedirs(f"{root}/scratch")
    mount_scratch(f"{root}/scratch", scratch)
    os.chdir(root)
    os.mkdir("old")
    check(libc.syscall(SYS_PIVOT_ROOT[os.uname().machine], b".", b"old"), "pivot_root")
    os.chdir("/")
    check(libc.umount2(b"/old", MNT_DETACH), "umount")
    os.rmdir("/old")
    mount("none", "/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)


def mount_scratch(path, size):
    """In memory, and limited in bytes and in names: an empty file costs the kernel a kilobyte, too."""
    mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},nr_inodes=1024,mode=1777")


def place(path, root):
    """The same path under the new root: a symbolic link as such, everything else bound read-only."""
    target = root + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(path, target, None, MS_BIND | MS_REC)
    if not path.startswith("/dev/"):
        read_only(target)


def read_only(target):
    """With everything mounted below it; older kernels only do the mount itself."""
    attributes = struct.pack("QQQQ", MS_RDONLY | MS_NOSUID, 0, 0, 0)
    if libc.syscall(SYS_MOUNT_SETATTR, -100, os.fsencode(target), 0x8000, attributes, 32) < 0:
        kept = os.statvfs(target).f_flag & 0x40E  # what a namespace may not take back: nosuid, nodev, noexec, noatime
        mount(None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | kept)


def enter_landlock(paths):
    """Files: reading the interpreter's own, and nothing else. Everything that is not a file is the filter's."""
    version = libc.syscall(LANDLOCK_CREATE, None, 0, 1)
    check(version, "landlock")
    handled = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    attributes = struct.pack("QQQ", handled, 3, 0)[: 8 if version < 4 else 16]  # from version 4 on, TCP as well
    ruleset = check(libc.syscall(LANDLOCK_CREATE, attributes, len(attributes), 0), "landlock")
    for path in [*paths, "/dev/null", "/dev/urandom"]:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        folder = os.path.isdir(path)
        rights = 0b1100 if folder else 0b0100  # read files, list folders
        if path == "/dev/null":
            rights = 0b0110  # and write here
        rule = struct.pack("=Qi", rights, descriptor)
        check(libc.syscall(LANDLOCK_ADD, ruleset, 1, rule, 0), f"landlock {path}")
        os.close(descriptor)
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    check(libc.syscall(LANDLOCK_RESTRICT, ruleset, 0), "landlock")
    os.close(ruleset)


# --- rights -------------------------------------------------------------------------------------------------


def die_with_parent():
    check(libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0), "prctl")


def limit(config):
    for kind, value in (
        (resource.RLIMIT_AS, config["memory"]),
        (resource.RLIMIT_CPU, config["cpu"]),
        (resource.RLIMIT_FSIZE, config["file_size"]),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
        # Counted per user over the whole machine, so only where nothing better stops a fork bomb.
        *([] if config["filter"] else [(resource.RLIMIT_NPROC, config["processes"])]),
    ):
        hard = resource.getrlimit(kind)[1]
        # One more second at the hard limit: the soft one's signal tells what happened.
        most = value + 1 if kind == resource.RLIMIT_CPU else value
        if hard != resource.RLIM_INFINITY:
            value, most = min(value, hard), min(most, hard)
        resource.setrlimit(kind, (value, most))


def drop_rights(config):
    """No capability, no root, no way back, and no system call that a computation does not need."""
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    if os.getuid() == 0 and config["nobody"]:
        for change in (lambda: os.setgroups([]), lambda: os.setgid(NOBODY), lambda: os.setuid(NOBODY)):
            try:
                change()
            except OSError:  # a user namespace that knows only one user: it has no power outside anyway
                pass
    libc.capset(struct.pack("Ii", 0x20080522, 0), bytes(24))
    die_with_parent()  # a change of user takes it back
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if config["filter"] and not guest_syscalls.install(libc):
        raise OSError("the system call filter could not be installed")


def main(config):
    os.environ.clear()
    os.dup2(1, REPORT)
    os.dup2(2, OUTPUT)
    # Should the host be gone before it can end us: this does, whatever the candidate does to its own clock.
    _signal.alarm(config["last"])
    if sys.platform == "linux":
        die_with_parent()
    os.chdir(enter_walls(config))
    if nobody_listens():  # the host was killed before anything here had asked to die with it
        os._exit(1)
    questions, answers = os.pipe(), os.pipe()
    parent = os.getpid()
    if os.fork() == 0:
        be_candidate(config, parent, questions[0], answers[1])
    os.close(questions[0])
    os.close(answers[1])
    for stream in (1, 2):
        os.dup2(os.open("/dev/null", os.O_WRONLY), stream)
    if sys.platform == "linux":
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # out of reach of the candidate's debugger
        drop_rights(config)
    limit(config)
    guest_court.judge(0, REPORT, answers[0], questions[1])


def nobody_listens():
    verdict = select.poll()
    verdict.register(REPORT, 0)
    return bool(verdict.poll(0))


def enter_walls(config):
    """The folder to work in, behind the walls."""
    if config["level"] == "namespaces":
        enter_namespaces(config)
    elif config["level"] == "landlock":
        enter_landlock(config["paths"])
    elif config["level"] == "bubblewrap":
        try:
            mount_scratch("/scratch", config["scratch"])
        except OSError:  # a bubblewrap that may not lend us that right: then there is no place to write
            return "/"
    return config["work"]


def be_candidate(config, parent, questions, answers):
    """Never returns. The job and the verdict's channel are closed before any right is given up."""
    if sys.platform == "linux":
        die_with_parent()
        if os.getppid() != parent:
            os._exit(1)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(OUTPUT, 1)
    os.dup2(OUTPUT, 2)
    questions, answers = os.dup2(questions, 200), os.dup2(answers, 201)
    os.closerange(3, 200)
    if sys.platform == "linux":
        drop_rights(config)
    limit(config)
    guest_court.serve(questions, answers)
    os._exit(0)
