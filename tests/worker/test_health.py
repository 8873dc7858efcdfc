"""What a worker measures about itself, and the rests that nothing else can earn."""

import errno
import resource
from collections.abc import Iterator

import pytest

from euterpe.net.errors import EgressUnreachable
from euterpe.storage.errors import StorageError, StorageUnreachable, disk_full
from euterpe.storage.files import os_error_as_storage_error
from euterpe.worker.attempt import Tools
from euterpe.worker.disk import DiskLedger
from euterpe.worker.health import ClaimGate, SelfCheck, WorkerFault, exhaustion_in, full_disk_in


class ScriptedCheck(SelfCheck):
    """Finds what the test says."""

    def __init__(self) -> None:
        self.trouble: WorkerFault | None = None
        self.checks = 0

    def full(self) -> WorkerFault | None:
        self.checks += 1
        return self.trouble


class Now:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def check() -> ScriptedCheck:
    return ScriptedCheck()


@pytest.fixture
def gate(check: ScriptedCheck, now: Now) -> ClaimGate:
    roomy = DiskLedger(lambda: 1 << 40, slots=1, min_free_bytes=0)
    return ClaimGate(check, roomy, now=now)


def test_fair_suspicious_attempts_earn_no_rest_however_many_they_are(
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


def test_a_worker_in_trouble_rests_longer_and_longer_until_a_check_passes(
    gate: ClaimGate, check: ScriptedCheck, now: Now
) -> None:
    gate.suspect()
    check.trouble = WorkerFault("sandbox_failed", "it cannot start")
    for rest in (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0):
        assert not gate.may_claim()
        checks = check.checks
        now.s += rest - 0.1
        assert not gate.may_claim()
        assert check.checks == checks, "it does not even look while it rests"
        now.s += 0.1
    assert not gate.may_claim()
    check.trouble = None
    now.s += 60.0
    assert gate.may_claim()
    gate.suspect()
    check.trouble = WorkerFault("sandbox_failed", "again")
    assert not gate.may_claim()
    now.s += 0.5
    check.trouble = None
    assert gate.may_claim(), "the first rest of a new trouble is short again"


def test_a_disk_below_its_reserve_keeps_a_worker_from_claiming_and_earns_no_rest(
    check: ScriptedCheck, now: Now
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


def test_a_worker_that_is_well_passes_its_check(opened: Tools) -> None:
    assert opened.self_check.full() is None


def test_a_check_finds_that_there_are_no_descriptors_left(opened: Tools) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        trouble = opened.self_check.quick()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert trouble is not None
    assert trouble.code == "worker_exhausted"
    assert opened.self_check.quick() is None


def test_a_check_finds_a_sandbox_that_does_not_start(opened: Tools) -> None:
    opened.sandbox.ffmpeg = opened.workdir.path / "no-such-program"
    trouble = opened.self_check.full()
    assert trouble is not None
    assert trouble.code == "sandbox_failed"


def told_as(error: StorageError, cause: Exception) -> StorageError:
    """As `raise error from None` in the handler of `cause` leaves it."""
    error.__context__, error.__suppress_context__ = cause, True
    return error


def reworded(number: int) -> StorageError:
    cut = EgressUnreachable("somewhere", "cannot connect")
    cut.__context__ = OSError(number, "as the system says")
    return told_as(StorageUnreachable("somewhere", "cannot connect", side="source"), cut)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN])
def test_exhaustion_is_found_under_whatever_it_was_reworded_to(number: int) -> None:
    trouble = exhaustion_in(reworded(number))
    assert trouble is not None
    assert trouble.code == "worker_exhausted"


def test_blame_a_text_that_tells_of_exhaustion_is_no_exhaustion() -> None:
    for text in ("[Errno 24] Too many open files", "can't start new thread", "Cannot allocate memory"):
        assert exhaustion_in(StorageError("source_refused", text, side="source")) is None
        assert exhaustion_in(ValueError(text)) is None
    assert exhaustion_in(reworded(errno.ECONNRESET)) is None


def test_exhaustion_of_the_interpreter_is_found() -> None:
    assert exhaustion_in(RuntimeError("can't start new thread")) is not None
    assert exhaustion_in(MemoryError()) is not None
    assert exhaustion_in(RuntimeError("dictionary changed size during iteration")) is None


def test_a_full_disk_is_the_workers_only_where_the_worker_wrote() -> None:
    written = OSError(errno.ENOSPC, "No space left on device")
    assert full_disk_in(written) is not None
    assert full_disk_in(told_as(disk_full("the work directory", "source"), written)) is not None
    of_an_output = os_error_as_storage_error("file:///out/a.mp4", "output", written)
    assert full_disk_in(told_as(of_an_output, written)) is None
