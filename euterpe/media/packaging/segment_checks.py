"""Check that a player can begin at each segment, and can change the rendition there."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.packaging.segment_facts import RenditionFacts
from euterpe.media.sandbox.sandbox import Sandbox

# Decoding a picture of 2160 lines takes 60 ms of processor time, and a child may run for a minute.
_SEGMENTS_PER_CALL = 200


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
    names = [segment.name for segment in facts.segments]
    for at in range(0, len(names), _SEGMENTS_PER_CALL):
        some = names[at : at + _SEGMENTS_PER_CALL]
        decoded = sandbox.call(
            "decode_first_pictures",
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
