"""Hostile MPEG-TS files: clocks that jump, wrong tables, and lost, repeated or scrambled packets."""

import random
from collections.abc import Callable, Iterator, Mapping
from struct import pack

from tests.media.hostile.originals import Originals

Build = Callable[[Originals], bytes]
Packet = bytearray

_SIZE = 188
_PAT, _NULL = 0, 0x1FFF


def packets(stream: bytes) -> list[Packet]:
    return [Packet(stream[at : at + _SIZE]) for at in range(0, len(stream), _SIZE)]


def _pid(packet: Packet) -> int:
    return (packet[1] & 0x1F) << 8 | packet[2]


def _crc(data: bytes) -> bytes:
    """Return the CRC of a table, with the polynomial of MPEG-2."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1 ^ (0x04C11DB7 if value & 0x80000000 else 0)) & 0xFFFFFFFF
    return pack(">I", value)


def _table(kind: int, number: int, body: bytes) -> bytes:
    head = pack(">BHHBBB", kind, 0xB000 | len(body) + 9, number, 0xC1, 0, 0)
    return head + body + _crc(head + body)


def _packet_of(pid: int, section: bytes, counter: int = 0) -> Packet:
    head = pack(">BHB", 0x47, 0x4000 | pid, 0x10 | counter % 16)
    return Packet((head + b"\0" + section).ljust(_SIZE, b"\xff")[:_SIZE])


def _each(change: Callable[[int, Packet, random.Random], Packet | None]) -> Build:
    """Return the stream with `change` applied to each packet. Leave out a packet if `change` returns None."""

    def build(originals: Originals) -> bytes:
        chosen = random.Random(1)
        changed = (change(number, one, chosen) for number, one in enumerate(packets(originals("film.ts"))))
        return b"".join(bytes(one) for one in changed if one is not None)

    return build


def _joined(*names: str) -> Build:
    return lambda originals: b"".join(originals(name) for name in names)


def _clocks() -> Iterator[tuple[str, Build]]:
    now, later, wraps = "film.ts", "film-at-14-hours.ts", "film-that-wraps.ts"
    yield "clock-jumps-14-hours-ahead", _joined(now, later)
    yield "clock-jumps-14-hours-back", _joined(later, now)
    yield "clock-wraps-and-jumps", _joined(wraps, later, now)
    yield "clock-starts-again-30-times", _joined(*[now] * 30)
    yield "clock-jumps-30-times", _joined(*[now, later, wraps] * 10)

    def random_clock(_: int, packet: Packet, chosen: random.Random) -> Packet:
        if packet[3] & 0x20 and packet[4] >= 7 and packet[5] & 0x10:
            packet[6:11] = chosen.randbytes(5)
        return packet

    def random_times(_: int, packet: Packet, chosen: random.Random) -> Packet:
        start = 5 + packet[4] if packet[3] & 0x20 else 4
        if packet[1] & 0x40 and bytes(packet[start : start + 3]) == b"\0\0\1" and packet[start + 7] & 0x80:
            packet[start + 10 : start + 14] = bytes(byte | 1 for byte in chosen.randbytes(4))
        return packet

    yield "every-clock-is-random", _each(random_clock)
    yield "every-time-is-random", _each(random_times)


def _tables() -> Iterator[tuple[str, Build]]:
    programs = b"".join(pack(">HH", number, 0xE000 | 0x100 + number) for number in range(1, 40))
    itself = pack(">HH", 1, 0xE000)
    many = b"".join(pack(">BHH", 0x1B, 0xE000 | 0x100 + number, 0xF000) for number in range(33))
    other = pack(">BHHBHH", 0x0F, 0xE100, 0xF000, 0x1B, 0xE101, 0xF000)
    lying = pack(">BHH", 0x1B, 0xE100, 0xFFFF)
    for name, pid, section in (
        ("39-programs", _PAT, _table(0, 1, programs)),
        ("a-program-that-is-its-own-table", _PAT, _table(0, 1, itself)),
        ("no-program", _PAT, _table(0, 1, b"")),
        ("a-table-of-4-kilobytes", _PAT, pack(">BH", 0, 0xBFFF) + bytes(170)),
        ("a-table-with-a-wrong-sum", _PAT, _table(0, 1, itself)[:-1] + b"\0"),
        ("33-streams", 0x1000, _table(2, 1, pack(">HH", 0xE100, 0xF000) + many)),
        ("pictures-and-sound-exchanged", 0x1000, _table(2, 1, pack(">HH", 0xE100, 0xF000) + other)),
        ("a-description-that-never-ends", 0x1000, _table(2, 1, pack(">HH", 0xE100, 0xFFFF) + lying)),
    ):

        def replaced(
            number: int, packet: Packet, _: random.Random, pid: int = pid, section: bytes = section
        ) -> Packet:
            return _packet_of(pid, section, number) if _pid(packet) == pid else packet

        def added(
            number: int, packet: Packet, _: random.Random, pid: int = pid, section: bytes = section
        ) -> Packet:
            return packet + _packet_of(pid, section, number) if number % 20 == 19 else packet

        yield f"tables-with-{name}", _each(replaced)
        yield f"later-tables-with-{name}", _each(added)


def _packets() -> Iterator[tuple[str, Build]]:
    def counted(_: int, packet: Packet, chosen: random.Random) -> Packet:
        packet[3] = packet[3] & 0xF0 | chosen.randrange(16)
        return packet

    def scrambled(_: int, packet: Packet, __: random.Random) -> Packet:
        packet[3] |= 0xC0
        return packet

    def filled(number: int, packet: Packet, _: random.Random) -> Packet:
        if number % 7 == 3:
            packet[3], packet[4] = packet[3] | 0x20, 0xFF
        return packet

    def shifted(number: int, packet: Packet, chosen: random.Random) -> Packet:
        return packet + Packet(chosen.randbytes(chosen.randrange(1, 300))) if number % 9 == 5 else packet

    yield "packets-lost", _each(lambda number, packet, _: None if number % 5 == 4 else packet)
    yield "packets-doubled", _each(lambda _, packet, __: packet * 2)
    yield "packets-with-random-counters", _each(counted)
    yield "packets-scrambled", _each(scrambled)
    yield "packets-with-too-much-filling", _each(filled)
    yield "packets-among-noise", _each(shifted)
    yield "packets-of-192-bytes", _each(lambda number, packet, _: Packet(pack(">I", number)) + packet)
    yield "packets-without-a-start", _each(lambda _, packet, __: Packet(b"\0") + packet[1:])
    yield "packets-of-nothing", lambda _: bytes(_packet_of(_NULL, b"")) * 5000
    yield "packets-of-one-stream-only", _each(lambda _, packet, __: packet if _pid(packet) == 0x100 else None)


def cases() -> Mapping[str, Build]:
    return {name: build for part in (_clocks, _tables, _packets) for name, build in part()}
