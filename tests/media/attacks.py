"""System calls that a compromised child can try, each with the error number that it must get.

`python -m tests.media.attacks FOLDER` makes all of these calls in a new sandbox and prints the error numbers.
Tests start this command in a process that is denied namespaces and Landlock.
"""

import json
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from errno import EACCES, EBADF, ENOSYS, EPERM
from pathlib import Path

from euterpe.media.sandbox.confine import ResourceLimits
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media import attacker
from tests.media.children import output

_AT_FDCWD = -100
_CLONE_NEWUSER, _CLONE_THREAD = 0x10000000, 0x10000
_SIGCHLD = 17
_RLIMIT_NOFILE = 7
_F_SETOWN, _F_SETSIG, _F_SETPIPE_SZ = 8, 10, 1031
_TIOCSTI, _TIOCLINUX, _FS_IOC_SETFLAGS = 0x5412, 0x541C, 0x40086602
_PR_SET_PDEATHSIG, _PR_SET_PTRACER = 1, 0x59616D61
_SIGKILL, _SIGSTOP = 9, 19
_READ, _WRITE = 1, 2
_SHARED, _PRIVATE, _SHARED_VALIDATE, _ANONYMOUS, _GROWS_DOWN = 1, 2, 3, 0x20, 0x100
_KEEP_SIZE, _PUNCH_HOLE, _WHITEOUT = 1, 2, 4
_PRIO_USER = 2
_ROOM = "\0" * 256  # a buffer for a structure that the kernel reads or writes


@dataclass(frozen=True)
class Attack:
    """A system call, and its numbers on x86-64 and arm64.

    A number is None if the architecture does not have the call.
    """

    name: str
    numbers: tuple[int | None, int | None]
    arguments: tuple[int | str, ...]
    answer: int = ENOSYS

    @property
    def number(self) -> int | None:
        return self.numbers[0 if platform.machine() == "x86_64" else 1]


def attacks_on(worker: int, outside: Path) -> Iterator[Attack]:
    """Yield the forbidden system calls, some of which use the process `worker` or the file `outside`."""
    file = str(outside)
    yield from _network(str(outside.with_name("socket")))
    yield from _processes(worker)
    yield from _files(file)
    yield from _memory()
    yield from _kernel()
    yield from _machine()
    yield from _credentials()
    yield from _signals_to_itself()


def _network(socket: str) -> Iterator[Attack]:
    address = "\x01\0" + socket
    yield Attack("a UNIX socket", (41, 198), (1, 1, 0))
    yield Attack("a TCP socket", (41, 198), (2, 1, 0))
    yield Attack("a netlink socket", (41, 198), (16, 3, 0))
    yield Attack("an AF_ALG socket", (41, 198), (38, 5, 0))
    yield Attack("a vsock socket", (41, 198), (40, 1, 0))
    yield Attack("socketpair", (53, 199), (1, 1, 0, _ROOM))
    yield Attack("connect", (42, 203), (0, address, len(address) + 1))
    yield Attack("bind", (49, 200), (0, address, len(address) + 1))
    yield Attack("listen", (50, 201), (0, 1))
    yield Attack("accept4", (288, 242), (0, 0, 0, 0))
    yield Attack("sendto", (44, 206), (1, "x", 1, 0, 0, 0))
    yield Attack("sendmsg", (46, 211), (1, _ROOM, 0))
    yield Attack("recvmsg", (47, 212), (0, _ROOM, 0))


