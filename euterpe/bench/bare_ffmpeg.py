"""Convert the ffmpeg commands of a plan to command lines that read a file and need no worker."""

from pathlib import Path

from euterpe.media.planning.argv import arguments
from euterpe.media.planning.tree import Command, Plan

# The ffmpeg options for open files, progress and counts, which only a worker needs. Each option has a value.
_OF_A_WORKER = ("-fd", "-progress", "-protocol_whitelist", "-stats_enc_pre:v", "-stats_enc_pre_fmt:v")


def bare_command(planned: Plan, command: Command, ffmpeg: Path, source: str) -> tuple[str, ...]:
    """Return a worker's command line, with the file name of the source instead of an open file."""
    bare, words = list[str](), iter(arguments(planned, command, ffmpeg))
    for word in words:
        if word in _OF_A_WORKER:
            next(words)
        else:
            bare.append(source if word == "fd:" else word)
    return tuple(bare)
