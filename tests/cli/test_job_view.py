"""The view of a job on a terminal, from its status document and its rows."""

import time
from collections.abc import Callable, Iterator
from io import BytesIO, TextIOWrapper
from typing import Any

import pytest

from euterpe.cli.job_tables import show_attempts, show_events, show_outputs
from euterpe.cli.job_view import advice, show_job
from euterpe.domain.error_codes import ErrorCode
from tests.client.scripted_server import JOB_ID, job

NOON_MS = 1_896_091_200_000  # 2030-01-31T12:00:00Z
SOURCE = {
    "duration_seconds": 155.0,
    "size_bytes": 9_417_752,
    "streams": [
        {"kind": "video", "codec": "h264", "width": 1280, "height": 720, "fps": 30.0},
        {"kind": "audio", "codec": "aac", "channels": 2, "sample_rate": 44100},
    ],
}
HLS = {"name": "hls", "url": "s3://out/hls/master.m3u8", "file_count": 16, "size_bytes": 3_701_159}
POSTER = {"name": "poster", "url": "s3://out/poster/1.jpg", "file_count": 1, "size_bytes": 812}
SOUND = {"name": "sound", "url": "s3://out/sound.m4a", "file_count": 1, "size_bytes": 124_951}
OUTPUTS = [HLS, {**POSTER, "width": 1280, "height": 720}, {**SOUND, "duration_seconds": 155.0}]
FORBIDDEN = {"code": "source_forbidden", "message": "the source answered 403"}


class Terminal(TextIOWrapper):
    def isatty(self) -> bool:
        return True


