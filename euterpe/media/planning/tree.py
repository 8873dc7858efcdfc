"""The plan of a job, as frozen data: commands that ffmpeg runs, the files that they make, and warnings.

A command opens the source one or more times (`Input`), changes its pictures once (`Picture`), scales them in
a cascade (`Scale`), prepares its sound (`Sound`), encodes both (`VideoTrack`, `AudioTrack`) and writes files
(`File`, `Rendition`, `Still`). A node refers to an earlier node of the same command by its place in the list.
`argv.py` turns a command into arguments. All values are numbers and names from closed lists.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from euterpe.domain.codecs import CODECS
from euterpe.domain.model import Choice

CodecName = Annotated[str, Choice(tuple(CODECS))]
Deinterlacing = Literal["none", "frame", "field"]
DynamicRange = Literal["sdr", "pq", "hlg"]
Muxer = Literal["mp4", "mov", "webm", "ipod", "mp3", "opus", "flac"]
StillFormat = Literal["jpeg", "webp", "avif", "animated_webp", "gif"]
Layout = Literal["mono", "stereo", "3.0", "4.0", "quad", "5.0", "5.1", "6.1", "7.1", "keep"]
TagName = Literal["title", "artist", "album", "genre", "date", "comment", "copyright"]
Pass = Literal[1, 2]


@dataclass(frozen=True)
class PictureColour:
    """The meaning of a picture's numbers: primaries, transfer and matrix (ITU-T H.273), and the range."""

    primaries: int
    transfer: int
    matrix: int
    full_range: bool = False


@dataclass(frozen=True)
class Input:
    """One opening of the source. `start` and `seconds` are a part of it; None means all of it."""

    start: float | None = None
    seconds: float | None = None
    keyframes_only: bool = False
    keeps_lead: bool = False  # also yield the pictures between the keyframe before `start` and `start`


@dataclass(frozen=True)
class Moment:
    """The first picture from `lead` seconds before the start of the input on, or else the last picture."""

    kind: Literal["moment"]
    lead: float


@dataclass(frozen=True)
class Every:
    """Exactly `count` pictures: the first of each interval of `seconds`."""

    kind: Literal["every"]
    seconds: int
    count: int


@dataclass(frozen=True)
class Best:
    """The picture that is most like the others among the next `count` pictures."""

    kind: Literal["best"]
    count: int


Pick = Annotated[Moment | Every | Best, Field(discriminator="kind")]


@dataclass(frozen=True)
class CropArea:
    """The part of a picture that is kept, in coded pixels."""

    left: int
    top: int
    width: int
    height: int


@dataclass(frozen=True)
class ToneMap:
    """The mapping of HDR pictures to SDR: the curve, and the brightest value as a multiple of 203 nits."""

    curve: Literal["pq", "hlg"]
    peak: float


@dataclass(frozen=True)
class Picture:
    """The changes of a video stream that all its outputs share, made once.

    `shift` is subtracted from each time, so that the outputs begin at 0. `lead` is the time before the first
    picture, which black pictures fill. `given` is the colour of the source, `colour` that of the result.
    """

    input: int
    stream: int
    given: PictureColour
    colour: PictureColour
    shift: float = 0.0
    lead: float = 0.0
    deinterlacing: Deinterlacing = "none"
    fps: float | None = None  # None keeps the time of each picture
    cut: CropArea | None = None
    tone_map: ToneMap | None = None
    is_ten_bit: bool = False
    pick: Pick | None = None  # None keeps all pictures


@dataclass(frozen=True)
class Scale:
    """Pictures of one size, made from the pictures of a larger `Scale` (`parent`) or of `picture` itself."""

    picture: int
    width: int
    height: int
    parent: int | None = None
    padded_width: int | None = None
    padded_height: int | None = None

    @property
    def shown_width(self) -> int:
        return self.padded_width or self.width

    @property
    def shown_height(self) -> int:
        return self.padded_height or self.height


@dataclass(frozen=True)
class HdrMetadata:
    """Mastering display and content light of an HDR source, in the units of x265."""

    mastering_display: tuple[int, ...] | None = None
    content_light: tuple[int, int] | None = None


@dataclass(frozen=True)
class VideoTrack:
    """One encode of the pictures of a `Scale`. With `grid_seconds` keyframes are at its multiples only."""

    scale: int
    codec: CodecName
    colour: PictureColour
    threads: int
    keyframe_pictures: int
    crf: int | None = None
    kbps: int | None = None  # the average rate, or without one, the rate that CRF may not exceed
    most_kbps: int | None = None
    grid_seconds: int | None = None
    is_ten_bit: bool = False
    hdr: HdrMetadata | None = None
    # An average rate is held by two passes. The first one writes what it learned to files of this name.
    pass_number: Pass | None = None
    statistics: str = ""


