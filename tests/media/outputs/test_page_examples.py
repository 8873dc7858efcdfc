"""Make the examples of docs/media.md from a small film, and check that the page describes them correctly."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pymediainfo import MediaInfo

from tests.media.outputs.product_path import MakeMarked
from tests.media.readers.colours import colour_tags, shown_colour
from tests.media.readers.film_subtitles import film_subtitles
from tests.media.readers.media import frames, opened, packet_ends
from tests.media.readers.renditions import dash_renditions, hls_media, hls_variants
from tests.media.readers.sounds import sine_levels
from tests.media.readers.streams import size, streams
from tests.media.readers.subtitles import dash_subtitles, hls_subtitles
from tests.media.sources.cache import Sources
from tests.media.sources.colour_math import BT709, BT2020, PQ, Triple
from tests.media.sources.logos import COLOUR, logo
from tests.media.sources.page_film import GERMAN_HERTZ, SECONDS, SIZE, SPOKEN, TITLE, page_film
from tests.media.sources.sounds import SURROUND
from tests.service.test_media_page import output_examples


def codecs(path: Path) -> list[tuple[str, str | None]]:
    return [(stream.codec, stream.language) for stream in streams(path)]


def title(path: Path) -> str | None:
    with opened(path) as container:
        return container.metadata.get("title")


def channels(path: Path) -> list[int]:
    return [int(track.channel_s) for track in MediaInfo.parse(path).audio_tracks]


def boxes(path: Path) -> list[bytes]:
    """Return the types of the boxes of an MP4 file, in order."""
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        found.append(data[at + 4 : at + 8])
        at += int.from_bytes(data[at : at + 4], "big")
    return found


def stream(folder: Path) -> None:
    """Check that HLS and DASH have the same renditions, two languages, subtitles and I-frame playlists."""
    names = {path.name for path in folder.iterdir()}
    assert names >= {"master.m3u8", "manifest.mpd", "360p.m3u8", "360p_init.mp4", "360p_00001.m4s"}
    assert "audio_eng.m3u8" in names
    master = folder / "master.m3u8"
    assert [one.name for one in hls_variants(master)] == ["360p", "240p"]
    assert [one.name for one in dash_renditions(folder / "manifest.mpd", "video")] == ["360p", "240p"]
    sounds = {one.attributes["LANGUAGE"]: one for one in hls_media(master)}
    assert {name: one.attributes["CHANNELS"] for name, one in sounds.items()} == {"en": "6", "de": "1"}
    assert sine_levels(sounds["de"].media, GERMAN_HERTZ)[0] > 0.05
    for one in hls_variants(master):
        assert next(seconds for seconds, _ in frames(one.media)) == 0
        assert [part.seconds for part in one.segments] == [4.0] * (SECONDS // 4)
        assert all(next(frames(one.alone(place)))[1].key_frame for place in range(len(one.segments)))
    for track in (*hls_subtitles(master), *dash_subtitles(folder / "manifest.mpd")):
        assert [cue.text for cue in track.cues] == [SPOKEN]
    assert master.read_text().count("#EXT-X-I-FRAME-STREAM-INF:") == 2


def hls(folder: Path) -> None:
    """Check that the output is HLS without DASH, keeps HDR, and has all sound tracks."""
    assert not (folder / "manifest.mpd").exists()
    (variant,) = hls_variants(folder / "master.m3u8")
    assert colour_tags(variant.media).transfer == PQ
    assert variant.attributes["VIDEO-RANGE"] == "PQ"
    assert [one.attributes["LANGUAGE"] for one in hls_media(folder / "master.m3u8")] == ["en", "de"]


def dash(folder: Path) -> None:
    """Check that the output is DASH without HLS, in AV1 and Opus, with segments of six seconds."""
    assert not (folder / "master.m3u8").exists()
    (video,) = dash_renditions(folder / "manifest.mpd", "video")
    (audio,) = dash_renditions(folder / "manifest.mpd", "audio")
    assert video.attributes["codecs"].startswith("av01.")
    assert audio.attributes["codecs"].lower() == "opus"
    assert [part.seconds for part in video.segments[:-1]] == [6.0] * (len(video.segments) - 1)
    assert colour_tags(video.media).primaries == BT709


def film(path: Path) -> None:
    """Check that the film is H.264 in SDR, begins with its index, and lacks the title of the source."""
    assert codecs(path) == [("h264", "und"), ("aac", "eng")]
    assert boxes(path).index(b"moov") < boxes(path).index(b"mdat")
    assert title(path) is None
    assert colour_tags(path).transfer == BT709
    assert size(path) == SIZE


def hdr(path: Path) -> None:
    """Check that the film has HDR, two sound tracks, fragments, and the title of the source."""
    assert [codec for codec, _ in codecs(path)] == ["hevc", "flac", "aac"]
    assert channels(path) == [6, 2]
    assert boxes(path).count(b"moof") > 1
    assert title(path) == TITLE
    tags = colour_tags(path)
    assert (tags.primaries, tags.transfer) == (BT2020, PQ)
    track = MediaInfo.parse(path).video_tracks[0]
    assert track.bit_depth == 10
    assert track.mastering_display_luminance
    assert track.maximum_content_light_level


def free(path: Path) -> None:
    assert [codec for codec, _ in codecs(path)] == ["vp9", "opus"]
    assert title(path) == "Interview"


def edit(path: Path) -> None:
    """Check that the film has all sound tracks with their languages."""
    assert [codec for codec, _ in codecs(path)] == ["h264", "aac", "aac"]
    assert [language for _, language in codecs(path)][1:] in (["eng", "ger"], ["eng", "deu"])
    assert boxes(path).index(b"moov") < boxes(path).index(b"mdat")


def podcast(path: Path) -> None:
    assert [codec for codec, _ in codecs(path)] == ["mp3"]
    assert channels(path) == [1]


def music(path: Path) -> None:
    assert [codec for codec, _ in codecs(path)] == ["aac"]
    assert channels(path) == [2]


def small(path: Path) -> None:
    """Check that the sound is in the requested language."""
    assert sine_levels(path, GERMAN_HERTZ)[0] > 0.05


def master(path: Path) -> None:
    """Check that the sound has all channels in their order, and the title of the source."""
    assert channels(path) == [6]
    for place, hertz in enumerate(SURROUND.values()):
        levels = sine_levels(path, hertz)
        assert levels.index(max(levels)) == place
    assert title(path) == TITLE


def poster(path: Path) -> None:
    """Check that the picture is not enlarged to 1280 pixels."""
    assert path.suffix == ".webp"
    assert size(path) == SIZE


def stills(folder: Path) -> None:
    assert [path.name for path in sorted(folder.iterdir())] == ["1.avif", "2.avif", "3.avif"]
    assert all(size(path) == SIZE for path in folder.iterdir())


def seek(folder: Path) -> None:
    """Check that one sheet has all thumbnails: one every five seconds, each 160 pixels wide."""
    places = re.findall(
        r"^(\S+)#xywh=(\d+),(\d+),(\d+),(\d+)$", (folder / "sprite.vtt").read_text(), re.MULTILINE
    )
    assert [place[0] for place in places] == ["1.jpg"] * 6
    assert {place[3] for place in places} == {"160"}


def card(path: Path) -> None:
    """Check that the preview is an animation."""
    assert b"ANIM" in path.read_bytes()[:64]


def story(path: Path) -> None:
    """Check the shape and the length of a part of the film.

    The part is from 12.5 s to 27 s. The picture is cropped by 280 lines, and bars extend it to 9:16.
    """
    width, height = size(path)
    assert height / width == pytest.approx(16 / 9, abs=0.02)
    assert packet_ends(path)[0] == pytest.approx(14.5, abs=0.2)


def copy(path: Path) -> None:
    """Check the subtitles and the two sound tracks: the first has six channels, the second has one."""
    assert channels(path) == [6, 1]
    (track,) = film_subtitles(path)
    assert [(cue.start, cue.end, cue.text) for cue in track.cues] == [(1000, 5000, SPOKEN)]
    assert (track.language, track.is_default) == ("eng", False)


def upright(path: Path) -> None:
    """Check that the picture was turned by 90 degrees."""
    assert size(path) == SIZE[::-1]


def marked_film(path: Path) -> None:
    """Check the colour of the watermark near the top right corner. The watermark is 20 % transparent."""
    width, _ = SIZE
    # The watermark is 12 % wide, half as high as wide, and 3 % from the edges.
    found = shown_colour(path, round(width * (1 - 0.03 - 0.06)), round(width * (0.03 + 0.03)))
    for value, mark in zip(found, COLOUR, strict=True):
        assert 0.8 * mark - 10 <= value <= 0.8 * mark + 0.2 * 255 + 10


def marked_stream(folder: Path) -> None:
    """Check that each rendition has the watermark near the bottom left corner."""
    for variant in hls_variants(folder / "master.m3u8"):
        width, height = size(variant.media)
        assert near_mark(shown_colour(variant.media, round(0.06 * width), round(height - 0.05 * width)))


def scored(path: Path) -> None:
    assert codecs(path)[0] == ("hevc", "und")
    assert size(path) == SIZE


def assured(folder: Path) -> None:
    """Check that there are no rungs above the source."""
    assert [one.name for one in hls_variants(folder / "master.m3u8")] == ["360p"]


def aimed(path: Path) -> None:
    """Check that the file has the whole film, and not only the samples of the search."""
    assert [codec for codec, _ in codecs(path)] == ["av1", "opus"]
    assert packet_ends(path)[0] == pytest.approx(SECONDS, abs=0.2)
    assert size(path) == SIZE


def near_mark(colour: Triple) -> bool:
    return max(abs(one - wanted) for one, wanted in zip(colour, COLOUR, strict=True)) < 25


CHECKS: Mapping[str, Callable[[Path], None]] = {
    one.__name__: one
    for one in (
        *(stream, hls, dash, film, hdr, free, edit, podcast, music, small, master),
        *(poster, stills, seek, card, story, copy, upright, marked_film, marked_stream),
        *(scored, assured, aimed),
    )
}


@pytest.mark.parametrize("outputs", output_examples(), ids=lambda outputs: outputs[0]["name"])
def test_an_example_gives_the_files_that_the_page_promises(
    make_marked: MakeMarked, sources: Sources, outputs: list[dict[str, Any]]
) -> None:
    marks = {output["watermark"]["source"]["url"] for output in outputs if "watermark" in output}
    folder = make_marked(outputs, page_film(sources), {url: logo(sources) for url in marks})
    for output in outputs:
        (top,) = [path for path in folder.iterdir() if path.stem == output["name"]]
        assert all(path.stat().st_size for path in (top, *top.rglob("*")))
        if (name := _check_of(output)) in CHECKS:
            CHECKS[name](next(top.iterdir()) if _is_one_picture(output, top) else top)


def _check_of(output: Mapping[str, Any]) -> str:
    """Return the name of the function that checks this output.

    The names for outputs with a watermark have a prefix, because their examples reuse names of other outputs.
    """
    return f"marked_{output['name']}" if "watermark" in output else str(output["name"])


def _is_one_picture(output: Mapping[str, Any], top: Path) -> bool:
    return top.is_dir() and output["type"] in ("image", "preview") and isinstance(output.get("at", ""), str)


def test_every_check_belongs_to_an_example() -> None:
    assert CHECKS.keys() <= {_check_of(output) for outputs in output_examples() for output in outputs}
