"""Classify an ffmpeg failure from its exit status, resource usage and stderr.

Facts from the kernel (signal, processor time, memory) decide whether a retry can help and whose fault the
failure is. The stderr of ffmpeg quotes the source, which can contain any text (invariant `blame`). So stderr
can only select a code that is permanent and blames the source.
"""

import re
import signal

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.child import Exit
from euterpe.media.sandbox.confine import ResourceLimits

_KEPT_BYTES = 16 * 1024
_LONGEST_LINE = 2_000
_NO_MEMORY = b"Cannot allocate memory"
_SHOWN_LINES, _SHOWN_CHARACTERS = 3, 600

# A process that fails at its memory limit has rarely touched all the memory that it reserved: an encode of
# 2160 lines failed with 28 % of 512 MiB resident. A process that wrote to all its memory had 100 % resident.
# So a usage above this share proves that the memory ran out, and a usage below this share proves nothing.
_MEMORY_SHARE = 0.75
# The exit code of ffmpeg after a signal that it catches, such as SIGXCPU.
_CAUGHT_A_SIGNAL = 255
# To enforce the limit, the kernel samples the processor time in ticks, but the processor time that it reports
# is exact. On a busy machine, a process with a limit of 1 s received SIGXCPU after a measured 0.85 s.
_CLOCK_SHARE = 0.75

# The first pattern that matches selects the code. Every code here is permanent and blames the source.
_STDERR_PATTERNS = (
    # The last packet of a truncated file is corrupt, so in these containers a corrupt packet counts as
    # truncation. In other containers a packet can be corrupt in a file that is not truncated.
    (
        r"in#0/(?:mov|matroska|avi|wav)\S* .*corrupt input packet"
        r"|partial file|moov atom not found|ended prematurely|[Tt]runcated|end of file",
        ErrorCode.SOURCE_TRUNCATED,
        "the source is cut off",
    ),
    (
        r"not on whitelist|[Dd]ecoder .*not found|no decoder found|size .* is invalid|not implemented",
        ErrorCode.SOURCE_UNSUPPORTED,
        "the source contains something that is not supported",
    ),
    (r"Invalid data|[Ee]rror .*decod|[Cc]orrupt", ErrorCode.SOURCE_DAMAGED, "the source is damaged"),
)

# After the first error each further component of ffmpeg stops, and logs one of these messages.
_FOLLOW_UP = re.compile(
    "Task finished|Terminating thread|Conversion failed|Nothing was written|Error sending frames"
)
# Paths on our disk and addresses in ffmpeg's memory are not shown to a requester.
_PRIVATE = re.compile(r" @ 0x[0-9a-f]+|(?<![\w/])/[^\s:'\"]+")
# ffmpeg writes the component and the level before a message, for example "[h264] [error] ".
_COMPONENT_AND_LEVEL = re.compile(r"^(?:\[[^\]]*\] *)+")


