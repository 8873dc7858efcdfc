"""Check that a player can begin at each segment, and can change the rendition there."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.packaging.segment_facts import RenditionFacts
from euterpe.media.sandbox.sandbox import Sandbox

# Decoding a picture of 2160 lines takes 60 ms of processor time, and the time limit of a child is a minute.
_SEGMENTS_PER_CALL = 200
# Decoding an hour of stereo takes 1.7 s of processor time for AAC, and 4 s for Opus. Ten minutes of eight
# channels take at most 3 s, so a child ends before its timeout on a busy machine too.
_SOUND_SECONDS_PER_CALL = 600.0
# In the sound segments of ffmpeg, the difference between an end and the next start was always 0.
_MOST_SOUND_GAP = Fraction(1, 1000)


def check_aligned(videos: Sequence[RenditionFacts]) -> None:
    """Raise `MediaError` if the segments of video renditions differ in their starts or picture counts.

    Otherwise a player that changes the rendition would repeat or miss pictures.
    """
    for one in videos[1:]:
        if _starts(one) != _starts(videos[0]):
            raise _damaged(
                f"{_name(one)}: its segments begin at other times than those of {_name(videos[0])}"
            )
        for segment, first in zip(one.segments, videos[0].segments, strict=True):
            if segment.samples != first.samples:
                raise _damaged(
                    f"{segment.name}: it has {segment.samples} pictures instead of {first.samples}"
                )


def check_first_pictures(
    sandbox: Sandbox, folder: Path, facts: RenditionFacts, *, on_tick: Callable[[], None] = lambda: None
) -> None:
    """Raise `MediaError` if the first picture of a segment cannot be decoded without the other segments."""
    _check_segments(sandbox, folder, "decode_first_pictures", facts, _SEGMENTS_PER_CALL, on_tick=on_tick)


def check_sounds(
    sandbox: Sandbox, folder: Path, facts: RenditionFacts, *, on_tick: Callable[[], None] = lambda: None
) -> None:
    """Raise `MediaError` if a segment cannot be decoded alone, or does not end where the next one begins.

    A segment that lost samples together with their entries in its boxes decodes without an error.
    """
    for before, after in pairwise(facts.segments):
        if abs(after.start - before.end) > facts.track.timescale * _MOST_SOUND_GAP:
            end, start = (time / facts.track.timescale for time in (before.end, after.start))
            problem = f"it ends at {end:.3f} s, but the next segment begins at {start:.3f} s"
            raise _damaged(f"{before.name}: {problem}")
    first, last = facts.segments[0], facts.segments[-1]
    seconds = (last.end - first.start) / facts.track.timescale / len(facts.segments)
    most = max(1, int(_SOUND_SECONDS_PER_CALL / seconds))
    _check_segments(sandbox, folder, "decode_sound_segments", facts, most, on_tick=on_tick)


def _check_segments(
    sandbox: Sandbox,
    folder: Path,
    task: str,
    facts: RenditionFacts,
    most: int,
    *,
    on_tick: Callable[[], None],
) -> None:
    """Run a task over the segments, at most `most` in one call."""
    names = [segment.name for segment in facts.segments]
    for at in range(0, len(names), most):
        some = names[at : at + most]
        decoded = sandbox.call(
            task,
            {"init": facts.init, "segments": some},
            blame=ErrorCode.OUTPUT_UNDECODABLE,
            cwd=folder,
            on_tick=on_tick,
        )
        if decoded != len(some):
            raise _damaged(f"{facts.init}: the check of its segments gave an invalid answer")


def _starts(facts: RenditionFacts) -> list[Fraction]:
    return [Fraction(segment.start, facts.track.timescale) for segment in facts.segments]


def _name(facts: RenditionFacts) -> str:
    return facts.init.removesuffix("_init.mp4")


def _damaged(problem: str) -> MediaError:
    return MediaError(ErrorCode.OUTPUT_UNDECODABLE, problem)
