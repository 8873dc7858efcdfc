"""Tests of the worker's self-check, and of the pauses in claiming, which only a failed check causes."""

import errno
import resource
from collections.abc import Iterator

import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.net.errors import EgressUnreachable
from euterpe.storage.errors import StorageError, StorageUnreachable, disk_full
from euterpe.storage.files import os_error_as_storage_error
from euterpe.storage.transfer import ObjectInfo
from euterpe.worker.disk import DiskLedger
from euterpe.worker.health import ClaimGate, SelfCheck, WorkerFault, exhaustion_in, full_disk_in
from euterpe.worker.kept_sources import FileState, SourceIdentity
from euterpe.worker.tools import Tools


class ScriptedCheck(SelfCheck):
    """A self-check whose result the test sets."""

    def __init__(self) -> None:
        self.fault: WorkerFault | None = None
        self.checks = 0

    def full(self) -> WorkerFault | None:
        self.checks += 1
        return self.fault


class FakeMonotonic:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def now() -> FakeMonotonic:
    return FakeMonotonic()


@pytest.fixture
def check() -> ScriptedCheck:
    return ScriptedCheck()


@pytest.fixture
def gate(check: ScriptedCheck, now: FakeMonotonic) -> ClaimGate:
    large_disk = DiskLedger(lambda: 1 << 40, slots=1, min_free_bytes=0)
    return ClaimGate(check, large_disk, now=now)


def test_fair_any_number_of_suspicious_attempts_causes_no_pause(
    gate: ClaimGate, check: ScriptedCheck
) -> None:
    for _ in range(100):
        gate.suspect()
        assert gate.may_claim()
    assert check.checks == 100


def test_a_worker_that_nobody_suspects_is_not_checked_again(gate: ClaimGate, check: ScriptedCheck) -> None:
    gate.suspect()
    assert [gate.may_claim() for _ in range(5)] == [True] * 5
    assert check.checks == 1


def test_pauses_double_up_to_a_minute_until_a_check_passes(
    gate: ClaimGate, check: ScriptedCheck, now: FakeMonotonic
) -> None:
    gate.suspect()
    check.fault = WorkerFault(ErrorCode.SANDBOX_FAILED, "it cannot start")
    for pause_s in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0):
        assert not gate.may_claim()
        checks = check.checks
        now.s += pause_s - 0.1
        assert not gate.may_claim()
        assert check.checks == checks, "the gate must not check during a pause"
        now.s += 0.1
    assert not gate.may_claim()
    check.fault = None
    now.s += 60.0
    assert gate.may_claim()
    gate.suspect()
    check.fault = WorkerFault(ErrorCode.SANDBOX_FAILED, "again")
    assert not gate.may_claim()
    now.s += 0.5
    check.fault = None
    assert gate.may_claim(), "the first pause after a new fault is short again"


def test_a_disk_below_its_reserve_stops_claims_and_causes_no_pause(
    check: ScriptedCheck, now: FakeMonotonic
) -> None:
    free = [0]
    gate = ClaimGate(check, DiskLedger(lambda: free[0], slots=1, min_free_bytes=10), now=now)
    assert not gate.may_claim()
    free[0] = 1 << 40
    assert gate.may_claim()
    assert check.checks == 0


@pytest.fixture
def opened(tools: Tools) -> Iterator[Tools]:
    tools.workdir.open()
    tools.sandbox.start()
    yield tools
    tools.sandbox.stop()
    tools.workdir.close()


def test_a_worker_without_a_fault_passes_its_check(opened: Tools) -> None:
    assert opened.self_check.full() is None


def test_a_check_finds_that_there_are_no_descriptors_left(opened: Tools) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        fault = opened.self_check.quick()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert fault is not None
    assert fault.code == "worker_exhausted"
    assert opened.self_check.quick() is None


def test_kept_sources_that_fill_a_quota_are_removed_by_a_check(
    opened: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_while_kept() -> None:
        if opened.kept.size_bytes:
            raise OSError(errno.EDQUOT, "the quota is spent")

    (path := opened.workdir.path / "source").write_bytes(b"media")
    identity = SourceIdentity("s3://in/a.mov", ObjectInfo(5, '"etag"'))
    opened.kept.keep("job", identity, path, FileState.of(path))
    assert "job" in opened.kept
    monkeypatch.setattr(opened.workdir, "try_to_write", refuse_while_kept)
    assert opened.self_check.quick() is None
    assert "job" not in opened.kept


def test_a_check_finds_a_sandbox_that_does_not_start(opened: Tools) -> None:
    opened.sandbox.ffmpeg = opened.workdir.path / "no-such-program"
    fault = opened.self_check.full()
    assert fault is not None
    assert fault.code == "sandbox_failed"


def raised_from_none(error: StorageError, cause: Exception) -> StorageError:
    """Return `error` as if `raise error from None` had raised it in an `except` block for `cause`."""
    error.__context__, error.__suppress_context__ = cause, True
    return error


def wrapped_os_error(number: int) -> StorageError:
    unreachable = EgressUnreachable("somewhere", "cannot connect")
    unreachable.__context__ = OSError(number, "as the system says")
    return raised_from_none(StorageUnreachable("somewhere", "cannot connect", side="source"), unreachable)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN])
def test_exhaustion_is_found_below_any_error_that_wraps_it(number: int) -> None:
    fault = exhaustion_in(wrapped_os_error(number))
    assert fault is not None
    assert fault.code == "worker_exhausted"


def test_blame_a_text_that_mentions_exhaustion_is_no_exhaustion() -> None:
    for text in ("[Errno 24] Too many open files", "can't start new thread", "Cannot allocate memory"):
        assert exhaustion_in(StorageError(ErrorCode.SOURCE_REFUSED, text, side="source")) is None
        assert exhaustion_in(ValueError(text)) is None
    assert exhaustion_in(wrapped_os_error(errno.ECONNRESET)) is None


def test_exhaustion_of_the_interpreter_is_found() -> None:
    assert exhaustion_in(RuntimeError("can't start new thread")) is not None
    assert exhaustion_in(MemoryError()) is not None
    assert exhaustion_in(RuntimeError("dictionary changed size during iteration")) is None


def test_a_full_disk_is_the_workers_only_where_the_worker_wrote() -> None:
    written = OSError(errno.ENOSPC, "No space left on device")
    assert full_disk_in(written) is not None
    assert full_disk_in(raised_from_none(disk_full("the work directory", "source"), written)) is not None
    output_error = os_error_as_storage_error("file:///out/a.mp4", "output", written)
    assert full_disk_in(raised_from_none(output_error, written)) is None
