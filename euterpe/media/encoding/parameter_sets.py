"""Detect changes of a video stream's parameters, such as the size of its pictures. Pure.

The header of a copy contains only the first parameters, and many players do not notice a later change.
"""

import re
from collections.abc import Iterator

_START_CODE = re.compile(b"\0\0\1")
# The possible first bytes of a NAL unit with sequence parameters. There are several such bytes, because only
# some bits of the byte are the type of the unit.
_H264_SEQUENCES = frozenset(byte for byte in range(256) if byte & 31 == 7)
_HEVC_SEQUENCES = frozenset(byte for byte in range(256) if byte >> 1 & 63 == 33)
_AV1_SEQUENCE = 1
# Each unit begins with its length. A byte of the extradata declares the size of this length field. The
# numbers here are the positions of that byte.
_LENGTH_SIZES = {"h264": 4, "hevc": 21}


class ParameterSets:
    """The sequence parameters of a stream. `extradata` contains the first parameters of the stream."""

    def __init__(self, codec: str, extradata: bytes) -> None:
        self._codec, self._extradata = codec, extradata
        self._length_size = self._declared_length_size(_LENGTH_SIZES.get(codec, 0))
        self._first: bytes | int | None = None  # of AV1 or VP9: the parameters of the first packet

    def are_changed_by(self, packet: bytes) -> bool:
        """Return whether the packet has other parameters than the beginning of the stream."""
        match self._codec:
            case "h264":
                return self._has_others(packet, _H264_SEQUENCES)
            case "hevc":
                return self._has_others(packet, _HEVC_SEQUENCES)
            case "av1":
                # Compare with the first packet and not with the extradata: the sequence header that SVT-AV1
                # writes into the extradata differs from the one in the packets.
                return any(self._is_other(one) for one in _av1_sequences(packet))
            case "vp9":
                return self._has_other_size(packet)
            case _:
                return False

    def _has_others(self, packet: bytes, sequences: frozenset[int]) -> bool:
        """Return whether the packet has a unit of the types `sequences` that is not in the extradata."""
        if (length_size := self._length_size) is None:
            units = (unit.rstrip(b"\0") for unit in _START_CODE.split(packet)[1:])
            return any(unit[0] in sequences and unit not in self._extradata for unit in units if unit)
        # Each slice copies its bytes, so take slices of only the few units with sequence parameters. An hour
        # of film has 90,000 pictures.
        at, end = 0, len(packet)
        while (start := at + length_size) < end:
            at = start + int.from_bytes(packet[at:start], "big")
            if packet[start] in sequences and packet[start:at] not in self._extradata:
                return True
        return False

    def _declared_length_size(self, place: int) -> int | None:
        """Return the size of the length field of each unit, or None if start codes separate the units."""
        if self._extradata[:1] != b"\1" or len(self._extradata) <= place:
            return None
        return (self._extradata[place] & 3) + 1

    def _has_other_size(self, packet: bytes) -> bool:
        if len(packet) < 9 or packet[0] & 0b1100:  # not a keyframe, or a picture that is shown again
            return False
        # The header begins with a byte of flags and a constant sync code of three bytes. The colours, the
        # width and the height follow, in at most 37 bits for the profiles 0 and 2.
        return self._is_other(int.from_bytes(packet[4:9], "big") >> 3)

    def _is_other(self, parameters: bytes | int) -> bool:
        self._first = parameters if self._first is None else self._first
        return parameters != self._first


def _av1_sequences(packet: bytes) -> Iterator[bytes]:
    """Yield the contents of the sequence headers of a packet.

    Stop at a unit that does not declare its size.
    """
    at = 0
    while at < len(packet):
        kind, has_size = packet[at] >> 3 & 15, packet[at] & 2
        at += 2 if packet[at] & 4 else 1
        if not has_size:
            return
        size = shift = 0
        for byte in packet[at : at + 8]:
            size |= (byte & 127) << shift
            shift += 7
            at += 1
            if byte < 128:
                break
        if kind == _AV1_SEQUENCE:
            yield packet[at : at + size]
        at += size
