"""A seccomp filter for the calling process: the kernel refuses system calls that media does not need.

The filter is a classic BPF program, assembled here from a table of rules. A call that is not in the table
returns ENOSYS, as from a kernel that lacks the call, so that libraries fall back (glibc from `clone3` to
`clone`, from `faccessat2` to `faccessat`). A call that is in the table but fails a condition returns EPERM.
The kernel kills a process that makes a call through a foreign architecture or the x32 ABI, because there the
same numbers mean other calls.
"""

import ctypes
import errno
import os
import platform
import struct
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from euterpe.media.sandbox.system_calls import NUMBERS, Condition, Rule, rules_for

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2

# BPF instructions: load a word, AND with a constant, jump if equal, jump if greater or equal, return.
_LOAD, _AND, _IF_EQUAL, _IF_AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
ALLOW, _ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
REFUSE, NO_SUCH_CALL = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS

# Offsets in struct seccomp_data.
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_FIRST_X32_NUMBER = 0x40000000
# The placeholder for the child's pid. The placeholder is not a valid pid (on Linux, pids are at most 2**22),
# and no filter contains the same number with another meaning.
_ANY_PID = 0x7ABCDEF1

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


@dataclass(frozen=True)
class Architecture:
    """A CPU architecture: `audit` is its AUDIT_ARCH constant, `column` is its column in `NUMBERS`."""

    audit: int
    column: int
    has_x32: bool = False


ARCHITECTURES: Mapping[str, Architecture] = {
    "x86_64": Architecture(audit=0xC000003E, column=0, has_x32=True),
    "aarch64": Architecture(audit=0xC00000B7, column=1),
}


def can_filter() -> bool:
    """Return whether this kernel and this architecture support the filter."""
    # For a call without a program, the kernel returns EFAULT if it supports filters, and else EINVAL.
    _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, None, 0, 0)
    return ctypes.get_errno() == errno.EFAULT and platform.machine() in ARCHITECTURES


def child_filters() -> "ChildFilters | None":
    """Return the filters, or None if this architecture or the kernel does not support filters."""
    return ChildFilters(ARCHITECTURES[platform.machine()]) if can_filter() else None


class ChildFilters:
    """The filters of all children.

    The filters are assembled once, before the forks, because assembling them takes 0.9 ms and copies 130
    pages. A child only replaces the placeholder by its own pid.
    """

    def __init__(self, architecture: Architecture) -> None:
        self._programs = {
            executes: array("I", program_for(architecture, _ANY_PID, executes=executes))
            for executes in (False, True)
        }
        self._places = {
            executes: [place for place in range(1, len(words), 2) if words[place] == _ANY_PID]
            for executes, words in self._programs.items()
        }

    def install(self, *, executes: bool) -> None:
        """Permanently limit this process, and a program that it executes, to the calls of the table."""
        install(self.program(os.getpid(), executes=executes))

    def program(self, pid: int, *, executes: bool) -> bytes:
        """Return the filter of the child `pid`."""
        words = self._programs[executes][:]
        for place in self._places[executes]:
            words[place] = pid
        return words.tobytes()


def program_for(architecture: Architecture, pid: int, *, executes: bool) -> bytes:
    """Return the filter of the child `pid`."""
    rules = {
        number: rule
        for name, rule in rules_for(pid, executes=executes).items()
        if (number := NUMBERS[name][architecture.column]) is not None
    }
    return assemble(architecture, rules, otherwise=NO_SUCH_CALL)


def install(program: bytes) -> None:
    """Install a filter on this thread.

    Children of the thread, and programs that it executes, inherit the filter. `no_new_privs` must be set.
    """
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    if _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the seccomp filter cannot be installed")


def assemble(architecture: Architecture, rules: Mapping[int, Rule], *, otherwise: int) -> bytes:
    """Return the BPF program that applies `rules` by call number, and `otherwise` to every other call."""
    instructions = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_IF_EQUAL, 1, 0, architecture.audit),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if architecture.has_x32:
        instructions += [(_IF_AT_LEAST, 0, 1, _FIRST_X32_NUMBER), (_RETURN, 0, 0, KILL)]
    for number, rule in sorted(rules.items()):
        block = [*_decide(rule)]
        instructions += [(_IF_EQUAL, 0, len(block), number), *block]
    instructions.append((_RETURN, 0, 0, otherwise))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)


def _decide(rule: Rule) -> Iterator[Instruction]:
    """Yield the block of one call. Each block ends in a return, so that no jump is longer than a block."""
    for condition in rule:
        yield from _require(condition)
    yield (_RETURN, 0, 0, ALLOW)


def _require(condition: Condition) -> Iterator[Instruction]:
    # Both architectures are little-endian, so the low half of an argument has the lower address.
    offset = _ARGUMENTS + 8 * condition.argument + (4 if condition.high else 0)
    yield (_LOAD, 0, 0, offset)
    yield (_AND, 0, 0, condition.mask)
    for place, value in enumerate(condition.values):
        yield (_IF_EQUAL, len(condition.values) - place, 0, value)
    yield (_RETURN, 0, 0, REFUSE)
