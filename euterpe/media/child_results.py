"""What a child of the sandbox may answer: kinds of field, and one check of the whole.

A child that was taken over answers anything: a list in place of a width, a name of a megabyte. The worker
computes with no value that did not pass here, and refuses an answer with anything else in it.
"""

from typing import Annotated, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from euterpe.domain.text import matching, printable
from euterpe.media.errors import MediaError

Answer = TypeVar("Answer")

LONGEST_SECONDS = 1e9  # beyond it is damage, not duration
_MOST = 2**31 - 1  # what ffmpeg's own integers hold

Flag = Annotated[bool, Field(strict=True)]
Whole = Annotated[int, Field(strict=True, ge=0, le=_MOST)]
Seconds = Annotated[float, Field(strict=True, ge=0, le=LONGEST_SECONDS)]
Ratio = Annotated[float, Field(strict=True, ge=1 / _MOST, le=_MOST)]  # of two of ffmpeg's integers
Word = Annotated[str, matching(r"[A-Za-z0-9_.-]{1,64}", "a name of ffmpeg's")]
Line = Annotated[str, printable(600)]


def checked(kind: TypeAdapter[Answer], answer: object, blame: str) -> Answer:
    """Return an answer as what it must be. Raise with the code `blame` when it is something else."""
    try:
        return kind.validate_python(answer)
    except ValidationError:
        raise MediaError(blame, "makes the process that looks into it lie") from None
