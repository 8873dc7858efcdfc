"""Tests of the disk usage that an attempt reports to the disk ledger: source, watermarks and outputs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from euterpe.domain.spec import parse_spec
from euterpe.store.store import Store
from euterpe.worker.attempt import Attempt
from euterpe.worker.attempt_control import AttemptControl, AttemptResult
from euterpe.worker.disk import DiskReservation
from euterpe.worker.tools import Tools
from tests.media.clips import Clips
from tests.worker.planes import claim_leased

# A report can be too low by at most this number of bytes, because a file takes whole blocks, and because
# ffmpeg writes between two measurements.
ROUNDING = 64 * 1024
MARK_BYTES = 2_000_000


@pytest.fixture(autouse=True)
def _started(tools: Tools) -> Iterator[None]:
    tools.workdir.open()
    with tools.sandbox:
        yield
    tools.workdir.close()


def padded_logo(path: Path) -> None:
    """Write a GIF of one pixel, with a comment that makes it large."""
    head = b"GIF89a\x01\0\x01\0\x80\0\0\xff\0\0\0\0\0"
    comment = b"\x21\xfe" + (b"\xff" + bytes(255)) * (MARK_BYTES // 256) + b"\0"
    path.write_bytes(head + comment + b"\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0\x3b")


def bytes_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_watermarks_count_until_they_are_removed_before_the_upload(
    store: Store, tools: Tools, clips: Clips, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source.mp4").write_bytes(clips.make("film.mp4").read_bytes())
    padded_logo(tmp_path / "logo.gif")
    hold, reports = DiskReservation.hold, list[tuple[int, int]]()

    def watched_hold(reservation: DiskReservation, used_bytes: int) -> None:
        reports.append((used_bytes, bytes_below(tools.workdir.path)))
        hold(reservation, used_bytes)

    monkeypatch.setattr(DiskReservation, "hold", watched_hold)
    mark = {"source": {"url": f"file://{tmp_path}/logo.gif"}}
    spec = {
        "source": {"url": f"file://{tmp_path}/source.mp4"},
        "output": {"url": f"file://{tmp_path}/out/"},
        "outputs": [{"name": "still", "type": "image", "at": ["0s"], "watermark": mark}],
    }
    store.submit(parse_spec(spec), "r1").result(timeout=60)
    result = Attempt(tools, AttemptControl(claim_leased(store), 60)).run()
    assert result is AttemptResult.SUCCEEDED
    assert max(used for used, _ in reports) > MARK_BYTES
    assert [(used, there) for used, there in reports if there > used + ROUNDING] == []
    assert reports[-1][1] < MARK_BYTES, "no watermark is on the disk during the upload"
