"""The system calls that decoding, encoding and writing files need: the allow list of the seccomp filter.

The list was measured with `strace -f` over every encode, probe, check and still image of the tests, which
made 37 different calls with the bundled ffmpeg 9.0.2, PyAV 18 and glibc 2.36. The list also contains the
calls that the same work needs with another libc (musl, older and newer glibc) or another ffmpeg. A deny list
would not be safe, because each kernel release adds calls that have the effect of a denied call. For example,
`io_uring` opens sockets, and `setxattrat` (6.13) and `file_setattr` (6.17) change files by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_WORD = 0xFFFFFFFF


@dataclass(frozen=True)
class Condition:
    """A test of 32 bits of one argument: `argument & mask` must be one of `values`.

    The kernel reads only the low half of an argument of type `int`. A pointer needs a second condition, for
    its high half.
    """

    argument: int
    values: tuple[int, ...]
    mask: int = _WORD
    high: bool = False


# The conditions of a call, all of which must hold. An empty rule always allows the call.
Rule = tuple[Condition, ...]

# Numbers on x86-64 and on arm64, from the kernel's unistd.h. None means that the architecture lacks the call.
NUMBERS: Mapping[str, tuple[int | None, int | None]] = MappingProxyType(
    {
        # memory
        "brk": (12, 214),
        "madvise": (28, 233),
        "membarrier": (324, 283),
        "mincore": (27, 232),
        "mmap": (9, 222),
        "mprotect": (10, 226),
        "mremap": (25, 216),
        "msync": (26, 227),
        "munmap": (11, 215),
        # open files
        "close": (3, 57),
        "close_range": (436, 436),
        "dup": (32, 23),
        "dup2": (33, None),
        "dup3": (292, 24),
        "epoll_create1": (291, 20),
        "epoll_ctl": (233, 21),
        "epoll_pwait": (281, 22),
        "epoll_wait": (232, None),
        "eventfd2": (290, 19),
        "fadvise64": (221, 223),
        "fallocate": (285, 47),
        "fcntl": (72, 25),
        "fdatasync": (75, 83),
        "fstat": (5, 80),
        "fsync": (74, 82),
        "ftruncate": (77, 46),
        "getdents": (78, None),
        "getdents64": (217, 61),
        "ioctl": (16, 29),
        "lseek": (8, 62),
        "pipe": (22, None),
        "pipe2": (293, 59),
        "poll": (7, None),
        "ppoll": (271, 73),
        "pread64": (17, 67),
        "preadv": (295, 69),
        "preadv2": (327, 286),
        "pselect6": (270, 72),
        "pwrite64": (18, 68),
        "pwritev": (296, 70),
        "pwritev2": (328, 287),
        "read": (0, 63),
        "readv": (19, 65),
        "select": (23, None),
        "sync_file_range": (277, 84),
        "write": (1, 64),
        "writev": (20, 66),
        # files by name (Landlock limits which files)
        "access": (21, None),
        "faccessat": (269, 48),
        "faccessat2": (439, 439),
        "getcwd": (79, 17),
        "lstat": (6, None),
        "newfstatat": (262, 79),
        "open": (2, None),
        "openat": (257, 56),
        "readlink": (89, None),
        "readlinkat": (267, 78),
        "rename": (82, None),
        "renameat": (264, 38),
        "renameat2": (316, 276),
        "stat": (4, None),
        "statx": (332, 291),
        "unlink": (87, None),
        "unlinkat": (263, 35),
        # threads and processes
        "arch_prctl": (158, None),
        "clone": (56, 220),
        "execve": (59, 221),
        "exit": (60, 93),
        "exit_group": (231, 94),
        "fork": (57, None),
        "futex": (202, 98),
        "getcpu": (309, 168),
        "getegid": (108, 177),
        "geteuid": (107, 175),
        "getgid": (104, 176),
        "getpgid": (121, 155),
        "getpgrp": (111, None),
        "getpid": (39, 172),
        "getppid": (110, 173),
        "getpriority": (140, 141),
        "getresgid": (120, 150),
        "getresuid": (118, 148),
        "gettid": (186, 178),
        "getuid": (102, 174),
        "prctl": (157, 167),
        "rseq": (334, 293),
        "sched_getaffinity": (204, 123),
        "sched_setaffinity": (203, 122),
        "sched_setscheduler": (144, 119),
        "sched_yield": (24, 124),
        "set_robust_list": (273, 99),
        "set_tid_address": (218, 96),
        "setpriority": (141, 140),
        "vfork": (58, None),
        # limits, usage and the machine
        "getrandom": (318, 278),
        "getrlimit": (97, 163),
        "getrusage": (98, 165),
        "prlimit64": (302, 261),
        "sysinfo": (99, 179),
        "times": (100, 153),
        "uname": (63, 160),
        # signals
        "kill": (62, 129),
        "pause": (34, None),
        "restart_syscall": (219, 128),
        "rt_sigaction": (13, 134),
        "rt_sigpending": (127, 136),
        "rt_sigprocmask": (14, 135),
        "rt_sigreturn": (15, 139),
        "rt_sigsuspend": (130, 133),
        "rt_sigtimedwait": (128, 137),
        "sigaltstack": (131, 132),
        "tgkill": (234, 131),
        # time
        "clock_getres": (229, 114),
        "clock_gettime": (228, 113),
        "clock_nanosleep": (230, 115),
        "gettimeofday": (96, 169),
        "nanosleep": (35, 101),
        "time": (201, None),
    }
)

_CLONE_THREAD = 0x10000
# The flags that create namespaces: CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
_CLONE_NEW = 0x20000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL, _F_DUPFD_CLOEXEC = 0, 1, 2, 3, 4, 1030
_TCGETS, _TIOCGWINSZ, _FIONREAD, _FIONCLEX, _FIOCLEX = 0x5401, 0x5413, 0x541B, 0x5450, 0x5451
_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA = 15, 16, 0x53564D41
_PRIO_PROCESS = 0
_MAP_SHARED, _MAP_GROWSDOWN = 0x1, 0x100
_RENAME_NOREPLACE, _RENAME_EXCHANGE = 1, 2
# SIGABRT, which abort() raises, and the signals that glibc and musl send to threads of their own process.
_OWN_SIGNALS = (6, 32, 33, 34)

ALWAYS: Rule = ()
# This condition is never true, so the call returns EPERM, as for a process without privileges. Programs
# continue after EPERM, but can end with an error after ENOSYS.
NEVER: Rule = (Condition(0, ()),)


def rules_for(pid: int, *, executes: bool) -> dict[str, Rule]:
    """Return the rule of each allowed call for the process `pid`.

    With `executes`, the process may start a program.
    """
    return {
        **dict.fromkeys(NUMBERS, ALWAYS),
        # Threads are allowed and processes are not. A new process would have a memory limit of its own, could
        # leave the session that the helper kills as a whole, and would not die with the helper.
        "clone": (Condition(0, (_CLONE_THREAD,), mask=_CLONE_THREAD | _CLONE_NEW),),
        "fork": NEVER,
        "vfork": NEVER,
        "execve": ALWAYS if executes else NEVER,
        # F_SETOWN and F_SETSIG can send any signal to any process; F_SETPIPE_SZ allocates memory that no
        # limit counts.
        "fcntl": (Condition(1, (_F_DUPFD, _F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL, _F_DUPFD_CLOEXEC)),),
        "ioctl": (Condition(1, (_TCGETS, _TIOCGWINSZ, _FIONREAD, _FIONCLEX, _FIOCLEX)),),
        # Only mode 0 is allowed. Other modes can allocate space without a change of the file's size, but
        # RLIMIT_FSIZE limits only the size. In such a mode, a file with a limit of 1 MiB occupied 3,000 MiB
        # of the disk.
        "fallocate": (Condition(1, (0,)),),
        # A process may signal only itself, for abort(). SIGKILL is not allowed, because the end would look as
        # if another process had killed the child.
        "kill": (Condition(0, (pid,)), Condition(1, _OWN_SIGNALS)),
        "tgkill": (Condition(0, (pid,)), Condition(2, _OWN_SIGNALS)),
        # Shared mappings and mappings that grow down are not allowed, because RLIMIT_DATA does not count
        # them. After MADV_DONTNEED, shared memory does not even appear in the figures of the process: a child
        # occupied 3,000 MiB under a limit of 256 MiB, and the OOM killer killed other children. Shared
        # mappings of files are not allowed either: media does not need them, and a shared mapping of
        # /dev/zero is shared memory. MAP_SHARED_VALIDATE has the same bit as MAP_SHARED.
        "mmap": (Condition(3, (0,), mask=_MAP_SHARED | _MAP_GROWSDOWN),),
        # RENAME_WHITEOUT is not allowed, because it creates a device file.
        "renameat2": (Condition(4, (0, _RENAME_NOREPLACE, _RENAME_EXCHANGE)),),
        # PR_SET_PDEATHSIG is not allowed, because a child could use it to outlive the helper.
        "prctl": (Condition(0, (_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA)),),
        # A process may read its own limits. The third argument points to new limits, so it must be null.
        "prlimit64": (Condition(0, (0, pid)), Condition(2, (0,)), Condition(2, (0,), high=True)),
        "sched_setaffinity": (Condition(0, (0, pid)),),
        # SVT-AV1 asks for real-time scheduling when it runs as root. Return EPERM, as the kernel does without
        # CAP_SYS_NICE.
        "sched_setscheduler": NEVER,
        "setpriority": (Condition(0, (_PRIO_PROCESS,)), Condition(1, (0, pid))),
    }
