"""Arrow arrays and tables as tables.py describes them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from euterpe.analytics.schema import Table
from euterpe.analytics.synthesize.arrivals import Ints
from euterpe.analytics.synthesize.jobs import Bools
from euterpe.analytics.types import ARROW, arrow_schema


def table_of(table: Table, columns: Mapping[str, Any]) -> pa.Table:
    """Values that are arrays already, or plain numbers of NumPy; NaN is null."""
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
    """One of the names for each; null where it is not known."""
    mask = None if known is None else ~known
    return pa.array(names, pa.string()).take(pa.array(which, pa.int64(), mask=mask))


def instants(at_ms: Ints, known: Bools | None = None) -> pa.Array:
    return pa.array(at_ms * 1000, ARROW["time"], mask=None if known is None else ~known)


def numbers(values: Ints, known: Bools) -> pa.Array:
    return pa.array(values, mask=~known)


def figures(values: np.ndarray[Any, np.dtype[np.float64]], known: Bools) -> pa.Array:
    return pa.array(values, mask=~known | np.isnan(values))
