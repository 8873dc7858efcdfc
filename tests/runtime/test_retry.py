"""retry: the errors that are retried, the number of tries, and the pauses between them."""

import pytest

from euterpe.runtime.retry import retry


class Flaky:
    """A call that fails `failures` times."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.failures, self.error, self.calls = failures, error, 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error
        return "done"


def test_it_returns_the_first_success() -> None:
    call = Flaky(3, OSError("passing"))
    assert retry(call, on=OSError, may_retry=lambda _: True, sleep=lambda _: None) == "done"
    assert call.calls == 4


def test_another_error_is_raised_at_once() -> None:
    call = Flaky(1, ValueError("lasting"))
    with pytest.raises(ValueError, match="lasting"):
        retry(call, on=OSError, may_retry=lambda _: True, sleep=lambda _: None)
    assert call.calls == 1


def test_the_error_is_raised_once_no_retry_is_allowed() -> None:
    call = Flaky(9, OSError("passing"))
    with pytest.raises(OSError, match="passing"):
        retry(call, on=OSError, may_retry=lambda _: call.calls < 3, sleep=lambda _: None)
    assert call.calls == 3


def test_the_pauses_double_up_to_the_longest() -> None:
    pauses: list[float] = []
    call = Flaky(6, OSError("passing"))
    retry(
        call,
        on=OSError,
        may_retry=lambda _: True,
        first_pause_s=1.0,
        longest_pause_s=8.0,
        sleep=pauses.append,
    )
    for pause, middle in zip(pauses, (1, 2, 4, 8, 8, 8), strict=True):
        assert middle * 0.5 <= pause <= middle * 1.5
