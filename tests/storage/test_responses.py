"""Tests of reading dates from the headers of a store's responses."""

from datetime import UTC, datetime

import pytest

from euterpe.storage.responses import instant


@pytest.mark.parametrize("zone", ["GMT", "+0000", "-0000", "UTC"])
def test_an_http_date_is_an_instant_whatever_its_zone_is_called(zone: str) -> None:
    headers = {"date": f"Thu, 19 Nov 2026 10:00:00 {zone}"}
    assert instant(headers, "date") == datetime(2026, 11, 19, 10, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "Thu, 99 Nov 2026 10:00:00 GMT"])
def test_what_is_no_date_is_none(text: str) -> None:
    assert instant({"date": text}, "date") is None
    assert instant({}, "date") is None
