"""The first and last times and the keyframes of a source's streams, collected from packets."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice, pairwise
from struct import unpack_from

from av.audio.stream import AudioStream
from av.packet import Packet
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from euterpe.media.sandbox.child_results import LONGEST_SECONDS
from euterpe.media.source.media_info import BUSIEST_S

# The mean interval of keyframes is computed from at most this many pictures of an index.
_MOST_INDEX_ENTRIES = 5_000
# A normal media clock ticks at least a thousand times a second. If a tick is this long or longer, the edit
# lists and the durations in the headers cannot be trusted. For example, if the clock of an MP4 track ticks
# once a second, the track's edit list is rounded to the ticks of the clock of the file's header. In one film
# of 35,840 s, the headers declared a duration of 4 s.
_COARSE_TICK_S = 0.1
# In formats whose times can jump, ffmpeg treats a distance between two packets beyond these limits as a jump,
# and removes the jump from the times.
_BACKWARD_JUMP_S, _FORWARD_JUMP_S = 0.1, 10.0
# A longer packet of sound is an error: after a seek to the last page of an Ogg file, libavformat gives a
# packet a duration of almost 2**32 samples.
_LONGEST_SOUND_S = 60.0
# The longest delay of a usual encoder. HE-AAC at 22.05 kHz has this delay.
_LONGEST_DELAY_S = 0.15
# Packets are in the order of decoding. If an edit list removes the beginning of a film, the picture that is
# shown first can be in any of the next packets, up to this number.
_MOST_REORDERED = 32


@dataclass
class StreamTimes:
    """The times of one stream, in seconds of container time, from the packets read so far."""

    tick: tuple[int, int]  # numerator and denominator of the time base
    is_picture: bool
    may_jump: bool
    is_coarse: bool
    usual_seconds: float = 0.0  # the assumed duration of a packet that declares no duration
    sample_rate: int = 0
    first: float | None = None
    end: float | None = None
    latest: float | None = None  # the start of the picture or sound that is presented last
    has_jumped: bool = False
    is_doubtful: bool = False  # a packet has an impossible duration
    starts_with_keyframe: bool = False
    has_edits: bool = False  # an edit list removes packets, or a large part of a packet
    keyframe_gaps: list[float] = field(default_factory=list)
    _packets: int = 0
    _is_edited: bool = False
    _elapsed: float = 0.0
    _longest: int = 0
    _last: float | None = None
    _last_keyframe: float | None = None
    _recent: deque[float] = field(default_factory=deque)
    _busiest: int = 0

    def take(self, packet: "Packet[Stream]") -> None:
        at = packet.pts if packet.pts is not None else packet.dts
        if at is None:
            return
        self._note_edit(packet)
        # Leave out pictures that an edit list removes. `_skipped_seconds` subtracts the removed sound.
        is_removed = packet.is_discard and not self.is_coarse
        if is_removed and self.is_picture:
            self._is_edited = True
            return
        start = self.seconds(at)
        self._take_first(packet, start)
        self._take_distance(start if packet.dts is None else self.seconds(packet.dts))
        if not is_removed:
            end = self._end_of(packet, start)
            self.end = end if self.end is None else max(self.end, end)
            self.latest = start if self.latest is None else max(self.latest, start)
        if self.is_picture and packet.is_keyframe:
            if self._last_keyframe is not None:
                self.keyframe_gaps.append(start - self._last_keyframe)
            self._last_keyframe = start

    @property
    def joined_seconds(self) -> float:
        """Return the duration without the jumps in time."""
        return self._elapsed + self.seconds(self._longest)

    def seconds(self, ticks: int) -> float:
        return ticks * self.tick[0] / self.tick[1]

    def _note_edit(self, packet: "Packet[Stream]") -> None:
        if self.first is None:
            self.starts_with_keyframe = bool(packet.is_keyframe)
        # Discarded packets before the first sound that is presented are the delay of the audio encoder, which
        # containers also remove with an edit list.
        is_delay = not self.is_picture and self.end is None
        self.has_edits |= bool(packet.is_discard) and not is_delay
        self.has_edits |= is_delay and self._skipped_seconds(packet) > _LONGEST_DELAY_S

    def _take_first(self, packet: "Packet[Stream]", start: float) -> None:
        self._packets += 1
        if self.is_coarse:
            self.first = 0.0
        elif self.first is None:
            self.first = start + self._skipped_seconds(packet)
        # A picture that is shown before its keyframe cannot be decoded at the beginning of a stream, so it is
        # not the first picture. If an edit list removes the part before it, such a picture can be the
        # first: the removed part is still in the file, so the picture can be decoded.
        elif self._is_edited and self._packets <= _MOST_REORDERED:
            self.first = min(self.first, start)

    def _take_distance(self, decoded: float) -> None:
        """Add the distance from the previous packet in decoding order."""
        if self.is_picture and not self.is_coarse:
            self._take_rate(decoded)
        distance = 0.0 if self._last is None else decoded - self._last
        self._last = decoded
        if self.may_jump and not -_BACKWARD_JUMP_S <= distance <= _FORWARD_JUMP_S:
            self.has_jumped = True
            self._last_keyframe = None
            distance = self.seconds(self._longest)
        self._elapsed += distance

    def _take_rate(self, decoded: float) -> None:
        """Count the pictures of the last `BUSIEST_S` seconds, by their decode times."""
        recent = self._recent
        if recent and decoded < recent[-1]:  # a jump
            recent.clear()
        recent.append(decoded)
        while recent[-1] - recent[0] > BUSIEST_S:
            recent.popleft()
        self._busiest = max(self._busiest, len(recent) - 1)

    @property
    def busiest_fps(self) -> float | None:
        """Return the pictures per second in the busiest `BUSIEST_S`, or None if there are no pictures."""
        return round(self._busiest / BUSIEST_S, 3) if self._busiest else None

    def _end_of(self, packet: "Packet[Stream]", start: float) -> float:
        duration = packet.duration or 0
        if not self.is_picture and self.seconds(duration) > _LONGEST_SOUND_S and not self.is_coarse:
            self.is_doubtful, duration = True, 0
        # Some demuxers have already subtracted the padding from the duration of the last packet.
        is_shortened = duration < self._longest
        self._longest = max(self._longest, duration)
        padding = 0.0 if is_shortened else self._skipped_seconds(packet, at_end=True)
        return start + (self.seconds(duration) or self.usual_seconds) - padding

    def _skipped_seconds(self, packet: "Packet[Stream]", *, at_end: bool = False) -> float:
        """Return the encoder's delay, or its padding if `at_end`.

        Decoders drop the delay and the padding from a sound track.
        """
        if not self.sample_rate or self.is_coarse or not packet.has_sidedata("skip_samples"):
            return 0.0
        samples: tuple[int, int] = unpack_from("<2I", bytes(packet.get_sidedata("skip_samples")))
        return samples[at_end] / self.sample_rate


class Times:
    """The times of all streams of sound and pictures."""

    def __init__(self, streams: Iterable[Stream], *, may_jump: bool) -> None:
        self.streams = {stream.index: stream for stream in streams if _is_timed(stream)}
        self.of = {index: _no_times(stream, may_jump) for index, stream in self.streams.items()}
        self.ends: dict[int, float] = {}  # the ends of the streams whose last packet was read
        self.is_whole = False  # True if every packet of the file was read

    def take(self, packet: "Packet[Stream]") -> None:
        if (times := self.of.get(packet.stream_index)) is not None:
            times.take(packet)

    @property
    def have_begun(self) -> bool:
        return all(times.first is not None for times in self.of.values())

    def end(self) -> None:
        """Record that the last packet of the file was read."""
        self.ends = {
            index: times.end
            for index, times in self.of.items()
            if times.end is not None and not times.is_doubtful
        }

    def forget_end(self) -> None:
        """Record that the file continues after the last packet that was read."""
        self.is_whole, self.ends = False, {}

    def adopt_ends(self, tail: "Times") -> None:
        """Merge the ends that were found by reading only the last part of the file."""
        for index, end in tail.ends.items():
            seen = self.of[index]
            earlier = end if seen.end is None else seen.end
            seen.has_jumped |= tail.of[index].has_jumped or (seen.may_jump and end < earlier)
            self.ends[index] = max(end, earlier, self.ends.get(index, end))
            seen.has_edits |= tail.of[index].has_edits
            latest = (seen.latest, tail.of[index].latest)
            seen.latest = max((one for one in latest if one is not None), default=None)

    def keyframe_interval(self, index: int, container: str) -> float | None:
        """Return the mean time between keyframes, from the index of an MP4 file or from packets."""
        if (times := self.of.get(index)) is None or not times.is_picture:
            return None
        gaps = times.keyframe_gaps
        if container == "mov" and not self.is_whole:
            gaps = _indexed_gaps(self.streams[index], times)
        mean = sum(gaps) / len(gaps) if gaps else 0.0
        return round(mean, 6) if 0 < mean < LONGEST_SECONDS else None


def _indexed_gaps(stream: Stream, times: StreamTimes) -> list[float]:
    entries = islice(stream.index_entries, _MOST_INDEX_ENTRIES)
    keyframes = [times.seconds(entry.timestamp) for entry in entries if entry.is_keyframe]
    return [later - earlier for earlier, later in pairwise(keyframes)]


def has_coarse_clock(stream: Stream) -> bool:
    """Return whether the edit lists and the declared durations of this stream cannot be trusted."""
    return (stream.time_base or 0) >= _COARSE_TICK_S


def _is_timed(stream: Stream) -> bool:
    is_cover = bool(stream.disposition & Disposition.attached_pic)
    return isinstance(stream, VideoStream | AudioStream) and not is_cover and bool(stream.time_base)


def _no_times(stream: Stream, may_jump: bool) -> StreamTimes:
    base = stream.time_base
    times = StreamTimes(
        tick=(base.numerator, base.denominator) if base else (1, 1),
        is_picture=isinstance(stream, VideoStream),
        may_jump=may_jump,
        is_coarse=has_coarse_clock(stream),
    )
    if isinstance(stream, AudioStream) and stream.codec_context:
        times.sample_rate = stream.codec_context.sample_rate
    if times.is_picture and stream.average_rate:
        times.usual_seconds = float(1 / stream.average_rate)
    return times
