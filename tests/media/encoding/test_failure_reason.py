"""Tests of encodes that end early: ffmpeg is stopped, and the error code gives the reason."""

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from euterpe.domain.error_codes import ErrorCode, Fault, RetryClass
from euterpe.media.encoding.failure_reason import FailureReason
from euterpe.media.encoding.progress import EncodeProgress
from euterpe.media.errors import MediaError
from euterpe.media.ffmpeg import find_ffmpeg
from euterpe.media.planning.planner import plan
from euterpe.media.planning.tree import Command, Input, Plan
from euterpe.media.sandbox.child import Child, Exit
from euterpe.media.sandbox.confine import ResourceLimits
from euterpe.media.sandbox.sandbox import Sandbox
from tests.media.clips import Clips
from tests.media.media_steps import FILM, probe, run
from tests.media.processes import processes_in, wait_for_exit

LIMITS = ResourceLimits(memory_bytes=1 << 30, cpu_seconds=60)


class LeaseLost(Exception):
    pass


class SlowSandbox(Sandbox):
    """A sandbox in which ffmpeg reads its source in real time."""

    def run(self, argv: Sequence[str], **options: Any) -> Child:
        place = argv.index("-i")
        return super().run([*argv[:place], "-readrate", "1", *argv[place:]], **options)


@pytest.fixture(scope="module")
def slow_sandbox() -> Iterator[Sandbox]:
    with SlowSandbox(find_ffmpeg()) as started:
        yield started


@pytest.fixture
def slow(clips: Clips, slow_sandbox: Sandbox) -> tuple[Plan, Path]:
    """Return an encode that takes nine seconds in the slow sandbox. Every test stops the encode early."""
    source = clips.make("long.mp4")
    return plan([FILM], probe(slow_sandbox, source), threads=1), source


def on_first_progress(
    act: Callable[[int], None], folder: Path
) -> tuple[Callable[[EncodeProgress], None], list[int]]:
    """Return a callback that calls `act` once with the pid of ffmpeg, and a list that gets the pid."""
    pids: list[int] = []

    def record_and_act(_: EncodeProgress) -> None:
        if not pids:
            pids.extend(processes_in(folder))
            assert len(pids) == 1
            act(pids[0])

    return record_and_act, pids


def test_a_lost_lease_kills_ffmpeg_before_it_is_raised(
    slow: tuple[Plan, Path], slow_sandbox: Sandbox, tmp_path: Path
) -> None:
    def lose_lease(_: int) -> None:
        raise LeaseLost

    on_progress, pids = on_first_progress(lose_lease, tmp_path)
    with pytest.raises(LeaseLost):
        run(slow_sandbox, *slow, tmp_path, on_progress=on_progress)
    assert processes_in(tmp_path) == []
    assert wait_for_exit(pids[0])


def test_a_silent_ffmpeg_does_not_delay_a_cancel(
    slow: tuple[Plan, Path], slow_sandbox: Sandbox, tmp_path: Path
) -> None:
    calls = 0

    def freeze_then_cancel(_: EncodeProgress) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise LeaseLost
        for pid in processes_in(tmp_path):
            os.kill(pid, signal.SIGSTOP)

    with pytest.raises(LeaseLost):
        run(slow_sandbox, *slow, tmp_path, on_progress=freeze_then_cancel)
    assert processes_in(tmp_path) == []


def test_an_encode_without_progress_is_ended(
    slow: tuple[Plan, Path], slow_sandbox: Sandbox, tmp_path: Path
) -> None:
    on_progress, pids = on_first_progress(lambda pid: os.kill(pid, signal.SIGSTOP), tmp_path)
    with pytest.raises(MediaError) as ended:
        run(slow_sandbox, *slow, tmp_path, stall_seconds=1, on_progress=on_progress)
    assert (ended.value.code, ended.value.retry_class) == ("encode_stalled", RetryClass.TRANSIENT)
    assert wait_for_exit(pids[0])


