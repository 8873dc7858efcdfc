"""ffmpeg arguments for HLS: a rendition for each height, separate audio, fMP4 segments, a master playlist."""

from collections.abc import Sequence

from euterpe.domain.outputs import HlsOutput
from euterpe.media.planning.encoders import BITEXACT, MUXING_QUEUE, NO_TAGS, audio_arguments, video_arguments
from euterpe.media.planning.picture import filters, fitted_size
from euterpe.media.planning.planned_files import Planned, PlannedFile, Track, least_seconds, mapped, video_of
from euterpe.media.source.media_info import MediaInfo

_PLAYLIST_TYPE = "application/vnd.apple.mpegurl"
_MASTER = "master.m3u8"
# The most segments of a source of unknown duration: two days in segments of two seconds.
_MOST_SEGMENTS = 86_400


def hls(output: HlsOutput, info: MediaInfo) -> Planned:
    """Return the plan of an HLS output. All heights above the height of the source share one rendition."""
    video, codec = video_of(info, output.name), output.video.codec
    sizes = list(dict.fromkeys(fitted_size(video, height, codec) for height in output.video.ladder))
    words = [word for _ in sizes for word in mapped(video)]
    for place, size in enumerate(sizes):
        words += [f"-filter:v:{place}", filters(video, size)]
    words += video_arguments(codec, None, video, *sizes)
    # Segments begin at the same times in every rendition, so that a player can switch between them.
    words += ["-force_key_frames:v", f"expr:gte(t,n_forced*{output.segment_seconds})"]
    lists = {
        f"{size.height}p": Track("video", codec, least_seconds(info, video), size.width, size.height)
        for size in sizes
    }
    variants = [f"v:{place},name:{name}" for place, name in enumerate(lists)]
    if output.audio is not None and (audio := info.audio) is not None:
        words += [*mapped(audio), *audio_arguments(output.audio, audio)]
        lists["audio"] = Track("audio", output.audio.codec, least_seconds(info, audio))
        variants = [f"{variant},agroup:audio" for variant in variants]
        variants.append("a:0,agroup:audio,name:audio,default:yes")
    words += [*NO_TAGS, *MUXING_QUEUE, *BITEXACT, *_muxer(output, variants, tuple(lists))]
    words += ["-y", f"file:{output.name}/%v.m3u8"]
    playlists = [
        PlannedFile(
            output.name,
            f"{output.name}/{name}.m3u8",
            _PLAYLIST_TYPE,
            "hls",
            (track,),
            parts=f"{output.name}/{name}_*",
            most_parts=most_parts(info.duration_seconds, output.segment_seconds),
        )
        for name, track in lists.items()
    ]
    names = tuple(f"{name}.m3u8" for name in lists)
    master = PlannedFile(output.name, f"{output.name}/{_MASTER}", _PLAYLIST_TYPE, "hls master", lists=names)
    return Planned((*playlists, master), words)


def most_parts(duration_seconds: float | None, segment_seconds: float) -> int:
    """Return an upper bound on the number of segments of a valid source.

    The bound is generous, because keyframes of the source may cause further cuts.
    """
    return 100 + (_MOST_SEGMENTS if duration_seconds is None else int(3 * duration_seconds / segment_seconds))


def _muxer(output: HlsOutput, variants: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    # With a single variant, ffmpeg does not replace %v in the name of the init file.
    init = f"{names[0]}_init.mp4" if len(names) == 1 else "%v_init.mp4"
    return (
        *("-f", "hls", "-hls_time", str(output.segment_seconds), "-hls_playlist_type", "vod"),
        *("-hls_segment_type", "fmp4", "-hls_flags", "independent_segments"),
        *("-hls_segment_filename", f"{output.name}/%v_%05d.m4s", "-hls_fmp4_init_filename", init),
        *("-master_pl_name", _MASTER, "-var_stream_map", " ".join(variants)),
    )
