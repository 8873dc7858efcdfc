"""The plan of a job, as frozen data: measurements, commands that ffmpeg runs, their files, and warnings.

A command opens the source one or more times (`Input`), changes its pictures once (`Picture`), scales them in
a cascade (`Scale`), prepares its sound (`Sound`), encodes pictures and sound (`VideoTrack`, `AudioTrack`) or
copies a stream (`CopiedTrack`), and writes files (`File`, `Rendition`, `Still`). A node refers to an earlier
node of the same command by a list index: `VideoTrack.scale` is an index into `Command.scales`. `argv.py`
turns a command into arguments. All values are numbers and names from closed lists.

Some numbers must be measured in the source first. In this case, the plan has measurements, which run before
the commands, and a goal in place of each of these numbers. `measurements.py` replaces the goals by numbers.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from euterpe.domain.codecs import CODECS
from euterpe.domain.model import Choice
from euterpe.domain.outputs.quality import Metric
from euterpe.media.whitelist import PICTURE_DECODERS

CodecName = Annotated[str, Choice(tuple(CODECS))]
PictureContainer = Annotated[str, Choice(tuple(PICTURE_DECODERS))]
Deinterlacing = Literal["none", "frame", "field"]
DynamicRange = Literal["sdr", "pq", "hlg"]
Muxer = Literal["mp4", "mov", "webm", "ipod", "mp3", "opus", "flac"]
StillFormat = Literal["jpeg", "webp", "avif", "animated_webp", "gif"]
Layout = Literal["mono", "stereo", "3.0", "4.0", "quad", "5.0", "5.1", "6.1", "7.1", "keep"]
TagName = Literal["title", "artist", "album", "genre", "date", "comment", "copyright"]
Pass = Literal[1, 2]
Turn = Literal[0, 90, 180, 270]
VmafModel = Literal["vmaf_v0.6.1", "vmaf_4k_v0.6.1"]


@dataclass(frozen=True)
class PictureColour:
    """The meaning of a picture's numbers: primaries, transfer and matrix (ITU-T H.273), and the range."""

    primaries: int
    transfer: int
    matrix: int
    full_range: bool = False


@dataclass(frozen=True)
class Input:
    """One input of ffmpeg: the source, or a watermark.

    `start` and `seconds` define a part of the source. If both are None, the input is the whole source. If
    ffmpeg cannot seek to keyframes, it starts `lead_in` seconds before the part, and filters keep only the
    part. `lead_in` is None if the seek is exact.
    """

    start: float | None = None
    seconds: float | None = None
    keyframes_only: bool = False
    keeps_lead: bool = False  # also yield the pictures from the keyframe before `start` up to `start`
    is_sample: bool = False  # one of the inputs of a `Joined`
    watermark: int | None = None  # the index of the watermark's file in the plan; None means the source
    lead_in: float | None = None

    @property
    def seek(self) -> float | None:
        """Return the time to which ffmpeg seeks, or None if it reads from the beginning."""
        if self.start is None or self.lead_in is None:
            return self.start
        return round(self.start - self.lead_in, 6) or None


@dataclass(frozen=True)
class Moment:
    """The first picture that begins at or after a moment, or else the last picture.

    The moment is `lead` seconds before the start of the input.
    """

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
    """The picture among the next `count` pictures that is most similar to all of them."""

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
    """The mapping of HDR pictures to SDR: the transfer curve, and the peak as a multiple of 203 nits."""

    curve: Literal["pq", "hlg"]
    peak: float


@dataclass(frozen=True)
class Joined:
    """Inputs that are joined one after the other from the time 0: their number, and their picture size."""

    count: int
    width: int
    height: int


@dataclass(frozen=True)
class Picture:
    """The changes of a video stream that are made once, for all outputs that share them.

    `shift` is subtracted from each time, so that the outputs begin at 0. `lead` is the time before the first
    picture, which black pictures fill. `given` is the colour of the source, and `colour` is the colour of the
    result.
    """

    input: int
    stream: int
    given: PictureColour
    colour: PictureColour
    shift: float = 0.0
    lead: float = 0.0
    deinterlacing: Deinterlacing = "none"
    fps: float | None = None  # None keeps the time of each picture
    most_fps: float | None = None  # pictures above this rate are left out, before the deinterlacing
    cut: CropArea | None = None
    turn: Turn = 0  # in degrees, clockwise, after the crop
    tone_map: ToneMap | None = None
    is_ten_bit: bool = False
    pick: Pick | None = None  # None keeps all pictures
    joined: Joined | None = None


