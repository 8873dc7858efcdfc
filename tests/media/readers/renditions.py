"""Read the renditions of HLS and DASH: the init file and all segments, in the order of the playlist."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree as Xml

_ATTRIBUTE = re.compile(r'([A-Z0-9-]+)=("[^"]*"|[^,]*)')
_MPD = "{urn:mpeg:dash:schema:mpd:2011}"


@dataclass(frozen=True)
class Segment:
    seconds: float  # the duration in the playlist
    data: bytes


@dataclass(frozen=True)
class Rendition:
    """A rendition. `attributes` come from the master playlist or from the Representation in the MPD."""

    name: str
    attributes: Mapping[str, str]
    init: bytes
    segments: tuple[Segment, ...]

    @property
    def media(self) -> bytes:
        """Return the whole rendition as one fragmented MP4 file."""
        return self.init + b"".join(segment.data for segment in self.segments)

    @property
    def seconds(self) -> float:
        return sum(segment.seconds for segment in self.segments)

    def alone(self, number: int) -> bytes:
        """Return a file with only one segment."""
        return self.init + self.segments[number].data

    def bits_per_second(self, number: int) -> float:
        segment = self.segments[number]
        return 8 * len(segment.data) / segment.seconds


def hls_variants(master: Path) -> list[Rendition]:
    """Return the video renditions, in the order of the master playlist."""
    lines = master.read_text().splitlines()
    return [
        _hls(master.parent / lines[place + 1], _attributes(line))
        for place, line in enumerate(lines)
        if line.startswith("#EXT-X-STREAM-INF:") and "RESOLUTION=" in line
    ]


def hls_media(master: Path, kind: str = "AUDIO") -> list[Rendition]:
    """Return the renditions of a kind that have their own playlist, in the order of the master playlist."""
    found = [
        _attributes(line) for line in master.read_text().splitlines() if line.startswith("#EXT-X-MEDIA:")
    ]
    return [_hls(master.parent / one["URI"], one) for one in found if one["TYPE"] == kind and "URI" in one]


def _attributes(line: str) -> dict[str, str]:
    return {name: value.strip('"') for name, value in _ATTRIBUTE.findall(line.partition(":")[2])}


def _hls(playlist: Path, attributes: Mapping[str, str]) -> Rendition:
    init, segments, seconds = b"", [], 0.0
    for line in playlist.read_text().splitlines():
        if line.startswith("#EXT-X-MAP:"):
            init = (playlist.parent / _attributes(line)["URI"]).read_bytes()
        elif line.startswith("#EXTINF:"):
            seconds = float(line[8:].split(",")[0])
        elif line and not line.startswith("#"):
            segments.append(Segment(seconds, (playlist.parent / line).read_bytes()))
    return Rendition(playlist.stem, attributes, init, tuple(segments))


def dash_renditions(manifest: Path, content: str) -> list[Rendition]:
    """Return the renditions whose adaptation set is of this content type (video, audio or text).

    Leave out the adaptation set for trick play, whose keyframes are in one file.
    """
    root = Xml.fromstring(manifest.read_text())  # noqa: S314  the product wrote it
    return [
        _dash(manifest.parent, adaptation, representation)
        for adaptation in root.iter(f"{_MPD}AdaptationSet")
        for representation in adaptation.iter(f"{_MPD}Representation")
        if content == _content(representation, adaptation) and not _is_trick_play(adaptation)
    ]


def _is_trick_play(adaptation: Xml.Element) -> bool:
    properties = adaptation.iter(f"{_MPD}EssentialProperty")
    return any(one.get("schemeIdUri") == "http://dashif.org/guidelines/trickmode" for one in properties)


def _content(representation: Xml.Element, adaptation: Xml.Element) -> str:
    """Return the content type of a representation.

    A representation can inherit its content type from its adaptation set.
    """
    mime_type = representation.get("mimeType") or adaptation.get("mimeType") or ""
    return adaptation.get("contentType") or mime_type.partition("/")[0]


def _dash(folder: Path, adaptation: Xml.Element, representation: Xml.Element) -> Rendition:
    attributes = {**adaptation.attrib, **representation.attrib}
    name = attributes["id"]
    template = _child("SegmentTemplate", representation, adaptation)
    init = folder / _filled(template.attrib["initialization"], name, 0)
    segments = []
    for number, seconds in _dash_segments(template):
        path = folder / _filled(template.attrib["media"], name, number)
        if path.exists() or template.find(f"{_MPD}SegmentTimeline") is not None:
            segments.append(Segment(seconds, path.read_bytes()))
        else:
            break
    return Rendition(name, attributes, init.read_bytes(), tuple(segments))


def _child(name: str, *parents: Xml.Element) -> Xml.Element:
    return next(found for parent in parents if (found := parent.find(f"{_MPD}{name}")) is not None)


def _dash_segments(template: Xml.Element) -> Iterator[tuple[int, float]]:
    """Yield the number and the duration of each segment.

    Without a SegmentTimeline, the number of segments is unknown, so yield more segments than exist.
    """
    scale, first = int(template.get("timescale", "1")), int(template.get("startNumber", "1"))
    timeline = template.find(f"{_MPD}SegmentTimeline")
    if timeline is None:
        yield from ((number, int(template.attrib["duration"]) / scale) for number in range(first, 100_000))
        return
    number = first
    for entry in timeline:
        for _ in range(int(entry.get("r", "0")) + 1):
            yield number, int(entry.attrib["d"]) / scale
            number += 1


def _filled(template: str, name: str, number: int) -> str:
    """Return a URL template of DASH with its identifiers filled in."""
    text = template.replace("$RepresentationID$", name)
    return unquote(re.sub(r"\$Number(?:%0(\d+)d)?\$", lambda found: f"{number:0{found[1] or 1}d}", text))