def test_an_encode_that_takes_too_long_is_ended(
    slow: tuple[Plan, Path], slow_sandbox: Sandbox, tmp_path: Path
) -> None:
    with pytest.raises(MediaError) as ended:
        run(slow_sandbox, *slow, tmp_path, timeout_seconds=1)
    assert ended.value.code == "encode_timeout"
    assert processes_in(tmp_path) == []


def test_an_ffmpeg_that_was_killed_may_be_retried(
    slow: tuple[Plan, Path], slow_sandbox: Sandbox, tmp_path: Path
) -> None:
    on_progress, _ = on_first_progress(lambda pid: os.kill(pid, signal.SIGKILL), tmp_path)
    with pytest.raises(MediaError) as ended:
        run(slow_sandbox, *slow, tmp_path, on_progress=on_progress)
    assert (ended.value.code, ended.value.retryable) == ("encode_killed", True)


def test_an_encode_is_held_to_the_memory_that_it_is_given(
    slow: tuple[Plan, Path], slow_sandbox: Sandbox, tmp_path: Path
) -> None:
    def check_limit(pid: int) -> None:
        assert resource.prlimit(pid, resource.RLIMIT_DATA) == (3 << 30, 3 << 30)
        raise LeaseLost

    on_progress, _ = on_first_progress(check_limit, tmp_path)
    with pytest.raises(LeaseLost):
        run(slow_sandbox, *slow, tmp_path, memory_bytes=3 << 30, on_progress=on_progress)


def test_an_output_stops_growing_at_its_limit(clips: Clips, sandbox: Sandbox, tmp_path: Path) -> None:
    source = clips.make("long.mp4")
    planned = plan([FILM], probe(sandbox, source), threads=1)
    with pytest.raises(MediaError) as ended:
        run(sandbox, planned, source, tmp_path, max_output_bytes=20_000)
    assert ended.value.code == "output_too_large"
    assert (tmp_path / "film.mp4").stat().st_size <= 20_000


def test_a_work_directory_that_cannot_be_written_is_an_error(
    clips: Clips, sandbox: Sandbox, tmp_path: Path
) -> None:
    source = clips.make("film.mp4")
    planned = plan([FILM], probe(sandbox, source), threads=1)
    (tmp_path / "film.mp4").mkdir()
    with pytest.raises(MediaError) as ended:
        run(sandbox, planned, source, tmp_path)
    assert ended.value.code == "encode_failed"


@pytest.mark.parametrize(
    ("code", "stderr", "expected"),
    [
        (-signal.SIGXFSZ, "", "output_too_large"),
        (-signal.SIGXCPU, "", "encode_timeout"),
        (-signal.SIGSEGV, "", "encode_failed"),
        (-signal.SIGKILL, "", "encode_killed"),
        (-32, "", "encode_failed"),  # the C library reserves this signal, so it has no name
        (-35, "", "encode_failed"),
        (-63, "", "encode_failed"),
        (1, "[error] av_interleaved_write_frame(): No space left on device", "encode_failed"),
        (228, "[error] av_interleaved_write_frame(): No space left on device", "encode_failed"),
        (1, "[error] Error while decoding: Cannot allocate memory", "source_damaged"),
        (187, "x264 [error]: malloc of size 7332416 failed", "encode_failed"),
        (1, "[matroska,webm @ 0x1] File ended prematurely", "source_truncated"),
        (1, "[in#0/mpegts @ 0x1] [fatal] corrupt input packet in stream 0", "source_damaged"),
        (1, "Codec (foo) not on whitelist 'h264'", "source_unsupported"),
        (1, "something new", "encode_failed"),
        (187, "", "encode_failed"),
    ],
)
def test_every_exit_has_a_code(code: int, stderr: str, expected: str) -> None:
    evidence = FailureReason()
    evidence.add(stderr.encode())
    found = evidence.verdict(Exit(code, 0.0, 0), LIMITS).code
    assert found is ErrorCode[expected.upper()]
    if stderr:  # a source can make ffmpeg print any text, so the source is blamed for any text
        assert (found.fault, found.retry) == (Fault.SOURCE, RetryClass.PERMANENT)


