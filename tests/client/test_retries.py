import pytest
from hypothesis import given
from hypothesis import strategies as st

from euterpe.client.errors import Busy, Conflict, ServerError, Unreachable
from euterpe.client.responses import retry_after_s
from euterpe.client.retries import DEFAULT_RETRY

draws = st.floats(0, 1, exclude_max=True)


@given(st.integers(1, DEFAULT_RETRY.attempts - 1), draws)
def test_a_pause_doubles_and_half_of_it_is_drawn(tried: int, draw: float) -> None:
    pause = DEFAULT_RETRY.pause_s(ServerError("away"), tried=tried, idempotent=True, drawn=draw)
    longest = 0.5 * 2 ** (tried - 1)
    assert pause is not None
    assert longest / 2 <= pause <= longest


@given(st.booleans(), draws)
def test_attempts_end(idempotent: bool, draw: float) -> None:
    assert (
        DEFAULT_RETRY.pause_s(Busy("x"), tried=DEFAULT_RETRY.attempts, idempotent=idempotent, drawn=draw)
        is None
    )


@pytest.mark.parametrize(
    ("error", "idempotent", "again"),
    [
        (Conflict("x"), True, False),
        (ServerError("x"), True, True),
        (ServerError("x"), False, False),
        (Busy("x"), False, True),
        (Unreachable("x"), True, True),
        (Unreachable("x"), False, False),
        (Unreachable("x", not_applied=True), False, True),
    ],
)
def test_only_what_may_help_and_cannot_harm_is_tried_again(
    error: Conflict | ServerError | Busy | Unreachable, idempotent: bool, again: bool
) -> None:
    pause = DEFAULT_RETRY.pause_s(error, tried=1, idempotent=idempotent, drawn=0.0)
    assert (pause is not None) is again


@pytest.mark.parametrize(("retry_after", "pause"), [(0.0, 0.0), (3.0, 3.0), (60.0, 60.0), (60.5, None)])
def test_the_servers_own_pause_wins_within_bounds(retry_after: float, pause: float | None) -> None:
    error = Busy("x")
    error.retry_after = retry_after
    assert DEFAULT_RETRY.pause_s(error, tried=1, idempotent=True, drawn=0.5) == pause


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2015 07:28:30", 30.0),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0.0),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("²", None),
        ("9" * 400, None),
        ("soon", None),
        ("Sun, 06 Nov 9999999999 08:49:37 GMT", None),
    ],
)
def test_retry_after_has_two_forms(header: str | None, seconds: float | None) -> None:
    seven_28 = 1_445_412_480
    assert retry_after_s(header, now=seven_28) == seconds


@given(st.text(max_size=40))
def test_no_header_breaks_the_reading(header: str) -> None:
    assert (retry_after_s(header, now=0.0) or 0.0) >= 0.0
