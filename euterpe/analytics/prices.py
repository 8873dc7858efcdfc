"""The operator's prices, from a file."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from euterpe.analytics.errors import AnalyticsError
from euterpe.analytics.marts.costs import Prices

_Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cpu_hour: _Price = Prices.cpu_hour
    gib_in: _Price = Prices.gib_in
    gib_out: _Price = Prices.gib_out
    currency: Annotated[str, Field(min_length=1, max_length=8)] = Prices.currency


def read_prices(path: Path) -> Prices:
    """A JSON object; what it leaves out is as without it."""
    try:
        document = _Document.model_validate_json(path.read_bytes())
    except OSError as error:
        raise AnalyticsError(f"the prices in {path} cannot be read: {error.strerror}") from error
    except ValidationError as invalid:
        first = invalid.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise AnalyticsError(f"the prices in {path} are not usable: {where}: {first['msg']}") from invalid
    return Prices(**document.model_dump())
