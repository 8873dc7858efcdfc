"""ffmpeg arguments of encoders: codec options, rates, keyframes, colour and HDR metadata."""

from collections.abc import Iterator

from euterpe.domain.codecs import CODECS
from euterpe.media.planning.tree import AudioTrack, VideoTrack


def video_arguments(track: VideoTrack) -> Iterator[str]:
    """Yield the arguments that encode a track, for an output with one video stream."""
    if track.goal is not None:
        raise ValueError("the search for the rate factor of the encode has not run yet")
    codec, quality = CODECS[track.codec], track.crf
    if track.kbps is None and quality is None and codec.quality is not None:
        quality = codec.quality.default
    rate = track.kbps if track.kbps is not None else track.most_kbps
    more = "".join(f":{one}" for one in _params(track))
    if track.kbps is not None:
        quality = None
    yield from codec.arguments(
        quality,
        track.threads,
        bit_rate=rate,
        pass_number=track.pass_number,
        statistics=track.statistics,
        more=more,
    )
    yield from ("-g", str(track.keyframe_pictures))
    if track.grid_seconds is not None:
        # Keyframes at the same times in every rendition let a player switch between renditions. If the
        # source has no picture during several intervals, only the next picture becomes a keyframe.
        grid = track.grid_seconds
        passed = f"gt(floor(t/{grid}),floor(prev_forced_t/{grid}))"
        yield from ("-force_key_frames:v", f"expr:isnan(prev_forced_t)+{passed}")
        if track.codec in ("h264", "hevc"):
            yield from ("-forced-idr", "1")
    # Keep the time of each picture, in the time base of the filters.
    yield from ("-fps_mode", "passthrough", "-enc_time_base", "filter")


def _params(track: VideoTrack) -> Iterator[str]:
    """Yield the options that can be set only in the encoder's parameter list (`-x264-params` and so on)."""
    if track.grid_seconds is not None and track.codec in ("h264", "hevc"):
        yield "scenecut=0"
    if track.codec == "hevc":
        yield from _hdr_of_hevc(track)


def _hdr_of_hevc(track: VideoTrack) -> Iterator[str]:
    if not track.is_ten_bit:
        return
    yield "hdr-opt=1:repeat-headers=1"
    if track.hdr and (light := track.hdr.mastering_display):
        g, b, r, white, most, least = light[0:2], light[2:4], light[4:6], light[6:8], light[8], light[9]
        points = "".join(
            f"{name}({x},{y})" for name, (x, y) in zip(("G", "B", "R", "WP"), (g, b, r, white), strict=True)
        )
        yield f"master-display={points}L({most},{least})"
    if track.hdr and (content := track.hdr.content_light):
        yield f"max-cll={content[0]},{content[1]}"


def audio_arguments(track: AudioTrack, place: int) -> Iterator[str]:
    """Yield the arguments that encode a sound track.

    `place` is the index of the track among the file's audio streams.
    """
    kind, *words = CODECS[track.codec].arguments(bit_rate=track.kbps)
    yield f"{kind}:{place}"
    yield from (f"{word}:{place}" if word == "-b:a" else word for word in words)
