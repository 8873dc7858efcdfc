"""Write Matroska files element by element, so that a test can put a wrong value into any field."""

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import pack

import av

from tests.media.hostile.originals import Originals

UNKNOWN_SIZE = b"\x01" + b"\xff" * 7
_VIDEO, _AUDIO = 1, 2


def element(number: int, body: bytes = b"", size: bytes | None = None) -> bytes:
    """Return an EBML element. `size` replaces the eight bytes of its size field."""
    width = (number.bit_length() + 7) // 8
    return number.to_bytes(width, "big") + (size or (len(body) | 1 << 56).to_bytes(8, "big")) + body


def uint(number: int, value: int) -> bytes:
    return element(number, value.to_bytes(8, "big"))


def real(number: int, value: float) -> bytes:
    return element(number, pack(">d", value))


@dataclass(frozen=True)
class Block:
    """A block with one frame. `head` replaces the fields for the track, the time and the flags."""

    track: int
    time: int  # in ticks
    data: bytes
    is_keyframe: bool = True
    head: bytes | None = None

    def build(self, cluster_time: int) -> bytes:
        flags = 0x80 if self.is_keyframe else 0
        head = pack(">BhB", 0x80 | self.track, self.time - cluster_time, flags)
        return element(0xA3, (self.head or head) + self.data)


@dataclass(frozen=True)
class Film:
    """A file with one video track and one audio track. Some fields have additional elements."""

    video_codec: bytes
    video_private: bytes
    audio_codec: bytes
    audio_private: bytes
    blocks: Sequence[Block]
    doc_type: bytes = b"matroska"
    timestamp_scale: int = 1_000_000
    duration: float = 1000.0
    info: bytes = b""
    in_video: bytes = b""
    in_audio: bytes = b""
    more_tracks: bytes = b""
    before_clusters: bytes = b""
    after_clusters: bytes = b""
    size: tuple[int, int] = (64, 48)
    sample_rate: float = 48_000.0
    channels: int = 1
    frame_duration: int = 40_000_000
    track_numbers: tuple[int, int] = (_VIDEO, _AUDIO)
    segment_size: bytes | None = None
    cluster_size: bytes | None = None

    def build(self) -> bytes:
        header = uint(0x4286, 1) + element(0x4282, self.doc_type) + uint(0x4287, 4) + uint(0x4285, 2)
        scale = uint(0x2AD7B1, self.timestamp_scale) + real(0x4489, self.duration)
        tracks = element(0x1654AE6B, self._video() + self._audio() + self.more_tracks)
        clusters = b"".join(self._clusters())
        info = element(0x1549A966, scale + self.info)
        whole = info + tracks + self.before_clusters + clusters + self.after_clusters
        return element(0x1A45DFA3, header) + element(0x18538067, whole, self.segment_size)

    def _video(self) -> bytes:
        width, height = self.size
        picture = uint(0xB0, width) + uint(0xBA, height)
        kind = uint(0x23E383, self.frame_duration) + element(0xE0, picture)
        codec = element(0x86, self.video_codec) + element(0x63A2, self.video_private)
        return track(self.track_numbers[0], _VIDEO, codec + kind + self.in_video)

    def _audio(self) -> bytes:
        kind = element(0xE1, real(0xB5, self.sample_rate) + uint(0x9F, self.channels))
        codec = element(0x86, self.audio_codec) + element(0x63A2, self.audio_private)
        return track(self.track_numbers[1], _AUDIO, codec + kind + self.in_audio)

    def _clusters(self) -> Iterator[bytes]:
        for blocks in _grouped(self.blocks):
            clock = blocks[0].time
            body = b"".join(block.build(clock) for block in blocks)
            yield element(0x1F43B675, uint(0xE7, clock) + body, self.cluster_size)


def track(number: int, kind: int, rest: bytes) -> bytes:
    return element(0xAE, uint(0xD7, number) + uint(0x73C5, number + 7) + uint(0x83, kind) + rest)


def _grouped(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Yield the blocks of each cluster. The time of a block, relative to its cluster, has 16 bits."""
    cluster: list[Block] = []
    for block in blocks:
        if cluster and not 0 <= block.time - cluster[0].time < 1 << 15:
            yield cluster
            cluster = []
        cluster.append(block)
    if cluster:
        yield cluster


def film(originals: Originals) -> Film:
    """Return the packets of a valid film with H.264 and Opus."""
    with av.open(io.BytesIO(originals("film.mkv")), "r") as container:
        video, audio = container.streams.video[0], container.streams.audio[0]
        blocks = [
            Block(
                _VIDEO if packet.stream_index == video.index else _AUDIO,
                max(0, packet.pts or 0),
                bytes(packet),
                packet.is_keyframe,
            )
            for packet in container.demux()
            if packet.size
        ]
        privates = [stream.codec_context.extradata or b"" for stream in (video, audio)]
    return Film(
        b"V_MPEG4/ISO/AVC", privates[0], b"A_OPUS", privates[1], sorted(blocks, key=lambda one: one.time)
    )
