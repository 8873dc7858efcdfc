"""Plan pictures: stills at moments of the source, sprite sheets with WebVTT, and animated previews."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil, inf

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
from euterpe.media.planning.timeline import part_input, timeline, whole_input
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
from euterpe.media.planning.watermark import ChosenWatermark, overlay
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from euterpe.media.whitelist import MAX_PIXELS

_THUMBNAIL_LINES, _MOST_ROWS, _LONGEST_JPEG_SIDE = 90, 10, 65_500
# The maximum number of thumbnails of all sprites of a job. This is enough for a picture every nine seconds of
# a 24-hour source, and makes at most 1,000 sheets.
_MOST_SMALL_PICTURES = 10_000
# The number of pictures that `best` compares. If the source has enough keyframes, only keyframes are decoded:
# 100 keyframes cover 3 minutes of a usual film.
_BEST_OF, _LEAST_BEST_OF, _BEST_FROM = 100, 5, 0.05
# The memory limit for `best` and GIF, which keep all their pictures in memory at the same time.
_MOST_HELD_BYTES = 1 << 30
# Do not decode keyframes alone if the sound begins more than this time after the pictures. In a source whose
# sound began two minutes late, ffmpeg gave the pictures times 120 s below 0, and dropped them.
_LATE_SOUND_S = 0.5
_SUFFIX = {"jpeg": "jpg", "webp": "webp", "avif": "avif", "gif": "gif"}


def image(
    output: ImageOutput, info: MediaInfo, video: StreamInfo, watermark: ChosenWatermark | None = None
) -> list[Command]:
    """Return a command for each moment of `at`. A command decodes from the keyframe before its moment."""
    size = _of_width(shown_size(video, output.crop, output.rotate), output.width)
    commands = []
    for number, moment in enumerate(output.at, start=1):
        builder = CommandBuilder(seconds=None, outputs=[output.name])
        source, pick = _at(moment, output, info, video)
        picture = _picture(video, builder.input(source), output, _colour(output.format))
        path = f"{output.name}/{number}.{_SUFFIX[output.format]}"
        over = overlay(builder, watermark, size)
        chosen = builder.picture(replace(picture, pick=pick, shift=_shift(source, info, video)))
        still = Still(
            "still", path, builder.scale(chosen, size, padded(size, output.pad), over), output.format
        )
        builder.products.append(still)
        commands.append(builder.build(is_optional=output.optional))
    return commands


def _at(moment: str, output: ImageOutput, info: MediaInfo, video: StreamInfo) -> tuple[Input, Pick]:
    picture = 1 / (video.fps or USUAL_FPS)
    begin, end = output.start or 0.0, min(output.end or length_of(info, video), length_of(info, video))
    if moment == BEST:
        start = max(begin, min(begin + _BEST_FROM * (end - begin), _last_begin(video, picture)))
        source = part_input(info, start, end)
        # A short part of a source with rare keyframes may contain no keyframe. In this case, decode all
        # pictures of the part.
        only = _has_keyframes(info, video, end - start)
        count = max(_LEAST_BEST_OF, min(_BEST_OF, _MOST_HELD_BYTES // (3 * shown_size(video).pixels)))
        return replace(source, keyframes_only=only), Best("best", count)
    share = float(moment[:-1])
    wanted = begin + ((end - begin) * share / 100 if moment.endswith("%") else share)
    seek = part_input(info, max(0.0, min(wanted, end - picture)), None)
    return replace(seek, keeps_lead=True), Moment("moment", round(picture / 2, 6))


def sprite(
    output: SpriteOutput, info: MediaInfo, video: StreamInfo, watermark: ChosenWatermark | None = None
) -> tuple[Command, PlannedText | None]:
    """Return the command that makes the sheets, and the WebVTT file with the position of each picture."""
    begin, length, count = output.start or 0.0, _part_length(output, info, video), _count(output, info, video)
    shown = shown_size(video, output.crop, output.rotate)
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
    # Decoding only the keyframes takes a twelfth of the time. Keyframes alone suffice if each interval has
    # at least four keyframes.
    only = _has_keyframes(info, video, output.interval_seconds)
    source = replace(source, keyframes_only=only)
    pick = Every("every", output.interval_seconds, count)
    picture = _picture(video, builder.input(source), output, colour.JPEG)
    over = overlay(builder, watermark, small)
    chosen = builder.picture(replace(picture, pick=pick, shift=_shift(source, info, video)))
    scale = builder.scale(chosen, small, around, over)
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


def _has_keyframes(info: MediaInfo, video: StreamInfo, seconds: float) -> bool:
    """Return True if a part of this length has four or more keyframes and ffmpeg computes correct times.

    When ffmpeg decodes only a few pictures, it cannot always find out when the pictures begin. Then ffmpeg
    counts the times from the start of the sound, so the times are wrong if the sound begins late.
    """
    if video.keyframe_interval is None or video.first_seconds is None:
        return False
    sounds = [
        one.first_seconds for one in info.streams if one.kind == "audio" and one.first_seconds is not None
    ]
    is_late = min(sounds, default=video.first_seconds) > video.first_seconds + _LATE_SOUND_S
    return not is_late and 4 * video.keyframe_interval <= seconds


def _last_begin(video: StreamInfo, picture: float) -> float:
    """Return the latest time at which a seek finds a picture.

    This time is earlier than the last picture by half the duration of a picture.
    """
    if video.latest_seconds is None or video.first_seconds is None:
        return inf
    return video.latest_seconds - video.first_seconds - picture / 2


def preview(
    output: PreviewOutput, info: MediaInfo, video: StreamInfo, watermark: ChosenWatermark | None = None
) -> Command:
    """Return the command that makes a short animation without sound."""
    length = length_of(info, video)
    end = min(output.end or length, length)
    picture = 1 / (video.fps or USUAL_FPS)
    usual = max(0.0, min(end * 0.1, _last_begin(video, picture)))
    start = usual if output.start is None else output.start
    seconds = min(output.seconds, max(end - start, picture))
    builder = CommandBuilder(seconds=seconds, outputs=[output.name])
    source = part_input(info, min(start, max(0.0, end - seconds)), None)
    source = replace(source, seconds=round(seconds, 6))
    changes = _picture(video, builder.input(source), output, _colour(output.format))
    picture = builder.picture(replace(changes, fps=output.fps, shift=_shift(source, info, video)))
    size = _of_width(shown_size(video, output.crop, output.rotate), output.width)
    path = f"{output.name}.{_SUFFIX[output.format]}"
    kind: StillFormat = "animated_webp" if output.format == "webp" else "gif"
    if kind == "gif" and 4 * seconds * output.fps * size.pixels > _MOST_HELD_BYTES:
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED,
            f"output {output.name}: a GIF of {seconds:g} s at {size.width}×{size.height} would be too large; "
            "make it shorter, smaller or slower, or choose WebP",
        )
    scale = builder.scale(picture, size, padded(size, output.pad), overlay(builder, watermark, size))
    builder.products.append(Still("still", path, scale, kind))
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
    """Raise `MediaError` when the sprites of a job need too many pictures.

    A source of a few KB can declare a duration of 30 years, so call this function before planning any sprite.
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
            "the source does not declare its duration, so no moment in it can be found",
        )
    return length


def _shift(source: Input, info: MediaInfo, video: StreamInfo) -> float:
    """Return the seconds to subtract from the times after the seek, so that the part starts at 0."""
    return 0.0 if source.lead_in is None else timeline(info, source, [video], [video]).shift


def _picture(video: StreamInfo, source: int, output: PictureOutput, made: PictureColour) -> Picture:
    return Picture(
        input=source,
        stream=video.index,
        given=colour.given_colour(video),
        colour=made,
        deinterlacing=deinterlacing(video, None),
        cut=cut(video, output.crop),
        turn=output.rotate,
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
