"""Tests of attempts that wait for their control plane."""

import pytest
from structlog.testing import capture_logs

from euterpe.domain.leased_job import LeasedJob
from euterpe.worker.attempt_control import AttemptControl, LeaseLost
from euterpe.worker.remote.server_errors import WorkerKeyRefused


def test_an_attempt_ends_if_the_key_of_its_worker_stays_refused(job: LeasedJob) -> None:
    control = AttemptControl(job, 60, refused_key_wait_s=0.0)

    def write() -> None:
        raise WorkerKeyRefused("the key is unknown")

    with pytest.raises(LeaseLost, match="the key is unknown"):
        control.retry_while_unavailable(write)


def test_an_attempt_goes_on_if_the_key_is_accepted_again(job: LeasedJob) -> None:
    control, left = AttemptControl(job, 60), ["refused", "refused"]

    def write() -> str:
        if left:
            raise WorkerKeyRefused(f"the key is {left.pop()}")
        return "written"

    with capture_logs() as logs:
        assert control.retry_while_unavailable(write) == "written"
    (begin, end) = logs
    assert (begin["event"], begin["code"]) == ("control_plane_unavailable", "worker_key_refused")
    assert (end["event"], end["of"]) == ("outage_over", "control_plane_unavailable")
