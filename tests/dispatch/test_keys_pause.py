"""The pause of all sends during an outage of the key provider."""

from euterpe.dispatch.keys_pause import KeysPause


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_first_failure_begins_a_pause_and_stragglers_do_not_extend_it() -> None:
    keys = KeysPause(4.0, clock := Clock(), jitter=float)
    assert (keys.is_on, keys.seconds_left, keys.take_start()) == (False, 0.0, True)
    assert keys.begin()
    clock.now += 3.0
    assert not keys.begin()
    assert (keys.is_on, keys.seconds_left, keys.take_start()) == (True, 1.0, False)


def test_one_send_is_tried_after_each_pause() -> None:
    keys = KeysPause(4.0, clock := Clock(), jitter=float)
    keys.begin()
    assert not keys.begin_trial()
    for _ in range(3):
        clock.now += 4.0
        assert keys.begin_trial()
        assert not keys.begin_trial()
        assert (keys.take_start(), keys.take_start()) == (True, False)
        assert not keys.begin(), "one outage is one warning"
        assert keys.seconds_left == 4.0


def test_keys_that_are_back_end_the_outage_once() -> None:
    keys = KeysPause(4.0, Clock(), jitter=float)
    assert not keys.end()
    keys.begin()
    assert keys.end()
    assert not keys.end()
    assert (keys.is_on, keys.take_start(), keys.begin()) == (False, True, True)