@pytest.mark.parametrize("code", [1, 255, -signal.SIGKILL, -signal.SIGABRT])
def test_an_exhausted_limit_decides_whatever_the_exit_status_is(code: int) -> None:
    """At the soft limit of processor time, ffmpeg exits with code 255.

    At the hard limit, the kernel kills ffmpeg.
    """
    assert FailureReason().verdict(Exit(code, 60.0, 0), LIMITS).code == "encode_timeout"
    assert FailureReason().verdict(Exit(code, 1.0, 1 << 30), LIMITS).code == "out_of_memory"
    assert (
        FailureReason().verdict(Exit(code, 1.0, 0), LIMITS, held_memory_bytes=1 << 30).code == "out_of_memory"
    )


class PythonSandbox(Sandbox):
    """A sandbox that runs Python code instead of ffmpeg."""

    script = ""

    def run(self, argv: Sequence[str], **options: Any) -> Child:
        assert argv
        return super().run((os.path.realpath(sys.executable), "-ISc", self.script), **options)


@pytest.fixture
def python_sandbox() -> Iterator[PythonSandbox]:
    with PythonSandbox(Path("/bin/true")) as started:
        yield started


_RENAME = "import ctypes, time; ctypes.CDLL(None).prctl(15, bytes({name})); time.sleep(1.2); {end}"


@pytest.mark.parametrize("name", [b"\xff\xfe", b") Z 1 1 1 1 1 ", b"\nVmData: 1\xff"])
def test_any_process_name_is_read_without_an_error(
    python_sandbox: PythonSandbox, tmp_path: Path, name: bytes
) -> None:
    """`/proc/PID/stat` and `status` contain the process name unescaped."""
    calls: list[float] = []
    python_sandbox.script = _RENAME.format(name=[*name], end="sum(range(10**6)); raise SystemExit(7)")
    (source := tmp_path / "source").write_bytes(b"source")
    planned = Plan("mov", 1, (Command(1.0, None, (Input(),)),))
    with pytest.raises(MediaError, match="exit code 7") as ended:
        run(python_sandbox, planned, source, tmp_path, on_cpu=calls.append)
    assert ended.value.code == "encode_failed"
    assert len(calls) >= 2


def test_evidence_is_bounded_and_printable_and_contains_no_paths() -> None:
    evidence = FailureReason()
    for _ in range(1000):
        evidence.add(b"\x1b[31m[mov @ 0x55aa] /srv/work/job-1/film.mp4: bad \xff\0" * 50 + b"\n")
    verdict = str(evidence.verdict(Exit(1, 0.0, 0), LIMITS))
    assert len(verdict) < 1000
    assert verdict.isprintable()
    assert "/srv" not in verdict
    assert "0x55aa" not in verdict


def test_the_first_message_about_damage_is_kept_before_many_warnings() -> None:
    """An earlier version read only the last 16 KiB of the log, which had only harmless warnings."""
    evidence = FailureReason()
    evidence.add(b"[h264 @ 0x1] [error] Invalid data found when processing")
    evidence.add(b" input\n")
    for place in range(2_000):
        evidence.add(b"[swscaler @ 0x2] [warning] No accelerated conversion %d\n" % place)
    assert (
        evidence.damage() == "the source is damaged; ffmpeg reports: Invalid data found when processing input"
    )
    assert evidence.text.startswith("[swscaler] [warning]")


def test_notices_and_warnings_are_no_damage() -> None:
    evidence = FailureReason()
    evidence.add(b"[info] title: Invalid data\n[warning] something else\n")
    assert evidence.damage() is None


def test_a_process_that_went_on_without_memory_is_no_success() -> None:
    """If damage is allowed, ffmpeg exits with code 0 even after a decoder failed for lack of memory."""
    evidence = FailureReason()
    full, small = Exit(0, 1.0, LIMITS.memory_bytes), Exit(0, 1.0, 0)
    assert evidence.out_of_memory(full, LIMITS) is None
    evidence.add(b"[error] Error submitting packet to decoder: Cannot allocate memory")
    found = evidence.out_of_memory(full, LIMITS)
    assert found is not None
    assert found.code == "out_of_memory"
    assert evidence.out_of_memory(small, LIMITS) is None
