"""Build Arrow arrays and tables in the schemas of `analytics/tables.py`, and UUIDv7 ids in bulk."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from euterpe.analytics.schema import ARROW, Table, arrow_schema
from euterpe.synthesize.history_plan import Ints
from euterpe.synthesize.jobs import Bools


def table_of(table: Table, columns: Mapping[str, Any]) -> pa.Table:
    """Return an Arrow table of these arrays, cast to the schema of `table`. NaN becomes null."""
    schema = arrow_schema(table.columns)
    return pa.table([_array(columns[name], schema.field(name).type) for name in schema.names], schema=schema)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if values.dtype.kind == "f":
        found = pa.array(values, from_pandas=True)
        return found if kind == pa.float64() else found.cast(kind)
    return pa.array(values).cast(kind)


def words(names: Sequence[str | None], which: Ints, known: Bools | None = None) -> pa.Array:
    """Return the names at these indices, and null where `known` is false."""
    mask = None if known is None else ~known
    return pa.array(names, pa.string()).take(pa.array(which, pa.int64(), mask=mask))


def instants(at_ms: Ints, known: Bools | None = None) -> pa.Array:
    return pa.array(at_ms * 1000, ARROW["time"], mask=None if known is None else ~known)


def numbers(values: Ints, known: Bools) -> pa.Array:
    return pa.array(values, mask=~known)


def figures(values: np.ndarray[Any, np.dtype[np.float64]], known: Bools) -> pa.Array:
    return pa.array(values, mask=~known | np.isnan(values))


_DIGITS = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
# The positions of the 32 digits among the 36 characters of a UUID.
_PLACES = np.array([place for place in range(36) if place not in (8, 13, 18, 23)])
_VERSION, _VARIANT = np.uint64(0x7000), np.uint64(1 << 63)


def ids(
    at_ms: npt.NDArray[np.int64], counter: npt.NDArray[np.int64], rng: np.random.Generator
) -> pa.StringArray:
    """Return UUIDv7s that sort by instant, then by the low 12 bits of the counter."""
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
