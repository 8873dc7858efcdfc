"""Tests of the fork server: it executes every request, keeps running, and leaks no file descriptor."""

import resource
import select
import socket
from pathlib import Path

import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.children import LIMITS, helper_of, output, shell, sleeper, wait_until_reaped
from tests.media.clips import Clips
from tests.media.media_steps import TIMEOUT_S, probe
from tests.media.processes import children_of, wait_for_exit


def open_files(sandbox: Sandbox, folder: Path) -> list[int]:
    """Return how many files this process and the helper have open while only one child runs."""
    wait_until_reaped(sandbox, folder)
    with sleeper(sandbox, folder):
        return [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in ("self", helper_of(sandbox))]


def test_an_order_may_be_as_long_as_a_command(sandbox: Sandbox, tmp_path: Path) -> None:
    argv = ["/bin/sh", "-c", "echo $#", "sh", *["x" * 1000] * 500]
    with sandbox.run(argv, fds={}, cwd=tmp_path, limits=LIMITS) as child:
        assert output(child) == "500\n"


@pytest.mark.parametrize("order", [{}, {"argv": ["/bin/sh", "x" * 200_000], "readable": 1}])
def test_a_bad_order_ends_only_its_own_child(
    sandbox: Sandbox, tmp_path: Path, order: dict[str, object]
) -> None:
    helper = helper_of(sandbox)
    with (
        pytest.raises(MediaError, match="could not start"),
        sandbox._start_child(order, {}, tmp_path, LIMITS) as child,
    ):
        child.wait(TIMEOUT_S)
    wait_until_reaped(sandbox, tmp_path)
    assert helper_of(sandbox) == helper


def test_a_helper_that_may_open_no_more_files_keeps_no_child(own_sandbox: Sandbox, tmp_path: Path) -> None:
    """Under each limit on open files, the helper fails to open a file of the request or for the child."""
    helper, files = helper_of(own_sandbox), open_files(own_sandbox, tmp_path)
    before = resource.prlimit(helper, resource.RLIMIT_NOFILE)
    lowest = len(list(Path(f"/proc/{helper}/fd").iterdir()))
    for limit in range(lowest, lowest + 8):
        resource.prlimit(helper, resource.RLIMIT_NOFILE, (limit, before[1]))
        with (
            pytest.raises(MediaError) as failed,
            shell(own_sandbox, "while :; do :; done", tmp_path) as child,
        ):
            child.wait(TIMEOUT_S)
        assert failed.value.code == "sandbox_failed"
        assert all(wait_for_exit(pid) for pid in children_of(helper))
    resource.prlimit(helper, resource.RLIMIT_NOFILE, before)
    wait_until_reaped(own_sandbox, tmp_path)
    assert children_of(helper) == []
    assert open_files(own_sandbox, tmp_path) == files
    assert helper_of(own_sandbox) == helper


def test_a_helper_survives_callers_that_hang_up_without_reading(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang_up(sock: socket.socket) -> None:
        assert select.select([sock], [], [], TIMEOUT_S)[0]  # the reply has arrived, and is not read
        raise MediaError(ErrorCode.SANDBOX_FAILED, "hung up")

    helper = helper_of(sandbox)
    with monkeypatch.context() as patched:
        patched.setattr("euterpe.media.sandbox.child.receive_first_message", hang_up)
        with pytest.raises(MediaError, match="hung up"):
            shell(sandbox, "while :; do :; done", tmp_path)
    with shell(sandbox, "echo still here", tmp_path) as child:
        assert output(child) == "still here\n"
    assert helper_of(sandbox) == helper


def test_the_helper_is_single_threaded(sandbox: Sandbox) -> None:
    """The kernel sends the death signal as soon as the thread that forked the child ends."""
    assert len(list(Path(f"/proc/{helper_of(sandbox)}/task").iterdir())) == 1


def test_no_open_file_is_leaked(sandbox: Sandbox, tmp_path: Path, clips: Clips) -> None:
    before = open_files(sandbox, tmp_path)
    for _ in range(5):
        with pytest.raises(MediaError):
            probe(sandbox, clips.make("noise"))
    assert open_files(sandbox, tmp_path) == before
