"""ffmpeg arguments for still images (JPEG) and sprite sheets, with WebVTT for the times of the sprites."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from euterpe.domain.codecs import CODECS
from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.outputs import ImageOutput, SpriteOutput
from euterpe.media.errors import MediaError
from euterpe.media.planning.encoders import BITEXACT
from euterpe.media.planning.picture import Size, filters, fitted_size, shown_size
from euterpe.media.planning.planned_files import Planned, PlannedFile, Track, mapped, video_of
from euterpe.media.source.media_info import MediaInfo, StreamInfo

_CODEC = CODECS["mjpeg"]
_JPEG = (*BITEXACT, *_CODEC.arguments(), "-f", "image2", "-y")
_JPEG_TYPE = "image/jpeg"
_USUAL_FPS = 25.0
_THUMBNAIL_LINES = 90
_MOST_ROWS = 10
_LONGEST_JPEG_SIDE = 65_500
# This is enough for a picture every nine seconds of a 24-hour source. The pictures fill at most 1,000 sheets.
_MOST_SMALL_PICTURES = 10_000


def image(output: ImageOutput, info: MediaInfo) -> Planned:
    """Return the plan of the JPEG files of an image output, one for each time in `at`."""
    video = video_of(info, output.name)
    size = shown_size(video)
    files, words = [], []
    for number, moment in enumerate(output.at, start=1):
        path = f"{output.name}/{number}.jpg"
        files.append(_jpeg(output.name, path, size))
        chain = f"trim=start={_seconds_at(moment, info, video):.6f},{filters(video, size)}"
        words += [*mapped(video), "-vf", chain, "-frames:v", "1", *_JPEG, "-update", "1", f"file:{path}"]
    return Planned(tuple(files), words)


def _seconds_at(moment: str, info: MediaInfo, video: StreamInfo) -> float:
    """Return the time from which to take the next picture.

    For a moment after the end of the video, take the last picture.
    """
    picture = 1 / (video.fps or _USUAL_FPS)
    length = _length(info, video)
    wanted = length * float(moment[:-1]) / 100 if moment.endswith("%") else float(moment[:-1])
    return max(0.0, min(wanted, length - picture) - picture / 2)


@dataclass(frozen=True)
class _Grid:
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
    count = sum(_count(sprite, info) for sprite in sprites)
    if count > _MOST_SMALL_PICTURES:
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED,
            f"{count} pictures in the job's sprites: at most {_MOST_SMALL_PICTURES} are made; "
            "a larger interval_seconds makes fewer",
        )


def _count(output: SpriteOutput, info: MediaInfo) -> int:
    video = video_of(info, output.name)
    length = _length(info, video) - 1 / (video.fps or _USUAL_FPS)
    return max(1, ceil(length / output.interval_seconds))


def sprite(output: SpriteOutput, info: MediaInfo) -> Planned:
    """Return the plan of sprite sheets with the first picture of each interval."""
    video = video_of(info, output.name)
    length, interval, count = _length(info, video), output.interval_seconds, _count(output, info)
    rows = min(ceil(count / output.columns), _MOST_ROWS)
    grid = _Grid(output.columns, rows, fitted_size(video, _THUMBNAIL_LINES, _CODEC.name))
    if max(grid.sheet.width, grid.sheet.height) > _LONGEST_JPEG_SIDE:
        raise MediaError(
            ErrorCode.OUTPUT_UNSUPPORTED, f"output {output.name}: its sheets would be too large for a JPEG"
        )
    files = [
        _jpeg(output.name, f"{output.name}/{number + 1}.jpg", grid.sheet)
        for number in range(grid.sheets(count))
    ]
    if output.vtt:
        text = _vtt(grid, count, interval, length)
        files.append(PlannedFile(output.name, f"{output.name}/sprite.vtt", "text/vtt", text=text))
    chosen = f"isnan(prev_selected_t)+gt(floor(t/{interval}),floor(prev_selected_t/{interval}))"
    chain = f"select='{chosen}',{filters(video, grid.small)},tile={grid.columns}x{grid.rows}"
    words = [*mapped(video), "-vf", chain, "-fps_mode", "passthrough", *_JPEG, f"file:{output.name}/%d.jpg"]
    return Planned(tuple(files), words)


def _vtt(grid: _Grid, count: int, interval: int, length: float) -> str:
    cues = ["WEBVTT"]
    for number in range(count):
        begin, end = number * interval, min((number + 1) * interval, length)
        cues.append(f"{_clock(begin)} --> {_clock(end)}\n{grid.place(number)}")
    return "\n\n".join(cues) + "\n"


def _clock(seconds: float) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest // 1000:02}.{rest % 1000:03}"


def _length(info: MediaInfo, video: StreamInfo) -> float:
    if (length := video.duration_seconds or info.duration_seconds) is None:
        raise MediaError(
            ErrorCode.SOURCE_UNSUPPORTED,
            "the source does not tell how long it is: no moment in it can be found",
        )
    return length


def _jpeg(output: str, path: str, size: Size) -> PlannedFile:
    return PlannedFile(
        output, path, _JPEG_TYPE, "jpeg_pipe", (Track("video", _CODEC.name, None, size.width, size.height),)
    )
