"""Write the subtitles of films as files before the encode. ffmpeg copies their packets into the films.

The text comes from our own reader of cues, which limits and cleans it. A conversion by ffmpeg would decode
hostile text in the process that writes the films. Such a conversion would also take minutes for a text of 10
MB, and would fail for a cue of 11 days.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.encoding.output_folder import write_file
from euterpe.media.encoding.subtitles import MOST_BYTES, shown_cues
from euterpe.media.errors import MediaError
from euterpe.media.packaging.timed_text import timed_text
from euterpe.media.packaging.webvtt import webvtt_file
from euterpe.media.planning.text_inputs import SUBTITLES, TextInput, text_inputs
from euterpe.media.planning.tree import Command, File, SubtitleTrack
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.cues import SourceCue

# The longest time for which the last cue is shown in a film of unknown length.
_LONGEST_LAST_CUE_S = 10.0
# The highest position that `disable_subtitles` may write to. The film can be larger, because
# `disable_subtitles` only changes the index at the beginning of the film.
_MOST_FILE_BYTES = 16 << 30


def write_text_inputs(
    sandbox: Sandbox, command: Command, source_fd: int, folder: Path, *, on_tick: Callable[[], None]
) -> None:
    """Write the subtitle files that a command reads. The source is read only once.

    Raise `MediaError` if the source has too many cues, or if the files would be too large.
    """
    inputs = text_inputs(command)
    if not inputs:
        return
    streams = sorted({one.track.stream for one in inputs})
    cues = {track.stream: track.cues for track in sandbox.subtitles(source_fd, streams, on_tick=on_tick)}
    (folder / SUBTITLES).mkdir(exist_ok=True)
    size = 0
    for one in inputs:
        data = _file(one, cues[one.track.stream])
        size += len(data)
        if size > MOST_BYTES:
            raise MediaError(
                ErrorCode.OUTPUT_TOO_LARGE, f"the subtitles of the films have more than {MOST_BYTES} bytes"
            )
        write_file(folder / SUBTITLES, one.name, data)


def disable_subtitles(
    sandbox: Sandbox, command: Command, folder: Path, *, on_tick: Callable[[], None]
) -> None:
    """Mark the subtitle tracks as not enabled, so that players show them only when the viewer chooses them.

    Call this function after the command has run.
    """
    for product in command.products:
        if isinstance(product, File) and product.subtitles and product.muxer != "webm":
            sandbox.call(
                "disable_text_tracks",
                {"path": product.path},
                blame=ErrorCode.OUTPUT_UNDECODABLE,
                cwd=folder,
                on_tick=on_tick,
                writable_bytes=_MOST_FILE_BYTES,
            )


def _file(one: TextInput, cues: Sequence[SourceCue]) -> bytes:
    track = one.track
    shown = [*shown_cues(track, cues, _end(track, cues))]
    if one.demuxer == "webvtt":
        return webvtt_file(shown).encode()
    return timed_text(shown, is_forced=track.is_forced)


def _end(track: SubtitleTrack, cues: Sequence[SourceCue]) -> float:
    if track.seconds is not None:
        return track.seconds
    latest = max((cue.start for cue in cues), default=0) / 1000
    return latest - track.shift + _LONGEST_LAST_CUE_S
