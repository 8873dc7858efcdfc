"""Invariant `blame`: no text that a source can write decides retries, fault or the worker's claims."""

import os
import signal
import sys
from pathlib import Path

import pytest

from euterpe.domain.error_codes import ErrorCode, RetryClass
from euterpe.media.encoding.failure_reason import FailureReason
from euterpe.media.errors import MediaError
from euterpe.media.sandbox.confine import ResourceLimits
from euterpe.media.sandbox.sandbox import Sandbox, answer_of
from tests.media.children import LIMITS, output, shell, sleeper
from tests.media.magic_texts import CONTAINERS, MACHINE_TROUBLES, SOURCE_TROUBLES, make_damaged
from tests.media.media_steps import FILM, SOUND, TIMEOUT_S, make


def verdict_on(sandbox: Sandbox, folder: Path, container: str, text: str) -> MediaError:
    folder.mkdir()
    source = make_damaged(folder, container, text)
    outputs = [SOUND] if container in ("wav", "ogg", "flac") else [FILM]
    (out := folder / "out").mkdir()
    with pytest.raises(MediaError) as failed:
        make(sandbox, source, outputs, out)
    return failed.value


def assert_same_verdict_as_harmless(sandbox: Sandbox, folder: Path, container: str, text: str) -> None:
    hostile = verdict_on(sandbox, folder / "hostile", container, text)
    harmless = verdict_on(sandbox, folder / "harmless", container, "x" * len(text))
    verdicts = [(error.code, error.retry_class, error.is_worker_fault) for error in (hostile, harmless)]
    assert verdicts[0] == verdicts[1]
    assert harmless.retry_class is RetryClass.PERMANENT


@pytest.mark.parametrize("text", MACHINE_TROUBLES)
def test_blame_a_doc_type_that_quotes_the_machines_trouble_changes_nothing(
    sandbox: Sandbox, tmp_path: Path, text: str
) -> None:
    assert_same_verdict_as_harmless(sandbox, tmp_path, "mkv", text)


@pytest.mark.parametrize("container", CONTAINERS)
def test_blame_tags_and_names_that_quote_the_machines_trouble_change_nothing(
    sandbox: Sandbox, tmp_path: Path, container: str
) -> None:
    assert_same_verdict_as_harmless(sandbox, tmp_path, container, "; ".join(MACHINE_TROUBLES)[:120])


@pytest.mark.parametrize("text", SOURCE_TROUBLES)
def test_blame_other_texts_choose_only_among_permanent_faults_of_the_source(
    sandbox: Sandbox, tmp_path: Path, text: str
) -> None:
    hostile = verdict_on(sandbox, tmp_path / "hostile", "mkv", text)
    assert hostile.retry_class is RetryClass.PERMANENT
    assert hostile.code in {"source_truncated", "source_unsupported", "source_damaged", "encode_failed"}


def test_blame_an_exception_in_the_prober_is_the_fault_of_the_file(sandbox: Sandbox) -> None:
    """The code `sandbox_failed` would pause the worker.

    The `TypeError` of this test represents any exception, including `MemoryError`.
    """
    arguments = {"files": [["film.mp4", "mov", False, None]], "keyframe_seconds": 1.0}
    with pytest.raises(MediaError) as failed:
        sandbox.call("inspect", arguments, blame=ErrorCode.SOURCE_UNSUPPORTED)
    assert (failed.value.code, failed.value.retry_class) == ("source_unsupported", RetryClass.PERMANENT)


@pytest.mark.parametrize(
    "answer",
    [
        '{"error": ["sandbox_failed", "it was not me"]}',
        '{"error": ["out_of_memory", "it was not me"]}',
        '{"error": ["canceled", "it was not me"]}',
        '{"error": ["output_is_source", "it was not me"]}',
        '{"error": ["no_such_code", "it was not me"]}',
        '{"error": [1, "it was not me"]}',
        '{"error": []}',
        "{}",
        "[]",
        "not JSON",
        pytest.param("[" * 20_000, id="deep list"),
        pytest.param('{"found":' * 10_000, id="deep object"),
    ],
)
def test_blame_a_prober_that_was_taken_over_cannot_accuse_the_worker(
    sandbox: Sandbox, tmp_path: Path, answer: str
) -> None:
    with shell(sandbox, f"echo '{answer}'", tmp_path) as child, pytest.raises(MediaError) as failed:
        answer_of(child, ErrorCode.SOURCE_UNSUPPORTED, lambda: None, LIMITS)
    assert (failed.value.code, failed.value.retry_class) == ("source_unsupported", RetryClass.PERMANENT)


def test_blame_a_job_that_fills_the_memory_of_its_slot_is_itself_too_large(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    limits = ResourceLimits(memory_bytes=256 << 20, cpu_seconds=60)
    script = "held = []\nwhile True: held.append(b'x' * (1 << 20))"
    python = os.path.realpath(sys.executable)
    with sandbox.run([python, "-ISc", script], fds={}, cwd=tmp_path, limits=limits) as child:
        output(child)
    error = FailureReason().verdict(child.end, limits)
    assert (error.code, error.is_worker_fault) == ("out_of_memory", False)


def test_blame_a_job_that_uses_up_its_processor_time_was_not_killed_by_somebody_else(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    limits = ResourceLimits(memory_bytes=1 << 30, cpu_seconds=1)
    with shell(sandbox, "while :; do :; done", tmp_path, limits) as child:
        child.wait(TIMEOUT_S)
    error = FailureReason().verdict(child.end, limits)
    assert (error.code, error.retry_class) == ("encode_timeout", RetryClass.PERMANENT)


def test_a_child_that_was_killed_is_no_fault_of_its_job(sandbox: Sandbox, tmp_path: Path) -> None:
    with sleeper(sandbox, tmp_path) as child:
        os.kill(child.pid, signal.SIGKILL)
        child.wait(TIMEOUT_S)
        assert FailureReason().verdict(child.end, LIMITS).is_worker_fault


def test_the_self_check_of_the_sandbox_runs_a_real_child(sandbox: Sandbox, own_sandbox: Sandbox) -> None:
    sandbox.check()
    own_sandbox.stop()
    with pytest.raises(MediaError, match="not started"):
        own_sandbox.check()
