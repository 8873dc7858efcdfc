"""Read the subtitles of HLS and DASH: the cues of WebVTT files, and the attributes of the tracks."""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as Xml

from tests.media.readers.renditions import hls_media

_MPD = "{urn:mpeg:dash:schema:mpd:2011}"
_TIMES = re.compile(r"(\d{2,}):(\d\d):(\d\d)\.(\d{3}) --> (\d{2,}):(\d\d):(\d\d)\.(\d{3})")


@dataclass(frozen=True, order=True)
class Cue:
    start: int  # in milliseconds
    end: int
    text: str


@dataclass(frozen=True)
class Track:
    """A subtitle track. `attributes` are those of the master playlist or of the MPD's AdaptationSet."""

    name: str
    attributes: Mapping[str, str]
    cues: tuple[Cue, ...]


def cues(text: str) -> list[Cue]:
    """Return the cues of a WebVTT file. Raise if a block is not a cue."""
    first, *blocks = text.removesuffix("\n").split("\n\n")
    assert first.splitlines()[0] == "WEBVTT"
    return [_cue(block) for block in blocks]


def _cue(block: str) -> Cue:
    line, *lines = block.split("\n")
    match = _TIMES.fullmatch(line)
    assert match, f"no times: {line}"
    assert lines, f"no text: {line}"
    assert not any("-->" in one for one in lines), f"a line of times in a text: {block}"
    times = [*map(int, match.groups())]
    start, end = (
        ((hours * 60 + minutes) * 60 + seconds) * 1000 + rest
        for hours, minutes, seconds, rest in (times[:4], times[4:])
    )
    return Cue(start, end, html.unescape("\n".join(lines)))


def hls_subtitles(master: Path) -> list[Track]:
    """Return the tracks. A cue that is in several segments is returned once."""
    return [
        Track(
            one.name,
            one.attributes,
            tuple(dict.fromkeys(cue for part in one.segments for cue in cues(part.data.decode()))),
        )
        for one in hls_media(master, "SUBTITLES")
    ]


def dash_subtitles(manifest: Path) -> list[Track]:
    return [*_dash_subtitles(manifest)]


def _dash_subtitles(manifest: Path) -> Iterator[Track]:
    for one in Xml.parse(manifest).getroot().iter(f"{_MPD}AdaptationSet"):  # noqa: S314  our own file
        if one.get("contentType") == "text":
            name = one.findtext(f"{_MPD}Representation/{_MPD}BaseURL")
            assert name
            text = (manifest.parent / name).read_bytes().decode()
            yield Track(name, dict(one.attrib), tuple(cues(text)))
