"""Compare the number of pictures of a file with the number of pictures that its encoder was given."""

from collections.abc import Callable, Sequence
from pathlib import Path

from pydantic import TypeAdapter

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.planning.picture_counts import count_log
from euterpe.media.sandbox.child_results import Whole, checked
from euterpe.media.sandbox.sandbox import Sandbox

_COUNTS = TypeAdapter(tuple[Whole | None, ...])


def given_pictures(
    sandbox: Sandbox, paths: Sequence[str], folder: Path, *, on_tick: Callable[[], None]
) -> dict[str, int]:
    """Return the number of pictures that the encoder of each file or rendition was given.

    Read the logs in the sandbox, because ffmpeg wrote them after it had read an untrusted source.
    """
    if not paths:
        return {}
    found = sandbox.call(
        "count_pictures",
        {"logs": [count_log(path) for path in paths]},
        blame=ErrorCode.OUTPUT_UNDECODABLE,
        cwd=folder,
        on_tick=on_tick,
    )
    counts = checked(_COUNTS, found, blame=ErrorCode.OUTPUT_UNDECODABLE)
    if len(counts) != len(paths):
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, "the counts of pictures are invalid")
    given = dict[str, int]()
    for path, count in zip(paths, counts, strict=True):
        if count is None:
            raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{path}: its pictures were not counted")
        given[path] = count
    return given


def refuse_lost_pictures(path: str, found: int | None, given: int) -> None:
    """Raise `output_truncated` if the number of pictures in a file is not what its encoder was given."""
    if found is None:
        raise MediaError(ErrorCode.OUTPUT_UNDECODABLE, f"{path}: its pictures were not counted")
    if found != given:
        raise MediaError(
            ErrorCode.OUTPUT_TRUNCATED,
            f"{path}: it has {found} pictures, but its encoder was given {given}",
        )
