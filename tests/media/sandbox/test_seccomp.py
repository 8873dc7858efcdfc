"""Tests of the seccomp filter: it denies a compromised child all calls that media does not need."""

import json
import os
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Sequence
from errno import errorcode
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.sandbox import seccomp
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.sandbox.system_calls import NUMBERS, rules_for
from tests.media.attacks import attacks_on, run_attacks
from tests.media.children import LIMITS, helper_of, output, wait_until_reaped
from tests.media.processes import children_of

_SIGSYS_BY_X32_GETPID = "import ctypes; ctypes.CDLL(None).syscall(0x40000000 | 39)"


def errnos(answers: dict[str, int]) -> dict[str, str]:
    return {name: errorcode.get(answer, "succeeded") for name, answer in answers.items()}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Return a file of the worker, next to the child's folder."""
    path = tmp_path / "outside"
    path.write_text("mine")
    path.chmod(0o600)
    os.utime(path, (1, 1))
    return path


def test_a_child_that_was_taken_over_gets_none_of_its_calls_through(
    sandbox: Sandbox, tmp_path: Path, outside: Path
) -> None:
    attacks, limits = list(attacks_on(os.getpid(), outside)), resource.getrlimit(resource.RLIMIT_NOFILE)
    (tmp_path / "inside").mkdir()
    answers = run_attacks(sandbox, attacks, tmp_path / "inside")
    assert len(answers) > 100
    assert errnos(answers) == errnos({one.name: one.answer for one in attacks if one.number is not None})
    assert (outside.stat().st_mode & 0o777, outside.stat().st_mtime) == (0o600, 1)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits
    assert list((tmp_path / "inside").iterdir()) == []


def test_the_filter_holds_where_namespaces_and_landlock_are_refused(tmp_path: Path, outside: Path) -> None:
    printed = run_denied("namespaces,landlock", "tests.media.attacks", str(tmp_path))
    report: dict[str, Any] = json.loads(printed)
    assert report["isolation"] == {"no_network": False, "no_files": False, "few_system_calls": True}
    expected = {one.name: one.answer for one in attacks_on(0, outside) if one.number is not None}
    assert errnos(report["answers"]) == errnos(expected)
    assert (outside.stat().st_mode & 0o777, outside.stat().st_mtime) == (0o600, 1)