@dataclass(frozen=True)
class Overlay:
    """A watermark of a given size, which is laid over pictures at a given position.

    Some files have the transparency of their picture in a separate stream, `alpha_stream`.
    """

    input: int
    stream: int
    given: PictureColour
    width: int
    height: int
    left: int
    top: int
    opacity: float
    alpha_stream: int | None = None


@dataclass(frozen=True)
class Scale:
    """Pictures of one size, made from the pictures of a larger `Scale` (`parent`) or of `picture` itself.

    The overlay is laid over the scaled pictures before they are padded. Smaller scales are made from the
    pictures without the overlay.
    """

    picture: int
    width: int
    height: int
    parent: int | None = None
    padded_width: int | None = None
    padded_height: int | None = None
    overlay: Overlay | None = None

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
class SearchResult:
    """The rate factor that a search has chosen, its predicted VMAF, and the length of the samples."""

    crf: int
    predicted_vmaf: float
    sample_seconds: float


@dataclass(frozen=True)
class QualityCheck:
    """The quality measurement of an encode: decode it again, and compare it with the encoder's input.

    `number` is unique in the plan, and part of the names of the result files. VMAF is computed for one
    of every `interval` pictures.
    """

    metrics: tuple[Metric, ...]
    model: VmafModel
    least_vmaf: float | None = None
    number: int = 0
    interval: int = 1
    search: SearchResult | None = None  # how the rate factor of the encode was found


@dataclass(frozen=True)
class VmafGoal:
    """The target VMAF of an encode.

    `measurement` is the index of its search among the plan's measurements.
    """

    vmaf: float
    measurement: int = 0


@dataclass(frozen=True)
class VideoTrack:
    """One encode of the pictures of a `Scale`.

    With `grid_seconds`, keyframes are only at multiples of this time.
    """

    scale: int
    codec: CodecName
    colour: PictureColour
    threads: int
    keyframe_pictures: int
    crf: int | None = None
    kbps: int | None = None  # the average rate; None for a constant quality
    most_kbps: int | None = None  # the highest rate
    grid_seconds: int | None = None
    is_ten_bit: bool = False
    hdr: HdrMetadata | None = None
    # An average rate needs two passes. The first pass writes its statistics to files whose names begin with
    # `statistics`.
    pass_number: Pass | None = None
    statistics: str = ""
    quality: QualityCheck | None = None
    goal: VmafGoal | None = None  # set instead of `crf` until a search has chosen the `crf`


@dataclass(frozen=True)
class LoudnessGoal:
    """The target loudness of a sound in LUFS, and its highest true peak in dBTP.

    `measurement` is the index of its `LoudnessMeasurement` among the plan's measurements. The encoder lowers
    the level by `encoder_loss` dB.
    """

    kind: Literal["goal"]
    target: float
    true_peak: float
    encoder_loss: float = 0.0
    measurement: int = 0


@dataclass(frozen=True)
class Gain:
    """A change of the volume. `measured_lufs` is the loudness before the change, or None for silence.

    The encoder lowers the level by `encoder_loss`, so its input is made louder by the same amount.
    """

    kind: Literal["gain"]
    decibels: float
    measured_lufs: float | None
    encoder_loss: float = 0.0


@dataclass(frozen=True)
class Sound:
    """The sound of a stream, from the time 0 of its outputs: late sound is padded, early sound is cut.

    `silent_seconds` is the silence to add before late sound: whole seconds, and one second less than fits.
    The resampler adds the remaining one to two seconds, so that the sound begins at its exact time.
    """

    input: int
    stream: int
    rate: int
    layout: Layout
    shift: float = 0.0
    silent_seconds: int = 0
    gain: Annotated[LoudnessGoal | Gain, Field(discriminator="kind")] | None = None


@dataclass(frozen=True)
class AudioTrack:
    sound: int
    codec: CodecName
    kbps: int | None


@dataclass(frozen=True)
class CopiedTrack:
    """A stream whose packets are copied. Only their times change: `shift` is subtracted."""

    input: int
    stream: int
    kind: Literal["video", "audio"]
    codec: CodecName
    shift: float = 0.0
    width: int | None = None
    height: int | None = None


@dataclass(frozen=True)
class TrackLabels:
    """The words that a player shows for a track.

    These words come from the source, and never become options of ffmpeg.
    """

    language: str | None = None
    title: str | None = None
    is_default: bool = True


@dataclass(frozen=True)
class MuxedTrack:
    """A track of a file.

    `place` is the index of its encode in `videos` or `audios`, or of its copy in `copies`.
    `least_end` is the earliest accepted end of the track, in seconds, or None if its end is not known.
    """

    kind: Literal["video", "audio"]
    place: int
    labels: TrackLabels = TrackLabels()
    least_end: float | None = None
    is_copied: bool = False


