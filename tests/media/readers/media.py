"""Decode an output, as a file or as bytes, with PyAV as an independent reader.

PyAV has its own ffmpeg libraries (8.1), which differ from those of the bundled program (9.0).
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
from av.container import InputContainer
from av.video.frame import VideoFrame

Media = Path | bytes
Floats = npt.NDArray[np.float64]

# Matroska rounds times to milliseconds. Without a tolerance, this rounding would put small gaps between
# samples.
_ROUNDING_SECONDS = 0.0015


@contextmanager
def opened(media: Media) -> Iterator[InputContainer]:
    with av.open(str(media) if isinstance(media, Path) else io.BytesIO(media), "r") as container:
        yield container


def frames(media: Media) -> Iterator[tuple[float, VideoFrame]]:
    """Yield each picture of the first video stream with its time, in the order of presentation."""
    with opened(media) as container:
        for frame in container.decode(container.streams.video[0]):
            if frame.pts is None or frame.time_base is None:
                raise ValueError("a picture has no time")
            yield float(frame.pts * frame.time_base), frame


def plane(frame: VideoFrame, number: int = 0) -> Floats:
    """Return one plane of a picture, scaled to 8 bits."""
    found, depth = frame.planes[number], frame.format.components[number].bits
    values = np.frombuffer(bytes(found), "<u2" if depth > 8 else "u1").astype(np.float64)
    lines: Floats = values.reshape(found.height, -1)[:, : found.width]
    return lines / (1 << (depth - 8))


@dataclass(frozen=True)
class Sound:
    """The samples of a stream, with a row for each channel, and with silence in gaps."""

    samples: Floats
    sample_rate: int
    first_seconds: float  # the time of the first sample


def sound(media: Media, stream: int = 0) -> Sound:
    """Return the decoded samples of an audio stream, placed by their times."""
    pieces: list[tuple[float, Floats]] = []
    with opened(media) as container:
        source = container.streams.audio[stream]
        rate = source.codec_context.sample_rate
        # PyAV 18.1 crashes when it reads separate planes of eight channels, so convert them to one packed
        # plane.
        converter = av.AudioResampler(format="flt")
        for decoded in container.decode(source):
            for frame in converter.resample(decoded):
                if frame.pts is not None and frame.time_base is not None:
                    packed = frame.to_ndarray().astype(np.float64)
                    samples = packed.reshape(-1, frame.layout.nb_channels).T
                    pieces.append((float(frame.pts * frame.time_base), samples))
    if not pieces:
        raise ValueError("there is no sound")
    return Sound(_placed(pieces, rate), rate, pieces[0][0])


def _placed(pieces: Sequence[tuple[float, Floats]], rate: int) -> Floats:
    """Place the pieces at their times on one timeline. Join two pieces if only rounding separates them."""
    first, end, places = pieces[0][0], 0, []
    for seconds, samples in pieces:
        place = round((seconds - first) * rate)
        place = end if abs(place - end) <= _ROUNDING_SECONDS * rate else place
        end = place + samples.shape[1]
        places.append(place)
    whole = np.zeros((pieces[0][1].shape[0], end))
    for place, (_, samples) in zip(places, pieces, strict=True):
        whole[:, place : place + samples.shape[1]] = samples
    return whole


def packet_starts(media: Media) -> dict[int, float]:
    """Return the earliest time of a packet of each stream, after reading all packets."""
    starts: dict[int, float] = {}
    with opened(media) as container:
        for packet in container.demux():
            if packet.pts is not None and not packet.is_discard:
                start = float(packet.pts * packet.time_base)
                starts[packet.stream_index] = min(start, starts.get(packet.stream_index, start))
    return starts


def packet_ends(media: Media) -> dict[int, float]:
    """Return the end of the last packet of each stream, after reading all packets."""
    ends: dict[int, float] = {}
    with opened(media) as container:
        for packet in container.demux():
            if packet.pts is not None and not packet.is_discard:
                end = float((packet.pts + (packet.duration or 0)) * packet.time_base)
                ends[packet.stream_index] = max(end, ends.get(packet.stream_index, end))
    return ends


def end_seconds(media: Media) -> float:
    """Return the latest end of a packet."""
    return max(packet_ends(media).values())


def packet_count(media: Media) -> int:
    """Return the number of packets of the first video stream."""
    with opened(media) as container:
        return sum(packet.size > 0 for packet in container.demux(container.streams.video[0]))


def first_packet_seconds(media: Media) -> float:
    """Return the time of the video packet that is stored first. Only the first video stream counts."""
    with opened(media) as container:
        first = next(iter(container.demux(container.streams.video[0])))
        if first.pts is None:
            raise ValueError("the first packet has no time")
        return float(first.pts * first.time_base)


def packet_bytes(media: Media, kind: str) -> list[bytes]:
    """Return the packets of the first stream of this kind, in the form in which the file stores them."""
    with opened(media) as container:
        stream = next(one for one in container.streams if one.type == kind)
        return [data for packet in container.demux(stream) if (data := bytes(packet))]
