"""Write HLS playlists (RFC 8216) over the segments of renditions. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from euterpe.media.packaging.hls_master import master_lines
from euterpe.media.packaging.rendition import (
    HLS_TYPE,
    PackagedRendition,
    SubtitleRendition,
    TextFile,
    VideoRendition,
)

MASTER = "master.m3u8"
_VERSION = 7
# All other characters of a URI are percent-encoded, because a quotation mark would end the attribute.
_URI_CHARACTERS = "!#$%&'()*+,-./:;=?@[]_~"


@dataclass(frozen=True)
class HlsKey:
    """The URL of an AES-128 key. Without `iv`, the media sequence number is the initialisation vector."""

    url: str
    iv: bytes | None = None


def hls_files(
    renditions: Sequence[PackagedRendition], *, trick_play: bool = False, key: HlsKey | None = None
) -> tuple[TextFile, ...]:
    """Return the playlists of a presentation. The master playlist is the last playlist.

    With `key`, the playlists are for encrypted media segments, and the caller encrypts the segments. Init
    segments and subtitles are not encrypted.
    """
    target = target_seconds(renditions)
    videos = [rendition for rendition in renditions if isinstance(rendition, VideoRendition)]
    master = master_lines(renditions, target, iframes=trick_play, is_encrypted=key is not None)
    return (
        *(media_playlist(rendition, target, key=key) for rendition in renditions),
        *(iframes_playlist(video, key=key) for video in videos if trick_play and video.keyframes),
        TextFile(MASTER, _text([*_first_lines(), *master]), HLS_TYPE),
    )


def target_seconds(renditions: Sequence[PackagedRendition]) -> int:
    """Return the target duration, which must be the same for all renditions (RFC 8216, §6.2.4)."""
    return max(_longest(rendition.durations) for rendition in renditions)


def media_playlist(rendition: PackagedRendition, target: int, *, key: HlsKey | None = None) -> TextFile:
    lines = [*_first_lines(target), *_init_and_key(rendition, key)]
    for place, duration in enumerate(rendition.durations):
        lines += [_extinf(duration), rendition.segment(place)]
    return TextFile(rendition.playlist, _text([*lines, "#EXT-X-ENDLIST"]), HLS_TYPE)


def iframes_playlist(video: VideoRendition, *, key: HlsKey | None = None) -> TextFile:
    """Return the playlist of first pictures, one for each segment, for fast forward and scrubbing.

    With a key, the byte ranges refer to the segments before encryption (RFC 8216, §6.3.6).
    """
    keyframes = video.keyframes
    target = _longest([keyframe.duration for keyframe in keyframes])
    lines = [*_first_lines(target), "#EXT-X-I-FRAMES-ONLY", *_init_and_key(video, key)]
    for one in keyframes:
        lines += [_extinf(one.duration), f"#EXT-X-BYTERANGE:{one.bytes.length}@{one.bytes.start}"]
        lines.append(video.segment(one.place))
    return TextFile(video.iframes_playlist, _text([*lines, "#EXT-X-ENDLIST"]), HLS_TYPE)


def _first_lines(target: int | None = None) -> list[str]:
    times = [f"#EXT-X-TARGETDURATION:{target}", "#EXT-X-PLAYLIST-TYPE:VOD"] if target is not None else []
    return ["#EXTM3U", f"#EXT-X-VERSION:{_VERSION}", *times]


def _init_and_key(rendition: PackagedRendition, key: HlsKey | None) -> Iterator[str]:
    if isinstance(rendition, SubtitleRendition):
        return
    # EXT-X-KEY must come after EXT-X-MAP: a key before the map would apply to the init segment, too.
    yield f'#EXT-X-MAP:URI="{rendition.init}"'
    if key is not None:
        iv = f",IV=0x{key.iv.hex()}" if key.iv is not None else ""
        url = quote(key.url, safe=_URI_CHARACTERS)
        yield f'#EXT-X-KEY:METHOD=AES-128,URI="{url}"{iv},KEYFORMAT="identity"'


def _extinf(microseconds: int) -> str:
    return f"#EXTINF:{microseconds // 1_000_000}.{microseconds % 1_000_000:06d},"


def _longest(durations: Sequence[int]) -> int:
    """Return the longest duration in whole seconds, rounded half up, and at least 1."""
    return max(1, (max(durations) + 500_000) // 1_000_000)


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
