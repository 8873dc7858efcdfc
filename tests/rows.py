"""Make rows of the classes that the store returns."""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

Row = TypeVar("Row")


def row_of(kind: Callable[..., Row], **fields: Any) -> Row:
    """Return a row of this class. Columns that `fields` does not name are None."""
    names = (field.name for field in dataclasses.fields(kind))  # type: ignore[arg-type]
    return kind(**{**dict.fromkeys(names), **fields})
