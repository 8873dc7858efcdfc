"""UUIDv7 strings for instants that are given: sortable, and of the seed's own noise."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_DIGITS = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
# Where the 32 digits go among the 36 characters.
_PLACES = np.array([place for place in range(36) if place not in (8, 13, 18, 23)])
_VERSION, _VARIANT = np.uint64(0x7000), np.uint64(1 << 63)


def ids(
    at_ms: npt.NDArray[np.int64], counter: npt.NDArray[np.int64], rng: np.random.Generator
) -> pa.StringArray:
    """In the order of their instants; of one instant in that of the counter, as far as its 12 bits go."""
    count = len(at_ms)
    halves = np.empty((count, 2), dtype=">u8")
    halves[:, 0] = (at_ms.astype(np.uint64) << np.uint64(16)) | _VERSION | (counter & 0xFFF).astype(np.uint64)
    halves[:, 1] = rng.integers(0, 1 << 62, count, dtype=np.uint64) | _VARIANT
    octets = halves.view(np.uint8).reshape(count, 16)
    text = np.full((count, 36), ord("-"), dtype=np.uint8)
    text[:, _PLACES[0::2]] = _DIGITS[octets >> 4]
    text[:, _PLACES[1::2]] = _DIGITS[octets & 15]
    offsets = np.arange(0, 36 * (count + 1), 36, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text))
