"""Why ffmpeg ended without success: from its exit code and the last it said."""

import re
import signal

from euterpe.media.child import Exit
from euterpe.media.errors import MediaError

_KEPT_BYTES = 16 * 1024
_TOLD_LINES, _TOLD_CHARACTERS = 3, 600

_SIGNALS = {
    signal.SIGXFSZ: ("output_too_large", "an output grew larger than is allowed"),
    signal.SIGXCPU: ("encode_timeout", "ffmpeg used more processor time than is allowed"),
    signal.SIGKILL: ("encode_killed", "ffmpeg was killed from outside, most likely for want of memory"),
}

# The first that matches decides: the machine's troubles come before what they make of the source.
_SAYINGS = (
    (r"No space left on device|Disk quota exceeded", "disk_full", "the work directory's disk is full"),
    (r"File too large", "output_too_large", "an output grew larger than is allowed"),
    (
        r"Cannot allocate memory|bad_alloc|malloc of size [0-9]+ failed|Resource temporarily unavailable",
        "out_of_memory",
        "ffmpeg got no more memory or threads",
    ),
    # What is cut off is corrupt as well; of other containers a packet may be so by itself.
    (
        r"in#0/(?:mov|matroska|avi|wav)\S* .*corrupt input packet"
        r"|partial file|moov atom not found|ended prematurely|[Tt]runcated|end of file",
        "source_truncated",
        "the source is cut off",
    ),
    (
        r"not on whitelist|[Dd]ecoder .*not found|no decoder found|size .* is invalid|not implemented",
        "source_unsupported",
        "the source has something in it that is not supported",
    ),
    (r"Invalid data|[Ee]rror .*decod|[Cc]orrupt", "source_damaged", "the source is damaged"),
)

# One part of ffmpeg after the other gives up then, and says so.
_ECHO = re.compile(
    "Task finished|Terminating thread|Conversion failed|Nothing was written|Error sending frames"
)
# Not for a requester: where things lie on our disk and in ffmpeg's memory.
_PRIVATE = re.compile(r" @ 0x[0-9a-f]+|(?<![\w/])/[^\s:'\"]+")


class Evidence:
    """The end of what ffmpeg said, however much it says."""

    def __init__(self) -> None:
        self._tail = b""

    def add(self, data: bytes) -> None:
        self._tail = (self._tail + data)[-_KEPT_BYTES:]

    @property
    def text(self) -> str:
        """Printable, and without addresses and paths."""
        shown = _PRIVATE.sub("", self._tail.decode(errors="replace"))
        return "".join(char if char.isprintable() or char == "\n" else "?" for char in shown)

    def verdict(self, end: Exit) -> MediaError:
        if end.code < 0 and (known := _SIGNALS.get(signal.Signals(-end.code))):
            return MediaError(*known)
        text = self.text
        for saying, code, message in _SAYINGS:
            if re.search(saying, text):
                return MediaError(code, self._with_its_words(message))
        how = (
            f"died of {signal.Signals(-end.code).name}"
            if end.code < 0
            else f"failed with exit code {end.code}"
        )
        return MediaError("encode_failed", self._with_its_words(f"ffmpeg {how}"))

    def _with_its_words(self, message: str) -> str:
        lines = [line.strip() for line in self.text.splitlines() if line.strip() and not _ECHO.search(line)]
        told = " · ".join(lines[:_TOLD_LINES])[:_TOLD_CHARACTERS]
        return f"{message}: {told}" if told else message
