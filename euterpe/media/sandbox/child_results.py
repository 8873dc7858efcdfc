"""Validate the JSON that a sandboxed child returns: field types, and one check of the whole answer.

A compromised child can return anything, for example a list instead of a width, or a name of one megabyte. The
worker uses only validated values, and rejects an answer that contains anything else.
"""

from typing import Annotated, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.text import matching, printable
from euterpe.media.errors import MediaError

Answer = TypeVar("Answer")

LONGEST_SECONDS = 1e9  # a longer duration is a sign of damage
MOST = 2**31 - 1  # the largest value of ffmpeg's integers

Flag = Annotated[bool, Field(strict=True)]
Whole = Annotated[int, Field(strict=True, ge=0, le=MOST)]
Seconds = Annotated[float, Field(strict=True, ge=0, le=LONGEST_SECONDS)]
# A time as the file stores it, before the times are shifted to begin at 0. This time can be negative.
MediaTime = Annotated[float, Field(strict=True, ge=-LONGEST_SECONDS, le=LONGEST_SECONDS)]
Ratio = Annotated[float, Field(strict=True, ge=1 / MOST, le=MOST)]  # a quotient of two integers of ffmpeg
Word = Annotated[str, matching(r"[A-Za-z0-9_.-]{1,64}", "a name of ffmpeg's")]
# A name of ffmpeg that can contain some punctuation, such as `High 4:2:2` or `5.1(side)`.
LABEL = r"[A-Za-z0-9][A-Za-z0-9 ()+./:@_-]{0,63}"
Label = Annotated[str, matching(LABEL, "a label of ffmpeg's")]
Line = Annotated[str, printable(600)]


def checked(kind: TypeAdapter[Answer], answer: object, blame: ErrorCode) -> Answer:
    """Return an answer as a value of this type.

    Raise `MediaError` with the code `blame` if the answer is invalid.
    """
    try:
        return kind.validate_python(answer)
    except ValidationError:
        raise MediaError(
            blame, "the sandboxed process that read the file returned an invalid result"
        ) from None