def _processes(worker: int) -> Iterator[Attack]:
    yield Attack("prlimit64 of the worker", (302, 261), (worker, _RLIMIT_NOFILE, 0, _ROOM), EPERM)
    yield Attack("prlimit64 of the helper", (302, 261), ("$parent", _RLIMIT_NOFILE, 0, _ROOM), EPERM)
    yield Attack("prlimit64 that sets its own", (302, 261), (0, 16, _ROOM, 0), EPERM)
    yield Attack("prlimit64 with a limit above 4 GiB in memory", (302, 261), (0, 16, 1 << 32, 0), EPERM)
    yield Attack("setrlimit", (160, 164), (16, _ROOM))
    yield Attack("kill of the worker", (62, 129), (worker, 0), EPERM)
    yield Attack("kill of the helper", (62, 129), ("$parent", 0), EPERM)
    yield Attack("kill of everything", (62, 129), (-1, 0), EPERM)
    yield Attack("kill of its group", (62, 129), (0, 0), EPERM)
    yield Attack("tgkill of the worker", (234, 131), (worker, worker, 0), EPERM)
    yield Attack("tkill of the worker", (200, 130), (worker, 0))
    yield Attack("rt_sigqueueinfo", (129, 138), (worker, 0, _ROOM))
    yield Attack("rt_tgsigqueueinfo", (297, 240), (worker, worker, 0, _ROOM))
    yield Attack("SIGKILL by F_SETOWN", (72, 25), (1, _F_SETOWN, worker), EPERM)
    yield Attack("SIGKILL by F_SETSIG", (72, 25), (1, _F_SETSIG, _SIGKILL), EPERM)
    yield Attack("pidfd_open", (434, 434), (worker, 0))
    yield Attack("pidfd_send_signal", (424, 424), (0, 0, 0, 0))
    yield Attack("pidfd_getfd", (438, 438), (0, 0, 0))
    yield Attack("the memory of the helper", (257, 56), (_AT_FDCWD, "/proc/$parent/mem", os.O_RDWR), EACCES)
    yield Attack("ptrace", (101, 117), (1, worker, 0, 0))
    yield Attack("process_vm_readv", (310, 270), (worker, _ROOM, 1, _ROOM, 1, 0))
    yield Attack("process_vm_writev", (311, 271), (worker, _ROOM, 1, _ROOM, 1, 0))
    yield Attack("process_madvise", (440, 440), (0, _ROOM, 1, 0, 0))
    yield Attack("kcmp", (312, 272), (worker, worker, 0, 0, 0))
    yield Attack("setpriority of all of the user's", (141, 140), (_PRIO_USER, 0, 19), EPERM)
    yield Attack("sched_setaffinity of the worker", (203, 122), (worker, 8, "\x01" + "\0" * 7), EPERM)
    yield Attack("sched_setscheduler of the worker", (144, 119), (worker, 5, _ROOM), EPERM)
    yield Attack("ioprio_set of the worker", (251, 30), (1, worker, 0))
    yield Attack("move_pages of the worker", (279, 239), (worker, 0, 0, 0, 0, 0))
    yield Attack("PR_SET_PDEATHSIG", (157, 167), (_PR_SET_PDEATHSIG, 0, 0, 0, 0), EPERM)
    yield Attack("PR_SET_PTRACER", (157, 167), (_PR_SET_PTRACER, worker, 0, 0, 0), EPERM)
    yield Attack("setsid", (112, 157), ())
    yield Attack("setpgid", (109, 154), (0, 0))
    yield Attack("fork", (57, None), (), EPERM)
    yield Attack("clone of a process", (56, 220), (_SIGCHLD, 0, 0, 0, 0), EPERM)
    yield Attack("clone into a user namespace", (56, 220), (_CLONE_NEWUSER | _SIGCHLD, 0, 0, 0, 0), EPERM)
    yield Attack(
        "clone of a thread into a user namespace",
        (56, 220),
        (_CLONE_NEWUSER | _CLONE_THREAD, 0, 0, 0, 0),
        EPERM,
    )
    yield Attack("clone3", (435, 435), (_ROOM, 88))
    yield Attack("execveat", (322, 281), (_AT_FDCWD, "/bin/true", 0, 0, 0))


