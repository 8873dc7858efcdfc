"""What a child process may do, in the kernel's words. Called in the process that it binds.

What a kernel or a container runtime refuses is reported and not fatal: the limits and the death signal
hold everywhere.
"""

import ctypes
import os
import resource
import signal
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_CAPABILITY_VERSION_3 = 0x20080522

# Landlock has the same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_FILE, _MAKE_FILE = 1 << 5, 1 << 8
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FIRST_RIGHTS = (1 << 13) - 1
# Files, under any name in the same folder. The worker opens what it finds there: it is to find no link, FIFO,
# socket or device.
_OF_A_MAKER = _READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _REMOVE_FILE | _MAKE_FILE
_ALL_TCP, _ALL_SCOPES = 0b11, 0b11
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

_MOST_KILLABLE = "500"
# From SIGXCPU at the limit of processor time to SIGKILL. With the same limit for both, a process would end by
# SIGKILL, like one that was killed by somebody else.
CPU_GRACE_S = 5
# Addresses are no memory: the heaps of ffmpeg's threads set them aside and never fill them, over 1 GiB on two
# cores, more on more. What is shared counts as address space only, so it has to have an end as well.
_SET_ASIDE_BYTES = 12 << 30


@dataclass(frozen=True)
class ResourceLimits:
    """Of one child. `file_bytes` holds for each file that it writes."""

    memory_bytes: int
    cpu_seconds: int
    file_bytes: int = 0
    open_files: int = 256
    processes: int = 1024  # threads count


def call_first_when_memory_runs_out() -> None:
    """The kernel then kills a child and not the worker, which would lose all its jobs at once."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_MOST_KILLABLE)


def leave_the_network() -> bool:
    """Enter a user and a network namespace of our own, with nothing in it. Children inherit both for
    nothing."""
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return False
    # A user without a number in its namespace cannot make another one, as `count_threads_apart` does.
    with suppress(OSError):
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def count_threads_apart() -> None:
    """Enter another user namespace: the kernel counts the threads of a user for RLIMIT_NPROC in each of them.

    In one for all children, one child with 1,022 threads failed the encodes of the others for good. Where
    the kernel refuses (`user.max_user_namespaces`), all children share one count. It costs 0.2 ms, and gives
    privileges in there, which are to be given up.
    """
    _libc.unshare(_CLONE_NEWUSER)


def give_up_privileges() -> None:
    """Also root's, which it would have in its own namespace: that much of the kernel is not to be played
    with. For good, whatever is executed."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


def forbid_inspection() -> None:
    """Close `/proc/PID/{mem,environ,maps,fd,…}` and ptrace(2) of this process to others of the same user.

    A child that is kept from files by nothing could otherwise read the worker's credentials out of its
    memory, or write to it. It lasts until something is executed, and forbids core dumps as well.
    """
    _check(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl")


def die_with(parent: int) -> None:
    """After every change of credentials, for those reset it. The parent has to be single-threaded: what
    the kernel waits for is the death of a thread."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")
    if os.getppid() != parent:
        os._exit(1)


def limit(limits: ResourceLimits, *, count_processes: bool) -> None:
    wanted = {
        resource.RLIMIT_DATA: limits.memory_bytes,
        resource.RLIMIT_AS: limits.memory_bytes + _SET_ASIDE_BYTES,
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
    }
    if count_processes:
        # Only in a user namespace of our own: elsewhere all processes of the user count, other services'
        # too.
        wanted[resource.RLIMIT_NPROC] = limits.processes
    for what, value in wanted.items():
        hard = value + (CPU_GRACE_S if what == resource.RLIMIT_CPU else 0)
        if (hardest := resource.getrlimit(what)[1]) != resource.RLIM_INFINITY:
            hard = min(hard, hardest)
        resource.setrlimit(what, (min(value, hard), hard))


def can_hide_files() -> bool:
    return _landlock_version() > 0


def _landlock_version() -> int:
    return int(_libc.syscall(_CREATE_RULESET, None, 0, 1))


def see_only(*, readable: Iterable[Path], writable: Iterable[Path]) -> None:
    """From here on nothing else can be opened, and no TCP connection be made, if the kernel has Landlock.
    Needs given up privileges."""
    if (version := _landlock_version()) < 1:
        return
    rights = _FIRST_RIGHTS | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    rights |= _IOCTL_DEV if version >= 5 else 0
    handled = struct.pack("=QQQ", rights, _ALL_TCP, _ALL_SCOPES)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _check(_libc.syscall(_CREATE_RULESET, handled[:size], size, 0), "landlock")
    for path in readable:
        _allow(ruleset, path, _READ_FILE | _READ_DIR | _EXECUTE)
    for path in writable:
        _allow(ruleset, path, rights & _OF_A_MAKER)
    _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock")
    os.close(ruleset)


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:  # /lib64 is not everywhere
        return
    try:
        if not path.is_dir():
            rights &= _OF_A_FILE
        rule = struct.pack("=Qi", rights, beneath)
        _check(_libc.syscall(_ADD_RULE, ruleset, 1, rule, 0), "landlock")
    finally:
        os.close(beneath)


def _check(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result
