"""The report as JSON: the rows of every mart, with the meanings of its columns."""

import json
import math
from dataclasses import asdict
from datetime import UTC, date, datetime
from typing import Any

from euterpe.analytics.marts.schema import MARTS
from euterpe.analytics.report.findings import findings
from euterpe.analytics.report.results import Results


def to_json(results: Results) -> str:
    document = {
        "version": results.version,
        "generated_at": results.generated_at,
        "since": results.since,
        "until": results.until,
        "filters": dict(results.filters),
        "prices": asdict(results.prices),
        "objective": asdict(results.objective),
        "forecast": asdict(results.forecast),
        "totals": asdict(results.totals),
        "read_at": results.read_at,
        "misdated": asdict(results.misdated),
        "findings": [{**asdict(found), "severity": found.severity.name} for found in findings(results)],
        "marts": {name: _mart(results, name) for name in MARTS},
    }
    return json.dumps(_plain(document), allow_nan=False, indent=1)


def _mart(results: Results, name: str) -> dict[str, Any]:
    table = MARTS[name]
    return {
        "meaning": table.meaning,
        "key": table.key,
        "columns": [asdict(column) for column in table.columns],
        "rows": results.marts[name].to_pylist(),
    }


def _plain(value: Any) -> Any:
    """Return the value in JSON's types: dates and instants become ISO 8601 text, NaN and infinity null."""
    match value:
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03d}Z"
        case date():
            return value.isoformat()
        case float() if not math.isfinite(value):
            return None
        case _:
            return value
