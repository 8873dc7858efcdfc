"""Plan pictures, each found by a seek: stills at moments, sprite sheets with WebVTT, animated previews."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.outputs import BEST, ImageOutput, PictureOutput, PreviewOutput, SpriteOutput
from euterpe.media.errors import MediaError
from euterpe.media.planning import colour
from euterpe.media.planning.builder import CommandBuilder
from euterpe.media.planning.picture import (
    USUAL_FPS,
    Size,
    checked,
    cut,
    deinterlacing,
    fitted,
    padded,
    shown_size,
)
from euterpe.media.planning.timeline import part_input, whole_input
from euterpe.media.planning.tree import (
    Best,
    Command,
    Every,
    Input,
    Moment,
    Pick,
    Picture,
    PictureColour,
    PlannedText,
    Still,
    StillFormat,
)
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from euterpe.media.whitelist import MAX_PIXELS

_THUMBNAIL_LINES, _MOST_ROWS, _LONGEST_JPEG_SIDE = 90, 10, 65_500
# This is enough for a picture every nine seconds of a 24-hour source. The pictures fill at most 1,000 sheets.
_MOST_SMALL_PICTURES = 10_000
# `best` compares so many pictures. Only keyframes are decoded: 100 of them are 3 minutes of a usual film.
_BEST_OF, _LEAST_BEST_OF, _BEST_FROM = 100, 5, 0.05
# `best` and GIF keep all their pictures in memory at once.
_MOST_HELD_BYTES = 1 << 30
_SUFFIX = {"jpeg": "jpg", "webp": "webp", "avif": "avif", "gif": "gif"}


def image(output: ImageOutput, info: MediaInfo, video: StreamInfo) -> list[Command]:
    """Return a command for each picture of `at`. It decodes from the keyframe before the moment on."""
    size = _of_width(shown_size(video, output.crop), output.width)
    commands = []
    for number, moment in enumerate(output.at, start=1):
        builder = CommandBuilder(seconds=None, outputs=[output.name])
        source, pick = _at(moment, output, info, video)
        picture = _picture(video, builder.input(source), output, _colour(output.format))
        path = f"{output.name}/{number}.{_SUFFIX[output.format]}"
        scale = builder.scale(builder.picture(replace(picture, pick=pick)), size, padded(size, output.pad))
        still = Still("still", path, scale, output.format)
        builder.products.append(still)
        commands.append(builder.build(is_optional=output.optional))
    return commands


def _at(moment: str, output: ImageOutput, info: MediaInfo, video: StreamInfo) -> tuple[Input, Pick]:
    picture = 1 / (video.fps or USUAL_FPS)
    begin, end = output.start or 0.0, min(output.end or length_of(info, video), length_of(info, video))
    if moment == BEST:
        start = begin + _BEST_FROM * (end - begin)
        source = part_input(info, start, end)
        # In a short part, or with rare keyframes, there may be none after the start.
        only = _has_keyframes(video, end - start)
        count = max(_LEAST_BEST_OF, min(_BEST_OF, _MOST_HELD_BYTES // (3 * shown_size(video).pixels)))
        return Input(source.start, source.seconds, keyframes_only=only), Best("best", count)
    share = float(moment[:-1])
    wanted = begin + ((end - begin) * share / 100 if moment.endswith("%") else share)
    seek = part_input(info, max(0.0, min(wanted, end - picture)), None)
    return Input(seek.start, None, keeps_lead=True), Moment("moment", round(picture / 2, 6))


def sprite(output: SpriteOutput, info: MediaInfo, video: StreamInfo) -> tuple[Command, PlannedText | None]:
    """Return the command of the sheets, and the WebVTT file with the place of each picture."""
    begin, length, count = output.start or 0.0, _part_length(output, info, video), _count(output, info, video)
    shown = shown_size(video, output.crop)
    small = _of_width(shown, output.width) if output.width else fitted(shown, _THUMBNAIL_LINES, "mjpeg")
    around = padded(small, output.pad)
    most_rows = MAX_PIXELS // (output.columns * (around or small).pixels)
    rows = min(ceil(count / output.columns), _MOST_ROWS, most_rows)
    grid = Grid(output.columns, rows, around or small)
    if not rows or max(grid.sheet.width, grid.sheet.height) > _LONGEST_JPEG_SIDE:
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED, f"output {output.name}: its sheets would be too large for a JPEG"
        )
    builder = CommandBuilder(seconds=length, outputs=[output.name])
    source = part_input(info, begin, output.end) if output.start or output.end else whole_input()
    # Keyframes alone cost a twelfth of the time. They suffice if there are four in each interval.
    only = _has_keyframes(video, output.interval_seconds)
    source = Input(source.start, source.seconds, keyframes_only=only)
    pick = Every("every", output.interval_seconds, count)
    picture = _picture(video, builder.input(source), output, colour.JPEG)
    scale = builder.scale(builder.picture(replace(picture, pick=pick)), small, around)
    still = Still("still", f"{output.name}/%d.jpg", scale, "jpeg", output.columns, rows, grid.sheets(count))
    builder.products.append(still)
    text = None
    if output.vtt:
        text = PlannedText(
            output.name,
            f"{output.name}/sprite.vtt",
            "text/vtt",
            _vtt(grid, count, output.interval_seconds, length),
        )
    return builder.build(is_optional=output.optional), text


def _has_keyframes(video: StreamInfo, seconds: float) -> bool:
    """Return whether there are at least four keyframes in this time."""
    return video.keyframe_interval is not None and 4 * video.keyframe_interval <= seconds


def preview(output: PreviewOutput, info: MediaInfo, video: StreamInfo) -> Command:
    """Return the command of a short animation without sound."""
    length = length_of(info, video)
    end = min(output.end or length, length)
    start = output.start if output.start is not None else max(0.0, end * 0.1)
    seconds = min(output.seconds, max(end - start, 1 / (video.fps or USUAL_FPS)))
    builder = CommandBuilder(seconds=seconds, outputs=[output.name])
    source = part_input(info, min(start, max(0.0, end - seconds)), None)
    place = builder.input(Input(source.start, round(seconds, 6)))
    picture = builder.picture(replace(_picture(video, place, output, _colour(output.format)), fps=output.fps))
    size = _of_width(shown_size(video, output.crop), output.width)
    path = f"{output.name}.{_SUFFIX[output.format]}"
    kind: StillFormat = "animated_webp" if output.format == "webp" else "gif"
    if kind == "gif" and 4 * seconds * output.fps * size.pixels > _MOST_HELD_BYTES:
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED,
            f"output {output.name}: a GIF of {seconds:g} s at {size.width}×{size.height} would be too large; "
            "make it shorter, smaller or slower, or choose WebP",
        )
    builder.products.append(
        Still("still", path, builder.scale(picture, size, padded(size, output.pad)), kind)
    )
    return builder.build(is_optional=output.optional)


@dataclass(frozen=True)
class Grid:
    """The layout of small pictures on sheets, left to right and top to bottom."""

    columns: int
    rows: int
    small: Size

    @property
    def sheet(self) -> Size:
        return Size(self.small.width * self.columns, self.small.height * self.rows)

    def sheets(self, count: int) -> int:
        return ceil(count / (self.columns * self.rows))

    def place(self, number: int) -> str:
        """Return the position of a picture as a media fragment."""
        sheet, place = divmod(number, self.columns * self.rows)
        row, column = divmod(place, self.columns)
        left, top = column * self.small.width, row * self.small.height
        return f"{sheet + 1}.jpg#xywh={left},{top},{self.small.width},{self.small.height}"


def refuse_too_many(sprites: Iterable[SpriteOutput], info: MediaInfo) -> None:
    """Raise when the sprites need too many pictures, because a source of a few KB may claim to last 30 years.

    Call this function before planning any sprite.
    """
    video = info.video
    count = sum(_count(sprite, info, video) for sprite in sprites) if video else 0
    if count > _MOST_SMALL_PICTURES:
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED,
            f"{count} pictures in the job's sprites: at most {_MOST_SMALL_PICTURES} are made; "
            "a larger interval_seconds makes fewer",
        )


def _count(output: SpriteOutput, info: MediaInfo, video: StreamInfo) -> int:
    length = _part_length(output, info, video) - 1 / (video.fps or USUAL_FPS)
    return max(1, ceil(length / output.interval_seconds))


def _part_length(output: SpriteOutput, info: MediaInfo, video: StreamInfo) -> float:
    length = length_of(info, video)
    return max(0.0, min(output.end or length, length) - (output.start or 0.0))


def length_of(info: MediaInfo, video: StreamInfo) -> float:
    if (length := video.duration_seconds or info.duration_seconds) is None:
        raise MediaError(
            ErrorCode.SOURCE_UNSUPPORTED,
            "the source does not tell how long it is: no moment in it can be found",
        )
    return length


def _picture(video: StreamInfo, source: int, output: PictureOutput, made: PictureColour) -> Picture:
    return Picture(
        input=source,
        stream=video.index,
        given=colour.given_colour(video),
        colour=made,
        deinterlacing=deinterlacing(video, None),
        cut=cut(video, output.crop),
        tone_map=colour.tone_map(video),
    )


def _colour(picture_format: str) -> PictureColour:
    return {"jpeg": colour.JPEG, "avif": colour.BT709}.get(picture_format, colour.WEBP)


def _of_width(shown: Size, width: int | None) -> Size:
    if width is None or width >= shown.width:
        return checked(shown, "mjpeg")
    return checked(
        Size(2 * round(width / 2), max(2, 2 * round(shown.height * width / shown.width / 2))), "mjpeg"
    )


def _vtt(grid: Grid, count: int, interval: int, length: float) -> str:
    cues = ["WEBVTT"]
    for number in range(count):
        begin, end = number * interval, min((number + 1) * interval, length)
        cues.append(f"{_clock(begin)} --> {_clock(end)}\n{grid.place(number)}")
    return "\n\n".join(cues) + "\n"


def _clock(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}.{rest % 1000:03}"
