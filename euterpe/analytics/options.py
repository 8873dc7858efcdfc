"""The operator's options of a report: prices, the webhook objective and the forecast's target."""

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from euterpe.analytics.errors import AnalyticsError


@dataclass(frozen=True)
class Prices:
    cpu_hour: float = 0.04
    gib_in: float = 0.0
    gib_out: float = 0.09
    currency: str = "USD"


@dataclass(frozen=True)
class Objective:
    within_seconds: float = 60
    share: float = 0.99


@dataclass(frozen=True)
class Forecast:
    days_ahead: int = 30
    p95_wait_seconds: float = 60


@dataclass(frozen=True)
class Options:
    """The inputs of a mart other than the facts. `read_at` is the time at which the history was read."""

    prices: Prices = field(default_factory=Prices)
    objective: Objective = field(default_factory=Objective)
    forecast: Forecast = field(default_factory=Forecast)
    read_at: datetime | None = None


_Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cpu_hour: _Price = Prices.cpu_hour
    gib_in: _Price = Prices.gib_in
    gib_out: _Price = Prices.gib_out
    currency: Annotated[str, Field(min_length=1, max_length=8)] = Prices.currency


def read_prices(path: Path) -> Prices:
    """Read the prices from a JSON file; a price that is not in the file gets its default."""
    try:
        document = _Document.model_validate_json(path.read_bytes())
    except OSError as error:
        raise AnalyticsError(f"the prices in {path} cannot be read: {error.strerror}") from error
    except ValidationError as invalid:
        first = invalid.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise AnalyticsError(f"the prices in {path} are not usable: {where}: {first['msg']}") from invalid
    return Prices(**document.model_dump())