@dataclass(frozen=True)
class Sound:
    """The sound of a stream from the time 0 of its outputs on: late sound is padded, early sound is cut."""

    input: int
    stream: int
    rate: int
    layout: Layout
    shift: float = 0.0
    pads: bool = True


@dataclass(frozen=True)
class AudioTrack:
    sound: int
    codec: CodecName
    kbps: int | None


@dataclass(frozen=True)
class TrackLabels:
    """The words by which a player offers a track. They come from the source, and never become options."""

    language: str | None = None
    title: str | None = None
    is_default: bool = True


@dataclass(frozen=True)
class MuxedTrack:
    """A track of a file: the place of its encode in the command's `videos` or `audios`.

    `least_end` is where it ends at the earliest, in seconds, or None if that is not known.
    """

    kind: Literal["video", "audio"]
    place: int
    labels: TrackLabels = TrackLabels()
    least_end: float | None = None


@dataclass(frozen=True)
class Tag:
    """A tag of a file, such as its title. The text comes from the request."""

    name: TagName
    text: str


@dataclass(frozen=True)
class File:
    """A file with one or more tracks. With `keeps_tags` it has the tags and chapters of the source."""

    kind: Literal["file"]
    path: str
    muxer: Muxer
    tracks: tuple[MuxedTrack, ...]
    is_fragmented: bool = False
    keeps_tags: bool = False
    tags: tuple[Tag, ...] = ()
    input: int = 0  # whose tags and chapters are kept


@dataclass(frozen=True)
class Discard:
    """The first of two passes of the encode `video`: only its statistics are kept."""

    kind: Literal["discard"]
    video: int


@dataclass(frozen=True)
class Rendition:
    """One track in CMAF segments: `folder/name_init.mp4` and `folder/name_00001.m4s` and so on."""

    kind: Literal["rendition"]
    folder: str
    name: str
    track: MuxedTrack
    segment_seconds: int


@dataclass(frozen=True)
class Still:
    """Pictures of a `Scale` in image files: one picture, an animation, or sheets of `columns` x `rows`."""

    kind: Literal["still"]
    path: str  # contains %d if there may be several sheets
    scale: int
    format: StillFormat
    columns: int = 1
    rows: int = 1
    sheets: int = 1


Product = Annotated[File | Rendition | Still | Discard, Field(discriminator="kind")]


@dataclass(frozen=True)
class Command:
    """One run of ffmpeg. `weight` is its expected work, and `seconds` is the length of the media it reads."""

    weight: float
    seconds: float | None
    inputs: tuple[Input, ...]
    pictures: tuple[Picture, ...] = ()
    scales: tuple[Scale, ...] = ()
    sounds: tuple[Sound, ...] = ()
    videos: tuple[VideoTrack, ...] = ()
    audios: tuple[AudioTrack, ...] = ()
    products: tuple[Product, ...] = ()
    outputs: tuple[str, ...] = ()  # the names of the outputs that it makes
    also_read: tuple[tuple[int, int], ...] = ()  # (input, stream): read, and not used
    is_optional: bool = False


@dataclass(frozen=True)
class SubtitleTrack:
    """A text track of the source, which becomes WebVTT.

    `shift` is the time of the container that becomes 0. Cues end at `seconds`, the length of a part; None
    means the end of the output.
    """

    stream: int
    name: str
    labels: TrackLabels
    is_forced: bool
    shift: float
    seconds: float | None = None


@dataclass(frozen=True)
class Package:
    """The playlists of an adaptive output, which are written over the segments of its renditions."""

    output: str
    segment_seconds: int
    renditions: tuple[str, ...]
    hls: bool
    dash: bool
    trick_play: bool
    subtitles: tuple[SubtitleTrack, ...] = ()


@dataclass(frozen=True)
class PlannedText:
    """A file whose text the plan contains."""

    output: str
    path: str
    content_type: str
    text: str


@dataclass(frozen=True)
class PlanWarning:
    """Something of the source or the request that is not in an output."""

    code: str
    output: str | None
    message: str


@dataclass(frozen=True)
class Plan:
    container: str
    decoder_threads: int
    commands: tuple[Command, ...]
    packages: tuple[Package, ...] = ()
    texts: tuple[PlannedText, ...] = ()
    outputs: tuple[str, ...] = ()  # the names of the outputs, in the order of the request
    warnings: tuple[PlanWarning, ...] = ()