@dataclass(frozen=True)
class SubtitleTrack:
    """A text track of the source, which becomes WebVTT or the timed text of MP4.

    `shift` is the time in the source that becomes 0. All cues end by `seconds`, the length of the part. If
    `seconds` is None, all cues end by the end of the output.
    """

    stream: int
    name: str
    labels: TrackLabels
    is_forced: bool
    shift: float
    seconds: float | None = None


@dataclass(frozen=True)
class Tag:
    """A tag of a file, such as its title. The text comes from the request."""

    name: TagName
    text: str


@dataclass(frozen=True)
class File:
    """A file with one or more tracks. With `keeps_tags`, it has the tags and chapters of the source."""

    kind: Literal["file"]
    path: str
    muxer: Muxer
    tracks: tuple[MuxedTrack, ...]
    is_fragmented: bool = False
    keeps_tags: bool = False
    tags: tuple[Tag, ...] = ()
    input: int = 0  # with `keeps_tags`: the index of the input that has the tags
    subtitles: tuple[SubtitleTrack, ...] = ()  # in the file, they follow the other tracks


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
    copies: tuple[CopiedTrack, ...] = ()
    products: tuple[Product, ...] = ()
    outputs: tuple[str, ...] = ()  # the names of the outputs that the command makes
    also_read: tuple[tuple[int, int], ...] = ()  # (input, stream) of the streams that are read but not used
    is_optional: bool = False


@dataclass(frozen=True)
class LoudnessMeasurement:
    """One run of ffmpeg that measures the loudness of a sound (EBU R 128).

    `outputs` are the outputs that need the result. The measurement is optional if all these outputs are
    optional. The other fields are as in `Command`.
    """

    kind: Literal["loudness"]
    weight: float
    seconds: float | None
    inputs: tuple[Input]
    sound: Sound
    outputs: tuple[str, ...]
    also_read: tuple[tuple[int, int], ...] = ()
    is_optional: bool = False


@dataclass(frozen=True)
class SearchMeasurement:
    """One run of ffmpeg that encodes samples at each factor of `crfs`, and measures the VMAF of each encode.

    `outputs` are the outputs that need the result. `command` has one encode for each factor.
    """

    kind: Literal["search"]
    crfs: tuple[int, ...]
    command: Command
    outputs: tuple[str, ...]
    is_optional: bool = False

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.command.inputs

    @property
    def weight(self) -> float:
        return self.command.weight

    @property
    def seconds(self) -> float | None:
        return self.command.seconds


Measurement = Annotated[LoudnessMeasurement | SearchMeasurement, Field(discriminator="kind")]


@dataclass(frozen=True)
class SegmentEncryption:
    """AES-128 encryption of HLS media segments. The key is a secret of the job, and is not in the plan."""

    key_url: str
    iv: str | None = None  # 32 hex digits; None means the media sequence number


@dataclass(frozen=True)
class Package:
    """The playlists of an adaptive output. The playlists list the segments of the renditions."""

    output: str
    segment_seconds: int
    renditions: tuple[str, ...]
    hls: bool
    dash: bool
    trick_play: bool
    subtitles: tuple[SubtitleTrack, ...] = ()
    encryption: SegmentEncryption | None = None


@dataclass(frozen=True)
class PlannedText:
    """A file whose text the plan contains."""

    output: str
    path: str
    content_type: str
    text: str


@dataclass(frozen=True)
class PlanWarning:
    """A part of the source or of the request that an output lacks."""

    code: str
    output: str | None
    message: str


@dataclass(frozen=True)
class WatermarkFile:
    """The picture file of a watermark, which is fetched in addition to the source."""

    container: PictureContainer


def output_of(path: str) -> str:
    """Return the name of the output to which a file belongs.

    The name is the first folder of the path, or else the file name without its suffix.
    """
    folder, slash, _ = path.partition("/")
    return folder if slash else path.rpartition(".")[0]


@dataclass(frozen=True)
class Plan:
    container: str
    decoder_threads: int
    commands: tuple[Command, ...]
    packages: tuple[Package, ...] = ()
    texts: tuple[PlannedText, ...] = ()
    outputs: tuple[str, ...] = ()  # the names of the outputs, in the order of the request
    warnings: tuple[PlanWarning, ...] = ()
    tolerates_damage: bool = False  # ffmpeg continues after errors in the source
    watermarks: tuple[WatermarkFile, ...] = ()
    measurements: tuple[Measurement, ...] = ()

    @property
    def measures_quality(self) -> bool:
        """Return whether the quality of an encode is measured."""
        return any(video.quality for command in self.commands for video in command.videos)
