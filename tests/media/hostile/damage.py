"""Damage a file with cuts, flipped bits, lost parts and repeated parts, chosen by a seed."""

import random
from collections.abc import Callable

# The headers of all containers are in the first bytes.
_HEADER_BYTES = 1024
Bytes = bytearray


def flip_in_header(data: Bytes, chosen: random.Random) -> Bytes:
    for _ in range(chosen.randint(1, 8)):
        data[chosen.randrange(min(len(data), _HEADER_BYTES))] ^= 1 << chosen.randrange(8)
    return data


def flip_anywhere(data: Bytes, chosen: random.Random) -> Bytes:
    for _ in range(chosen.randint(1, 64)):
        data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
    return data


def set_extreme_numbers(data: Bytes, chosen: random.Random) -> Bytes:
    """Overwrite numbers of the header with the smallest and largest values of 1, 2, 4 and 8 bytes."""
    for _ in range(chosen.randint(1, 4)):
        width = chosen.choice((1, 2, 4, 8))
        value = chosen.choice((b"\0", b"\xff", b"\x7f", b"\x80")) + chosen.choice((b"\0", b"\xff")) * 7
        at = chosen.randrange(min(len(data), _HEADER_BYTES))
        data[at : at + width] = value[:width]
    return data


def remove_a_part(data: Bytes, chosen: random.Random) -> Bytes:
    at = chosen.randrange(len(data))
    del data[at : at + chosen.randint(1, max(1, len(data) // 4))]
    return data


def repeat_a_part(data: Bytes, chosen: random.Random) -> Bytes:
    at = chosen.randrange(len(data))
    part = data[at : at + chosen.randint(1, 4096)]
    return data[:at] + part * chosen.randint(2, 20) + data[at:]


def overwrite_a_part(data: Bytes, chosen: random.Random) -> Bytes:
    at, size = chosen.randrange(len(data)), chosen.randint(16, 4096)
    data[at : at + size] = chosen.randbytes(size) if chosen.random() < 0.5 else bytes(size)
    return data


def exchange_two_parts(data: Bytes, chosen: random.Random) -> Bytes:
    first, second = sorted(chosen.randrange(len(data)) for _ in range(2))
    size = min(chosen.randint(4, 2048), max(1, second - first))
    moved = data[first : first + size]
    data[first : first + size] = data[second : second + size]
    data[second : second + size] = moved
    return data


def cut(data: Bytes, chosen: random.Random) -> Bytes:
    return data[: chosen.randrange(1, len(data))]


WAYS: tuple[Callable[[Bytes, random.Random], Bytes], ...] = (
    flip_in_header,
    set_extreme_numbers,
    flip_anywhere,
    cut,
    remove_a_part,
    overwrite_a_part,
    repeat_a_part,
    exchange_two_parts,
)


def damaged(data: bytes, name: str, number: int) -> bytes:
    """Return the file with damage number `number`. The same name and number always make the same damage."""
    chosen = random.Random(f"{name} {number}")
    changed = WAYS[number % len(WAYS)](bytearray(data), chosen)
    if changed == data:  # for example, after an exchange of two equal parts
        changed = flip_in_header(changed, chosen)
    return bytes(changed)
