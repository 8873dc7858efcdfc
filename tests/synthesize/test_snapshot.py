"""The assignment of synthetic attempts to workers and slots."""

import numpy as np

from euterpe.synthesize.snapshot import slots, worker_names


def test_an_attempt_takes_the_first_slot_that_is_free() -> None:
    started, ended = np.array([0, 5, 10, 12, 13]), np.array([10, 20, 12, 30, 14])
    assert slots(started, ended).tolist() == [0, 1, 0, 0, 2]


def test_no_attempts_need_no_slots() -> None:
    assert slots(np.array([], dtype=np.int64), np.array([], dtype=np.int64)).tolist() == []


def test_neighbouring_blocks_have_workers_of_their_own() -> None:
    assert worker_names(0, 4) == ["encoder-blue-01"] * 4 + ["encoder-blue-02"]
    assert not set(worker_names(1, 9)) & set(worker_names(2, 9))
