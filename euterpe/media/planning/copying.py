"""Decide which streams of a file output are copied: those that already meet the request.

All other streams are encoded. A request field that is not listed here prevents a copy, because a copy would
ignore the field.
"""

from dataclasses import replace

from euterpe.domain.codecs import CODECS, CONTAINERS
from euterpe.domain.model import StrictModel
from euterpe.domain.outputs import FilmOutput, SoundOutput, Video
from euterpe.media.planning import colour
from euterpe.media.planning.picture import Size, fitted, frame_rate, has_bursts, shown_size
from euterpe.media.planning.sound import Chosen, has_all_channels
from euterpe.media.planning.timeline import Timeline
from euterpe.media.planning.tracks import Material, VideoSettings, keeps_hdr_of
from euterpe.media.source.media_info import MediaInfo, StreamInfo

# The request fields that do not prevent a copy by themselves. The code below compares each of these fields
# with the stream.
_OF_OUTPUT = frozenset({"name", "type", "optional", "video", "audio", "subtitles", "metadata", "fragmented"})
# A copy is equal to the source, so it reaches every requested quality.
_OF_QUALITY = frozenset({"measure", "vmaf_min"})
# Fields that change the picture. The sound of the output can still be copied.
_OF_PICTURES = frozenset({"crop", "rotate", "pad", "watermark"})
_OF_VIDEO = frozenset({"codec", "height", "bitrate_kbps", "fps", "hdr", "copy"})
_OF_AUDIO = frozenset({"codec", "bitrate_kbps", "channels", "language", "copy"})
# Containers that keep the time and the order of each packet, unlike AVI, ASF and MXF.
_SOURCES = frozenset({"mov", "matroska", "mpegts", "mp3", "aac", "flac", "ogg"})
# The profiles that browsers, phones and televisions decode. "Baseline" allows slices in any order, which few
# players decode.
_PROFILES = {
    "h264": frozenset({"Constrained Baseline", "Main", "High"}),
    "hevc": frozenset({"Main", "Main 10"}),
    "vp9": frozenset({"Profile 0", "Profile 2"}),
    "av1": frozenset({"Main"}),
    "aac": frozenset({"LC", "HE-AAC", "HE-AACv2"}),
}
_SELF_DESCRIBED = frozenset({"mpegts", "aac"})
_EIGHT_BITS, _TEN_BITS = "yuv420p", "yuv420p10le"
# Encoders miss the requested rate by a few percent: a stream of AAC at 128 kbit/s has up to 131 kbit/s.
_RATE_TOLERANCE = 1.05
# The maximum difference between the start of a copied sound and the start of the output. In the files of
# usual encoders, sound begins up to 0.1 s before the first picture, or one packet after it.
_MOST_APART_S = 0.1
_SQUARE_TOLERANCE = 0.001


def with_copies(output: FilmOutput | SoundOutput, info: MediaInfo, material: Material) -> Material:
    """Return the material, with a mark on each stream that is to be copied."""
    given = _given(output)
    if not given <= _OF_OUTPUT | _OF_PICTURES | _OF_QUALITY or info.container not in _SOURCES:
        return material
    times = material.timeline
    copies_video = (
        isinstance(output, FilmOutput)
        and given <= _OF_OUTPUT | _OF_QUALITY
        and isinstance(wanted := getattr(output, "video", None), Video)
        and material.video is not None
        and not times.lead
        and _video_fits(wanted, material.video, info)
        and _can_hold(output, wanted.codec, info)
    )
    sounds = tuple(
        replace(one, is_copied=_sound_fits(one, info, times) and _can_hold(output, one.codec, info))
        for one in material.sounds
    )
    return replace(material, sounds=sounds, copies_video=copies_video)


def _given(model: StrictModel) -> frozenset[str]:
    """Return the names of the fields whose values are not the defaults."""
    return frozenset(model.model_dump(exclude_defaults=True))


def _can_hold(output: FilmOutput | SoundOutput, codec: str, info: MediaInfo) -> bool:
    # From these containers, ffmpeg learns the configuration of AAC only with the first packet. But ffmpeg
    # writes the index of a fragmented file, which contains the configuration, before the first packet.
    if codec == "aac" and info.container in _SELF_DESCRIBED and getattr(output, "fragmented", False):
        return False
    kind = output.type
    return any(name == kind and box in CODECS[codec].containers for name, box in CONTAINERS.items())


def _video_fits(wanted: Video, video: StreamInfo, info: MediaInfo) -> bool:
    return (
        wanted.copies == "auto"
        and _given(wanted) <= _OF_VIDEO
        and video.codec == wanted.codec
        and _is_whole(video)
        and video.starts_with_keyframe
        and not video.interlaced
        and not video.has_crop
        and frame_rate(video, wanted.fps) is None
        and not has_bursts(video, wanted.fps)
        and _has_shape(wanted, video)
        and _has_colours(wanted, video)
        and _is_below(wanted.bitrate_kbps, video, info)
    )


def _is_whole(stream: StreamInfo) -> bool:
    """Return True if all packets of the stream are shown, and the stream's start and end are known."""
    is_known = stream.first_seconds is not None and stream.end_seconds is not None
    return is_known and not stream.has_edits


def _has_shape(wanted: Video, video: StreamInfo) -> bool:
    """Return whether the coded pictures are upright, have square pixels, and have the requested size."""
    if video.rotation or video.is_flipped or abs(video.pixel_aspect - 1) > _SQUARE_TOLERANCE:
        return False
    size = fitted(shown_size(video), wanted.height, wanted.codec)
    return size == Size(video.width or 0, video.height or 0)


def _has_colours(wanted: Video, video: StreamInfo) -> bool:
    """Return True if an encode would keep the colours and players can decode the pixel format."""
    keeps_hdr = keeps_hdr_of(video, VideoSettings(wanted.codec, hdr=wanted.hdr))
    formats = (_TEN_BITS,) if keeps_hdr else (_EIGHT_BITS, _TEN_BITS)
    if wanted.codec == "h264":
        formats = (_EIGHT_BITS,)
    given = colour.given_colour(video)
    return (
        video.pixel_format in formats
        and video.profile in _PROFILES[wanted.codec]
        and not video.dolby_vision
        and not colour.has_wrong_tags(video)
        and colour.output_colour(given, keeps_hdr=keeps_hdr) == given
    )


def _sound_fits(one: Chosen, info: MediaInfo, times: Timeline) -> bool:
    stream, asked = one.stream, one.asked
    return (
        asked.copies == "auto"
        and _given(asked) <= _OF_AUDIO
        and stream.codec == one.codec
        and (one.codec not in _PROFILES or stream.profile in _PROFILES[one.codec])
        and _is_whole(stream)
        and abs((stream.first_seconds or 0.0) - times.zero) <= _MOST_APART_S
        and has_all_channels(one)
        and one.rate == stream.sample_rate
        and _is_below(asked.bitrate_kbps, stream, info)
    )


def _is_below(most_kbps: int | None, stream: StreamInfo, info: MediaInfo) -> bool:
    """Return whether the rate of the stream is known, and at most `most_kbps` (with a tolerance)."""
    if most_kbps is None:
        return True
    rate: float | None = stream.bit_rate
    if rate is None and info.duration_seconds:
        rate = 8 * info.size_bytes / info.duration_seconds  # the rate of all streams together
    return rate is not None and rate <= 1000 * most_kbps * _RATE_TOLERANCE
