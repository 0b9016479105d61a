"""The system calls a solution has no business with, as a seccomp filter. Standard library only.

A list of what is denied, with everything newer than the list denied too: enough for code that only computes, and
the interpreter itself needs none of these once it runs.
"""

import ctypes
import errno
import os
import struct

# Starting processes and programs; signals; other processes; network; namespaces and mounts; changing files by
# name where no right to write is needed (Landlock has no say there); asynchronous calls that would pass the
# filter by; memory outside the address-space limit; what files are called and marked with; the kernel's own affairs.
# socketpair stays: asyncio needs it.
DENIED = {
    "x86_64": (
        *(57, 58, 59, 322),  # fork vfork execve execveat
        *(62, 129, 200, 234, 297, 424, 434, 438),  # kill and its relatives, pidfds
        *(109, 112, 141, 142, 144, 203, 251, 314),  # sessions, priorities, affinity
        *(101, 256, 272, 279, 308, 310, 311, 312, 440, 448),  # ptrace, other processes' memory, unshare, setns
        *(41, 42, 43, 44, 46, 49, 50, 288, 307),  # sockets
        *(155, 161, 165, 166, 428, 429, 430, 431, 432, 433, 442),  # mounts, roots
        *(76, 86, 90, 91, 92, 93, 94, 132, 235, 260, 261, 265, 268, 280),  # truncate, link, chmod, chown, utime
        *(*range(188, 200), 253, 254, 294),  # extended attributes, watching folders
        73,  # locking files that others share
        *(162, 306),  # writing everybody's files out
        *(425, 426, 427, 298, 321, 323, 248, 249, 250),  # io_uring, bpf, perf, userfaultfd, keys
        *(29, 30, 64, 68, 240, 319, 447),  # shared memory, message queues, memfd
        *(103, 135, 153, 154, 159, 163, 164, 167, 168, 169, 170, 171, 172, 173, 175, 176, 179, 180, 212, 227),
        *(246, 300, 303, 304, 305, 313, 320, 443),
    ),
    "aarch64": (
        *(221, 281),
        *(129, 130, 131, 138, 240, 424, 434, 438),
        *(30, 118, 119, 122, 140, 154, 157, 274),
        *(97, 117, 238, 239, 268, 270, 271, 272, 440, 448),
        *(198, 200, 201, 202, 203, 206, 211, 242, 269),
        *(39, 40, 41, 51, 428, 429, 430, 431, 432, 433, 442),
        *(37, 45, 52, 53, 54, 55, 88),
        *(*range(5, 17), 26, 27),
        32,
        *(81, 267),
        *(425, 426, 427, 241, 280, 282, 217, 218, 219),
        *(180, 186, 190, 194, 196, 279, 447),
        *(18, 42, 58, 60, 89, 92, 104, 105, 106, 112, 116, 142, 161, 162, 170, 171, 224, 225),
        *(262, 264, 265, 266, 273, 294, 443),
    ),
}
NEWER = 451  # the first number this list does not know
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Looked at by argument: clone (threads only), clone3 (unknown to the filter: glibc then uses clone), prctl,
# prlimit64 (one's own limits only), fcntl and ioctl (no signals by descriptor, no leases of files, no watching of
# folders, no typing into terminals).
BY_ARGUMENT = {
    "x86_64": {"clone": 56, "clone3": 435, "prctl": 157, "prlimit64": 302, "fcntl": 72, "ioctl": 16},
    "aarch64": {"clone": 220, "clone3": 435, "prctl": 167, "prlimit64": 261, "fcntl": 25, "ioctl": 29},
}
CLONE_THREAD = 0x10000
PR_SET_PDEATHSIG, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 1, 22, 2
F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY = 8, 10, 15, 1024, 1026
FIOSETOWN, SIOCSPGRP, TIOCSPGRP, TIOCSTI, TIOCLINUX = 0x8901, 0x8902, 0x5410, 0x5412, 0x541C

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL = 0x7FFF0000, 0x80000000
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data


def refuse(error):
    return 0x00050000 | error


def supported():
    return os.uname().machine in DENIED  # not `platform`: importing it takes longer than starting the interpreter


def program(machine):
    """The filter as (code, if true, if false, value) instructions."""
    calls = BY_ARGUMENT[machine]
    code = [(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, AUDIT[machine]), (RETURN, 0, 0, KILL), (LOAD, 0, 0, NUMBER)]

    def deny(test, value, error):
        code.extend([(test, 0, 1, value), (RETURN, 0, 0, refuse(error))])

    def look(call, argument, body):
        """`body` runs with the low half of the argument loaded, only for this call, and ends in a return."""
        code.append((EQUAL, 0, len(body) + 1, calls[call]))
        code.append((LOAD, 0, 0, ARGUMENTS + 8 * argument))
        code.extend(body)

    allow, forbid = (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, refuse(errno.EPERM))
    deny(EQUAL, calls["clone3"], errno.ENOSYS)
    deny(AT_LEAST, NEWER, errno.ENOSYS)  # covers x32 as well, whose numbers have a high bit
    for number in DENIED[machine]:
        deny(EQUAL, number, errno.EPERM)
    look("clone", 0, [(ANY_BIT, 0, 1, CLONE_THREAD), allow, forbid])
    look("prctl", 0, [(EQUAL, 0, 1, PR_SET_PDEATHSIG), forbid, allow])
    look("prlimit64", 0, [(EQUAL, 0, 1, 0), allow, forbid])
    commands = {"fcntl": (F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY),
                "ioctl": (FIOSETOWN, SIOCSPGRP, TIOCSPGRP, TIOCSTI, TIOCLINUX)}  # fmt: skip
    for call, refused in commands.items():
        look(call, 1, [step for each in refused for step in ((EQUAL, 0, 1, each), forbid)] + [allow])
    return [*code, allow]


class Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def install(libc):
    """Put the filter in force for this process and all it may ever become. False where there is none to install."""
    if not supported():
        return False
    instructions = b"".join(struct.pack("HBBI", *step) for step in program(os.uname().machine))
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    wrapped = Program(len(instructions) // 8, ctypes.addressof(buffer))
    return libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(wrapped), 0, 0) == 0