def _files(file: str) -> Iterator[Attack]:
    yield Attack("write to stdin", (1, 64), (0, "x", 1), EBADF)
    yield Attack("FALLOC_FL_KEEP_SIZE", (285, 47), (1, _KEEP_SIZE, 0, 1 << 30), EPERM)
    yield Attack("FALLOC_FL_PUNCH_HOLE", (285, 47), (1, _KEEP_SIZE | _PUNCH_HOLE, 0, 4096), EPERM)
    yield Attack("RENAME_WHITEOUT", (316, 276), (_AT_FDCWD, "a", _AT_FDCWD, "b", _WHITEOUT), EPERM)
    yield Attack("chmod", (90, None), (file, 0o777))
    yield Attack("fchmod", (91, 52), (1, 0o777))
    yield Attack("fchmodat", (268, 53), (_AT_FDCWD, file, 0o777))
    yield Attack("fchmodat2", (452, 452), (_AT_FDCWD, file, 0o777, 0))
    yield Attack("chown", (92, None), (file, -1, -1))
    yield Attack("fchown", (93, 55), (1, -1, -1))
    yield Attack("lchown", (94, None), (file, -1, -1))
    yield Attack("fchownat", (260, 54), (_AT_FDCWD, file, -1, -1, 0))
    yield Attack("utime", (132, None), (file, 0))
    yield Attack("utimes", (235, None), (file, 0))
    yield Attack("futimesat", (261, None), (_AT_FDCWD, file, 0))
    yield Attack("utimensat", (280, 88), (_AT_FDCWD, file, 0, 0))
    yield Attack("setxattr", (188, 5), (file, "user.x", "x", 1, 0))
    yield Attack("setxattrat", (463, 463), (_AT_FDCWD, file, 0, "user.x", _ROOM, 16))
    yield Attack("getxattr", (191, 8), (file, "user.x", _ROOM, 8))
    yield Attack("listxattr", (194, 11), (file, _ROOM, 8))
    yield Attack("removexattr", (197, 14), (file, "user.x"))
    yield Attack("file_setattr", (469, 469), (_AT_FDCWD, file, _ROOM, 24, 0))
    yield Attack("FS_IOC_SETFLAGS", (16, 29), (1, _FS_IOC_SETFLAGS, _ROOM), EPERM)
    yield Attack("truncate", (76, 45), (file, 0))
    yield Attack("mknodat", (259, 33), (_AT_FDCWD, "fifo", 0o10600, 0))
    yield Attack("mkdirat", (258, 34), (_AT_FDCWD, "folder", 0o700))
    yield Attack("link", (86, None), (file, "hard"))
    yield Attack("linkat", (265, 37), (_AT_FDCWD, file, _AT_FDCWD, "hard", 0))
    yield Attack("symlink", (88, None), (file, "soft"))
    yield Attack("symlinkat", (266, 36), (file, _AT_FDCWD, "soft"))
    yield Attack("name_to_handle_at", (303, 264), (_AT_FDCWD, file, _ROOM, _ROOM, 0))
    yield Attack("open_by_handle_at", (304, 265), (_AT_FDCWD, _ROOM, 0))
    yield Attack("fanotify_init", (300, 262), (0, 0))
    yield Attack("inotify_init1", (294, 26), (0,))
    yield Attack("statfs", (137, 43), (file, _ROOM))
    yield Attack("chdir", (80, 49), ("/",))
    yield Attack("sync", (162, 81), ())


def _memory() -> Iterator[Attack]:
    for name, flags in {
        "shared memory": _SHARED | _ANONYMOUS,
        "shared memory, validated": _SHARED_VALIDATE | _ANONYMOUS,
        "shared memory of a file": _SHARED,
        "a stack of any size": _PRIVATE | _ANONYMOUS | _GROWS_DOWN,
    }.items():
        yield Attack(name, (9, 222), (0, 4096, _READ | _WRITE, flags, 0, 0), EPERM)


def _kernel() -> Iterator[Attack]:
    yield Attack("io_uring_setup", (425, 425), (1, _ROOM))
    yield Attack("io_uring_enter", (426, 426), (0, 0, 0, 0, 0, 0))
    yield Attack("io_uring_register", (427, 427), (0, 0, 0, 0))
    yield Attack("io_setup", (206, 0), (1, _ROOM))
    yield Attack("add_key", (248, 217), ("user", "euterpe", "x", 1, -3))
    yield Attack("request_key", (249, 218), ("user", "euterpe", 0, 0))
    yield Attack("keyctl", (250, 219), (0, -3, 0, 0, 0))
    yield Attack("bpf", (321, 280), (0, _ROOM, 72))
    yield Attack("perf_event_open", (298, 241), (_ROOM, 0, -1, -1, 0))
    yield Attack("userfaultfd", (323, 282), (1,))
    yield Attack("memfd_create", (319, 279), ("memory", 0))
    yield Attack("memfd_secret", (447, 447), (0,))
    yield Attack("a pipe of 1 MiB", (72, 25), (1, _F_SETPIPE_SZ, 1 << 20), EPERM)
    yield Attack("shmget", (29, 194), (0, 4096, 0o1600))
    yield Attack("semget", (64, 190), (0, 1, 0o1600))
    yield Attack("msgget", (68, 186), (0, 0o1600))
    yield Attack("mq_open", (240, 180), ("queue", 0o102, 0o600, 0))
    yield Attack("mount", (165, 40), ("none", ".", "tmpfs", 0, 0))
    yield Attack("umount2", (166, 39), ("/nothing/here", 0))
    yield Attack("pivot_root", (155, 41), (".", "."))
    yield Attack("move_mount", (429, 429), (-1, "", -1, "", 0))
    yield Attack("open_tree", (428, 428), (_AT_FDCWD, ".", 0))
    yield Attack("fsopen", (430, 430), ("tmpfs", 0))
    yield Attack("mount_setattr", (442, 442), (_AT_FDCWD, ".", 0, _ROOM, 32))
    yield Attack("unshare", (272, 97), (_CLONE_NEWUSER,))
    yield Attack("setns", (308, 268), (0, 0))
    yield Attack("chroot", (161, 51), (".",))
    yield Attack("seccomp", (317, 277), (2, 0, "\0\0\xff\x7f"))
    yield Attack("splice", (275, 76), (0, 0, 1, 0, 1, 0))
    yield Attack("vmsplice", (278, 75), (1, _ROOM, 1, 0))
    yield Attack("TIOCSTI", (16, 29), (0, _TIOCSTI, "x"), EPERM)
    yield Attack("TIOCLINUX", (16, 29), (0, _TIOCLINUX, "\x02"), EPERM)


