"""Tests with hostile sources: no output and no error contains the canary in the file next to the source."""

from pathlib import Path

import pytest

from euterpe.domain.codecs import codecs_for
from euterpe.media.encoding.verify import verify
from euterpe.media.errors import MediaError
from euterpe.media.planning.planner import plan
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.media.source.media_info import MediaInfo, StreamInfo
from euterpe.media.whitelist import CONTAINERS
from tests.media.clips import Clips
from tests.media.media_steps import FILM, SOUND, film, make, probe, run
from tests.media.mp4_boxes import with_outside_data

CANARY = "CANARY-7f3a"

_HLS = "#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n{target}\n#EXT-X-ENDLIST\n"
_PAYLOADS = {
    "playlist": _HLS,
    "playlist with a key": _HLS.replace("#EXTINF", '#EXT-X-KEY:METHOD=AES-128,URI="{target}"\n#EXTINF'),
    "master playlist": "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\n{target}\n",
    "concat": "ffconcat version 1.0\nfile '{target}'\nduration 2\n",
    "concat by protocol": _HLS.replace("{target}", "concat:{target}|{target}"),
    "subfile": _HLS.replace("{target}", "subfile,,start,0,end,64,,:{target}"),
    "dash": (
        '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static">'
        '<Period><AdaptationSet><Representation id="1" bandwidth="1"><BaseURL>{target}</BaseURL>'
        "</Representation></AdaptationSet></Period></MPD>"
    ),
    "svg": (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="64" '
        'height="64"><image xlink:href="file://{target}" width="64" height="64"/></svg>'
    ),
    "sdp": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n",
    "subtitles": "1\n00:00:00,000 --> 00:00:02,000\n<img src='file://{target}'>\n",
    "ass": "[Script Info]\nScriptType: v4.00+\n[Fonts]\nfontname: {target}\n[Events]\n",
    "pictures by pattern": "glob:{target}*",
    "shell": "$(cat {target}); `cat {target}`; | cat {target}",
}


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    path = tmp_path / "canary.txt"
    path.write_text(CANARY)
    return path


def quotes_a_file(error: BaseException | None) -> bool:
    message = repr(error) + str(error)
    return CANARY in message or "root:" in message


def canary_is_in(folder: Path, error: BaseException | None) -> bool:
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return quotes_a_file(error) or any(CANARY.encode() in data for data in files)


@pytest.mark.parametrize("target", ["canary", "/etc/passwd"])
@pytest.mark.parametrize("payload", _PAYLOADS)
def test_a_text_that_names_another_file_is_not_media(
    sandbox: Sandbox, tmp_path: Path, canary: Path, payload: str, target: str
) -> None:
    source = tmp_path / "source.mp4"
    source.write_text(_PAYLOADS[payload].format(target=canary if target == "canary" else target))
    with pytest.raises(MediaError) as refused:
        probe(sandbox, source)
    assert refused.value.code in ("source_not_media", "source_unsupported")
    assert not quotes_a_file(refused.value)


@pytest.mark.parametrize("container", CONTAINERS)
def test_ffmpeg_opens_no_other_file_even_if_the_probe_was_fooled(
    sandbox: Sandbox, tmp_path: Path, canary: Path, container: str
) -> None:
    """The plan tells ffmpeg which demuxer to use. In this test, each allowed demuxer reads a playlist."""
    source, out = tmp_path / "source.mp4", tmp_path / "out"
    source.write_text(_HLS.format(target=canary))
    out.mkdir()
    streams = (StreamInfo(0, "video", "h264", width=64, height=64), StreamInfo(1, "audio", "aac"))
    planned = plan([SOUND], MediaInfo(container, 1, None, streams), threads=1)
    with pytest.raises(MediaError) as refused:  # noqa: PT012  either step may refuse the source
        run(sandbox, planned, source, out)
        verify(sandbox, planned, out)
    assert not canary_is_in(out, refused.value)


def test_a_reference_to_data_in_another_file_is_not_followed(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, canary: Path
) -> None:
    source, out = tmp_path / "source.mp4", tmp_path / "out"
    source.write_bytes(with_outside_data(clips.make("one.mp4").read_bytes(), canary))
    out.mkdir()
    error = None
    try:
        make(sandbox, source, [FILM], out)
    except MediaError as refused:
        error = refused
    assert not canary_is_in(out, error)


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("truncated.mp4", {"source_truncated"}),
        ("truncated.mkv", {"source_truncated"}),
        ("damaged.mp4", {"source_damaged"}),
        ("huge.mkv", {"source_unsupported"}),
    ],
)
def test_a_damaged_film_is_never_a_partial_success(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, name: str, codes: set[str]
) -> None:
    with pytest.raises(MediaError) as refused:
        make(sandbox, clips.make(name), [FILM], tmp_path)
    assert refused.value.code in codes


@pytest.mark.parametrize("codec", [codec.name for codec in codecs_for("video", "mp4")])
def test_pictures_of_an_impossible_size_are_refused_before_anything_runs(codec: str) -> None:
    for width, height, pixel_aspect in (
        (65_000, 65_000, 1.0),
        (100_000, 2, 1.0),
        (2, 2, 1.0),
        (640, 480, 1e9),
    ):
        video = StreamInfo(0, "video", "h264", width=width, height=height, pixel_aspect=pixel_aspect)
        with pytest.raises(MediaError) as refused:
            plan([film(codec)], MediaInfo("mov", 1, 2.0, (video,)), threads=1)
        assert refused.value.code in ("source_unsupported", "output_unsupported")


@pytest.mark.parametrize("name", ["0", "1.--y", "a..b", "con", "a.mp4"])
def test_a_name_that_looks_like_an_option_or_a_path_is_a_name(
    clips: Clips, sandbox: Sandbox, tmp_path: Path, name: str
) -> None:
    (made,) = make(sandbox, clips.make("one.mp4"), [SOUND.model_copy(update={"name": name})], tmp_path)
    assert made.path == tmp_path / f"{name}.m4a"
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.m4a"]


def test_an_error_contains_no_path_and_no_address(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    with pytest.raises(MediaError) as refused:
        make(sandbox, clips.make("damaged.mp4"), [FILM], tmp_path)
    assert "0x" not in str(refused.value)
    assert str(tmp_path) not in str(refused.value)
