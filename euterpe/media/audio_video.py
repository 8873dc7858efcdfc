"""ffmpeg arguments for MP4 and M4A outputs: one file each."""

from euterpe.domain.outputs import M4aOutput, Mp4Output
from euterpe.media.encoders import BITEXACT, audio_arguments, video_arguments
from euterpe.media.errors import MediaError
from euterpe.media.media_info import MediaInfo
from euterpe.media.picture import filters, fitted_size
from euterpe.media.planned_files import Planned, PlannedFile, Track, least_seconds, mapped, video_of

# The tags of a source may hold private data, such as places and device names, so no output inherits them.
NO_TAGS = ("-map_metadata", "-1", "-map_chapters", "-1")
# ffmpeg queues packets until every stream has begun; the default limit of that queue is too small.
MUXING_QUEUE = ("-max_muxing_queue_size", "4096")
_MP4 = (*NO_TAGS, *MUXING_QUEUE, *BITEXACT, "-movflags", "+faststart", "-f", "mp4", "-y")


def mp4(output: Mp4Output, info: MediaInfo) -> Planned:
    """Return the plan of an MP4 output. A source without sound gives a film without sound."""
    video = video_of(info, output.name)
    codec, size = output.video.codec, fitted_size(video, output.video.height, output.video.codec)
    tracks = [Track("video", codec, least_seconds(info, video), size.width, size.height)]
    words = [*mapped(video), "-vf", filters(video, size)]
    words += video_arguments(codec, output.video.crf, video, size)
    if output.audio is not None and (audio := info.audio) is not None:
        tracks.append(Track("audio", output.audio.codec, least_seconds(info, audio)))
        words += [*mapped(audio), *audio_arguments(output.audio, audio)]
    file = PlannedFile(output.name, f"{output.name}.mp4", "video/mp4", "mov", tuple(tracks))
    return Planned((file,), [*words, *_MP4, f"file:{file.path}"])


def m4a(output: M4aOutput, info: MediaInfo) -> Planned:
    """Return the plan of an M4A output. Raise `no_audio_stream` when the source has no sound."""
    if (audio := info.audio) is None:
        raise MediaError("no_audio_stream", f"output {output.name} is sound, and the source has none")
    track = Track("audio", output.audio.codec, least_seconds(info, audio))
    file = PlannedFile(output.name, f"{output.name}.m4a", "audio/mp4", "mov", (track,))
    words = [*mapped(audio), *audio_arguments(output.audio, audio)]
    return Planned((file,), [*words, *_MP4, f"file:{file.path}"])