def test_media_is_made_where_namespaces_and_landlock_are_refused() -> None:
    """Without a user namespace, SVT-AV1 runs as root. As root, SVT-AV1 requests real-time scheduling.

    The seccomp filter refuses this request. The encode must succeed anyway.
    """
    chosen = "tests/media/encoding/test_encode.py::test_every_codec_is_made"
    printed = run_denied("namespaces,landlock", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", chosen)
    assert "100%" in printed


def test_no_child_outlives_its_helper_where_namespaces_and_landlock_are_refused() -> None:
    chosen = ("tests/media/sandbox/test_sandbox.py", "-k", "death_signal or killed_one")
    printed = run_denied("namespaces,landlock", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *chosen)
    assert "100%" in printed


def run_denied(layers: str, module: str, *arguments: str) -> str:
    command = [sys.executable, "-m", "tests.media.without_isolation", layers, module, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_a_call_through_the_x32_abi_ends_the_child(sandbox: Sandbox, tmp_path: Path) -> None:
    argv = [os.path.realpath(sys.executable), "-ISc", _SIGSYS_BY_X32_GETPID]
    with sandbox.run(argv, fds={}, cwd=tmp_path, limits=LIMITS) as child:
        output(child)
    assert child.end.code == -signal.SIGSYS


def test_a_child_can_abort(sandbox: Sandbox, tmp_path: Path) -> None:
    """abort() sends a signal to its own process, so the filter has to allow the child's own pid."""
    argv = [os.path.realpath(sys.executable), "-ISc", "import posix; posix.abort()"]
    with sandbox.run(argv, fds={}, cwd=tmp_path, limits=LIMITS) as child:
        output(child)
    assert child.end.code == -signal.SIGABRT


class ProbeState(Exception):
    """An exception that carries the seccomp mode and the open files of a probe."""


def test_a_probe_has_the_filter_and_no_way_to_the_worker(sandbox: Sandbox) -> None:
    """The test inspects the probe in /proc while the probe waits for the first byte of its source."""
    never, held = os.pipe()

    def inspect() -> None:
        (child,) = children_of(helper_of(sandbox))
        mode = Path(f"/proc/{child}/status").read_text().partition("Seccomp:\t")[2][0]
        if mode != "0":  # the filter is installed
            raise ProbeState(
                mode, {str(fd.readlink()).partition(":")[0] for fd in Path(f"/proc/{child}/fd").iterdir()}
            )

    wait_until_reaped(sandbox, Path("/"))
    with pytest.raises(ProbeState) as state:
        sandbox.call("probe", {"fd": 3}, blame=ErrorCode.SOURCE_UNSUPPORTED, fds={3: never}, on_tick=inspect)
    os.close(never)
    os.close(held)
    assert state.value.args == ("2", {os.devnull, "pipe"})


# -- the BPF program, interpreted here for both architectures


def decide(program: bytes, architecture: int, number: int, arguments: Sequence[int] = ()) -> int:
    """Run a BPF program as the kernel does. Return its verdict."""
    words = [number, architecture, 0, 0]
    for argument in [*arguments, *[0] * (6 - len(arguments))]:
        words += [argument & 0xFFFFFFFF, argument >> 32 & 0xFFFFFFFF]
    instructions, index, word = list(struct.iter_unpack("=HBBI", program)), 0, 0
    while True:
        code, if_true, if_false, constant = instructions[index]
        index += 1
        match code:
            case 0x20:
                word = words[constant // 4]
            case 0x54:
                word &= constant
            case 0x15:
                index += if_true if word == constant else if_false
            case 0x35:
                index += if_true if word >= constant else if_false
            case 0x06:
                return int(constant)


@pytest.fixture(params=seccomp.ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> seccomp.Architecture:
    return seccomp.ARCHITECTURES[request.param]


@pytest.fixture
def program(architecture: seccomp.Architecture) -> bytes:
    return seccomp.program_for(architecture, 4711, executes=True)


def test_nothing_but_the_table_is_allowed(architecture: seccomp.Architecture, program: bytes) -> None:
    known = {numbers[architecture.column] for numbers in NUMBERS.values()}
    for number in range(1024):
        verdict = decide(program, architecture.audit, number, (4711,))
        assert (verdict == seccomp.NO_SUCH_CALL) == (number not in known), number


def test_a_child_only_puts_its_pid_into_its_filter(architecture: seccomp.Architecture) -> None:
    filters = seccomp.ChildFilters(architecture)
    for executes in (False, True):
        for pid in (1, 4711, 2**22):
            expected = seccomp.program_for(architecture, pid, executes=executes)
            assert filters.program(pid, executes=executes) == expected


def test_another_architecture_ends_the_process(architecture: seccomp.Architecture, program: bytes) -> None:
    # i386, the other supported architecture (x86-64 or arm64), and 0, which is no architecture
    for other in (0x40000003, 0xC000003E ^ 0xC00000B7 ^ architecture.audit, 0):
        assert decide(program, other, 0) == seccomp.KILL


def test_conditions_are_on_what_the_kernel_reads(architecture: seccomp.Architecture, program: bytes) -> None:
    def verdict(name: str, *arguments: int) -> int:
        number = NUMBERS[name][architecture.column]
        assert number is not None
        return decide(program, architecture.audit, number, arguments)

    junk = 0xDEAD << 32  # the kernel reads only the lower 32 bits of an int
    thread, user = 0x3D0F00, 0x10000000
    assert verdict("kill", 4711 | junk, 6) == seccomp.ALLOW
    assert verdict("kill", 4712, 6) == seccomp.REFUSE
    assert verdict("clone", thread) == seccomp.ALLOW
    assert verdict("clone", thread | user) == seccomp.REFUSE
    assert verdict("clone", 17) == seccomp.REFUSE
    assert verdict("prlimit64", 0, 3, 0, 1) == seccomp.ALLOW
    assert verdict("prlimit64", 0, 3, 1 << 32, 0) == seccomp.REFUSE
    assert verdict("fcntl", 1, 1030) == seccomp.ALLOW
    assert verdict("fcntl", 1, 8) == seccomp.REFUSE
    assert verdict("tgkill", 4711, 4712, 6) == seccomp.ALLOW
    assert verdict("tgkill", 4711, 4712, 9 | junk) == seccomp.REFUSE
    assert verdict("mmap", 0, 4096, 3, 0x20022 | junk) == seccomp.ALLOW
    assert verdict("mmap", 0, 4096, 3, 0x21) == seccomp.REFUSE
    assert verdict("fallocate", 3, 0) == seccomp.ALLOW
    assert verdict("fallocate", 3, 1) == seccomp.REFUSE
    assert verdict("renameat2", -100, 0, -100, 0, 1) == seccomp.ALLOW
    assert verdict("renameat2", -100, 0, -100, 0, 4) == seccomp.REFUSE


def test_only_what_is_to_be_executed_may_execute(architecture: seccomp.Architecture) -> None:
    number = NUMBERS["execve"][architecture.column]
    assert number is not None
    for executes, verdict in ((True, seccomp.ALLOW), (False, seccomp.REFUSE)):
        program = seccomp.program_for(architecture, 1, executes=executes)
        assert decide(program, architecture.audit, number) == verdict


def test_every_rule_is_of_a_call_that_has_a_number() -> None:
    assert rules_for(1, executes=False).keys() == NUMBERS.keys()
