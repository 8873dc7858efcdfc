"""The fields and rules that several types of output share: names, times, crop, padding, codecs, ranges."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, GetCoreSchemaHandler, Tag, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from euterpe.domain.codecs import CODECS, Codec, CodecKind, codecs_for
from euterpe.domain.model import LIST, NULL, Items, StrictModel, by_form
from euterpe.domain.outputs.numbers import Rounded
from euterpe.domain.outputs.watermark import Watermark
from euterpe.domain.text import Name, TextRule

# -- numbers

_MOST_SECONDS = 1_000_000  # eleven days
Seconds = Annotated[float, Field(ge=0, le=_MOST_SECONDS, allow_inf_nan=False), Rounded]
Fps = Annotated[float, Field(ge=1, le=240, allow_inf_nan=False), Rounded]
Height = Annotated[int, Field(ge=16, le=4320, multiple_of=2)]
Width = Annotated[int, Field(ge=16, le=7680, multiple_of=2)]
Edge = Annotated[int, Field(ge=0, le=16_384)]

# -- codecs


@dataclass(frozen=True)
class _Misplaced:
    """The mark that replaces a codec which the type of the output cannot contain."""

    allowed: tuple[str, ...]


@dataclass(frozen=True)
class CodecName:
    """A validation rule: the text must be the name of a codec of this kind."""

    kind: CodecKind

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        names = [codec.name for codec in codecs_for(self.kind)]
        return core_schema.no_info_before_validator_function(
            _refuse_misplaced, core_schema.literal_schema(names)
        )


def _refuse_misplaced(name: object) -> object:
    if isinstance(name, _Misplaced):
        raise ValueError(f"must be {quoted(name.allowed)}")  # noqa: TRY004  an error of the request
    return name


def quoted(names: Iterable[str]) -> str:
    """Return the names as an error message lists them: 'a', 'b' or 'c'."""
    *others, last = (f"'{name}'" for name in names)
    return f"{', '.join(others)} or {last}" if others else last


def within_output(kind: CodecKind) -> BeforeValidator:
    """Return a validator for the settings of one stream. The type of the output limits the codecs.

    The validator sets the default codec of this type of output, and marks a codec that such an output cannot
    contain. So the settings are validated only once, with the final codec, and all errors in them are
    reported.
    """

    def settle(value: object, info: ValidationInfo) -> object:
        if isinstance(value, StrictModel):
            value = value.model_dump(exclude_unset=True)
        if not isinstance(value, dict) or "type" not in info.data:
            return value
        names = tuple(codec.name for codec in codecs_for(kind, info.data["type"]))
        if "codec" not in value or (value["codec"] is None and kind == "audio"):
            return {**value, "codec": names[0]}
        if isinstance(value["codec"], str) and value["codec"] not in names:
            return {**value, "codec": _Misplaced(names)}
        return value

    return BeforeValidator(settle)


def codec_in(info: ValidationInfo) -> Codec | None:
    """Return the codec of the settings that are being validated, or None if the codec is missing or wrong."""
    return CODECS.get(info.data.get("codec") or "")


def widest(codecs: Iterable[Codec], field: Literal["quality", "bit_rate"]) -> Any:
    """Return bounds that accept each number that at least one of these codecs accepts.

    `within` applies the bounds of the chosen codec.
    """
    ranges = [found for codec in codecs if (found := getattr(codec, field)) is not None]
    return Field(ge=min(one.least for one in ranges), le=max(one.most for one in ranges))


def within(field: Literal["quality", "bit_rate"]) -> AfterValidator:
    """Return a validator that checks a number against the bounds of the codec in the same settings."""

    def check(number: int | None, info: ValidationInfo) -> int | None:
        codec = codec_in(info)  # None for a wrong codec, which the validation of `codec` has reported
        if codec is not None and number is not None and (problem := out_of_range(codec, field, number)):
            raise ValueError(problem)
        return number

    return AfterValidator(check)


def out_of_range(codec: Codec, field: Literal["quality", "bit_rate"], number: int) -> str | None:
    """Return the problem with this number for the codec, or None if the codec accepts the number."""
    allowed = codec.quality if field == "quality" else codec.bit_rate
    if allowed is None:
        return f"must be null: {codec.name} is lossless"
    if number < allowed.least:
        return f"must be at least {allowed.least} for this codec"
    return f"must be at most {allowed.most} for this codec" if number > allowed.most else None


# -- video

_VIDEO = codecs_for("video")
Hdr = Literal["sdr", "keep"]
Crf = Annotated[int, widest(_VIDEO, "quality")]
VideoRate = Annotated[int, widest(_VIDEO, "bit_rate")]


def check_hdr(hdr: Hdr, info: ValidationInfo) -> Hdr:
    """Raise for the value `keep` unless players accept 10 bits and HDR in the codec."""
    codec = codec_in(info)
    if hdr == "keep" and codec is not None and not codec.keeps_hdr:
        raise ValueError(f"must be 'sdr' for {codec.name}: {quoted(_keeping_hdr())} can keep HDR")
    return hdr


def _keeping_hdr() -> Iterable[str]:
    return (codec.name for codec in _VIDEO if codec.keeps_hdr)


# -- the picture


class Crop(StrictModel):
    """The edges to cut off, in pixels of the picture as it is shown: upright, with square pixels."""

    left: Edge = 0
    """The pixels to cut off at the left."""
    top: Edge = 0
    """The pixels to cut off at the top."""
    right: Edge = 0
    """The pixels to cut off at the right."""
    bottom: Edge = 0
    """The pixels to cut off at the bottom."""


_ASPECT = re.compile(r"([1-9][0-9]{0,3}):([1-9][0-9]{0,3})")
_WIDEST = 10


def ratio_of(aspect: str) -> Fraction:
    """Return the ratio of width and height in a text like `16:9`. Raise ValueError for any other text."""
    shape = _ASPECT.fullmatch(aspect)
    ratio = Fraction(int(shape[1]), int(shape[2])) if shape else Fraction(0)
    if not Fraction(1, _WIDEST) <= ratio <= _WIDEST:
        raise ValueError(f"must be a width and a height like '16:9', from 1:{_WIDEST} to {_WIDEST}:1")
    return ratio


def _aspect(text: str) -> str:
    ratio_of(text)
    return text


Aspect = Annotated[str, TextRule(_aspect, {"pattern": f"^(?:{_ASPECT.pattern})$"})]


class Pad(StrictModel):
    """Black bars that give the picture another shape."""

    aspect: Aspect
    """The shape of the padded picture, as `16:9`."""

    @property
    def ratio(self) -> Fraction:
        return ratio_of(self.aspect)


# -- languages

_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}")


def _language(text: str) -> str:
    if _LANGUAGE.fullmatch(text):
        return text.lower()
    raise ValueError("must be a language like 'en', 'eng' or 'pt-BR'")


Language = Annotated[str, TextRule(_language, {"pattern": f"^(?:{_LANGUAGE.pattern})$"})]

MOST_SUBTITLES = 32
Subtitles = Annotated[
    Annotated[Literal["all"], Tag("all")]
    | Annotated[tuple[Language, ...], Items(1, MOST_SUBTITLES, unique=True), LIST]
    | Annotated[None, NULL],
    by_form("a list of languages, 'all', or null for none", "all"),
]

# -- stream copy

Copy = Literal["never", "auto"]

# -- fields of outputs


def _check_end(end: float | None, info: ValidationInfo) -> float | None:
    start = info.data.get("start")
    if end is not None and end <= (start or 0.0):
        raise ValueError("must be after start")
    return end


class BaseOutput(StrictModel):
    """The fields that all types of output have."""

    name: Name
    """The name of the output. Its file or folder, and its entry in the status, have the same name."""
    type: str
    """The type of the output."""
    start: Seconds | None = None
    """The time in the source at which the output begins, in seconds. Null means the beginning."""
    end: Annotated[Seconds | None, AfterValidator(_check_end)] = None
    """The time in the source at which the output ends, in seconds. Null means the end."""
    optional: bool = False
    """Whether the job may succeed without this output, for example if the source has no sound for it."""


class PictureOutput(BaseOutput):
    """The fields of all types of output with pictures."""

    crop: Crop | None = None
    """The edges to cut off before anything else is done to the picture."""
    rotate: Literal[0, 90, 180, 270] = 0
    """The degrees to turn the upright picture clockwise, after the crop and before it is scaled."""
    pad: Pad | None = None
    """Black bars that give the picture another shape, after it was cropped, turned and scaled."""
    watermark: Watermark | None = None
    """A picture, such as a logo, that is laid over the pictures of the output."""
