"""Tests of an encode that ran during the fetch and whose verification fails."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from euterpe.domain.error_codes import ErrorCode
from euterpe.domain.leased_job import LeasedJob
from euterpe.media.encoding.encode import EncodeStats
from euterpe.media.errors import MediaError
from euterpe.media.planning.planner import plan
from euterpe.media.planning.quality import LOGS
from euterpe.media.planning.text_inputs import SUBTITLES
from euterpe.media.planning.tree import Plan
from euterpe.media.sandbox.sandbox import Sandbox
from euterpe.worker.attempt_control import AttemptControl
from euterpe.worker.early_uploads import EarlyUploads
from euterpe.worker.head_start import HeadStart
from euterpe.worker.output_maker import EncodeWork, OutputMaker
from euterpe.worker.tools import Tools
from tests.media.clips import Clips, clips, sandbox
from tests.media.media_steps import FILM, TIMEOUT_S, film, probe, run
from tests.worker.upload_fakes import upload_bench

__all__ = ["clips", "sandbox"]


class KeptHeadStart:
    """A head start whose command has succeeded."""

    def __init__(self, planned: Plan) -> None:
        self._stats = EncodeStats(planned, 0.0, 0.0, 0, 0)

    def fits(self, _: Plan) -> bool:
        return True

    def finish(self, *_: object) -> EncodeStats:
        return self._stats


class FirstCallFails:
    """A sandbox whose first verification fails with this code."""

    def __init__(self, sandbox: Sandbox, code: ErrorCode) -> None:
        self._sandbox, self._codes = sandbox, [code]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    def call(self, *arguments: Any, **options: Any) -> Any:
        if self._codes:
            raise MediaError(self._codes.pop(), "as the test wants it")
        return self._sandbox.call(*arguments, **options)


class FewTools:
    """The part of `Tools` that an encode needs."""

    threads, memory_bytes, stall_seconds = 1, 4 << 30, TIMEOUT_S

    def __init__(self, sandbox: Sandbox | FirstCallFails) -> None:
        self.sandbox = sandbox


def made_after(
    code: ErrorCode,
    sandbox: Sandbox,
    source: Path,
    early: EarlyUploads,
    control: AttemptControl,
    *,
    on_disk: Callable[[int], None] = lambda _: None,
) -> Sequence[str]:
    folder = source.parent / f"out-{code}"
    folder.mkdir()
    tools = cast(Tools, FewTools(FirstCallFails(sandbox, code)))
    maker = OutputMaker(tools, control, on_progress=lambda _: None, on_disk=on_disk)
    info = probe(sandbox, source)
    planned = plan([FILM], info, threads=1)
    with source.open("rb") as opened:
        work = EncodeWork(planned, info, opened, folder, early, (), {})
        made = maker.make(work, cast(HeadStart, KeptHeadStart(planned)))
    return [file.name for file in made.files]


class NoHeadStart:
    """A head start that ran no command during the fetch."""

    def fits(self, _: Plan) -> bool:
        return False


@pytest.mark.parametrize("was_early", [False, True], ids=["encoded-now", "encoded-during-the-fetch"])
def test_a_finished_file_is_sent_while_other_files_are_made(
    clips: Clips, sandbox: Sandbox, job: LeasedJob, tmp_path: Path, *, was_early: bool
) -> None:
    source, folder = clips.make("film.mp4"), tmp_path / "out"
    folder.mkdir()
    info = probe(sandbox, source)
    planned = plan([FILM, film(name="other", optional=True)], info, threads=1)
    if was_early:
        run(sandbox, replace(planned, commands=planned.commands[:1]), source, folder)
    head_start = KeptHeadStart(planned) if was_early else NoHeadStart()
    with upload_bench(job, tmp_path) as bench, bench.early() as early, source.open("rb") as opened:

        def await_first(_: int) -> None:
            if (folder / "other.mp4").exists() and not bench.sizes:
                bench.await_upload()

        tools = cast(Tools, FewTools(sandbox))
        maker = OutputMaker(tools, bench.control, on_progress=lambda _: None, on_disk=await_first)
        maker.make(EncodeWork(planned, info, opened, folder, early, (), {}), cast(HeadStart, head_start))
        assert early.take("film.mp4") is not None
        assert bench.published() == []


@pytest.mark.parametrize("code", [ErrorCode.OUTPUT_TRUNCATED, ErrorCode.OUTPUT_UNDECODABLE])
def test_files_that_a_pipe_may_have_spoiled_are_made_again(
    clips: Clips, sandbox: Sandbox, job: LeasedJob, tmp_path: Path, code: ErrorCode
) -> None:
    source = tmp_path / "film.mp4"
    source.write_bytes(clips.make("film.mp4").read_bytes())
    with upload_bench(job, tmp_path) as bench, bench.early() as early:
        assert made_after(code, sandbox, source, early, bench.control) == ["film.mp4"]


@pytest.mark.parametrize(
    "code", [ErrorCode.QUALITY_TOO_LOW, ErrorCode.SANDBOX_FAILED, ErrorCode.ENCODE_KILLED]
)
def test_no_other_error_makes_the_plan_run_again(
    clips: Clips, sandbox: Sandbox, job: LeasedJob, tmp_path: Path, code: ErrorCode
) -> None:
    source = tmp_path / "film.mp4"
    source.write_bytes(clips.make("film.mp4").read_bytes())
    with upload_bench(job, tmp_path) as bench, bench.early() as early, pytest.raises(MediaError) as raised:
        made_after(code, sandbox, source, early, bench.control)
    assert raised.value.code == code


def test_subtitle_inputs_and_quality_logs_are_removed_before_the_upload(
    clips: Clips, sandbox: Sandbox, job: LeasedJob, tmp_path: Path
) -> None:
    """Subtitle inputs and quality logs can take 200 MB of disk space.

    The disk space that is counted for an upload does not include these files.
    """
    source, folder = tmp_path / "film.mp4", tmp_path / "out-output_truncated"
    source.write_bytes(clips.make("film.mp4").read_bytes())

    def leave(_: int) -> None:
        for name in (SUBTITLES, LOGS):
            (folder / name).mkdir(exist_ok=True)

    with upload_bench(job, tmp_path) as bench, bench.early() as early:
        made_after(ErrorCode.OUTPUT_TRUNCATED, sandbox, source, early, bench.control, on_disk=leave)
    assert [path.name for path in folder.iterdir()] == ["film.mp4"]


def test_the_quality_of_later_commands_is_measured_too(
    clips: Clips, sandbox: Sandbox, job: LeasedJob, tmp_path: Path
) -> None:
    """When the later commands run, the first command has already created the folder of the logs."""
    source, folder = clips.make("film.mp4"), tmp_path / "out"
    folder.mkdir()
    info = probe(sandbox, source)
    low_rate = {"codec": "h264", "crf": 45}
    measured = [
        film(measure=["vmaf"], video=low_rate),
        film(measure=["vmaf"], name="other", optional=True),
    ]
    planned = plan(measured, info, threads=1)
    first, *others = planned.commands
    assert others
    run(sandbox, replace(planned, commands=(first,)), source, folder)
    tools = cast(Tools, FewTools(sandbox))
    with upload_bench(job, tmp_path) as bench, bench.early() as early, source.open("rb") as opened:
        maker = OutputMaker(tools, bench.control, on_progress=lambda _: None, on_disk=lambda _: None)
        work = EncodeWork(planned, info, opened, folder, early, (), {})
        made = maker.make(work, cast(HeadStart, KeptHeadStart(planned)))
    assert [file.name for file in made.files] == ["film.mp4", "other.mp4"]
    low, high = ((file.tracks[0].quality or {})["vmaf"] for file in made.files)
    assert low < high
    assert bench.control.meter.document("final")["vmaf"] == low, "the analytics read the lowest one"