class FailureReason:
    """The tail of ffmpeg's stderr, bounded in size, from which the error is derived.

    The first line about damage is also kept, because hundreds of harmless warnings can follow it.
    """

    def __init__(self) -> None:
        self._tail = self._line = b""
        self._first_damage: str | None = None
        self._lacked_memory = False

    def add(self, data: bytes) -> None:
        *lines, self._line = (self._line + data).split(b"\n")
        self._line = self._line[-_LONGEST_LINE:]
        for line in lines:
            self._note(line)
        self._tail = _last_lines(self._tail + data)

    def _note(self, line: bytes) -> None:
        self._lacked_memory |= _NO_MEMORY in line
        if self._first_damage is None and b"[info]" not in line:
            shown = _printable(line[:_LONGEST_LINE]).strip()
            self._first_damage = shown if _is_damage(shown) else None

    @property
    def text(self) -> str:
        """Return the tail as printable text, without addresses and paths."""
        return _printable(self._tail)

    @property
    def _complaints(self) -> str:
        """Return the text without lines of level `info`, in which a measurement quotes the source's tags."""
        return "\n".join(line for line in self.text.splitlines() if "[info]" not in line)

    def damage(self) -> str | None:
        """Return ffmpeg's first message about damage in the source, or None if ffmpeg reported no damage."""
        self._note(self._line)
        if self._first_damage is None:
            return None
        message = _COMPONENT_AND_LEVEL.sub("", self._first_damage)
        return f"the source is damaged; ffmpeg reports: {message[:_SHOWN_CHARACTERS]}"

    def out_of_memory(
        self, end: Exit, limits: ResourceLimits, held_memory_bytes: int = 0
    ) -> MediaError | None:
        """Return an error if ffmpeg ran out of memory but ended with success, or else None.

        If one of its decoders fails for lack of memory, ffmpeg continues, and can end with success.

        ffmpeg's message alone proves nothing, because the message can quote the source.
        """
        self._note(self._line)
        proved = error_from_exit(end, limits, held_memory_bytes) if self._lacked_memory else None
        return proved if proved is not None and proved.code is ErrorCode.OUT_OF_MEMORY else None

    def verdict(self, end: Exit, limits: ResourceLimits, held_memory_bytes: int = 0) -> MediaError:
        """Return the error for the failed process.

        `held_memory_bytes` is the largest observed use of the memory that `limits.memory_bytes` limits.
        """
        if (proved := error_from_exit(end, limits, held_memory_bytes)) is not None:
            return proved
        text = self._complaints
        for pattern, code, message in _STDERR_PATTERNS:
            if re.search(pattern, text):
                return MediaError(code, self._with_stderr(message))
        how = f"got {_signal_name(-end.code)}" if end.code < 0 else f"failed with exit code {end.code}"
        return MediaError(ErrorCode.ENCODE_FAILED, self._with_stderr(f"ffmpeg {how}"))

    def _with_stderr(self, message: str) -> str:
        lines = [
            line.strip()
            for line in self._complaints.splitlines()
            if line.strip() and not _FOLLOW_UP.search(line)
        ]
        shown = " · ".join(lines[:_SHOWN_LINES])[:_SHOWN_CHARACTERS]
        return f"{message}: {shown}" if shown else message


def _printable(data: bytes) -> str:
    """Return the text without addresses and paths, and with a question mark for each control character."""
    shown = _PRIVATE.sub("", data.decode(errors="replace"))
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in shown)


def _is_damage(line: str) -> bool:
    return any(re.search(pattern, line) for pattern, _, _ in _STDERR_PATTERNS)


def _last_lines(data: bytes) -> bytes:
    """Return the last whole lines, or the end of the last line if this line is too long."""
    if len(data) <= _KEPT_BYTES:
        return data
    _, _, rest = data[-_KEPT_BYTES:].partition(b"\n")
    return rest or data[-_KEPT_BYTES:]


def error_from_exit(end: Exit, limits: ResourceLimits, held_memory_bytes: int = 0) -> MediaError | None:
    """Return the error that the exit status and resource usage prove, or None when they prove nothing."""
    if end.code == -signal.SIGXFSZ:
        return MediaError(ErrorCode.OUTPUT_TOO_LARGE, "an output grew larger than is allowed")
    if _used_up_its_time(end, limits):
        return MediaError(ErrorCode.ENCODE_TIMEOUT, "the process used more processor time than is allowed")
    if max(end.peak_memory_bytes, held_memory_bytes) >= limits.memory_bytes * _MEMORY_SHARE:
        return MediaError(
            ErrorCode.OUT_OF_MEMORY, "the job needs more memory than its slot on this worker has"
        )
    if end.code == -signal.SIGKILL:
        return MediaError(
            ErrorCode.ENCODE_KILLED, "the process was killed from outside, within its own limits"
        )
    return None


def _signal_name(number: int) -> str:
    """Return the name of a signal. Signals 32, 33 and most real-time signals have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _used_up_its_time(end: Exit, limits: ResourceLimits) -> bool:
    """Return whether the process reached its limit of processor time.

    At the limit the kernel sends SIGXCPU, which ffmpeg catches. Some seconds later, the kernel sends SIGKILL.
    """
    if end.code == -signal.SIGXCPU or end.cpu_seconds >= limits.cpu_seconds:
        return True
    return end.code == _CAUGHT_A_SIGNAL and end.cpu_seconds >= limits.cpu_seconds * _CLOCK_SHARE
