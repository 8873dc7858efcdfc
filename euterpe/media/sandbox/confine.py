"""Confinement of the calling process: namespaces, Landlock, capabilities, resource limits, death signal.

A kernel or a container runtime can refuse namespaces or Landlock. In this case,
`enter_empty_network_namespace` and `can_hide_files` return False, and `enter_user_namespace` has no effect.
The resource limits and the death signal work everywhere.
"""

import ctypes
import os
import resource
import signal
import stat
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_CAPABILITY_VERSION_3 = 0x20080522

# The system calls of Landlock have the same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_FILE, _MAKE_FILE = 1 << 5, 1 << 8
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FIRST_RIGHTS = (1 << 13) - 1
# The rights to read, write, make and remove regular files under any name in one folder. The worker opens the
# files in that folder, so a child must not be able to make a link, FIFO, socket or device.
_WRITABLE_FOLDER_RIGHTS = _READ_FILE | _READ_DIR | _WRITE_FILE | _TRUNCATE | _REMOVE_FILE | _MAKE_FILE
_ALL_TCP, _ALL_SCOPES = 0b11, 0b11
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV

_OOM_SCORE_ADJ = "500"
# The kernel sends SIGXCPU at the soft limit of processor time, and SIGKILL this many seconds later, at the
# hard limit. If both limits were equal, the kernel would send only SIGKILL, and the death of the child would
# look like a kill by another process.
CPU_GRACE_S = 5
# The limit of the address space is higher than the limit of the memory by this number of bytes. The heaps of
# ffmpeg's threads reserve over 1 GiB of address space on two cores, and more on a machine with more cores,
# but they never fill this space. Address space needs a limit too, because no other limit counts shared
# memory.
_RESERVED_ADDRESS_BYTES = 12 << 30


@dataclass(frozen=True)
class ResourceLimits:
    """The resource limits of one child. `file_bytes` applies to each file that the child writes."""

    memory_bytes: int
    cpu_seconds: int
    file_bytes: int = 0
    open_files: int = 256
    processes: int = 1024  # threads are counted too


def raise_oom_score() -> None:
    """Raise the OOM score of this process, so that the OOM killer kills a child and not the worker.

    The death of the worker would end all of its jobs.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE_ADJ)


def enter_empty_network_namespace() -> bool:
    """Enter a new user namespace and an empty network namespace. Children inherit both namespaces at no cost.

    Return False when the kernel refuses.
    """
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
        return False
    # Map this user, because an unmapped user cannot create another user namespace (`enter_user_namespace`).
    with suppress(OSError):
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def enter_user_namespace() -> None:
    """Enter another user namespace, in which the kernel counts threads for RLIMIT_NPROC separately.

    In one shared namespace, a child with 1,022 threads made the encodes of other children fail permanently.
    If the kernel refuses the call (`user.max_user_namespaces`), all children share one count of threads. The
    call takes 0.2 ms. The call grants privileges inside the namespace, so call `drop_capabilities`
    afterwards.
    """
    _libc.unshare(_CLONE_NEWUSER)


def drop_capabilities() -> None:
    """Drop all capabilities permanently and set `no_new_privs`. Executed programs inherit these restrictions.

    Inside its own user namespace a process has the capabilities of root, which expose much of the kernel.
    """
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


def forbid_inspection() -> None:
    """Prevent other processes of this user from inspecting this process.

    Those processes cannot use ptrace(2) on this process, or open its `/proc/PID/{mem,environ,fd,…}`.

    Otherwise a child without Landlock could read the worker's credentials from the worker's memory, or change
    that memory. The setting holds until this process executes a program. The setting also forbids core dumps.
    """
    _check(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl")


def set_death_signal(parent: int) -> None:
    """Set the death signal: the kernel kills this process when `parent` dies.

    Call this function after every change of credentials, because each change resets the signal. The parent
    must be single-threaded, because the kernel sends the signal when the thread that forked the child dies.
    """
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")
    if os.getppid() != parent:
        os._exit(1)


def set_resource_limits(limits: ResourceLimits, *, count_processes: bool) -> None:
    """Set the resource limits of this process. No limit is raised above the present hard limit."""
    wanted = {
        resource.RLIMIT_DATA: limits.memory_bytes,
        resource.RLIMIT_AS: limits.memory_bytes + _RESERVED_ADDRESS_BYTES,
        resource.RLIMIT_CPU: limits.cpu_seconds,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_CORE: 0,
    }
    if count_processes:
        # This limit is safe only in a user namespace of our own, because elsewhere the kernel counts all
        # processes of the user, including the processes of other services.
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


def restrict_files(*, readable: Iterable[str], writable: Iterable[str]) -> None:
    """Restrict this process by Landlock to these paths, and forbid TCP. Do nothing without Landlock.

    Call `drop_capabilities` first.
    """
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
        _allow(ruleset, path, rights & _WRITABLE_FOLDER_RIGHTS)
    _check(_libc.syscall(_RESTRICT_SELF, ruleset, 0), "landlock")
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:  # /lib64 does not exist on every system
        return
    try:
        if not stat.S_ISDIR(os.fstat(beneath).st_mode):
            rights &= _FILE_RIGHTS
        rule = struct.pack("=Qi", rights, beneath)
        _check(_libc.syscall(_ADD_RULE, ruleset, 1, rule, 0), "landlock")
    finally:
        os.close(beneath)


def _check(result: int, call: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result
