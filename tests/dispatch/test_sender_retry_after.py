from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.dispatch.sender import retry_after_ms

NOW = 1_800_000_000.5


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("0", 0),
        ("120", 120_000),
        (" 7 ", 7_000),
        ("9999999999", 9_999_999_999_000),
        (formatdate(1_800_000_060, usegmt=True), 59_500),
        (formatdate(1_800_000_060, localtime=False), 59_500),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
        ("Sun Nov  6 08:49:37 1994", 0),
    ],
)
def test_seconds_and_dates_are_read(value: str, ms: int) -> None:
    assert retry_after_ms(value, NOW) == ms


@pytest.mark.parametrize(
    "value",
    [
        *(None, "", "soon", "-1", "1.5", "1e9", "0x10", "٣", "12345678901", "\0"),
        "Fri, 99 Zzz 2027 00:00:00 GMT",
        "Wed, 21 Oct 99999999999999999999 07:28:00 GMT",
    ],
)
def test_a_value_that_cannot_be_read_gives_no_delay(value: str | None) -> None:
    assert retry_after_ms(value, NOW) is None


_WORD = st.sampled_from(
    ["Fri,", "31", "Dec", "2027", "99999", "23:59:59", "+9999999", "-2400", "GMT", "1e99", ":"]
)


@given(st.one_of(st.text(), st.lists(_WORD, max_size=8).map(" ".join)))
def test_any_text_gives_a_delay_or_none(value: str) -> None:
    delay_ms = retry_after_ms(value, NOW)
    assert delay_ms is None or delay_ms >= 0