class Screen:
    """A terminal without colours, in UTC, that returns the text that is printed on it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        for name, value in (("COLUMNS", "80"), ("TERM", "dumb"), ("TZ", "UTC")):
            monkeypatch.setenv(name, value)

    def __call__(self, show: Callable[..., None], *args: Any, encoding: str = "utf-8", **options: Any) -> str:
        written = BytesIO()
        with self._monkeypatch.context() as patched:
            patched.setattr("sys.stdout", terminal := Terminal(written, encoding))
            show(*args, **options)
            terminal.flush()
        return written.getvalue().decode(encoding)

    def job(self, status: str, **fields: Any) -> str:
        return self(show_job, document(status, **fields), NOON_MS)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    made = Screen(monkeypatch)
    time.tzset()
    yield made
    monkeypatch.undo()
    time.tzset()


def document(status: str, **fields: Any) -> dict[str, Any]:
    return job(status, created_at="2030-01-31T11:59:48.000Z", updated_at="2030-01-31T11:59:48.000Z") | fields


def words(text: str) -> dict[str, str]:
    """Return the fields of a view, by label."""
    lines = [line.split("  ", 1) for line in text.split("\n\n", maxsplit=1)[0].splitlines()[1:]]
    return {name: value[0].strip() for name, *value in lines if value}


def test_a_job_that_succeeded_has_its_source_its_times_and_a_table_of_its_outputs(screen: Screen) -> None:
    times = {"started_at": "2030-01-31T11:59:49.500Z", "finished_at": "2030-01-31T12:02:00.000Z"}
    text = screen.job("succeeded", source_info=SOURCE, outputs=OUTPUTS, metadata={"show": "news"}, **times)
    assert text.startswith(f"{JOB_ID}  succeeded\n")
    fields = words(text)
    assert fields["source"] == "2 min 35 s, 9.42 MB, h264 1280×720 30 fps, aac 2 ch 44.1 kHz"
    assert fields["metadata"] == "show=news"
    assert fields["created"] == "2030-01-31 11:59:48 UTC (12s ago)"
    assert fields["started"] == "2030-01-31 11:59:49 UTC, 1.5 s later"
    assert fields["finished"] == "2030-01-31 12:02:00 UTC, 2 min 10 s later"
    assert "progress" not in fields
    assert text.split("\n\n")[1].splitlines() == [
        "outputs",
        "name    files  size     length      picture   url",
        "hls     16     3.70 MB                        s3://out/hls/master.m3u8",
        "poster  1      812 B                1280×720  s3://out/poster/1.jpg",
        "sound   1      125 kB   2 min 35 s            s3://out/sound.m4a",
    ]


def track(kind: str, codec: str, **fields: Any) -> dict[str, Any]:
    sizes = {"width": 1280, "height": 720} if kind == "video" else {"width": None, "height": None}
    own = {"measured_lufs": None, "gain_db": None, "quality": None, "copied": False, "language": None}
    return {"kind": kind, "codec": codec, "bitrate": 2_500_000, **sizes, **own, **fields}


def test_the_table_of_outputs_has_the_rate_quality_and_loudness_of_each_track(screen: Screen) -> None:
    searched = {"vmaf": 93.41, "vmaf_p1": 90.0, "crf": 30, "predicted_vmaf": 93.2, "psnr": 42.708}
    picture = track("video", "av1", quality=searched)
    sound = track("audio", "opus", bitrate=96_400, language="ger", measured_lufs=-21.8, gain_db=5.8)
    copied = track("audio", "aac", bitrate=None, copied=True, measured_lufs=-16.0, gain_db=-2.0)
    text = screen(show_outputs, [{**SOUND, "renditions": [picture, sound, copied]}])
    assert text.splitlines()[2].split() == ["name", "files", "size", "url"]
    assert " ".join("".join(text.splitlines(keepends=True)[4:]).split()) == (
        "av1 1280×720 2500 kbit/s crf 30 VMAF 93.4 (predicted 93.2) PSNR 42.71, "
        "opus ger 96 kbit/s -21.8 LUFS +5.8 dB, aac copied -16.0 LUFS -2.0 dB"
    )


def test_a_field_of_an_output_that_is_not_set_is_not_shown(screen: Screen) -> None:
    wanted = {"name": "film", "type": "mp4", "video": {"crf": None, "target": {"vmaf": 93.0}}, "audio": None}
    text = screen.job("queued", spec={"outputs": [wanted]})
    assert words(text)["wants film"] == "type=mp4, video.target.vmaf=93.0, audio=none"


def test_a_running_job_has_a_bar(screen: Screen) -> None:
    fields = words(screen.job("processing", progress=41.5, speed=3.12, eta_seconds=3671.7))
    assert fields["progress"] == f"{'━' * 8}{'─' * 12} 41.5 %, 3.1x, 1:01:12 to go"


def test_a_failed_job_has_the_code_the_phase_and_the_reason(screen: Screen) -> None:
    error = {**FORBIDDEN, "phase": "fetching", "retryable": False}
    fields = words(screen.job("failed", error=error, attempt_count=1))
    assert fields["error"] == "source_forbidden, while fetching, not retried by itself"
    assert fields["detail"] == "the source answered 403"
    assert fields["what helps"] == "send credentials that may read the source, then retry"


def test_a_code_of_a_newer_service_has_no_advice(screen: Screen) -> None:
    fields = words(screen.job("failed", error={"code": "made_later", "message": "no"}))
    assert (fields["error"], "what helps" in fields) == ("made_later", False)


@pytest.mark.parametrize("code", ErrorCode)
def test_advice_is_plain_text(code: ErrorCode) -> None:
    told = advice(code)
    assert told
    assert not set("`[]") & set(told)


def test_a_job_that_is_tried_again_says_when_and_why(screen: Screen) -> None:
    error = {**FORBIDDEN, "retryable": True}
    again = {"next_attempt_at": "2030-01-31T12:02:00.000Z", "attempt_count": 1}
    fields = words(screen.job("queued", error=error, **again))
    assert fields["next attempt"] == "2030-01-31 12:02:00 UTC (in 2m)"
    assert fields["last error"] == "source_forbidden"
    assert fields["attempts"] == "1 of 3"


def test_a_job_that_is_being_canceled_says_so_until_it_has_ended(screen: Screen) -> None:
    assert "next heartbeat" in words(screen.job("processing", cancel_requested=True))["canceling"]
    assert "canceling" not in words(screen.job("failed", cancel_requested=True))


def test_a_field_that_the_view_does_not_know_is_shown(screen: Screen) -> None:
    later = [{"code": "made_later", "output": "mp4"}]
    assert words(screen.job("succeeded", notes=later))["notes"] == "code=made_later, output=mp4"


def test_the_warnings_of_a_job_are_a_table(screen: Screen) -> None:
    warnings = [{"code": "audio_track_dropped", "output": "mp4", "message": "sound track 2 is not included"}]
    text = screen.job("succeeded", outputs=OUTPUTS, warnings=warnings)
    assert "warnings" not in words(text)
    assert text.split("\n\n")[-1].splitlines() == [
        "warnings",
        "output  code                 message",
        "mp4     audio_track_dropped  sound track 2 is not included",
    ]


@pytest.mark.parametrize("width", ["60", "80", "140"])
@pytest.mark.parametrize("status", ["succeeded", "failed", "queued", "processing"])
def test_nothing_is_json_cut_or_wider_than_the_terminal(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, width: str, status: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    metadata = {"show": "news", "season": 3, "tags": [f"tag-{n}" for n in range(30)]}
    error = {**FORBIDDEN, "message": "the source answered 403 " * 8}
    fields: dict[str, Any] = {"metadata": metadata, "source_info": SOURCE, "outputs": OUTPUTS, "error": error}
    text = screen.job(status, external_id="asset-42", **fields)
    assert all(len(line) <= int(width) for line in text.splitlines())
    assert not set('{}[]"') & set(text)
    for whole in ("tag-29", "asset-42", *(str(output["url"]) for output in OUTPUTS)):
        assert whole in text
    assert text.count("403") == 8


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_gets_plain_characters(screen: Screen, encoding: str) -> None:
    text = screen(show_job, document("processing", progress=50.0), NOON_MS, encoding=encoding)
    assert f"{'#' * 10}{'-' * 10} 50.0 %" in text
    text.encode("ascii")


def test_a_requesters_text_cannot_steer_the_terminal(screen: Screen) -> None:
    text = screen.job("queued", external_id="\x1b[2J", metadata={"\x1b[3J": "\x9b31m\n"})
    assert not {"\x1b", "\x9b"} & set(text)


# -- the tables of `jobs show`


def attempt(number: int, **fields: Any) -> dict[str, Any]:
    row = {"attempt_no": number, "worker_id": "w1", "outcome": "requeued", "error": None, "timings": None}
    times = {"started_at": "2030-01-31T11:59:50.000Z", "ended_at": "2030-01-31T11:59:51.500Z"}
    return row | times | fields


def event(number: int, **fields: Any) -> dict[str, Any]:
    row = {"sequence": number, "event_id": f"event-{number}", "type": "job.progress", "status": "pending"}
    more = {"attempt_count": 1, "last_status_code": 502, "last_error": None}
    return row | more | {"created_at": "2030-01-31T11:59:50.000Z"} | fields


def test_an_attempt_has_what_it_took_and_used(screen: Screen) -> None:
    used = {"cpu_seconds": 2.5, "bytes_in": 4096, "measured": "last_beat"}
    running = attempt(2, outcome=None, ended_at=None, started_at="2030-02-01T00:00:00.000Z")
    assert screen(
        show_attempts, [attempt(1, timings=used), running], document("processing"), all_=False
    ).splitlines()[1:] == [
        "attempts",
        "no  outcome   started              took   cpu      in         worker",
        "1   requeued  11:59:50             1.5 s  ≥ 2.5 s  ≥ 4.10 kB  w1",
        "2   running   2030-02-01 00:00:00                             w1",
    ]


def test_an_error_is_printed_once(screen: Screen) -> None:
    failed = document("failed", error=FORBIDDEN)
    early = attempt(1, error={"code": "a", "message": "early"})
    text = screen(show_attempts, [early, attempt(2, error=FORBIDDEN)], failed, all_=False)
    assert "early" in text
    assert "source_forbidden" in text
    assert "answered 403" not in text, "the view of the job shows this message"
    events = [event(1, last_error="refused"), event(2), event(3, last_error="refused")]
    text = screen(show_events, events, failed, all_=False)
    assert text.count("refused") == 1
    assert "the same error as number 1" in text


def test_events_that_nobody_wants_are_not_taken_for_webhooks(screen: Screen) -> None:
    text = screen(show_events, [event(1, status="skipped")], document("queued"), all_=False)
    assert "none of them sent: the job asked for no webhook" in text


def test_what_is_left_out_is_counted_and_can_be_had(screen: Screen) -> None:
    rows = [event(number) for number in range(1, 33)]
    text = screen(show_events, rows, document("queued"), all_=False)
    assert text.count("event-") == 20
    assert "event-32" in text
    assert text.endswith("… 12 earlier; --all shows them\n")
    text = screen(show_events, rows, document("queued"), all_=True)
    assert text.count("event-") == 32
    assert "earlier" not in text


def test_a_job_without_outputs_attempts_or_events_has_no_empty_tables(screen: Screen) -> None:
    assert screen(show_outputs, []) == ""
    assert screen(show_attempts, [], document("queued"), all_=False) == ""
    assert screen(show_events, [], document("queued"), all_=False) == ""
