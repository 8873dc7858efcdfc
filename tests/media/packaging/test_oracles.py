"""Tests that Shaka Packager and another version of ffprobe agree with our playlists (`ci/test --soak`)."""

from dataclasses import dataclass
from pathlib import Path

import m3u8
import pytest

from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.media_steps import make
from tests.media.outputs.product_path import parsed
from tests.media.packaging.oracles import Packaged, package, probe, segment_starts
from tests.media.readers.renditions import Rendition, hls_media, hls_variants
from tests.media.sources.cache import Sources
from tests.media.sources.phone import FPS, SECONDS, portrait_clip

pytestmark = pytest.mark.soak

SEGMENT_SECONDS = 1
PICTURES = SECONDS * FPS
PAIRS = (("h264", "aac"), ("hevc", "aac"), ("vp9", "opus"), ("av1", "opus"))


@dataclass(frozen=True)
class Compared:
    """A folder that Euterpe packaged, its renditions, and the files that Shaka Packager makes of them."""

    codecs: tuple[str, str]
    folder: Path
    videos: list[Rendition]
    sounds: list[Rendition]
    shaka: Packaged

    @property
    def ours(self) -> m3u8.M3U8:
        return m3u8.load(str(self.folder / "master.m3u8"))

    @property
    def theirs(self) -> m3u8.M3U8:
        return m3u8.load(str(self.shaka.master))


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def compared(
    request: pytest.FixtureRequest,
    sandbox: Sandbox,
    sources: Sources,
    tmp_path_factory: pytest.TempPathFactory,
) -> Compared:
    video, audio = request.param
    out = tmp_path_factory.mktemp("compared")
    output = {
        "name": "ours",
        "type": "adaptive",
        "segment_seconds": SEGMENT_SECONDS,
        "video": {"codec": video, "ladder": [360, 180]},
        "audio": {"codec": audio},
    }
    make(sandbox, portrait_clip(sources), parsed([output]), out)
    folder = out / "ours"
    videos, sounds = hls_variants(folder / "master.m3u8"), hls_media(folder / "master.m3u8")
    return Compared(
        request.param, folder, videos, sounds, package(videos, sounds, out / "shaka", SEGMENT_SECONDS)
    )


def test_codecs_sizes_and_channels_are_those_of_shaka_packager(compared: Compared) -> None:
    for ours, theirs in zip(compared.ours.playlists, compared.theirs.playlists, strict=True):
        assert ours.stream_info.codecs.lower() == theirs.stream_info.codecs.lower()
        assert ours.stream_info.resolution == theirs.stream_info.resolution
        assert theirs.stream_info.video_range in (None, ours.stream_info.video_range)
    channels = [[one.channels for one in master.media] for master in (compared.ours, compared.theirs)]
    assert channels[0] == channels[1] == ["1"]


def test_rates_are_those_of_shaka_packager(compared: Compared) -> None:
    """Shaka Packager measures durations by decode times, so its durations are up to two pictures shorter."""
    for ours, theirs in zip(compared.ours.playlists, compared.theirs.playlists, strict=True):
        for name in ("bandwidth", "average_bandwidth"):
            expected = getattr(theirs.stream_info, name)
            assert getattr(ours.stream_info, name) == pytest.approx(expected, rel=0.12)


def test_segments_start_where_shaka_packager_finds_keyframes(compared: Compared) -> None:
    ours = segment_starts(compared.folder / "manifest.mpd", "video")
    assert ours == [[float(second) for second in range(0, SECONDS, SEGMENT_SECONDS)]] * 2
    assert compared.shaka.segment_starts("video") == ours


def test_ffprobe_finds_the_variants_of_the_master_playlist(compared: Compared) -> None:
    found = probe(compared.folder / "master.m3u8", "-show_programs")["programs"]
    assert len(found) == len(compared.videos)
    for variant, program in zip(compared.ours.playlists, found, strict=True):
        kinds = {stream["codec_type"]: stream for stream in program["streams"]}
        assert program["tags"]["variant_bitrate"] == str(variant.stream_info.bandwidth)
        assert (kinds["video"]["width"], kinds["video"]["height"]) == variant.stream_info.resolution
        assert (kinds["video"]["codec_name"], kinds["audio"]["codec_name"]) == compared.codecs
        for kind, codec in zip(("video", "audio"), variant.stream_info.codecs.split(","), strict=True):
            # ffprobe has no codec string for HEVC, and leaves out the optional parts of the string for VP9.
            assert codec.lower().startswith(kinds[kind].get("mime_codec_string", "").lower())


def test_ffprobe_finds_every_picture_and_each_keyframe_at_its_segment(compared: Compared) -> None:
    for rendition in compared.videos:
        path = compared.folder / f"{rendition.name}.m3u8"
        packets = probe(path, "-show_packets", "-select_streams", "v")["packets"]
        assert len(packets) == PICTURES
        times = sorted(float(packet["pts_time"]) for packet in packets)
        assert times == pytest.approx([number / FPS for number in range(PICTURES)], abs=0.001)
        keys = [float(packet["pts_time"]) for packet in packets if packet["flags"].startswith("K")]
        assert keys == pytest.approx([*range(0, SECONDS, SEGMENT_SECONDS)], abs=0.001)


def test_ffprobe_finds_the_duration_of_each_playlist(compared: Compared) -> None:
    for rendition in (*compared.videos, *compared.sounds):
        found = probe(compared.folder / f"{rendition.name}.m3u8", "-show_format")["format"]
        assert float(found["duration"]) == pytest.approx(rendition.seconds, abs=0.001)
        assert rendition.seconds == pytest.approx(SECONDS, abs=0.05)