def _machine() -> Iterator[Attack]:
    yield Attack("kexec_load", (246, 104), (0, 0, 0, 0))
    yield Attack("init_module", (175, 105), (_ROOM, 0, ""))
    yield Attack("finit_module", (313, 273), (-1, "", 0))
    yield Attack("delete_module", (176, 106), ("nothing", 0))
    yield Attack("reboot", (169, 142), (0, 0, 0, 0))
    yield Attack("swapon", (167, 224), ("/nothing/here", 0))
    yield Attack("quotactl", (179, 60), (0, 0, 0, 0))
    yield Attack("sethostname", (170, 161), ("x", 1 << 20))
    yield Attack("clock_settime", (227, 112), (-1, _ROOM))
    yield Attack("adjtimex", (159, 171), (_ROOM,))
    yield Attack("acct", (163, 89), ("/nothing/here",))
    yield Attack("syslog", (103, 116), (10, 0, 0))
    yield Attack("vhangup", (153, 58), ())
    yield Attack("personality", (135, 92), (0xFFFFFFFF,))


def _credentials() -> Iterator[Attack]:
    yield Attack("setuid", (105, 146), (os.getuid(),))
    yield Attack("setresuid", (117, 147), (-1, -1, -1))
    yield Attack("setgroups", (116, 159), (0, 0))
    yield Attack("setfsuid", (122, 151), (-1,))
    yield Attack("capset", (126, 91), (_ROOM, _ROOM))


def _signals_to_itself() -> Iterator[Attack]:
    """Yield signals to the child itself.

    These calls must be the last. If a signal ends the child, the child looks as if another process had killed
    it.
    """
    for number, name in ((_SIGKILL, "SIGKILL"), (_SIGSTOP, "SIGSTOP")):
        yield Attack(f"{name} to itself", (62, 129), ("$self", number), EPERM)
        yield Attack(f"{name} to its thread", (234, 131), ("$self", "$self", number), EPERM)
        yield Attack(f"{name} by tkill", (200, 130), ("$self", number))


def run_attacks(sandbox: Sandbox, attacks: list[Attack], folder: Path) -> dict[str, int]:
    """Make the calls in a sandboxed child. Return the error number of each call, or 0 if it succeeded."""
    calls = [(one.name, one.number, one.arguments) for one in attacks if one.number is not None]
    python = os.path.realpath(sys.executable)
    argv = [python, "-ISc", Path(attacker.__file__).read_text(), json.dumps(calls)]
    limits = ResourceLimits(memory_bytes=1 << 30, cpu_seconds=60, file_bytes=1 << 20)
    with sandbox.run(argv, fds={}, cwd=folder, limits=limits) as child:
        printed = output(child)
    assert child.end.code == 0, printed
    return dict(json.loads(line) for line in printed.splitlines())


def main(folder: Path) -> None:
    inside = folder / "inside"
    inside.mkdir()
    attacks = list(attacks_on(os.getpid(), folder / "outside"))
    with Sandbox(Path("/bin/true")) as sandbox:
        answers = run_attacks(sandbox, attacks, inside)
        sys.stdout.write(json.dumps({"isolation": asdict(sandbox.isolation), "answers": answers}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
