"""Build init and media segments box by box, so that a test can put a wrong value into any field."""

from dataclasses import dataclass, field
from struct import pack

from tests.media.packaging.test_boxes import box

AVC = bytes.fromhex("0142c00bffe10000010000")


def full(kind: bytes, body: bytes, version: int = 0, flags: int = 0) -> bytes:
    return box(kind, pack(">I", version << 24 | flags) + body)


def visual_entry(kind: bytes = b"avc1", inner: bytes = box(b"avcC", AVC)) -> bytes:
    return box(kind, bytes(24) + pack(">HH", 320, 180) + bytes(50) + inner)


def audio_entry(kind: bytes, inner: bytes, channels: int = 2, rate: int = 48_000, version: int = 0) -> bytes:
    fields = (
        bytes(8) + pack(">H", version) + bytes(6) + pack(">HHI", channels, 16, 0) + pack(">I", rate << 16)
    )
    return box(kind, fields + inner)


@dataclass(frozen=True)
class Init:
    """An init segment.

    `elst` is an edit list of version 0. The entries of this list are (duration, media time).
    """

    entries: tuple[bytes, ...] = (visual_entry(),)
    timescale: int = 1000
    film_timescale: int = 1000
    elst: tuple[tuple[int, int], ...] = ()
    speed: int = 1 << 16
    entry_count: int | None = None
    edit_count: int | None = None
    tracks: int = 1

    def build(self) -> bytes:
        count = len(self.entries) if self.entry_count is None else self.entry_count
        stsd = full(b"stsd", pack(">I", count) + b"".join(self.entries))
        mdia = box(b"mdia", self._clock(b"mdhd", self.timescale) + box(b"minf", box(b"stbl", stsd)))
        edits = len(self.elst) if self.edit_count is None else self.edit_count
        rows = b"".join(pack(">IiI", *edit, self.speed) for edit in self.elst)
        edts = box(b"edts", full(b"elst", pack(">I", edits) + rows)) if self.elst or edits else b""
        trak = box(b"trak", edts + mdia) * self.tracks
        mvex = box(b"mvex", full(b"trex", pack(">IIIII", 1, 1, 40, 10, 0x10000)))
        return box(b"ftyp") + box(b"moov", self._clock(b"mvhd", self.film_timescale) + trak + mvex)

    @staticmethod
    def _clock(kind: bytes, timescale: int) -> bytes:
        return full(kind, bytes(8) + pack(">I", timescale))


@dataclass(frozen=True)
class Media:
    """A media segment of one fragment. Each sample is (duration, size, flags, shift)."""

    samples: tuple[tuple[int, int, int, int], ...] = ((40, 10, 0, 0), (40, 10, 0x10000, 0))
    time: int = 0
    count: int | None = None
    flags: int = 0xF01
    tfhd_flags: int = 0x20000
    offset: int | None = None
    data_bytes: int | None = None
    before: bytes = field(default=box(b"styp", b"msdh"))
    after: bytes = b""
    runs: int = 1

    def build(self) -> bytes:
        moof = self._moof(0)
        moof = self._moof(len(moof) + 8 if self.offset is None else self.offset)
        data = sum(size for _, size, _, _ in self.samples) if self.data_bytes is None else self.data_bytes
        return self.before + moof + box(b"mdat", bytes(data)) + self.after

    def _moof(self, offset: int) -> bytes:
        count = len(self.samples) if self.count is None else self.count
        rows = b"".join(pack(">IIII", *sample) for sample in self.samples) if self.flags & 0xF00 else b""
        trun = full(b"trun", pack(">Ii", count, offset) + rows, flags=self.flags) * self.runs
        tfhd = full(b"tfhd", pack(">I", 1), flags=self.tfhd_flags)
        tfdt = full(b"tfdt", pack(">Q", self.time), version=1)
        return box(b"moof", full(b"mfhd", bytes(4)) + box(b"traf", tfhd + tfdt + trun))
