"""Read the subtitles of film files from their packets, without a text decoder."""

from dataclasses import dataclass

from av.packet import Packet
from av.stream import Disposition, Stream

from tests.media.readers.media import Media, opened
from tests.media.readers.subtitles import Cue


@dataclass(frozen=True)
class FilmTrack:
    codec: str
    language: str | None
    title: str | None
    is_default: bool
    is_forced: bool
    cues: tuple[Cue, ...]


def film_subtitles(media: Media) -> list[FilmTrack]:
    """Return the subtitle tracks in the order of the file."""
    with opened(media) as container:
        cues: dict[int, list[Cue]] = {stream.index: [] for stream in container.streams.subtitles}
        for packet in container.demux():
            if packet.stream.index in cues and (cue := _cue(packet)) is not None:
                cues[packet.stream.index].append(cue)
        return [_track(stream, tuple(cues[stream.index])) for stream in container.streams.subtitles]


def _track(stream: Stream, cues: tuple[Cue, ...]) -> FilmTrack:
    tags, codec = stream.metadata, stream.codec_context
    assert codec is not None
    return FilmTrack(
        codec.codec.canonical_name,
        tags.get("language"),
        tags.get("title") or tags.get("name"),
        bool(stream.disposition & Disposition.default),
        bool(stream.disposition & Disposition.forced),
        cues,
    )


def _cue(packet: "Packet[Stream]") -> Cue | None:
    """Return the cue of a packet, or None for a packet without text."""
    data, codec = bytes(packet), packet.stream.codec_context
    if not data or packet.pts is None or codec is None:
        return None
    if codec.codec.canonical_name == "mov_text":
        data = data[2 : 2 + int.from_bytes(data[:2], "big")]
    text = data.decode()
    if codec.codec.canonical_name == "webvtt":
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    start, end = (
        round(float(ticks * packet.time_base) * 1000)
        for ticks in (packet.pts, packet.pts + (packet.duration or 0))
    )
    return Cue(start, end, text) if text else None
