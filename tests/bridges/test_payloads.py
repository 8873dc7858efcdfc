"""The payloads of foreign jobs. A text that is too large is never parsed."""

import pytest

from euterpe.bridges.payloads import MOST_TEXT, TOO_LARGE, parsed, payload_of


def test_a_text_is_parsed_up_to_the_limit() -> None:
    at_the_limit = '{"a": 1}'.ljust(MOST_TEXT)
    assert payload_of(at_the_limit) == {"a": 1}
    assert parsed(at_the_limit, dict) == {"a": 1}
    assert payload_of(at_the_limit + " ") is TOO_LARGE
    assert parsed(at_the_limit + " ", dict) is None


def test_a_text_beyond_the_limit_is_not_parsed() -> None:
    assert payload_of("{not json" + " " * MOST_TEXT) is TOO_LARGE


@pytest.mark.parametrize("text", ["{not json", "[1]", "7", "[" * 100_000, "1" * 5_000, None, ""])
def test_a_text_that_is_no_object_is_no_payload(text: str | None) -> None:
    assert payload_of(text) is None


def test_an_empty_payload_is_not_too_large() -> None:
    assert payload_of("{}") is not TOO_LARGE
